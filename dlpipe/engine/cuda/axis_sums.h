// Sums of a row-major tensor over some of its axes, in f32, in an order that only the shape decides.
#pragma once

#include <algorithm>
#include <bit>

#include "dlpipe/engine/cuda/rows.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// Of [outer, terms, inner] over the middle, in chunks of terms: `to` is [outer, chunks, inner]. A block has
/// 2^side_bits neighbours of an inner axis, for each 2^lane_bits threads that share the terms of a sum, and
/// as many outer places as that leaves threads for: rows (inner 1), columns and single sums are all read in
/// whole lines.
template <class In, class Out>
struct SumTerms {
  static constexpr const char* kName = "sums";
  static constexpr int kThreads = 256;
  struct Shared {
    float part[kThreads];
  };
  const In* from;
  Out* to;
  int64_t outer;
  int64_t terms;
  int64_t inner;
  int64_t chunk;  // terms of one
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
        const In* x = from + row * terms * inner + column;
#if defined(__CUDACC__)
#pragma unroll 4  // loads under way at once; f16 would have one
#endif
        for (int64_t i = part * chunk + lane_of(thread); i < end; i += int64_t{1} << lane_bits)
          sum += widened(x[i * inner]);
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

/// How a sum is shared out; part of the definition of its result.
struct SumPlan {
  static constexpr int64_t kManyThreads = int64_t{1} << 18;  // what a large GPU holds at once
  static constexpr int64_t kSmall = int64_t{1} << 16;        // elements that need no second launch
  static constexpr int64_t kMostOfLane = 4096;               // terms; one after another they lose digits
  int side_bits = 0;
  int lane_bits = 0;
  int64_t chunk = 0;
  int64_t chunks = 1;

  SumPlan(int64_t outer, int64_t terms, int64_t inner) {
    const auto bits_of = [](int64_t n) {
      return static_cast<int>(std::bit_width(static_cast<uint64_t>(std::max<int64_t>(1, n)) - 1));
    };
    const int64_t sums = outer * inner;
    const bool is_small = sums * terms <= kSmall;  // then what takes long is a lane's terms, not reading
    side_bits = std::min(is_small ? 3 : 5, bits_of(inner));
    const int most = std::min(8 - side_bits, bits_of(terms));
    // A warp reads neighbours; then as many lanes as give the GPU enough to do.
    while (lane_bits < most && (side_bits + lane_bits < 5 || sums << lane_bits < kManyThreads)) ++lane_bits;
    // Threads that neither lanes nor outer places need go on along the inner axis.
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

/// to[outer, inner] = factor * the sums of from[outer, terms, inner] over terms; scratch from `device`, at
/// most a megabyte or 1 / 4096 of `from`.
template <class In, class Out>
void sum_terms(const In* from, int64_t outer, int64_t terms, int64_t inner, float factor, Out* to,
               Device& device) {
  const SumPlan plan(outer, terms, inner);
  const auto run = [&](auto* sums, float by) {
    using Kernel = SumTerms<In, std::remove_pointer_t<decltype(sums)>>;
    const int64_t rows = Kernel::kThreads >> (plan.side_bits + plan.lane_bits);
    launch(Kernel{from, sums, outer, terms, inner, plan.chunk, static_cast<uint32_t>(plan.chunks),
                  plan.side_bits, plan.lane_bits, by},
           blocks_for(outer, rows) * plan.chunks * blocks_for(inner, int64_t{1} << plan.side_bits));
  };
  if (plan.chunks == 1) return run(to, factor);
  const Tensor parts = Tensor::empty({{outer, plan.chunks, inner}, DType::kF32}, device);
  run(parts.data<float>(), 1.0f);
  sum_terms(static_cast<const float*>(parts.data<float>()), outer, plan.chunks, inner, factor, to, device);
}

/// to[columns] = factor * the sums of the columns of from[rows, columns]; scratch from `device`.
template <class In, class Out>
void sum_columns(const In* from, int64_t rows, int64_t columns, float factor, Out* to, Device& device) {
  sum_terms(from, 1, rows, columns, factor, to, device);
}

/// to = factor * the sum of `from` over the axes `summed`, bit(axis); `to` has the other axes, in order.
/// Neighbours are summed at once, the innermost ones first.
template <class In, class Out>
void sum_axes(const Tensor& from, uint32_t summed, float factor, const Tensor& to) {
  const Shape& shape = from.shape();
  const auto is_summed = [&](int axis) { return (summed & bit(axis)) != 0; };
  int axis = shape.rank();
  int64_t inner = 1;
  int64_t terms = 1;
  while (axis > 0 && (!is_summed(axis - 1) || shape[axis - 1] == 1)) inner *= shape[--axis];
  while (axis > 0 && (is_summed(axis - 1) || shape[axis - 1] == 1)) terms *= shape[--axis];
  Shape outer;
  uint32_t left = 0;
  for (int i = 0; i < axis; ++i) {
    outer.push_back(shape[i]);
    if (is_summed(i) && shape[i] != 1) left |= bit(i);
  }
  const auto run = [&](auto* sums, float by) {
    sum_terms(elements_of<In>(from), outer.elements(), terms, inner, by, sums, from.device());
  };
  if (left == 0) return run(elements_to<Out>(to), factor);
  Shape rest = outer;
  rest.push_back(inner);
  const Tensor parts = Tensor::empty({rest, DType::kF32}, from.device());
  run(parts.data<float>(), 1.0f);
  sum_axes<float, Out>(parts, left, factor, to);
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
