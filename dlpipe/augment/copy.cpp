#include "dlpipe/augment/copy.h"

#include <algorithm>
#include <cstring>

namespace dlpipe::augment {

namespace {

void mirror_pixels(const uint8_t* from, uint8_t* to, int width, int channels) {
  from += ptrdiff_t{width} * channels;
  for (int x = 0; x < width; ++x, to += channels) {
    from -= channels;
    std::memcpy(to, from, size_t(channels));
  }
}

// A pixel and the byte behind it move as one word, to where the next pixel goes; but the ends, where the word
// would reach out of the row.
void mirror_rgb(const uint8_t* from, uint8_t* to, int width) {
  if (width < 3) return mirror_pixels(from, to, width, 3);
  mirror_pixels(from + ptrdiff_t{3} * (width - 1), to, 1, 3);
  for (int x = 1; x < width - 1; ++x) std::memcpy(to + 3 * x, from + 3 * (width - 1 - x), 4);
  mirror_pixels(from, to + ptrdiff_t{3} * (width - 1), 1, 3);
}

void mirror_grey(const uint8_t* from, uint8_t* to, int width) {
  std::reverse_copy(from, from + width, to);
}

void copy_row(const uint8_t* from, uint8_t* to, int width, int channels, bool mirror) {
  if (!mirror) {
    std::memcpy(to, from, size_t(width) * size_t(channels));
    return;
  }
  if (channels == 3) return mirror_rgb(from, to, width);
  if (channels == 1) return mirror_grey(from, to, width);
  mirror_pixels(from, to, width, channels);
}

void fill_row(uint8_t* to, int width, int channels, const Pixel& value) {
  const bool even =
      std::all_of(value.begin(), value.begin() + channels, [&](uint8_t v) { return v == value[0]; });
  if (even) {
    std::memset(to, value[0], size_t(width) * size_t(channels));
    return;
  }
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < channels; ++c) *to++ = value[c];
  }
}

}  // namespace

void copy_image(const ConstImageView& in, const ImageView& out, bool mirror) {
  for (int y = 0; y < out.height; ++y) copy_row(in.row(y), out.row(y), out.width, out.channels, mirror);
}

void fill_region(const ImageView& out, const Region& region, const Pixel& value) {
  const int left = std::max(region.x, 0);
  const int right = std::min(region.x + region.width, out.width);
  const int top = std::max(region.y, 0);
  const int bottom = std::min(region.y + region.height, out.height);
  if (left >= right) return;
  for (int y = top; y < bottom; ++y) {
    fill_row(out.row(y) + ptrdiff_t{left} * out.channels, right - left, out.channels, value);
  }
}

void place_image(const ConstImageView& in, int x, int y, const Pixel& value, const ImageView& out,
                 bool mirror) {
  const int channels = out.channels;
  const int left = std::clamp(x, 0, out.width);
  const int right = std::clamp(x + in.width, left, out.width);
  // A mirrored frame has the covered columns on the other side.
  const int first = mirror ? out.width - right : left;
  const int last = mirror ? out.width - left : right;
  for (int row = 0; row < out.height; ++row) {
    uint8_t* to = out.row(row);
    const int from_row = row - y;
    if (from_row < 0 || from_row >= in.height || left == right) {
      fill_row(to, out.width, channels, value);
      continue;
    }
    fill_row(to, first, channels, value);
    copy_row(in.row(from_row) + ptrdiff_t{left - x} * channels, to + ptrdiff_t{first} * channels,
             right - left, channels, mirror);
    fill_row(to + ptrdiff_t{last} * channels, out.width - last, channels, value);
  }
}

}  // namespace dlpipe::augment
