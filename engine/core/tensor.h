// A tensor: shape, strides, layout, dtype, device, storage, and its place in the autograd graph.
//
// A Tensor is a handle (shared pointer): copies share storage and gradient. Views (reshape, slice, transpose)
// share storage and its version counter. Threads: different tensors may be used from different threads; one
// tensor, or the graph it belongs to, by one thread at a time (kernels parallelise inside).
//
// Logical axes of images are always N,H,W,C. `layout` says how they lie in memory: kPlain means strides;
// kBlocked8/16 means channel-blocked (oneDNN's nChw8c / nChw16c; C is a multiple of the block, dtype f32, no
// padding, no strides). Users, hooks and checkpoints only meet plain tensors: data<T>() of a blocked tensor
// is an error, plain() converts.
//
// Errors at this face are exceptions of type dlpipe::Error whose message begins with the op: "[matmul] ...".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/dtype.h"
#include "dlpipe/base/scoped_value.h"
#include "dlpipe/base/shape.h"

namespace dlpipe::engine {

enum class Layout : uint8_t { kPlain = 0, kBlocked8 = 1, kBlocked16 = 2 };
std::string_view layout_name(Layout layout);
/// Channels a block: 1, 8, 16.
constexpr int layout_block(Layout layout) {
  return layout == Layout::kPlain ? 1 : layout == Layout::kBlocked8 ? 8 : 16;
}

class Node;
struct TensorImpl;

/// Shape, dtype and layout of a tensor that need not exist yet: what shape rules work on.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::kF32;
  Layout layout = Layout::kPlain;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false

  /// Uninitialised memory from the device's caching allocator.
  static Tensor empty(const TensorSpec& spec, Device& device = cpu_device());
  static Tensor empty(const Shape& shape, DType dtype = DType::kF32) {
    return empty({shape, dtype, Layout::kPlain});
  }
  static Tensor zeros(const Shape& shape, DType dtype = DType::kF32);
  static Tensor full(const Shape& shape, double value, DType dtype = DType::kF32,
                     Device& device = cpu_device());
  template <class T>
  static Tensor from(std::span<const T> values, const Shape& shape) {
    Tensor tensor = empty(shape, DTypeOf<T>::value);
    tensor.copy_from_host(values.data(), values.size_bytes());
    return tensor;
  }
  /// Wraps memory that somebody else owns and keeps alive (a batch slot): no gradient, never written through.
  static Tensor borrow(void* data, const Shape& shape, DType dtype, Device& device = cpu_device());

  bool defined() const { return impl_ != nullptr; }
  const Shape& shape() const;
  std::span<const int64_t> strides() const;  // in elements; empty when blocked
  int64_t size(int axis) const { return shape()[axis]; }
  int rank() const { return shape().rank(); }
  int64_t elements() const { return shape().elements(); }
  size_t size_bytes() const { return static_cast<size_t>(elements()) * dtype_size(dtype()); }
  DType dtype() const;
  Layout layout() const;
  Device& device() const;
  TensorSpec spec() const { return {shape(), dtype(), layout()}; }
  /// Plain and row-major without gaps.
  bool is_contiguous() const;

  /// Its values on `device`, plain and contiguous, without history; the tensor itself, detached, if it is
  /// there.
  Tensor to(Device& device) const;

  /// First element. kMisuse if T isn't the dtype, or the layout is blocked. Memory of the tensor's device.
  template <class T>
  T* data() const {
    return static_cast<T*>(checked_data(DTypeOf<T>::value));
  }
  /// First byte, whatever the dtype and layout: for kernels.
  void* raw() const;
  /// The only element, as double. Waits for the tensor's device, as all that answers values does.
  double item() const;
  std::vector<double> to_doubles() const;  // row-major, any dtype and layout: for tests and printing
  void copy_from_host(const void* source, size_t bytes);

  /// Takes the memory of `other`, of the same shape and dtype, in place of its own: every handle of this
  /// tensor sees it, views made before don't. For parameters that move to a device or into a flat group.
  void set_data(const Tensor& other);

  // Views and copies without gradient tracking; the differentiable forms are ops (engine/ops/ops.h).
  Tensor view_as(const Shape& shape, std::span<const int64_t> strides, int64_t offset_elements) const;
  Tensor contiguous_copy() const;  // plain, row-major, own storage
  Tensor clone() const { return contiguous_copy(); }

  // Autograd.
  bool requires_grad() const;
  Tensor& set_requires_grad(bool value);
  /// The accumulated gradient; undefined before backward(). Plain layout.
  Tensor grad() const;
  void set_grad(Tensor grad);
  void zero_grad();  // makes grad undefined
  /// Shares storage, has no history.
  Tensor detach() const;
  bool is_leaf() const;
  const std::shared_ptr<Node>& node() const;
  int node_output() const;
  /// Called with the plain gradient of this tensor when it is known; a defined answer replaces it.
  using Hook = std::function<Tensor(const Tensor& grad)>;
  void register_hook(Hook hook);
  /// Gradients of this tensor (a scalar, unless `seed` is given) into the leaves. The graph is freed unless
  /// retained; a second backward through a freed graph is an error that names the op. Defined by autograd/.
  void backward(const Tensor& seed = Tensor(), bool retain_graph = false) const;

  /// Counts in-place writes to the storage; saved tensors check it.
  uint32_t version() const;
  void bump_version();

  TensorImpl* impl() const { return impl_.get(); }
  friend bool same_tensor(const Tensor& a, const Tensor& b) { return a.impl_ == b.impl_; }

 private:
  friend struct TensorImpl;
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  void* checked_data(DType dtype) const;
  const TensorImpl& defined_impl() const;  // throws when undefined
  std::shared_ptr<TensorImpl> impl_;
};

/// Whether ops of this thread record a graph.
bool grad_enabled();

/// The calling thread's variable; read and set it by grad_enabled() and what follows.
namespace thread_state {
bool& grad();
}

/// While one lives, ops of this thread record no graph.
class NoGrad {
 public:
  NoGrad() : grad_(false) {}

 private:
  ScopedValue<thread_state::grad> grad_;
};
/// The other way: inside a NoGrad, ops of this thread record again.
class EnableGrad {
 public:
  EnableGrad() : grad_(true) {}

 private:
  ScopedValue<thread_state::grad> grad_;
};

}  // namespace dlpipe::engine
