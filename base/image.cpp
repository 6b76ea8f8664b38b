#include "dlpipe/image.h"

#include <algorithm>
#include <cstring>

namespace dlpipe {

Region stored_region(const Region& seen, int seen_width, int seen_height, Orientation orientation) {
  Region stored = seen;
  int width = seen_width;
  int height = seen_height;
  if (swaps_axes(orientation)) {
    stored = {seen.y, seen.x, seen.height, seen.width};
    width = seen_height;
    height = seen_width;
  }
  if (mirrors_stored_x(orientation)) stored.x = width - stored.x - stored.width;
  if (mirrors_stored_y(orientation)) stored.y = height - stored.y - stored.height;
  return stored;
}

namespace {

// Side of the square blocks that are copied, so that rows and columns both stay in the cache.
constexpr int kSide = 32;

/// Rows become columns. A pixel of three bytes is copied as four if a pixel follows it in its row and in the
/// square; the next pixel overwrites the fourth byte.
template <int kChannels>
void swap_axes(const ConstImageView& stored, bool flip_x, bool flip_y, const ImageView& seen) {
  constexpr ptrdiff_t kCopied = kChannels + (kChannels == 3 ? 1 : 0);
  for (int top = 0; top < seen.height; top += kSide) {
    for (int left = 0; left < seen.width; left += kSide) {
      const int bottom = std::min(top + kSide, seen.height);
      const int right = std::min(left + kSide, seen.width);
      for (int y = top; y < bottom; ++y) {
        const int x_stored = flip_x ? stored.width - 1 - y : y;
        const uint8_t* from =
            stored.row(flip_y ? stored.height - 1 - left : left) + ptrdiff_t{x_stored} * kChannels;
        const ptrdiff_t step = flip_y ? -stored.stride : stored.stride;
        uint8_t* to = seen.row(y) + ptrdiff_t{left} * kChannels;
        int x = left;
        if (x_stored + 1 < stored.width) {
          for (; x + 1 < right; ++x, from += step, to += kChannels) std::memcpy(to, from, kCopied);
        }
        for (; x < right; ++x, from += step, to += kChannels) std::memcpy(to, from, kChannels);
      }
    }
  }
}

template <int kChannels>
void orient_pixels(const ConstImageView& stored, bool swap, bool flip_x, bool flip_y, const ImageView& seen) {
  if (swap) return swap_axes<kChannels>(stored, flip_x, flip_y, seen);
  for (int y = 0; y < stored.height; ++y) {
    const uint8_t* from = stored.row(y);
    uint8_t* to = seen.row(flip_y ? stored.height - 1 - y : y);
    if (flip_x) to += ptrdiff_t{stored.width - 1} * kChannels;
    const ptrdiff_t step = flip_x ? -kChannels : kChannels;
    for (int x = 0; x < stored.width; ++x, from += kChannels, to += step) std::memcpy(to, from, kChannels);
  }
}

}  // namespace

void orient_image(const ConstImageView& stored, Orientation orientation, const ImageView& seen) {
  const bool swap = swaps_axes(orientation);
  const bool flip_x = mirrors_stored_x(orientation);
  const bool flip_y = mirrors_stored_y(orientation);
  if (!swap && !flip_x) {
    for (int y = 0; y < stored.height; ++y) {
      std::memcpy(seen.row(flip_y ? stored.height - 1 - y : y), stored.row(y),
                  static_cast<size_t>(stored.width) * static_cast<size_t>(stored.channels));
    }
    return;
  }
  switch (stored.channels) {
    case 1:
      return orient_pixels<1>(stored, swap, flip_x, flip_y, seen);
    case 2:
      return orient_pixels<2>(stored, swap, flip_x, flip_y, seen);
    case 3:
      return orient_pixels<3>(stored, swap, flip_x, flip_y, seen);
    default:
      return orient_pixels<4>(stored, swap, flip_x, flip_y, seen);
  }
}

}  // namespace dlpipe
