#include "dlpipe/augment/pixel_range.h"

#include <cmath>

#include "dlpipe/base/refuse.h"

namespace dlpipe::augment {

static float as_stored(float value, DType dtype) {
  if (dtype == DType::kF16) return static_cast<float>(Float16(value));
  return dtype == DType::kBF16 ? rounded_to_bf16(value) : value;
}

Status check_pixel_range(const BatchPrep& prep, DType dtype) {
  constexpr float kWhite = 255;
  for (size_t c = 0; c < prep.scale.size(); ++c) {
    for (const float pixel : {0.0f, kWhite}) {
      if (std::isfinite(as_stored(prep.scale[c] * pixel + prep.bias[c], dtype))) continue;
      return misuse("augment", "normalize: the std of channel ", c,
                    " is so small that pixels become larger than ", dtype_name(dtype),
                    " holds; give a larger one");
    }
  }
  return {};
}

}  // namespace dlpipe::augment
