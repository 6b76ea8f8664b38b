#include "dlpipe/tensor.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/allocator.h"
#include "engine/core/device_code.h"
#include "engine/core/device_memory.h"
#include "engine/core/node.h"
#include "engine/core/observers.h"
#include "engine/core/tensor_impl.h"

namespace dlpipe::engine {

namespace {

[[noreturn]] void fail(const std::string& message) {
  refuse("tensor", message);
}

// Reports reads of values to a capture (engine/graph).
void tell_of_read(const Tensor& tensor) {
  if (CallObserver* const observer = thread_state::call_observer(); observer != nullptr)
    observer->on_read(tensor);
}

// For a capture, a copy is a read of values.
void tell_of_copy(const Tensor& to, const Tensor& from) {
  if (CallObserver* const observer = thread_state::call_observer(); observer != nullptr)
    observer->on_read(from);
  if (KernelObserver* const observer = thread_state::kernel_observer(); observer != nullptr)
    observer->on_copy(to, from);
}

std::array<int64_t, Shape::kMaxRank> row_major_strides(const Shape& shape) {
  std::array<int64_t, Shape::kMaxRank> strides{};
  int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

// Axes of size 1 may have any stride: no step is ever taken along them.
bool strides_are_row_major(const Shape& shape, std::span<const int64_t> strides) {
  uint64_t expected = 1;  // wraps if the sizes of an empty view are too large
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && static_cast<uint64_t>(strides[axis]) != expected) return false;
    expected *= static_cast<uint64_t>(shape[axis]);
  }
  return true;
}

void check_spec(const TensorSpec& spec) {
  for (int64_t size : spec.shape) {
    if (size < 0) fail(concat("negative size in shape ", spec.shape.to_string()));
  }
  // Other sizes count even if one is 0, because strides and views are computed from them.
  int64_t bytes = static_cast<int64_t>(dtype_size(spec.dtype));
  for (int64_t size : spec.shape) {
    if (__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes))
      fail(concat("too many elements in shape ", spec.shape.to_string(), " to count"));
  }
  if (spec.layout == Layout::kPlain) return;
  const int block = layout_block(spec.layout);
  if (spec.shape.rank() != 4 || spec.shape[3] % block != 0 || spec.dtype != DType::kF32) {
    fail(concat("layout ", layout_name(spec.layout), " needs an f32 image [N,H,W,C] with C a multiple of ",
                block, ", got ", dtype_name(spec.dtype), " ", spec.shape.to_string()));
  }
}

/// The type for computing with an element: float for 16-bit types.
template <class T>
using Widened = std::conditional_t<is_low(DTypeOf<T>::value), float, T>;

template <class T>
double to_double(const void* element) {
  return static_cast<double>(static_cast<Widened<T>>(*static_cast<const T*>(element)));
}

using ToDouble = double (*)(const void*);
ToDouble reader_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return to_double<float>;
    case DType::kF64:
      return to_double<double>;
    case DType::kBF16:
      return to_double<BFloat16>;
    case DType::kF16:
      return to_double<Float16>;
    case DType::kU8:
      return to_double<uint8_t>;
    case DType::kI32:
      return to_double<int32_t>;
    case DType::kI64:
      return to_double<int64_t>;
  }
  fail("unknown dtype");
}

template <class T>
void fill(void* data, int64_t count, double value) {
  std::fill_n(static_cast<T*>(data), count, T(static_cast<Widened<T>>(value)));
}

}  // namespace

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::kPlain:
      return "plain";
    case Layout::kBlocked8:
      return "blocked8";
    case Layout::kBlocked16:
      return "blocked16";
  }
  return "unknown";
}

Storage::Storage(Device& device_in, size_t bytes) : device(&device_in), owned(true) {
  block = allocate_block(device_in, bytes);
  data = block.data;
}
Storage::Storage(Device& device_in, void* borrowed) : device(&device_in), data(borrowed) {}
Storage::~Storage() {
  if (owned) deallocate_block(*device, block);
}

TensorImpl::~TensorImpl() {
  if (node != nullptr) bury(std::move(node));
}
bool TensorImpl::is_exclusive(const Tensor& tensor) {
  return tensor.impl_.use_count() == 1 && tensor.impl_->storage.use_count() == 1 &&
         tensor.impl_->storage->owned;
}

Tensor Tensor::empty(const TensorSpec& spec, Device& device) {
  check_spec(spec);
  auto impl = std::make_shared<TensorImpl>();
  const auto bytes = static_cast<size_t>(spec.shape.elements()) * dtype_size(spec.dtype);
  impl->storage = std::make_shared<Storage>(device, bytes);
  impl->data = static_cast<std::byte*>(impl->storage->data);
  impl->spec = spec;
  impl->contiguous = spec.layout == Layout::kPlain;
  impl->strides = row_major_strides(spec.shape);
  return Tensor(std::move(impl));
}

Tensor Tensor::zeros(const Shape& shape, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  std::memset(tensor.raw(), 0, tensor.size_bytes());
  return tensor;
}

/// Doesn't wait for the device: the value is an argument of the kernel.
static Tensor full_on(Device& device, const Shape& shape, double value, DType dtype) {
  const Tensor one = Tensor::full({1}, value, dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, one.raw(), dtype_size(dtype));
  Tensor tensor = Tensor::empty({shape, dtype, Layout::kPlain}, device);
  device_code(device).fill(tensor.raw(), tensor.elements(), bits, dtype_size(dtype));
  return tensor;
}

Tensor Tensor::full(const Shape& shape, double value, DType dtype, Device& device) {
  if (!device.is_host()) return full_on(device, shape, value, dtype);
  Tensor tensor = empty(shape, dtype);
  switch (dtype) {
    case DType::kF32:
      fill<float>(tensor.raw(), tensor.elements(), value);
      break;
    case DType::kF64:
      fill<double>(tensor.raw(), tensor.elements(), value);
      break;
    case DType::kBF16:
      fill<BFloat16>(tensor.raw(), tensor.elements(), value);
      break;
    case DType::kF16:
      fill<Float16>(tensor.raw(), tensor.elements(), value);
      break;
    case DType::kU8:
      fill<uint8_t>(tensor.raw(), tensor.elements(), value);
      break;
    case DType::kI32:
      fill<int32_t>(tensor.raw(), tensor.elements(), value);
      break;
    case DType::kI64:
      fill<int64_t>(tensor.raw(), tensor.elements(), value);
      break;
  }
  return tensor;
}

Tensor Tensor::borrow(void* data, const Shape& shape, DType dtype, Device& device) {
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::make_shared<Storage>(device, data);
  impl->data = static_cast<std::byte*>(data);
  impl->spec = {shape, dtype, Layout::kPlain};
  check_spec(impl->spec);
  impl->strides = row_major_strides(shape);
  return Tensor(std::move(impl));
}

const TensorImpl& Tensor::defined_impl() const {
  if (impl_ == nullptr) fail("an undefined tensor was used; give it a value first");
  return *impl_;
}
const Shape& Tensor::shape() const {
  return defined_impl().spec.shape;
}
std::span<const int64_t> Tensor::strides() const {
  const TensorImpl& impl = defined_impl();
  if (impl.spec.layout != Layout::kPlain) return {};
  return {impl.strides.data(), static_cast<size_t>(impl.spec.shape.rank())};
}
DType Tensor::dtype() const {
  return defined_impl().spec.dtype;
}
Layout Tensor::layout() const {
  return defined_impl().spec.layout;
}
Device& Tensor::device() const {
  return *defined_impl().storage->device;
}
bool Tensor::is_contiguous() const {
  return defined_impl().contiguous;
}
void* Tensor::raw() const {
  return defined_impl().data;
}

void* Tensor::checked_data(DType dtype) const {
  const TensorImpl& impl = defined_impl();
  tell_of_read(*this);
  if (impl.spec.dtype != dtype) {
    fail(concat("data<", dtype_name(dtype), ">() of a tensor of ", dtype_name(impl.spec.dtype),
                "; use the tensor's own dtype or cast() it"));
  }
  if (impl.spec.layout != Layout::kPlain) {
    fail(concat("data() of a tensor in layout ", layout_name(impl.spec.layout), "; convert it with plain()"));
  }
  return impl.data;
}

double Tensor::item() const {
  if (elements() != 1)
    fail(concat("item() of a tensor of shape ", shape().to_string(), "; it needs one element"));
  return to_doubles()[0];
}

std::vector<double> Tensor::to_doubles() const {
  tell_of_read(*this);
  const Tensor row_major = (is_contiguous() ? *this : contiguous_copy()).to(cpu_device());
  const ToDouble read = reader_of(dtype());
  const auto* element = static_cast<const std::byte*>(row_major.raw());
  std::vector<double> values(static_cast<size_t>(elements()));
  for (double& value : values) {
    value = read(element);
    element += dtype_size(dtype());
  }
  return values;
}

void Tensor::copy_from_host(const void* source, size_t bytes) {
  if (!is_contiguous() || bytes != size_bytes()) {
    fail(concat("copy_from_host of ", bytes, " bytes into ", is_contiguous() ? "" : "strided or blocked ",
                dtype_name(dtype()), " ", shape().to_string(), ", which needs ", size_bytes()));
  }
  copy_memory(device(), raw(), cpu_device(), source, bytes);
  bump_version();
}

void Tensor::set_data(const Tensor& other) {
  const TensorImpl& from = other.defined_impl();
  if (!(spec() == from.spec) || impl_->node != nullptr) {
    fail(concat("set_data of ", dtype_name(from.spec.dtype), " ", from.spec.shape.to_string(), " on ",
                impl_->node != nullptr ? "the result of an op, " : "a tensor of ", dtype_name(dtype()), " ",
                shape().to_string()));
  }
  impl_->storage = from.storage;
  impl_->data = from.data;
  impl_->strides = from.strides;
  impl_->contiguous = from.contiguous;
  impl_->grad = Tensor();
}

Tensor Tensor::view_as(const Shape& shape, std::span<const int64_t> strides, int64_t offset_elements) const {
  const TensorImpl& impl = defined_impl();
  if (impl.spec.layout != Layout::kPlain) {
    fail(concat("view of a tensor in layout ", layout_name(impl.spec.layout), "; convert it with plain()"));
  }
  if (static_cast<int>(strides.size()) != shape.rank()) fail("view_as needs one stride per axis");
  auto view = std::make_shared<TensorImpl>();
  view->storage = impl.storage;
  view->data = impl.data + offset_elements * static_cast<int64_t>(dtype_size(impl.spec.dtype));
  view->spec = {shape, impl.spec.dtype, Layout::kPlain};
  std::copy(strides.begin(), strides.end(), view->strides.begin());
  view->contiguous = strides_are_row_major(shape, strides);
  return Tensor(std::move(view));
}

Tensor Tensor::to(Device& to) const {
  if (&to == &device()) return detach();
  const Tensor source = is_contiguous() ? *this : contiguous_copy();
  Tensor copy = empty({shape(), dtype(), Layout::kPlain}, to);
  copy_memory(to, copy.raw(), device(), source.raw(), size_bytes());
  return copy;
}

void copy_values(const Tensor& to, const Tensor& from) {
  const TensorImpl& impl = *from.impl();
  if (impl.contiguous) return copy_memory(to.device(), to.raw(), from.device(), impl.data, from.size_bytes());
  const size_t element = dtype_size(impl.spec.dtype);
  if (impl.spec.layout == Layout::kPlain)
    return copy_strided_on(from.device(), to.raw(), impl.data, impl.spec.shape, from.strides(), element);
  // Blocked [N, C/b, H, W, b] read as [N, H, W, C/b, b] is plain NHWC.
  const Shape& s = impl.spec.shape;
  const int64_t block = layout_block(impl.spec.layout);
  const int64_t pixels = s[1] * s[2];
  const std::array<int64_t, 4> source = {s[3] * pixels, block, pixels * block, 1};
  copy_strided(to.raw(), impl.data, {s[0], pixels, s[3] / block, block}, source, element);
}

Tensor Tensor::contiguous_copy() const {
  const TensorImpl& impl = defined_impl();
  Tensor copy = empty({impl.spec.shape, impl.spec.dtype, Layout::kPlain}, device());
  copy_values(copy, *this);
  tell_of_copy(copy, *this);
  return copy;
}

bool Tensor::requires_grad() const {
  return defined_impl().requires_grad || impl_->node != nullptr;
}
Tensor& Tensor::set_requires_grad(bool value) {
  const TensorImpl& impl = defined_impl();
  if (value && !is_floating(impl.spec.dtype)) {
    fail(concat("a tensor of ", dtype_name(impl.spec.dtype), " cannot require gradients; cast() it first"));
  }
  if (impl.node != nullptr) {
    if (!value) fail(concat("the result of ", impl.node->name(), " has a history; use detach()"));
    return *this;
  }
  impl_->requires_grad = value;
  return *this;
}
Tensor Tensor::grad() const {
  return defined_impl().grad;
}
void Tensor::set_grad(Tensor grad) {
  defined_impl();
  if (grad.defined() && !(grad.shape() == shape())) {
    fail(concat("set_grad of shape ", grad.shape().to_string(), " on a tensor of ", shape().to_string()));
  }
  impl_->grad = std::move(grad);
}
void Tensor::zero_grad() {
  defined_impl();
  impl_->grad = Tensor();
}

Tensor Tensor::detach() const {
  const TensorImpl& impl = defined_impl();
  auto copy = std::make_shared<TensorImpl>();
  copy->storage = impl.storage;
  copy->data = impl.data;
  copy->spec = impl.spec;
  copy->strides = impl.strides;
  copy->contiguous = impl.contiguous;
  return Tensor(std::move(copy));
}

bool Tensor::is_leaf() const {
  return defined_impl().node == nullptr;
}
const std::shared_ptr<Node>& Tensor::node() const {
  return defined_impl().node;
}
int Tensor::node_output() const {
  return defined_impl().node_output;
}

void Tensor::register_hook(Hook hook) {
  if (!requires_grad())
    fail("register_hook on a tensor that needs no gradient; set_requires_grad(true) first");
  if (impl_->node == nullptr) {
    impl_->hooks.push_back(std::move(hook));
    return;
  }
  auto& hooks = impl_->node->hooks;
  hooks.resize(std::max<size_t>(hooks.size(), impl_->node->outputs));
  hooks[impl_->node_output].push_back(std::move(hook));
}

uint32_t Tensor::version() const {
  return defined_impl().storage->version;
}
void Tensor::bump_version() {
  defined_impl();
  ++impl_->storage->version;
}

std::span<std::byte> bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (!tensor.is_contiguous())
    refuse("tensor", "expected a contiguous tensor, got a view or a blocked one of ",
           tensor.shape().to_string(), "; copy it with contiguous_copy()");
  return {static_cast<std::byte*>(tensor.raw()), tensor.size_bytes()};
}

bool& thread_state::grad() {
  thread_local bool t_enabled = true;
  return t_enabled;
}
bool grad_enabled() {
  return thread_state::grad();
}

bool& thread_state::inference() {
  thread_local bool t_inference = false;
  return t_inference;
}

bool is_inference() {
  return thread_state::inference();
}

}  // namespace dlpipe::engine
