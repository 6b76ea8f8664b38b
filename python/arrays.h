// Memory of the library as arrays of NumPy, PyTorch or JAX, through DLPack: nothing is copied, and the memory lives
// until the last array and the last view of one are gone. PyTorch and JAX let go of theirs on threads of their own, also while
// the interpreter ends: that takes no interpreter lock.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

/// What an array keeps. The last copy goes on any thread.
using Memory = std::shared_ptr<const void>;
/// A Python object that owns some. With the interpreter lock.
Memory memory_of(nanobind::object owner);

/// With the interpreter lock.
nanobind::any make_array(Framework framework, void* data, const ArrayForm& form, Memory memory);
/// For NumPy, not to be written.
nanobind::any make_constant_array(const void* data, const ArrayForm& form, Memory memory);
/// An object with the DLPack protocol, whose memory is `device`'s (null: the CPU's). Whoever takes it names the stream that will read
/// it, and `read_on` is called with that; of the CPU there is none.
nanobind::any make_dlpack(void* data, const ArrayForm& form, Memory memory, const Device* device,
                          std::function<void(int64_t stream)> read_on);

void bind_arrays(nanobind::module_& module);

}  // namespace dlpipe::python
