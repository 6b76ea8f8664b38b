// Tensors: shape, strides, layout, dtype, device, storage, and the node in the autograd graph.
//
// Ownership: a Tensor is a handle (shared pointer): copies share storage and gradient. Views (reshape, slice, transpose) share
// storage and its version counter. Threads: different tensors may be used from different threads; a tensor, or the graph it
// belongs to, by one thread at a time (kernels are parallel internally). Cost: a copy increments a reference count; memory
// comes from a caching allocator; item(), to_doubles() and to() wait for the tensor's device.
//
// The logical axes of images are always N,H,W,C. `layout` describes their order in memory: kPlain is strided;
// kBlocked8/16 is channel-blocked (oneDNN's nChw8c / nChw16c; C is a multiple of the block, dtype f32, no
// padding, no strides). Users, hooks and checkpoints only see plain tensors: data<T>() of a blocked tensor
// is an error; plain() converts it.
//
// Errors are exceptions of type dlpipe::Error with a message that begins with the op: "[matmul] ...".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "dlpipe/device.h"
#include "dlpipe/dtype.h"

namespace dlpipe {

/// Sets a variable of the calling thread for the lifetime of an object: for example, whether ops record a graph, or their
/// autocast dtype. Costs two calls.
///
/// The constructor sets the variable that kState() returns, and the destructor restores its previous value, so
/// that scopes nest. kState is a function without arguments that returns a reference to a thread_local. Create
/// and destroy the object on the same thread.
template <auto kState>
class ScopedValue {
 public:
  using Value = std::remove_reference_t<decltype(kState())>;

  explicit ScopedValue(Value value) : former_(std::exchange(kState(), std::move(value))) {}
  ~ScopedValue() { kState() = std::move(former_); }
  ScopedValue(const ScopedValue&) = delete;
  ScopedValue& operator=(const ScopedValue&) = delete;

 private:
  Value former_;
};

}  // namespace dlpipe

namespace dlpipe::engine {

enum class Layout : uint8_t { kPlain = 0, kBlocked8 = 1, kBlocked16 = 2 };
std::string_view layout_name(Layout layout);
/// Channels per block: 1, 8 or 16.
constexpr int layout_block(Layout layout) {
  return layout == Layout::kPlain ? 1 : layout == Layout::kBlocked8 ? 8 : 16;
}

class Node;
struct TensorImpl;

/// Shape, dtype and layout of a tensor that need not exist yet: the input and output of shape rules.
struct TensorSpec {
  Shape shape;
  DType dtype = DType::kF32;
  Layout layout = Layout::kPlain;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

class Tensor {
 public:
  Tensor() = default;  // undefined: defined() is false

  /// A tensor with uninitialised memory from the device's caching allocator.
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
  /// Wraps memory that the caller owns and keeps alive (a batch slot). The tensor has no gradient and ops never write to it.
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

  /// The values on `device`, plain and contiguous, without history. If the tensor is already there, returns it,
  /// detached.
  Tensor to(Device& device) const;

  /// Pointer to the first element, in the memory of the tensor's device. Throws kMisuse if T isn't the dtype, or if
  /// the layout is blocked.
  template <class T>
  T* data() const {
    return static_cast<T*>(checked_data(DTypeOf<T>::value));
  }
  /// Pointer to the first byte, for any dtype and layout: for kernels.
  void* raw() const;
  /// The only element, as double. Waits for the tensor's device, like every call that returns values.
  double item() const;
  std::vector<double> to_doubles() const;  // row-major, any dtype and layout: for tests and printing
  void copy_from_host(const void* source, size_t bytes);

  /// Replaces the tensor's memory by that of `other`, which has the same shape and dtype. All handles of this
  /// tensor see the change; existing views don't. For parameters that move to a device or into a flat group.
  void set_data(const Tensor& other);

  // Views and copies without gradient tracking; the differentiable forms are ops (dlpipe/ops.h).
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
  /// A tensor that shares storage and has no history.
  Tensor detach() const;
  bool is_leaf() const;
  const std::shared_ptr<Node>& node() const;
  int node_output() const;
  /// Called in backward with this tensor's gradient in plain layout; a defined result replaces the gradient.
  using Hook = std::function<Tensor(const Tensor& grad)>;
  void register_hook(Hook hook);
  /// Accumulates the gradients of this tensor (a scalar, unless `seed` is given) into the leaves. Frees the graph
  /// unless it is retained; a second backward through a freed graph is an error that names the op. In autograd/.
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

/// Whether this thread's ops record a graph.
bool grad_enabled();

/// The calling thread's variable. Use grad_enabled() and the classes below to read and set it.
namespace thread_state {
bool& grad();
}

/// This thread's ops record no graph while an object of this class lives.
class NoGrad {
 public:
  NoGrad() : grad_(false) {}

 private:
  ScopedValue<thread_state::grad> grad_;
};
/// The opposite of NoGrad: inside a NoGrad, this thread's ops record a graph again.
class EnableGrad {
 public:
  EnableGrad() : grad_(true) {}

 private:
  ScopedValue<thread_state::grad> grad_;
};

/// A tensor's elements as bytes, as stored in files and sent between processes: all elements, row-major, in the memory of the
/// tensor's device; empty for an undefined tensor. Throws kMisuse if the tensor isn't contiguous.
std::span<std::byte> bytes_of(const Tensor& tensor);

// Ops that the engine's core itself calls (the others: dlpipe/ops.h): the two conversions that `apply` does before a kernel,
// and the sum.

/// Converts to another dtype; the gradient has the input's dtype.
Tensor cast(const Tensor& x, DType dtype);
/// Converts to another layout (differentiable).
Tensor reorder(const Tensor& x, Layout layout);
/// The sum; also accumulates the gradients of a leaf that several ops read.
Tensor add(const Tensor& a, const Tensor& b);

// Inference: a forward pass that is never followed by a backward pass. It may use faster kernels than a
// training step, with different bits, because sums are split in whatever way is fastest.
//
// This is not NoGrad, which training steps use too: in backward, and in the first pass of recomputed modules.
// Each thread has its own setting; slices that run on other threads use their caller's.

/// The calling thread's variable. Use is_inference() and InferenceMode to read and set it.
namespace thread_state {
bool& inference();
}

/// Whether this thread's ops run in inference mode.
bool is_inference();

/// This thread's ops run in inference mode and record no graph while an object of this class lives.
class InferenceMode {
 public:
  InferenceMode() : inference_(true) {}

 private:
  NoGrad no_grad_;
  ScopedValue<thread_state::inference> inference_;
};

// ---- threads: one pool for the process. Slice borders depend only on the problem, never on the number of threads

/// Sets the number of threads of the engine's pool. Set it once before the first op (Session does); later calls rebuild
/// the pool. Default: available_threads(). `threads` < 1 means 1. Throws if the system provides fewer.
void set_engine_threads(int threads);
int engine_threads();

/// Calls body(slice) for slice = 0 .. count-1, in any order, on any thread; returns when all are done. Rethrows
/// the first exception and drops the slices that have not begun.
void parallel_slices(int64_t count, const std::function<void(int64_t slice)>& body);

/// Splits [0, n) into slices of `grain` (the last may be shorter) and calls body(begin, end) for each.
void parallel_ranges(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace dlpipe::engine
