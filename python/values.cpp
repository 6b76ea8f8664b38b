#include "python/values.h"

#include <nanobind/ndarray.h>

#include <type_traits>
#include <utility>

#include "base/names.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/codec/bitmaps.h"
#include "python/calls.h"

namespace nb = nanobind;

namespace dlpipe::python {

// ---- texts, paths, JSON

nb::object to_text(std::string_view text) {
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::any from_json(std::string_view text) {
  const PythonCall call;
  return nb::borrow<nb::any>(nb::module_::import_("json").attr("loads")(to_text(text)));
}

nb::any from_json_lines(const std::vector<std::string>& lines) {
  std::string text = "[";
  for (const std::string& line : lines) text += (text.size() > 1 ? "," : "") + line;
  return from_json(text + "]");
}

}  // namespace dlpipe::python

namespace nb = nanobind;

namespace dlpipe::python {

// ---- images

using Pixels = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

std::vector<std::byte> bytes_of(nb::handle object) {
  const auto bytes = nb::cast<nb::bytes>(object);
  const auto* first = static_cast<const std::byte*>(bytes.data());
  return {first, first + bytes.size()};
}

static ConstImageView view_of(const Pixels& pixels) {
  const auto height = static_cast<int>(pixels.shape(0));
  const auto width = static_cast<int>(pixels.shape(1));
  const auto channels = static_cast<int>(pixels.shape(2));
  return {pixels.data(), width, height, channels, ptrdiff_t{width} * channels};
}

std::vector<std::byte> image_bytes(nb::handle value) {
  Pixels pixels;
  return nb::try_cast(value, pixels) ? data::encode_raw(view_of(pixels)) : bytes_of(value);
}

std::vector<std::byte> mask_bytes(nb::handle value) {
  Pixels pixels;
  return nb::try_cast(value, pixels) ? value_or_throw(data::encode_png(view_of(pixels))) : bytes_of(value);
}

}  // namespace dlpipe::python

namespace nb = nanobind;

namespace dlpipe::python {

// ---- arrays

namespace {

nb::dlpack::dtype dlpack_dtype(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  Code code = Code::Float;
  if (dtype == DType::kU8) code = Code::UInt;
  if (dtype == DType::kI32 || dtype == DType::kI64) code = Code::Int;
  if (dtype == DType::kBF16) code = Code::Bfloat;
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * dtype_size(dtype)), 1};
}

// DLPack's managed tensors, versions 0 and 1 (https://dmlc.github.io/dlpack/latest/c_api.html).
struct Managed {
  nb::dlpack::dltensor tensor;
  void* context = nullptr;
  void (*deleter)(Managed*) = nullptr;
};
struct ManagedVersioned {
  uint32_t major = 1;
  uint32_t minor = 0;
  void* context = nullptr;
  void (*deleter)(ManagedVersioned*) = nullptr;
  uint64_t flags = 0;
  nb::dlpack::dltensor tensor;
};
template <class Kind>
constexpr const char* kCapsule = std::is_same_v<Kind, Managed> ? "dltensor" : "dltensor_versioned";

/// Memory of the library with the DLPack protocol.
struct DlpackArray {
  void* data;
  ArrayForm form;
  Memory memory;
  const Device* device;  // null: the CPU
  std::function<void(int64_t stream)> read_on;

  nb::dlpack::device where() const {
    const bool is_on_device = device != nullptr && device->kind() == DeviceKind::kCuda;
    return {is_on_device ? nb::device::cuda::value : nb::device::cpu::value,
            is_on_device ? device->index() : 0};
  }
};

template <class Kind>
struct Handed : Kind {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  Memory memory;
};

template <class Kind>
nb::object capsule_of(const DlpackArray& array) {
  auto handed = std::make_unique<Handed<Kind>>();
  handed->shape.assign(array.form.shape.begin(), array.form.shape.end());
  handed->strides = array.form.strides;
  if (handed->strides.empty()) {
    handed->strides.assign(handed->shape.size(), 1);
    for (size_t i = handed->shape.size(); i-- > 1;)
      handed->strides[i - 1] = handed->strides[i] * handed->shape[i];
  }
  handed->memory = array.memory;
  handed->tensor = {array.data,
                    array.where(),
                    static_cast<int32_t>(handed->shape.size()),
                    dlpack_dtype(array.form.dtype),
                    handed->shape.data(),
                    handed->strides.data(),
                    0};
  handed->deleter = [](Kind* one) { delete static_cast<Handed<Kind>*>(one); };
  PyObject* const capsule =
      PyCapsule_New(static_cast<Kind*>(handed.get()), kCapsule<Kind>, [](PyObject* one) {
        if (PyCapsule_IsValid(one, kCapsule<Kind>) == 0) return;  // a consumer took it and deletes it
        auto* const left = static_cast<Kind*>(PyCapsule_GetPointer(one, kCapsule<Kind>));
        left->deleter(left);
      });
  if (capsule == nullptr) throw nb::python_error();
  (void)handed.release();
  return nb::steal(capsule);
}

nb::object dlpack(const DlpackArray& array, const nb::object& stream, const nb::object& max_version,
                  const nb::object& dl_device, const nb::object& copy) {
  // See https://data-apis.org/array-api: None means CUDA's default stream, 1; -1 asks for no ordering; 0 is invalid.
  const bool is_given = !stream.is_none();
  const int64_t number = is_given ? nb::cast<int64_t>(stream) : 1;
  if (number < 1)
    throw nb::buffer_error(concat("stream ", number, "; give the stream that reads the batch").c_str());
  if (is_given && !array.read_on)
    throw nb::buffer_error("a stream was given, but the batch is on the CPU; leave it out");
  if (!copy.is_none() && nb::cast<bool>(copy)) throw nb::buffer_error("copy=True; copy the result instead");
  const nb::dlpack::device where = array.where();
  if (!dl_device.is_none() && !dl_device.equal(nb::make_tuple(where.device_type, where.device_id)))
    throw nb::buffer_error("dl_device is another device; leave it out and copy the result");
  if (array.read_on) array.read_on(number);
  const bool is_versioned = !max_version.is_none() && nb::cast<int64_t>(max_version[0]) >= 1;
  return is_versioned ? capsule_of<ManagedVersioned>(array) : capsule_of<Managed>(array);
}

template <class... Rules, class Pointer>
nb::any make_numpy(Pointer data, const ArrayForm& form, Memory memory) {
  auto kept = std::make_unique<Memory>(std::move(memory));
  const nb::capsule owner(kept.get(), [](void* p) noexcept { delete static_cast<Memory*>(p); });
  (void)kept.release();
  nb::ndarray<nb::numpy, Rules...> array(data, form.shape.size(), form.shape.data(), owner,
                                         form.strides.empty() ? nullptr : form.strides.data(),
                                         dlpack_dtype(form.dtype));
  const PythonCall call;
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

Memory memory_of(nb::object owner) {
  PyObject* const kept = owner.release().ptr();
  return {kept, [](const void* p) { let_go(static_cast<PyObject*>(const_cast<void*>(p))); }};
}

nb::any make_array(Framework framework, void* data, const ArrayForm& form, Memory memory) {
  if (framework == Framework::kNumpy) return make_numpy(data, form, std::move(memory));
  if (framework == Framework::kTorch) {
    const nb::object capsule = capsule_of<Managed>({data, form, std::move(memory), nullptr, {}});
    const PythonCall call;
    return nb::borrow<nb::any>(nb::module_::import_("torch.utils.dlpack").attr("from_dlpack")(capsule));
  }
  nb::any array = make_dlpack(data, form, std::move(memory), nullptr, {});
  if (framework == Framework::kDlpack) return array;
  const PythonCall call;
  return nb::borrow<nb::any>(nb::module_::import_("jax.dlpack").attr("from_dlpack")(array));
}

nb::any make_constant_array(const void* data, const ArrayForm& form, Memory memory) {
  return make_numpy<nb::ro>(data, form, std::move(memory));
}

nb::any make_dlpack(void* data, const ArrayForm& form, Memory memory, const Device* device,
                    std::function<void(int64_t stream)> read_on) {
  return nb::borrow<nb::any>(
      nb::cast(DlpackArray{data, form, std::move(memory), device, std::move(read_on)}));
}

void bind_arrays(nb::module_& module) {
  nb::class_<DlpackArray>(module, "DlpackArray")
      .def("__dlpack__", dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const DlpackArray& array) {
        const nb::dlpack::device where = array.where();
        return nb::make_tuple(where.device_type, where.device_id);
      });
}

}  // namespace dlpipe::python
