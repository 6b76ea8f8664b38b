// A compiled model and images for it, small enough for unit tests.
#pragma once

#include <cstdint>
#include <string>

#include "dlpipe/predictor.h"

namespace dlpipe::test {

/// Writes lenet for images of 32x32 and 7 classes, compiled, with weights drawn from `seed`.
void write_small_model(const std::string& path, uint64_t seed = 5);
/// A PNG of 32x32 pixels with one of 256 colours.
run::ImageFile small_image(uint8_t colour);

}  // namespace dlpipe::test
