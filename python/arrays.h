// Memory of the library as arrays of NumPy, PyTorch or JAX, through DLPack: nothing is copied, and the owner lives
// until the last array and the last view of one are gone.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/base/shape.h"

namespace dlpipe::python {

/// kDlpack: anything that takes the DLPack protocol.
enum class Framework : uint8_t { kNumpy, kTorch, kJax, kDlpack };
/// "numpy", "torch", "jax", "dlpack"; throws Error.
Framework parse_framework(const std::string& name);

/// Sizes in elements; empty strides: dense rows.
struct ArrayForm {
  DType dtype = DType::kU8;
  std::vector<size_t> shape;
  std::vector<int64_t> strides;
};
/// [count, shape...], dense.
ArrayForm dense_form(DType dtype, int64_t count, const Shape& shape);
/// The same pixels seen as [N,C,H,W]; what torch calls channels_last.
ArrayForm channels_first(const ArrayForm& nhwc);

/// `owner` is kept as long as the array. With the interpreter lock.
nanobind::any make_array(Framework framework, void* data, const ArrayForm& form, nanobind::handle owner);
/// An object with the DLPack protocol, whose memory is `device`'s (null: the CPU's) and which orders no streams.
nanobind::any make_dlpack(void* data, const ArrayForm& form, const Device* device, nanobind::handle owner);
/// For NumPy, not to be written.
nanobind::any make_constant_array(const void* data, const ArrayForm& form, nanobind::handle owner);

}  // namespace dlpipe::python
