// Resizing 8-bit images with any of Pillow's filters, bit-equal to its `Image.resize(size, FILTER)` on every ISA. bilinear is
// resize.h's; the others go the same way (resize_passes.h) with other weights, which may be negative.
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

/// What resample() takes of `work`, for pictures of `channels`.
size_t resample_work_bytes(Interpolation interpolation, const ResizeGeometry& geometry, int channels);

/// The same by plain loops, of kArea, kBicubic and kLanczos: the twin that tests hold `resample` to.
void resample_scalar(Interpolation interpolation, const ResizeGeometry& geometry,
                     const ConstImageView& source, const ImageView& out, bool mirror);

}  // namespace dlpipe::augment
