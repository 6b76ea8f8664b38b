// Antialiased bilinear resize of 8-bit images, bit-equal to Pillow's `Image.resize(size, BILINEAR, box=...)`
// on every ISA.
//
// Method (separable convolution, after Heckbert's and Schumacher's "zoom" filters; the constants are those
// that Pillow's results show): output pixel i of an axis is centred on source coordinate
//   c = box_begin + (i + 1/2) s,  s = box_size / out_size,
// and takes source pixels j with weight max(0, 1 - |j + 1/2 - c| / f), f = max(s, 1), cut off at the source's
// edges and normalised to sum 1 in double. Weights are rounded to 22 bits after the point. What the first
// pass gives is rounded to 8 bits before the second, so the order of the passes shows in the result. The
// order is Pillow 13's: horizontal first, unless the height shrinks, and by more than twice as many pixels as
// the width. (Pillow 11 and older always go horizontally first: other results by one level there.
// tests/augment/golden/ says how this was found.)
//
// Pure functions; `work` belongs to one thread, grows and is kept: no allocation when it is warm. Cost at
// 350x350x3 -> 224x224x3: benchmarks/resize.cpp prints it.
#pragma once

#include <cstddef>
#include <vector>

#include "dlpipe/base/image.h"

namespace dlpipe::augment {

/// What is scaled to what. Source pixels outside of `box` but inside the source are seen at the box's edges,
/// as with Pillow's box argument; to crop first, call the crop the source.
struct ResizeGeometry {
  int source_width = 0;
  int source_height = 0;
  Region box;  // within the source
  int out_width = 0;
  int out_height = 0;
  Region window;  // the part of the output to write
};

/// All of a `width` x `height` source to all of an `out_width` x `out_height` output.
ResizeGeometry whole_resize(int width, int height, int out_width, int out_height);

/// What a planned sample comes to where that is no more than a crop, a resize and a flip: `geometry`'s source
/// is what is cropped, the same size in and out means that nothing is scaled.
struct PlannedResize {
  ResizeGeometry geometry;
  bool mirror = false;
};

/// The part of the source that the window's pixels depend on.
Region resize_support(const ResizeGeometry& geometry);

/// Writes `geometry.window` to `out` (its size), left and right swapped if `mirror`. `source` holds exactly
/// resize_support's pixels, with `out.channels` channels: 1, 3 and 4 are fast, others go through
/// resize_scalar.
void resize(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out, bool mirror,
            std::vector<std::byte>& work);

/// What resize() takes of `work`, for pictures of `channels`.
size_t resize_work_bytes(const ResizeGeometry& geometry, int channels);

/// The same by plain loops: the twin that tests hold `resize` to.
void resize_scalar(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out,
                   bool mirror);

}  // namespace dlpipe::augment
