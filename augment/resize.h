// Antialiased bilinear resize of 8-bit images, bit-equal to Pillow's `Image.resize(size, BILINEAR, box=...)`
// on every ISA.
//
// Method (separable convolution, after Heckbert's and Schumacher's "zoom" filters; the constants are inferred from
// Pillow's results): output pixel i of an axis is centred on source coordinate
//   c = box_begin + (i + 1/2) s,  s = box_size / out_size,
// and uses source pixels j with weight max(0, 1 - |j + 1/2 - c| / f), f = max(s, 1), cut off at the source's edges and
// normalised to sum 1 in double. Weights are rounded to 22 bits after the point. The first pass's result is rounded to 8 bits
// before the second, so the order of the passes affects the result. The order is Pillow 13's: horizontal first, unless the
// height shrinks, and by more than twice as many pixels as the width. (Pillow 11 and older always do the horizontal pass first,
// with results that differ by one level in these cases. tests/augment/golden/ describes how this was found.)
//
// Pure functions; `work` belongs to one thread and only grows, so there are no allocations once it is large enough. Cost at
// 350x350x3 -> 224x224x3: benchmarks/resize.cpp prints it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "dlpipe/augment_op.h"
#include "dlpipe/image.h"

namespace dlpipe::augment {

/// The source and output of a resize. Source pixels outside of `box` but inside the source contribute at the box's edges, as
/// with Pillow's box argument; to crop first, use the crop as the source.
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

/// A planned sample that is only a crop, a resize and a flip: `geometry`'s source is the crop; equal sizes mean that nothing is
/// scaled.
struct PlannedResize {
  ResizeGeometry geometry;
  bool mirror = false;
};

struct ChainPlan;

/// The plan as one resize of plan.source_region (a part of what is resized, or all of it) and a flip, if it is no more than
/// that. nullopt: Chain::apply must do it.
std::optional<PlannedResize> as_resize(const ChainPlan& plan);

/// The part of the source that the window's pixels depend on.
Region resize_support(const ResizeGeometry& geometry);

/// Writes `geometry.window` to `out` (its size), left and right swapped if `mirror`. `source` holds exactly
/// resize_support's pixels, with `out.channels` channels: 1, 3 and 4 are fast, others go through
/// resize_scalar.
void resize(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out, bool mirror,
            std::vector<std::byte>& work);

/// Bytes of `work` that resize() needs for images with `channels`.
size_t resize_work_bytes(const ResizeGeometry& geometry, int channels);

/// The same with plain loops: the reference for tests of `resize`.
void resize_scalar(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out,
                   bool mirror);

// Resizing 8-bit images with any of Pillow's filters, bit-equal to its `Image.resize(size, FILTER)` on every ISA. bilinear uses
// resize(); the others work the same way with other weights, which may be negative.
//
//   nearest   the pixel that the output pixel's centre falls into
//   area      Pillow's BOX: the mean of what an output pixel covers
//   bicubic   Keys' cubic convolution with a = -1/2, antialiased
//   lanczos   sinc(x) sinc(x / 3), antialiased

enum class Interpolation { kNearest, kArea, kBilinear, kBicubic, kLanczos };

OpParam resize_interpolation_parameter();
Interpolation parse_interpolation(const std::string& name);

/// The part of the source that the window's pixels depend on.
Region resample_support(Interpolation interpolation, const ResizeGeometry& geometry);

/// Writes `geometry.window` to `out` (its size), left and right swapped if `mirror`. `source` holds exactly
/// resample_support's pixels. The box is the whole source.
void resample(Interpolation interpolation, const ResizeGeometry& geometry, const ConstImageView& source,
              const ImageView& out, bool mirror, std::vector<std::byte>& work);

/// Bytes of `work` that resample() needs for images with `channels`.
size_t resample_work_bytes(Interpolation interpolation, const ResizeGeometry& geometry, int channels);

/// The same with plain loops, for kArea, kBicubic and kLanczos: the reference for tests of `resample`.
void resample_scalar(Interpolation interpolation, const ResizeGeometry& geometry,
                     const ConstImageView& source, const ImageView& out, bool mirror);

}  // namespace dlpipe::augment
