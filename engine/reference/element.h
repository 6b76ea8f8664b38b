// One element of a floating tensor of any dtype, for reference kernels of ops that mix dtypes: plain,
// contiguous, on the host.
#pragma once

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine::reference {

inline double element(const Tensor& tensor, int64_t i) {
  switch (tensor.dtype()) {
    case DType::kF64:
      return tensor.data<double>()[i];
    case DType::kBF16:
      return static_cast<float>(tensor.data<BFloat16>()[i]);
    case DType::kF16:
      return static_cast<float>(tensor.data<Float16>()[i]);
    default:
      return tensor.data<float>()[i];
  }
}

/// Rounded to the tensor's dtype.
inline void set_element(const Tensor& tensor, int64_t i, double value) {
  switch (tensor.dtype()) {
    case DType::kF64:
      tensor.data<double>()[i] = value;
      return;
    case DType::kBF16:
      tensor.data<BFloat16>()[i] = BFloat16(static_cast<float>(value));
      return;
    case DType::kF16:
      tensor.data<Float16>()[i] = Float16(static_cast<float>(value));
      return;
    default:
      tensor.data<float>()[i] = static_cast<float>(value);
  }
}

}  // namespace dlpipe::engine::reference
