#include "dlpipe/base/image.h"

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

template <int kChannels>
void orient_pixels(const ConstImageView& stored, bool swap, bool flip_x, bool flip_y, const ImageView& seen) {
  // In squares, so that rows and columns both stay in the cache.
  constexpr int kSide = 32;
  for (int top = 0; top < stored.height; top += kSide) {
    for (int left = 0; left < stored.width; left += kSide) {
      const int bottom = std::min(top + kSide, stored.height);
      const int right = std::min(left + kSide, stored.width);
      for (int y = top; y < bottom; ++y) {
        const int to_y = flip_y ? stored.height - 1 - y : y;
        const uint8_t* from = stored.row(y) + ptrdiff_t{left} * kChannels;
        const int first_x = flip_x ? stored.width - 1 - left : left;
        uint8_t* to = swap ? seen.row(first_x) + ptrdiff_t{to_y} * kChannels
                           : seen.row(to_y) + ptrdiff_t{first_x} * kChannels;
        const ptrdiff_t step = (swap ? seen.stride : ptrdiff_t{kChannels}) * (flip_x ? -1 : 1);
        for (int x = left; x < right; ++x, from += kChannels, to += step) {
          for (int c = 0; c < kChannels; ++c) to[c] = from[c];
        }
      }
    }
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
