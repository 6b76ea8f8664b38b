#include "dlpipe/python/arrays.h"

#include <nanobind/ndarray.h>

#include "dlpipe/base/error.h"
#include "dlpipe/base/named_values.h"
#include "dlpipe/base/text.h"
#include "dlpipe/python/waiting.h"

namespace nb = nanobind;

namespace dlpipe::python {

namespace {

nb::dlpack::dtype dlpack_dtype(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  Code code = Code::Float;
  if (dtype == DType::kU8) code = Code::UInt;
  if (dtype == DType::kI32 || dtype == DType::kI64) code = Code::Int;
  if (dtype == DType::kBF16) code = Code::Bfloat;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * dtype_size(dtype)), 1};
}

template <class Tag, class Pointer>
nb::any make(Pointer data, const ArrayForm& form, nb::handle owner, const Device* device = nullptr) {
  const bool is_on_device = device != nullptr && device->kind() == DeviceKind::kCuda;
  using Scalar = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, nb::ro, Tag>;
  nb::ndarray<Tag, Scalar> array(
      data, form.shape.size(), form.shape.data(), owner, form.strides.empty() ? nullptr : form.strides.data(),
      dlpack_dtype(form.dtype), is_on_device ? nb::device::cuda::value : nb::device::cpu::value,
      is_on_device ? device->index() : 0);
  const PythonCall call;  // of NumPy, PyTorch or JAX
  return nb::borrow<nb::any>(nb::cast(array));
}

}  // namespace

Framework parse_framework(const std::string& name) {
  constexpr Named<Framework> kNames[] = {{"numpy", Framework::kNumpy},
                                         {"torch", Framework::kTorch},
                                         {"jax", Framework::kJax},
                                         {"dlpack", Framework::kDlpack}};
  return value_or_throw(value_named(kNames, name, "loader", "as_"));
}

ArrayForm dense_form(DType dtype, int64_t count, const Shape& shape) {
  ArrayForm form;
  form.dtype = dtype;
  form.shape.push_back(static_cast<size_t>(count));
  for (int i = 0; i < shape.rank(); ++i) form.shape.push_back(static_cast<size_t>(shape[i]));
  return form;
}

ArrayForm channels_first(const ArrayForm& nhwc) {
  const size_t height = nhwc.shape[1];
  const size_t width = nhwc.shape[2];
  const size_t channels = nhwc.shape[3];
  const auto row = static_cast<int64_t>(width * channels);
  return {nhwc.dtype,
          {nhwc.shape[0], channels, height, width},
          {static_cast<int64_t>(height) * row, 1, row, static_cast<int64_t>(channels)}};
}

nb::any make_array(Framework framework, void* data, const ArrayForm& form, nb::handle owner) {
  switch (framework) {
    case Framework::kTorch:
      return make<nb::pytorch>(data, form, owner);
    case Framework::kJax:
      return make<nb::jax>(data, form, owner);
    case Framework::kDlpack:
      return make<nb::array_api>(data, form, owner);
    case Framework::kNumpy:
      break;
  }
  return make<nb::numpy>(data, form, owner);
}

nb::any make_dlpack(void* data, const ArrayForm& form, const Device* device, nb::handle owner) {
  return make<nb::array_api>(data, form, owner, device);
}

nb::any make_constant_array(const void* data, const ArrayForm& form, nb::handle owner) {
  return make<nb::numpy>(data, form, owner);
}

}  // namespace dlpipe::python
