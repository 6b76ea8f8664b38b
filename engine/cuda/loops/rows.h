// What kernels with one block per row share: reductions along the row.
#pragma once

#include "dlpipe/engine/cuda/grid/elements.h"
#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline constexpr int kRowThreads = 256;

struct Add {
  template <class T>
  DLPIPE_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
/// NaN wins, as in the cpu's loops over whole rows.
struct Larger {
  DLPIPE_DEVICE float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

/// op over term(i) for i in [0, count), started from `none`; the same for all threads. Each thread takes
/// every kThreads-th element, then Block::reduce: the order is fixed. Two phases.
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

/// A row's largest value and the sum of its exponentials relative to that.
struct ExpSum {
  float largest;
  float sum;
};

/// Of term(i) for i in [0, count), read once: each thread's sum follows its largest (Milakov and Gimelshein,
/// "Online normalizer calculation for softmax", 2018). The same for all threads, in a fixed order.
template <class Block, class Space, class Term>
DLPIPE_DEVICE ExpSum reduce_exponentials(Block& block, Space& space, int64_t count, const Term& term) {
  typename Block::template PerThread<ExpSum> own;
  typename Block::template PerThread<float> part;
  block.each([&](int thread) {
    ExpSum e = {-__builtin_inff(), 0.0f};
    for (int64_t i = thread; i < count; i += Block::kThreads) {
      const float value = term(i);
      if (value == -__builtin_inff()) continue;  // adds nothing, also to what is empty
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

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
