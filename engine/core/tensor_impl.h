// What a Tensor points to. Internal to engine: kernels and layers use Tensor; core, autograd, graph/capture.cpp
// and optim/ema.cpp use this. Threads: as for Tensor; Storage may be freed from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "dlpipe/tensor.h"
#include "engine/core/allocator.h"

namespace dlpipe::engine {

/// A block of device memory and its count of in-place writes. Owned blocks are returned to the allocator.
struct Storage {
  Device* device = nullptr;
  void* data = nullptr;
  Block block;  // the block that `data` is in, if owned
  bool owned = false;
  uint32_t version = 0;

  Storage(Device& device, size_t bytes);    // owned
  Storage(Device& device, void* borrowed);  // not owned
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
};

struct TensorImpl {
  std::shared_ptr<Storage> storage;
  std::byte* data = nullptr;  // the first element
  TensorSpec spec;
  std::array<int64_t, Shape::kMaxRank> strides{};  // elements; meaningless when blocked
  bool contiguous = true;                          // plain, row-major, no gaps

  bool requires_grad = false;
  std::shared_ptr<Node> node;  // the node that made this tensor; null for leaves
  int node_output = 0;
  std::weak_ptr<Node> accumulator;  // of a leaf, while a graph refers to it
  std::vector<Tensor::Hook> hooks;  // of a leaf
  Tensor grad;

  TensorImpl() = default;
  ~TensorImpl();
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;

  static Tensor wrap(std::shared_ptr<TensorImpl> impl) { return Tensor(std::move(impl)); }
  /// True if `tensor` is the only handle, and the only view of its storage.
  static bool is_exclusive(const Tensor& tensor);
};

/// Copies the values of `from`, with any strides and layout, to `to`, which is plain and contiguous with the same shape and
/// dtype.
void copy_values(const Tensor& to, const Tensor& from);

}  // namespace dlpipe::engine
