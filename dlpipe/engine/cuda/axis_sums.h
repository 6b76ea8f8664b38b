// Sums of a row-major tensor over some of its axes, in f32, in an order that only the shape decides.
#pragma once

#include <algorithm>

#include "dlpipe/engine/cuda/rows.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// The axes of a tensor that are kept, or those that are summed, from the outermost: neighbours are one.
struct Axes {
  int count = 0;
  int64_t size[Shape::kMaxRank] = {};
  int64_t stride[Shape::kMaxRank] = {};

  int64_t elements() const {
    int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= size[i];
    return product;
  }
  /// Where the i-th index tuple lies.
  DLPIPE_DEVICE int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (int axis = count - 1; axis > 0; --axis) {
      at += i % size[axis] * stride[axis];
      i /= size[axis];
    }
    return count > 0 ? at + i * stride[0] : at;
  }
};

/// `summed`: bit(axis) of `shape`. Axes of size 1 belong to neither.
inline void split_axes(const Shape& shape, uint32_t summed, Axes& kept, Axes& over) {
  int64_t stride = shape.elements();
  const Axes* last = nullptr;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    stride /= std::max<int64_t>(1, shape[axis]);
    Axes& to = (summed & bit(axis)) != 0 ? over : kept;
    if (last != &to) to.size[to.count++] = 1;
    to.size[to.count - 1] *= shape[axis];
    to.stride[to.count - 1] = stride;
    last = &to;
  }
}

/// One block an output: any axes.
template <class In, class Out>
struct SumAxes {
  static constexpr const char* kName = "sum of axes";
  static constexpr int kThreads = kRowThreads;
  using Shared = ReduceSpace<float, kThreads>;
  const In* from;
  Out* to;
  Axes kept;
  Axes over;
  int64_t terms;
  float factor;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const In* first = from + kept.offset(block.index());
    const float sum = reduce_row(block, shared, terms, 0.0f, Add(),
                                 [&](int64_t i) { return widened(first[over.offset(i)]); });
    block.each([&](int thread) {
      if (thread == 0) to[block.index()] = narrowed<Out>(sum * factor);
    });
  }
};

/// Of rows [count, columns]: one block a tile of kTile columns and a chunk of rows; `to` holds [chunks,
/// columns].
template <class In>
struct SumColumnsOfChunk {
  static constexpr const char* kName = "sums of columns";
  static constexpr int kTile = 32;
  static constexpr int kLanes = 8;  // rows side by side
  static constexpr int kThreads = kTile * kLanes;
  struct Shared {
    float part[kLanes][kTile];
  };
  const In* from;
  float* to;
  int64_t rows;
  int64_t columns;
  int64_t chunk;  // rows of one

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int64_t tiles = (columns + kTile - 1) / kTile;
    const int64_t first = block.index() / tiles * chunk;
    const int64_t end = first + chunk < rows ? first + chunk : rows;
    const int64_t left = block.index() % tiles * kTile;
    block.each([&](int thread) {
      const int64_t column = left + thread % kTile;
      float sum = 0;
      if (column < columns) {
        for (int64_t row = first + thread / kTile; row < end; row += kLanes)
          sum += widened(from[row * columns + column]);
      }
      shared.part[thread / kTile][thread % kTile] = sum;
    });
    block.each([&](int thread) {
      const int64_t column = left + thread;
      if (thread >= kTile || column >= columns) return;
      float sum = 0;
      for (int lane = 0; lane < kLanes; ++lane) sum += shared.part[lane][thread];
      to[block.index() / tiles * columns + column] = sum;
    });
  }
};

/// Adds up the chunks.
template <class Out>
struct SumChunks {
  static constexpr const char* kName = "sums of chunks";
  static constexpr int kThreads = 128;
  using Shared = NoShared;
  const float* from;
  Out* to;
  int64_t chunks;
  int64_t columns;
  float factor;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t column = block.index() * kThreads + thread;
      if (column >= columns) return;
      float sum = 0;
      for (int64_t i = 0; i < chunks; ++i) sum += from[i * columns + column];
      to[column] = narrowed<Out>(sum * factor);
    });
  }
};

/// to[columns] = factor * the sums of the columns of from[rows, columns]; scratch from `device`.
template <class In, class Out>
void sum_columns(const In* from, int64_t rows, int64_t columns, float factor, Out* to, Device& device) {
  // Chunks of 512 rows, or larger ones where that would be over 256.
  const int64_t chunk = std::max<int64_t>(512, (rows + 255) / 256);
  const int64_t chunks = std::max<int64_t>(1, blocks_for(rows, chunk));
  const Tensor parts = Tensor::empty({{chunks, columns}, DType::kF32}, device);
  const SumColumnsOfChunk<In> kernel{from, parts.data<float>(), rows, columns, chunk};
  launch(kernel, chunks * blocks_for(columns, kernel.kTile));
  launch(SumChunks<Out>{parts.data<float>(), to, chunks, columns, factor},
         blocks_for(columns, SumChunks<Out>::kThreads));
}

/// to = factor * the sum of `from` over the axes `summed`; `to` has the other axes, in order.
template <class In, class Out>
void sum_axes(const Tensor& from, uint32_t summed, float factor, const Tensor& to) {
  Axes kept;
  Axes over;
  split_axes(from.shape(), summed, kept, over);
  const int64_t terms = over.elements();
  const bool columns = over.count == 1 && kept.count == 1 && over.stride[0] == kept.elements();
  if (columns && terms > 0 && from.elements() > 0)
    return sum_columns(elements_of<In>(from), terms, kept.elements(), factor, elements_to<Out>(to),
                       from.device());
  launch(SumAxes<In, Out>{elements_of<In>(from), elements_to<Out>(to), kept, over,
                          from.elements() > 0 ? terms : 0, factor},
         to.elements());
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
