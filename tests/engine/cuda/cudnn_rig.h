// What the tests of cuDNN's convolutions and attention share: a device that has it, numbers, their distance.
#pragma once

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "dlpipe/ops.h"
#include "engine/cuda/cudnn/cudnn.h"

namespace dlpipe::engine {

/// The first CUDA device, if it and cuDNN are there; else null, and why.
inline Device* device_with_cudnn(std::string& why) {
  const Result<Device*> device = cuda_device(0);
  if (!device.ok()) {
    why = device.status().message();
    return nullptr;
  }
  const Result<cuda::cudnn::Handle> handle = cuda::cudnn::make_handle();
  if (handle.ok()) return *device;
  why = handle.status().message();
  return nullptr;
}

/// Between -1 and 1, rounded to `dtype`.
inline Tensor random_tensor(const Shape& shape, DType dtype, Device& device, int seed) {
  std::mt19937 generator(static_cast<unsigned>(seed));
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> out(static_cast<size_t>(shape.elements()));
  for (float& value : out) value = values(generator);
  return cast(Tensor::from<float>(out, shape), dtype).to(device);
}

/// Length of the difference by that of `expected`.
inline double relative_error(const std::vector<double>& got, const std::vector<double>& expected) {
  double error = 0;
  double norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(error / norm);
}

}  // namespace dlpipe::engine
