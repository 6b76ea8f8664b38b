// Copies between memory orders on CUDA, for elements of any dtype.
#pragma once

#include "dlpipe/engine/cuda/axis_sums.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// to[to_axes.offset(i)] = from[from_axes.offset(i)], one thread an element.
template <class Unit>
struct StridedCopy {
  static constexpr const char* kName = "strided copy";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Unit* from;
  Unit* to;
  Axes from_axes;
  Axes to_axes;
  int64_t elements;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i < elements) to[to_axes.offset(i)] = from[from_axes.offset(i)];
    });
  }
};

/// to[i] = 0 for all bytes.
struct Zeros {
  static constexpr const char* kName = "zeros";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  uint8_t* to;
  int64_t bytes;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i < bytes) to[i] = 0;
    });
  }
};

inline Axes strided_axes(const Shape& shape, std::span<const int64_t> strides) {
  Axes axes;
  axes.count = shape.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    axes.size[i] = shape[i];
    axes.stride[i] = strides[static_cast<size_t>(i)];
  }
  return axes;
}

/// Strides in elements of `element_bytes`: 1, 2, 4 or 8.
inline void strided_copy(void* to, std::span<const int64_t> to_strides, const void* from,
                         std::span<const int64_t> from_strides, const Shape& shape, size_t element_bytes) {
  const auto run = [&](auto unit) {
    using Unit = decltype(unit);
    launch(StridedCopy<Unit>{static_cast<const Unit*>(from), static_cast<Unit*>(to),
                             strided_axes(shape, from_strides), strided_axes(shape, to_strides),
                             shape.elements()},
           blocks_for(shape.elements(), 256));
  };
  switch (element_bytes) {
    case 1:
      return run(uint8_t());
    case 2:
      return run(uint16_t());
    case 4:
      return run(uint32_t());
    default:
      return run(uint64_t());
  }
}

inline void zero(const Tensor& tensor) {
  const auto bytes = static_cast<int64_t>(tensor.size_bytes());
  launch(Zeros{static_cast<uint8_t*>(tensor.raw()), bytes}, blocks_for(bytes, Zeros::kThreads));
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
