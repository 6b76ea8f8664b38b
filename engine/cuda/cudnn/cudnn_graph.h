// A computation for cuDNN as plain data: tensors and the operations between them. Doesn't need the library, so
// that tests can execute it on host memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "engine/cuda/cudnn/cudnn_api.h"

namespace dlpipe::engine::cuda::cudnn {

/// Sizes or strides, in elements, outermost first.
using Extents = std::array<int64_t, 4>;

struct GraphTensor {
  int64_t id = 0;  // unique in the graph
  DataType type = DataType::kF32;
  Extents dims = {};
  Extents strides = {};
  int64_t alignment = 16;           // of its memory, in bytes
  bool is_virtual = false;          // has no memory; exists only within the graph
  std::optional<float> value = {};  // a constant, of type f32 and size 1
};

inline Extents contiguous_strides(const Extents& dims) {
  return {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
}

/// Computes y from x and, if the operation uses them, b and t. Tensors are indices into Operations::tensors.
struct Operation {
  DescriptorType type = DescriptorType::kPointwiseOperation;
  size_t x = 0, y = 0;
  std::optional<size_t> b = {}, t = {};
  PointwiseMode pointwise = PointwiseMode::kAdd;
  ReductionMode reduction = ReductionMode::kSum;
  std::optional<int64_t> axis = {};  // for kIndex
  DataType math = DataType::kF32;
};

/// The memory of a tensor.
struct Binding {
  int64_t id;
  void* memory;
};

struct Operations {
  std::vector<GraphTensor> tensors;
  std::vector<Operation> list;

  size_t add(GraphTensor tensor) {
    tensors.push_back(tensor);
    return tensors.size() - 1;
  }
  /// Appends the operation and returns its y.
  size_t add(const Operation& operation) {
    list.push_back(operation);
    return operation.y;
  }
};

}  // namespace dlpipe::engine::cuda::cudnn
