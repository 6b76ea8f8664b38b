// Samples of an array as pictures. Pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/arrays/npy_array.h"

namespace dlpipe::data::numpy {

/// How an array's samples are pictures.
struct PictureForm {
  int height = 0;
  int width = 0;
  int channels = 1;
  bool channels_first = false;
};

/// kUnsupported for an array that isn't of pictures: uint8 [N,H,W], [N,H,W,C] or [N,C,H,W] with one channel or three.
Result<PictureForm> picture_form(const NpyArray& array);
/// What encode_raw() makes of the bytes of one sample.
std::vector<std::byte> raw_picture(const PictureForm& form, std::span<const std::byte> bytes);

}  // namespace dlpipe::data::numpy
