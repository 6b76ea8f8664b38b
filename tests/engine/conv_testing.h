// What tests of convolutions draw and compare.
#pragma once

#include <vector>

#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "tests/engine/distance.h"

namespace dlpipe::test {

/// f32 in [-1, 1).
inline engine::Tensor uniform_noise(const Shape& shape, RandomStream random) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  for (float& value : values) value = static_cast<float>(random.uniform_double() * 2 - 1);
  return engine::Tensor::from<float>(values, shape);
}

}  // namespace dlpipe::test
