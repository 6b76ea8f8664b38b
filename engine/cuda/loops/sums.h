// Reductions, in an order that depends only on the shape: along a row by one block, then over some axes of a tensor.
#pragma once

#include <algorithm>
#include <bit>
#include <utility>

#include "dlpipe/dtype.h"
#include "dlpipe/tensor.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/grid/grid.h"
#include "engine/ops/vector_math.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline constexpr int kRowThreads = 256;

struct Add {
  template <class T>
  DLPIPE_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
/// A NaN is the larger one, whichever operand it is.
struct Larger {
  DLPIPE_DEVICE float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/// Combines term(i) for i in [0, count) by op, starting from `none`. The result is the same for all threads. Each thread
/// processes every kThreads-th element, then Block::reduce combines the threads, so the order is fixed. Two phases.
template <class Block, class Space, class Op, class Term>
DLPIPE_DEVICE float reduce_row(Block& block, Space& space, int64_t count, float none, const Op& op,
                               const Term& term) {
  typename Block::template PerThread<float> part;
  block.each([&](int thread) {
    float value = none;
    for (int64_t i = thread; i < count; i += Block::kThreads) value = op(value, term(i));
    part[thread] = value;
  });
  return block.reduce(part, op, space);
}

/// A row's largest value, and the sum of its exponentials relative to that value.
struct ExpSum {
  float largest;
  float sum;
};

/// The ExpSum of term(i) for i in [0, count). Reads each term once: a thread rescales its sum when its largest value
/// changes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). The result is the same for all
/// threads, in a fixed order.
template <class Block, class Space, class Term>
DLPIPE_DEVICE ExpSum reduce_exponentials(Block& block, Space& space, int64_t count, const Term& term) {
  typename Block::template PerThread<ExpSum> own;
  typename Block::template PerThread<float> part;
  block.each([&](int thread) {
    ExpSum e = {-__builtin_inff(), 0.0f};
    for (int64_t i = thread; i < count; i += Block::kThreads) {
      const float value = term(i);
      if (value == -__builtin_inff()) continue;  // adds 0; without this, the first -inf would give NaN
      const float above = value - e.largest;
      const float factor = vector_math::exp(above > 0 ? -above : above);
      e.sum = above > 0 ? e.sum * factor + 1.0f : e.sum + factor;
      e.largest = above > 0 ? value : e.largest;
    }
    own[thread] = e;
    part[thread] = e.largest;
  });
  const float largest = block.reduce(part, Larger(), space);
  block.each([&](int thread) {
    const ExpSum e = own[thread];
    part[thread] = e.sum == 0 ? 0.0f : e.sum * vector_math::exp(e.largest - largest);
  });
  return {largest, block.reduce(part, Add(), space)};
}

// Axes that several tensors have in common, with separate strides.

template <int kTensors>
struct Axes {
  int count = 0;
  int64_t size[Shape::kMaxRank] = {};  // from the innermost axis on
  int64_t stride[kTensors][Shape::kMaxRank] = {};

  /// Adds the next outer axis; merges it with the previous one if they are contiguous for all tensors.
  void add(int64_t length, const int64_t (&strides)[kTensors]) {
    if (length == 1) return;
    bool joins = count > 0;
    for (int k = 0; joins && k < kTensors; ++k) joins = strides[k] == stride[k][count - 1] * size[count - 1];
    if (joins) {
      size[count - 1] *= length;
      return;
    }
    size[count] = length;
    for (int k = 0; k < kTensors; ++k) stride[k][count] = strides[k];
    ++count;
  }

  /// The offset of position i in each tensor. (nvcc divides in 32 bits if numbers are small.)
  DLPIPE_DEVICE void offsets(int64_t i, int64_t (&at)[kTensors]) const {
    for (int k = 0; k < kTensors; ++k) at[k] = 0;
    for (int axis = 0; axis < count; ++axis) {
      const bool last = axis + 1 == count;
      const int64_t outside = last ? 0 : i / size[axis];
      const int64_t here = i - outside * size[axis];
      for (int k = 0; k < kTensors; ++k) at[k] += here * stride[k][axis];
      i = outside;
    }
  }
};

/// Calls body(axis, strides) for the axes of `shape` from the innermost on. The strides are those of row-major
/// operands that are broadcast to `shape`: 0 along broadcast axes.
template <int kOperands, class Body>
void each_stretched(const Shape& shape, const Tensor (&operands)[kOperands], const Body& body) {
  int64_t step[kOperands];
  std::fill(step, step + kOperands, 1);
  for (int i = 1; i <= shape.rank(); ++i) {
    int64_t strides[kOperands];
    for (int k = 0; k < kOperands; ++k) {
      const Shape& own = operands[k].shape();
      const int64_t length = i <= own.rank() ? own[-i] : 1;
      strides[k] = length == 1 ? 0 : step[k];
      step[k] *= length;
    }
    body(shape.rank() - i, strides);
  }
}

// Sums of a row-major tensor over some of its axes, in f32, in an order that depends only on the shape.

/// Terms are [outer, terms, inner] and are summed over the middle axis. They are a struct with
///   Start start(row, column) const: what a thread keeps for a position of [outer, inner];
///   float term(const Start&, i) const.
/// This one has its terms in memory.
template <class In>
struct StoredTerms {
  using Start = const In*;
  const In* from;
  int64_t terms;
  int64_t inner;

  DLPIPE_DEVICE Start start(int64_t row, int64_t column) const { return from + row * terms * inner + column; }
  DLPIPE_DEVICE float term(const Start& at, int64_t i) const { return widened(at[i * inner]); }
};

/// Terms map(elements of broadcast operands), which are computed and not stored. `Map` is as in MapKernel, but
/// doesn't use the element's index.
template <class In, class Map>
struct MappedTerms {
  struct Start {
    const In* at[Map::kInputs];
  };
  const In* from[Map::kInputs];
  Axes<Map::kInputs> axes;     // over [outer, inner]
  int64_t step[Map::kInputs];  // from one term to the next
  int64_t inner;
  Map map;

  DLPIPE_DEVICE Start start(int64_t row, int64_t column) const {
    int64_t offsets[Map::kInputs];
    axes.offsets(row * inner + column, offsets);
    Start start;
    for (int k = 0; k < Map::kInputs; ++k) start.at[k] = from[k] + offsets[k];
    return start;
  }
  DLPIPE_DEVICE float term(const Start& start, int64_t i) const {
    float values[Map::kInputs];
    for (int k = 0; k < Map::kInputs; ++k) values[k] = widened(start.at[k][i * step[k]]);
    return map(values, 0);
  }
};

/// Sums chunks of terms: `to` is [outer, chunks, inner]. A block has 2^side_bits neighbours along the inner
/// axis and 2^lane_bits threads for each, which share the terms of a sum. The remaining threads take further
/// outer positions. So rows (inner 1), columns and single sums are all read in whole lines.
template <class Terms, class Out>
struct SumTerms {
  static constexpr const char* kName = "sums";
  static constexpr int kThreads = 256;
  struct Shared {
    float part[kThreads];
  };
  Terms from;
  Out* to;
  int64_t outer;
  int64_t terms;
  int64_t inner;
  int64_t chunk;  // terms per chunk
  uint32_t chunks;
  int side_bits;
  int lane_bits;
  float factor;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const int row_bits = side_bits + lane_bits;
    const auto tiles = static_cast<uint32_t>((inner + (int64_t{1} << side_bits) - 1) >> side_bits);
    const auto index = static_cast<uint32_t>(block.index());
    const uint32_t part = index / tiles % chunks;
    const int64_t left = static_cast<int64_t>(index % tiles) << side_bits;
    const int64_t top = static_cast<int64_t>(index / tiles / chunks) * (kThreads >> row_bits);
    const int64_t end = (part + 1) * chunk < terms ? (part + 1) * chunk : terms;
    const auto lane_of = [&](int thread) { return (thread >> side_bits) & ((1 << lane_bits) - 1); };
    const auto row_of = [&](int thread) { return top + (thread >> row_bits); };
    const auto column_of = [&](int thread) { return left + (thread & ((1 << side_bits) - 1)); };
    block.each([&](int thread) {
      const int64_t row = row_of(thread);
      const int64_t column = column_of(thread);
      float sum = 0;
      if (row < outer && column < inner) {
        const typename Terms::Start start = from.start(row, column);
#if defined(__CUDACC__)
#pragma unroll 4  // several loads at once; for f16 there would be only one
#endif
        for (int64_t i = part * chunk + lane_of(thread); i < end; i += int64_t{1} << lane_bits)
          sum += from.term(start, i);
      }
      shared.part[thread] = sum;
    });
    for (int half = (1 << lane_bits) / 2; half > 0; half /= 2) {
      block.each([&](int thread) {
        if (lane_of(thread) < half) shared.part[thread] += shared.part[thread + (half << side_bits)];
      });
    }
    block.each([&](int thread) {
      const int64_t row = row_of(thread);
      const int64_t column = column_of(thread);
      if (lane_of(thread) == 0 && row < outer && column < inner)
        to[(row * chunks + part) * inner + column] = narrowed<Out>(shared.part[thread] * factor);
    });
  }
};

/// How a sum is divided among threads. This is part of the definition of its result.
struct SumPlan {
  static constexpr int64_t kManyThreads = int64_t{1} << 18;  // threads that run at once on a large GPU
  static constexpr int64_t kSmall = int64_t{1} << 16;        // elements that need no second launch
  static constexpr int64_t kMostOfLane = 4096;               // terms; longer sequential sums lose digits
  int side_bits = 0;
  int lane_bits = 0;
  int64_t chunk = 0;
  int64_t chunks = 1;

  SumPlan(int64_t outer, int64_t terms, int64_t inner) {
    const auto bits_of = [](int64_t n) {
      return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(1, n)) - 1));
    };
    const int64_t sums = outer * inner;
    const bool is_small = sums * terms <= kSmall;  // then a lane's terms take the time, not memory
    side_bits = std::min(is_small ? 3 : 5, bits_of(inner));
    const int most = std::min(8 - side_bits, bits_of(terms));
    // A warp reads neighbours. Add lanes until the GPU has enough threads.
    while (lane_bits < most && (side_bits + lane_bits < 5 || sums << lane_bits < kManyThreads)) ++lane_bits;
    // Use the threads that lanes and outer positions don't need along the inner axis.
    const int free_bits = 8 - side_bits - lane_bits - std::min(8 - side_bits - lane_bits, bits_of(outer));
    side_bits = std::min(side_bits + free_bits, std::max(side_bits, bits_of(inner)));
    const int64_t lanes = int64_t{1} << lane_bits;
    if (!is_small)
      chunks = std::clamp<int64_t>(kManyThreads / (sums * lanes), 1, blocks_for(terms, 8 * lanes));
    chunks = std::max(chunks, blocks_for(terms, kMostOfLane * lanes));
    chunk = blocks_for(terms, chunks);
    if (chunk > 0) chunks = blocks_for(terms, chunk);
  }
};

/// to[outer, inner] = factor * the sums over terms. Takes scratch from `device`: at most a megabyte or 1 / 4096 of the terms.
template <class Terms, class Out>
void sum_terms(const Terms& from, int64_t outer, int64_t terms, int64_t inner, float factor, Out* to,
               Device& device) {
  const SumPlan plan(outer, terms, inner);
  const auto run = [&](auto* sums, float by) {
    using Kernel = SumTerms<Terms, std::remove_pointer_t<decltype(sums)>>;
    const int64_t rows = Kernel::kThreads >> (plan.side_bits + plan.lane_bits);
    launch(Kernel{from, sums, outer, terms, inner, plan.chunk, static_cast<uint32_t>(plan.chunks),
                  plan.side_bits, plan.lane_bits, by},
           blocks_for(outer, rows) * plan.chunks * blocks_for(inner, int64_t{1} << plan.side_bits));
  };
  if (plan.chunks == 1) return run(to, factor);
  const Tensor parts = Tensor::empty({{outer, plan.chunks, inner}, DType::kF32}, device);
  run(parts.data<float>(), 1.0f);
  sum_terms(StoredTerms<float>{parts.data<float>(), plan.chunks, inner}, outer, plan.chunks, inner, factor,
            to, device);
}

/// to[columns] = factor * the sums of the columns of from[rows, columns]. Takes scratch from `device`.
template <class In, class Out>
void sum_columns(const In* from, int64_t rows, int64_t columns, float factor, Out* to, Device& device) {
  sum_terms(StoredTerms<In>{from, rows, columns}, 1, rows, columns, factor, to, device);
}

/// A shape as [outer, terms, inner]. `summed` has bit(axis) for each axis to sum. The terms are the innermost
/// group of neighbouring summed axes; `left` are the summed axes in outer, which remain to be summed.
struct SummedAxes {
  Shape outer;
  int end;  // of the axes of terms, which begin where outer ends
  int64_t terms = 1;
  int64_t inner = 1;
  uint32_t left = 0;

  SummedAxes(const Shape& shape, uint32_t summed) : end(shape.rank()) {
    const auto is_summed = [&](int axis) { return (summed & bit(axis)) != 0; };
    while (end > 0 && (!is_summed(end - 1) || shape[end - 1] == 1)) inner *= shape[--end];
    int axis = end;
    while (axis > 0 && (is_summed(axis - 1) || shape[axis - 1] == 1)) terms *= shape[--axis];
    for (int i = 0; i < axis; ++i) {
      outer.push_back(shape[i]);
      if (is_summed(i) && shape[i] != 1) left |= bit(i);
    }
  }
};

template <class In, class Out>
void sum_axes(const Tensor& from, uint32_t summed, float factor, const Tensor& to);

template <class Out, class Terms>
void sum_over(const SummedAxes& axes, const Terms& from, float factor, const Tensor& to) {
  const auto run = [&](auto* sums, float by) {
    sum_terms(from, axes.outer.elements(), axes.terms, axes.inner, by, sums, to.device());
  };
  if (axes.left == 0) return run(elements_to<Out>(to), factor);
  Shape rest = axes.outer;
  rest.push_back(axes.inner);
  const Tensor parts = Tensor::empty({rest, DType::kF32}, to.device());
  run(parts.data<float>(), 1.0f);
  sum_axes<float, Out>(parts, axes.left, factor, to);
}

/// to = factor * the sum of `from` over the axes `summed`, bit(axis). `to` has the other axes, in order.
/// Neighbouring axes are summed together, the innermost group first.
template <class In, class Out>
void sum_axes(const Tensor& from, uint32_t summed, float factor, const Tensor& to) {
  const SummedAxes axes(from.shape(), summed);
  sum_over<Out>(axes, StoredTerms<In>{elements_of<In>(from), axes.terms, axes.inner}, factor, to);
}

/// The same for map(operands broadcast to `shape`), which is not stored. Each operand is broadcast along all
/// axes in `summed` or along none of them.
template <class In, class Out, class Map>
void sum_mapped(const Shape& shape, const Tensor (&operands)[Map::kInputs], uint32_t summed, const Map& map,
                const Tensor& to) {
  const SummedAxes axes(shape, summed);
  MappedTerms<In, Map> terms{{}, {}, {}, axes.inner, map};
  bool has_step = false;
  each_stretched(shape, operands, [&](int axis, const int64_t(&strides)[Map::kInputs]) {
    if (axis < axes.outer.rank() || axis >= axes.end) {
      terms.axes.add(shape[axis], strides);
    } else if (shape[axis] != 1 &&
               !std::exchange(has_step, true)) {  // the innermost axis has the step; outer ones continue it
      std::copy_n(strides, Map::kInputs, terms.step);
    }
  });
  for (int k = 0; k < Map::kInputs; ++k) terms.from[k] = elements_of<In>(operands[k]);
  sum_over<Out>(axes, terms, 1.0f, to);
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
