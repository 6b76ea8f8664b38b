// Views of 8-bit images, [height, width, channels] with interleaved channels (HWC). Sizes are in pixels, `stride` is the number
// of bytes from one row to the next.
//
// Ownership: views own nothing; the pixels must outlive them. Threads: all functions are pure. Cost: views are cheap to copy;
// orient_image() copies each pixel once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlpipe {

struct ImageView {
  uint8_t* data = nullptr;
  int width = 0;
  int height = 0;
  int channels = 0;
  ptrdiff_t stride = 0;

  uint8_t* row(int y) const { return data + y * stride; }
  bool empty() const { return width == 0 || height == 0; }
};

struct ConstImageView {
  const uint8_t* data = nullptr;
  int width = 0;
  int height = 0;
  int channels = 0;
  ptrdiff_t stride = 0;

  ConstImageView() = default;
  ConstImageView(const uint8_t* data_in, int width_in, int height_in, int channels_in, ptrdiff_t stride_in)
      : data(data_in), width(width_in), height(height_in), channels(channels_in), stride(stride_in) {}
  ConstImageView(const ImageView& v)  // NOLINT: a mutable view is a view
      : data(v.data), width(v.width), height(v.height), channels(v.channels), stride(v.stride) {}
  const uint8_t* row(int y) const { return data + y * stride; }
};

/// A rectangle of pixels; x and y are the top left corner.
struct Region {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

/// EXIF orientation (CIPA DC-008, tag 0x0112), 1..8: how stored rows and columns map to the oriented image.
using Orientation = uint8_t;
/// True if the stored width is the oriented image's height (5..8).
constexpr bool swaps_axes(Orientation orientation) {
  return orientation >= 5;
}
// Position in the oriented image of the pixel (x, y) of a w x h stored image:
//   1 (x, y)          2 (w-1-x, y)          3 (w-1-x, h-1-y)      4 (x, h-1-y)
//   5 (y, x)          6 (h-1-y, x)          7 (h-1-y, w-1-x)      8 (y, w-1-x)
constexpr bool mirrors_stored_x(Orientation orientation) {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
constexpr bool mirrors_stored_y(Orientation orientation) {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}
/// The rectangle in the stored image that corresponds to `seen`, a rectangle in the oriented image of `seen_width` x
/// `seen_height`.
Region stored_region(const Region& seen, int seen_width, int seen_height, Orientation orientation);
/// Copies `stored` (pixels as stored) into `seen` (oriented; width and height swapped if swaps_axes). They must not
/// overlap.
void orient_image(const ConstImageView& stored, Orientation orientation, const ImageView& seen);

}  // namespace dlpipe
