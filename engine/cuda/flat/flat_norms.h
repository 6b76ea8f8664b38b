// The gradients' norm, whether they are finite, and the loss scale (flat_steps.h).
#pragma once

#include <cmath>
#include <limits>

#include "dlpipe/engine/cuda/flat/flat_kernels.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

struct AddDoubles {
  DLPIPE_DEVICE double operator()(double a, double b) const { return a + b; }
};

/// In f64, where no sum of squares of finite f32 overflows. One block per chunk.
struct SquaresOfChunk {
  static constexpr const char* kName = "sum of squares";
  static constexpr int kThreads = kFlatThreads;
  using Shared = ReduceSpace<double, kThreads>;
  const float* gradients;
  int64_t count;
  double* parts;
  bool aligned;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    typename Block::template PerThread<double> squares;
    block.each([&](int thread) {
      double sum = 0;
      each_four(block.index() * kFlatChunk, chunk_end(block.index(), count), thread, aligned,
                [&](const Four& four) {
                  const Pack<float> pack = load(gradients, four);
                  for (int k = 0; k < 4; ++k) sum += double{pack.at[k]} * pack.at[k];
                });
      squares[thread] = sum;
    });
    const double sum = block.reduce(squares, AddDoubles(), shared);
    block.each([&](int thread) {
      if (thread == 0) parts[block.index()] = sum;
    });
  }
};

/// The sum of every `stride`-th of `count` parts, the same for all threads. Two phases.
template <class Block, class Space>
DLPIPE_DEVICE double sum_parts(Block& block, Space& space, const double* parts, int64_t count,
                               int64_t stride) {
  typename Block::template PerThread<double> part;
  block.each([&](int thread) {
    double sum = 0;
    for (int64_t i = thread; i < count; i += Block::kThreads) sum += parts[i * stride];
    part[thread] = sum;
  });
  return block.reduce(part, AddDoubles(), space);
}

/// One block.
struct FinishNorm {
  static constexpr const char* kName = "gradient norm";
  static constexpr int kThreads = 1024;
  using Shared = ReduceSpace<double, kThreads>;
  const double* parts;
  int64_t count;
  NormInputs inputs;
  NormScalars to;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const double squares = sum_parts(block, shared, parts, count, 1);
    block.each([&](int thread) {
      if (thread != 0) return;
      const float scale = scale_of(inputs.inverse_scale);
      const bool finite = squares <= std::numeric_limits<double>::max();  // false for NaN
      const double norm = std::sqrt(squares) * scale;
      const auto factor = static_cast<float>(inputs.max_norm / (norm + 1e-6));
      if (to.norm != nullptr) *to.norm = static_cast<float>(norm);
      if (to.grad_scale != nullptr) *to.grad_scale = finite && factor < 1.0f ? scale * factor : scale;
      const bool finite_loss =
          inputs.loss == nullptr || std::fabs(*inputs.loss) <= std::numeric_limits<float>::max();
      const int found = !finite_loss   ? kNonfinite
                        : finite       ? kAllFinite
                        : scale < 1.0f ? kOverflow
                                       : kNonfinite;
      if (to.halted != nullptr && found == kNonfinite) *to.halted = 1;
      const bool halted = to.halted != nullptr && *to.halted != 0;
      if (to.found_inf != nullptr) *to.found_inf = halted ? kNonfinite : found;
    });
  }
};

struct SetScalar {
  static constexpr const char* kName = "scalar";
  static constexpr int kThreads = kWarp;
  using Shared = NoShared;
  float* to;
  float value;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      if (thread == 0) *to = value;
    });
  }
};

struct Restore {
  static constexpr const char* kName = "restore";
  static constexpr int kThreads = kFlatThreads;
  using Shared = NoShared;
  float* to;
  const float* from;
  int64_t count;
  const int* found_inf;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    if (*found_inf == 0) return;
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i < count) to[i] = from[i];
    });
  }
};

struct AddFlat {
  static constexpr const char* kName = "sum of gradients";
  static constexpr int kThreads = kFlatThreads;
  using Shared = NoShared;
  float* to;
  const float* left;   // null: zeros
  const float* right;  // likewise
  int64_t count;
  bool rounds;
  bool aligned;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      each_four(block.index() * kFlatChunk, chunk_end(block.index(), count), thread, aligned,
                [&](const Four& four) { take(four); });
    });
  }

  DLPIPE_DEVICE void take(const Four& four) const {
    Pack<float> sums = {};
    if (right != nullptr) sums = load(right, four);
    if (rounds) {
      for (int k = 0; k < 4; ++k) sums.at[k] = rounded(sums.at[k]);
    }
    if (left != nullptr) {
      const Pack<float> lefts = load(left, four);
      for (int k = 0; k < 4; ++k) {
        const float sum = lefts.at[k] + sums.at[k];
        sums.at[k] = rounds ? rounded(sum) : sum;
      }
    }
    store(sums, four, to);
  }
  static DLPIPE_DEVICE float rounded(float value) { return widened(narrowed<BFloat16>(value)); }
};

/// One thread.
struct EndStep {
  static constexpr const char* kName = "end of step";
  static constexpr int kThreads = kWarp;
  using Shared = NoShared;
  int64_t* steps;
  const int* found_inf;
  LossScale loss;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      if (thread != 0) return;
      const bool good = found_inf == nullptr || *found_inf == 0;
      if (good) ++*steps;
      if (loss.scale != nullptr) rescale(good);
    });
  }

  DLPIPE_DEVICE void rescale(bool good) const {
    const int good_steps = good ? *loss.good_steps + 1 : 0;
    const bool grows = good_steps >= loss.interval;
    const float factor = !good ? loss.backoff : grows ? loss.growth : 1.0f;
    const float scale = *loss.scale * factor;
    if (scale <= std::numeric_limits<float>::max()) *loss.scale = scale;
    *loss.inverse = static_cast<float>(1.0 / double{*loss.scale});
    *loss.good_steps = grows ? 0 : good_steps;
  }
};

/// Partial sums for finish_norm, norm_parts(count) of them.
inline void sum_squares(const float* gradients, int64_t count, double* parts) {
  launch(SquaresOfChunk{gradients, count, parts, is_pack_aligned(gradients)}, norm_parts(count));
}

/// The norm of the gradients times the inverse scale, and what the steps multiply them by so that it is at
/// most max_norm: as clip_grad_norm, a norm that isn't finite clips nothing.
inline void finish_norm(const double* parts, int64_t count, const NormInputs& inputs, const NormScalars& to) {
  launch(FinishNorm{parts, count, inputs, to}, 1);
}

inline void set(float* to, float value) {
  launch(SetScalar{to, value}, 1);
}

inline void restore(float* to, const float* from, int64_t count, const int* found_inf) {
  launch(Restore{to, from, count, found_inf}, blocks_for(count, Restore::kThreads));
}

inline void add(float* to, const float* left, const float* right, int64_t count, bool rounds) {
  const bool aligned = is_pack_aligned(to) && is_pack_aligned(left) && is_pack_aligned(right);
  launch(AddFlat{to, left, right, count, rounds, aligned}, blocks_for(count, kFlatChunk));
}

/// After all flat groups' steps: counts the step unless found_inf (may be null) is set, and moves the loss scale.
inline void end_step(int64_t* steps, const int* found_inf, const LossScale& loss_scale) {
  launch(EndStep{steps, found_inf, loss_scale}, 1);
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
