// Resizing 8-bit images with any of Pillow's filters, bit-equal to its `Image.resize(size, FILTER)` on every ISA. bilinear is
// resize.h's, which has a fast path of its own; the others work the same way with other weights, which may be negative.
//
//   nearest   the pixel that the output pixel's centre falls into
//   area      Pillow's BOX: the mean of what an output pixel covers
//   bicubic   Keys' cubic convolution with a = -1/2, antialiased
//   lanczos   sinc(x) sinc(x / 3), antialiased
#pragma once

#include <vector>

#include "dlpipe/augment/arguments.h"
#include "dlpipe/augment/resize.h"

namespace dlpipe::augment {

enum class Interpolation { kNearest, kArea, kBilinear, kBicubic, kLanczos };

OpParam resize_interpolation_parameter();
Interpolation parse_interpolation(const std::string& name);

/// The part of the source that the window's pixels depend on.
Region resample_support(Interpolation interpolation, const ResizeGeometry& geometry);

/// Writes `geometry.window` to `out` (its size), left and right swapped if `mirror`. `source` holds exactly
/// resample_support's pixels. The box is the whole source.
void resample(Interpolation interpolation, const ResizeGeometry& geometry, const ConstImageView& source,
              const ImageView& out, bool mirror, std::vector<std::byte>& work);

}  // namespace dlpipe::augment
