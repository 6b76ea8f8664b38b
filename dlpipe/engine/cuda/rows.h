// What kernels with one block a row share: reductions along the row.
#pragma once

#include "dlpipe/engine/cuda/elements.h"

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

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
