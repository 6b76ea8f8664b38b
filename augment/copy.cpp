#include "augment/copy.h"

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

// A small image's rows are tens of bytes, so calling memcpy takes longer than copying them.
void copy_bytes(const uint8_t* from, uint8_t* to, size_t size) {
  constexpr size_t kPiece = 16;
  constexpr size_t kShort = 256;
  if (size < kPiece || size > kShort) {
    std::memcpy(to, from, size);
    return;
  }
  for (size_t at = 0; at < size - kPiece; at += kPiece) std::memcpy(to + at, from + at, kPiece);
  std::memcpy(to + size - kPiece, from + size - kPiece, kPiece);  // overlaps the one before
}

void copy_rows(const uint8_t* from, ptrdiff_t from_stride, uint8_t* to, ptrdiff_t to_stride, int width,
               int height, int channels, bool mirror) {
  if (mirror && channels == 3) return mirror_rgb()(from, from_stride, to, to_stride, width, height);
  for (int y = 0; y < height; ++y, from += from_stride, to += to_stride) {
    if (!mirror) {
      copy_bytes(from, to, size_t(width) * size_t(channels));
    } else if (channels == 1) {
      std::reverse_copy(from, from + width, to);
    } else {
      mirror_pixels(from, to, width, channels);
    }
  }
}

bool is_even(const Pixel& value, int channels) {
  return std::all_of(value.begin(), value.begin() + channels, [&](uint8_t v) { return v == value[0]; });
}

void fill_row(uint8_t* to, int width, int channels, const Pixel& value) {
  if (is_even(value, channels)) {
    std::memset(to, value[0], size_t(width) * size_t(channels));
    return;
  }
  for (int x = 0; x < width; ++x) {
    for (int c = 0; c < channels; ++c) *to++ = value[c];
  }
}

/// Fills rows [first, last) of `out`.
void fill_rows(const ImageView& out, int first, int last, const Pixel& value) {
  if (first < last && out.stride == ptrdiff_t{out.width} * out.channels)
    return fill_row(out.row(first), out.width * (last - first), out.channels, value);
  for (int y = first; y < last; ++y) fill_row(out.row(y), out.width, out.channels, value);
}

/// Fills the columns before `first` and from `end` on in rows [top, bottom). The caller writes the columns between
/// them afterwards, so a narrow frame may extend into them: this saves calls that take longer than their stores.
void frame_rows(const ImageView& out, int top, int bottom, int first, int end, const Pixel& value) {
  constexpr int kPiece = 16;
  const int row_bytes = out.width * out.channels;
  const int left_bytes = first * out.channels;
  const int right_bytes = row_bytes - end * out.channels;
  if (std::max(left_bytes, right_bytes) <= kPiece && row_bytes >= kPiece && is_even(value, out.channels)) {
    for (int row = top; row < bottom; ++row) {
      if (left_bytes > 0) std::memset(out.row(row), value[0], kPiece);
      if (right_bytes > 0) std::memset(out.row(row) + row_bytes - kPiece, value[0], kPiece);
    }
    return;
  }
  for (int row = top; row < bottom; ++row) {
    fill_row(out.row(row), first, out.channels, value);
    fill_row(out.row(row) + ptrdiff_t{end} * out.channels, out.width - end, out.channels, value);
  }
}

}  // namespace

void copy_alpha(const ConstImageView& in, int x, int y, const ImageView& out) {
  if (out.channels % 2 != 0) return;
  const int last = out.channels - 1;
  for (int row = 0; row < out.height; ++row) {
    const uint8_t* const from = in.row(y + row) + ptrdiff_t{x} * in.channels;
    uint8_t* const to = out.row(row);
    for (int i = 0; i < out.width; ++i) to[i * out.channels + last] = from[i * in.channels + last];
  }
}

void copy_image(const ConstImageView& in, const ImageView& out, bool mirror) {
  copy_rows(in.data, in.stride, out.data, out.stride, out.width, out.height, out.channels, mirror);
}

void turn_image(const ConstImageView& stored, Orientation orientation, const ImageView& seen) {
  const bool flip_x = mirrors_stored_x(orientation), flip_y = mirrors_stored_y(orientation);
  if (stored.channels != 3 || (!swaps_axes(orientation) && !flip_x) || seen.empty())
    return orient_image(stored, orientation, seen);
  const uint8_t* const from = stored.row(flip_y ? stored.height - 1 : 0);
  const ptrdiff_t stride = flip_y ? -stored.stride : stored.stride;
  if (swaps_axes(orientation)) {
    transpose_rgb()(from, stride, flip_x, seen.data, seen.stride, stored.width, stored.height);
  } else {
    mirror_rgb()(from, stride, seen.data, seen.stride, stored.width, stored.height);
  }
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
  const int top = std::clamp(y, 0, out.height);
  const int bottom = std::clamp(y + in.height, top, out.height);
  if (left == right) return fill_rows(out, 0, out.height, value);
  // In a mirrored frame, the covered columns are on the other side.
  const int first = mirror ? out.width - right : left;
  const int end = first + right - left;
  fill_rows(out, 0, top, value);
  fill_rows(out, bottom, out.height, value);
  if (right - left < out.width) frame_rows(out, top, bottom, first, end, value);
  copy_rows(in.row(top - y) + ptrdiff_t{left - x} * channels, in.stride,
            out.row(top) + ptrdiff_t{first} * channels, out.stride, right - left, bottom - top, channels,
            mirror);
}

}  // namespace dlpipe::augment
