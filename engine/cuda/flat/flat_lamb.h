// The kernels of lamb over a flat group and its segments (flat_steps.h).
#pragma once

#include "dlpipe/engine/cuda/flat/flat_norms.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// What a block of lamb has: a segment's share of a chunk. Blocks are numbered segment + chunk, which grows
/// from piece to piece in the group's order; where a segment ends with its chunk, one of the numbers has no
/// elements.
struct Piece {
  int64_t segment;
  int64_t begin;
  int64_t end;
};
DLPIPE_DEVICE int64_t first_slot(const Segments& segments, int64_t segment) {
  return segment + segments.offsets[segment] / kFlatChunk;
}
DLPIPE_DEVICE Piece piece_of(const Segments& segments, int64_t slot) {
  int64_t segment = 0;  // the last whose first slot isn't above
  for (int64_t above = segments.count; above - segment > 1;) {
    const int64_t middle = (segment + above) / 2;
    if (first_slot(segments, middle) <= slot) {
      segment = middle;
    } else {
      above = middle;
    }
  }
  const int64_t chunk = slot - segment;
  const int64_t begin = segments.offsets[segment];
  return {segment, begin > chunk * kFlatChunk ? begin : chunk * kFlatChunk,
          chunk_end(chunk, segments.offsets[segment + 1])};
}

/// What lamb's kernels share.
struct LambArguments {
  FlatGroup flat;
  StepScalars scalars;
  LambOptions options;
  Segments segments;
  bool aligned;
};

/// The moments, and each piece's squares of weights and of updates.
struct LambMoments : LambArguments {
  static constexpr const char* kName = "lamb moments";
  static constexpr int kThreads = kFlatThreads;
  struct Shared {
    AdamCoefficients coefficients;
    ReduceSpace<double, kThreads> space;
  };

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    if (is_skipped(scalars)) return;
    const Piece piece = piece_of(segments, block.index());
    typename Block::template PerThread<double> of_weights;
    typename Block::template PerThread<double> of_updates;
    block.each([&](int thread) {
      if (thread == 0) shared.coefficients = *scalars.adam;
    });
    block.each([&](int thread) {
      const AdamCoefficients& c = shared.coefficients;
      const float grad_scale = scale_of(scalars.grad_scale);
      double weight_squares = 0;
      double update_squares = 0;
      each_four(piece.begin, piece.end, thread, aligned, [&](const Four& four) {
        const Pack<float> gradients = load(flat.gradients, four);
        const Pack<float> weights = load(flat.weights, four);
        Pack<float> means = load(flat.states[0], four);
        Pack<float> squares = load(flat.states[1], four);
        for (int k = 0; k < 4; ++k) {
          update_moments(c, grad_scale * gradients.at[k], means.at[k], squares.at[k]);
          const float update = adam_update(c, means.at[k], squares.at[k]) + c.decay * weights.at[k];
          weight_squares += double{weights.at[k]} * weights.at[k];
          update_squares += double{update} * update;
        }
        store(means, four, flat.states[0]);
        store(squares, four, flat.states[1]);
      });
      of_weights[thread] = weight_squares;
      of_updates[thread] = update_squares;
    });
    const double weight_squares = block.reduce(of_weights, AddDoubles(), shared.space);
    const double update_squares = block.reduce(of_updates, AddDoubles(), shared.space);
    block.each([&](int thread) {
      if (thread != 0) return;
      segments.parts[2 * block.index()] = weight_squares;
      segments.parts[2 * block.index() + 1] = update_squares;
    });
  }
};

/// One block a segment: |weights| / |updates|.
struct LambRatios : LambArguments {
  static constexpr const char* kName = "lamb ratios";
  static constexpr int kThreads = kFlatThreads;
  using Shared = ReduceSpace<double, kThreads>;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    if (is_skipped(scalars)) return;
    const int64_t first = first_slot(segments, block.index());
    const int64_t slots = first_slot(segments, block.index() + 1) - first;
    const double of_weights = sum_parts(block, shared, segments.parts + 2 * first, slots, 2);
    const double of_updates = sum_parts(block, shared, segments.parts + 2 * first + 1, slots, 2);
    const bool adapts = options.always_adapt || options.adam.weight_decay * options.adam.decay_scale != 0.0;
    block.each([&](int thread) {
      if (thread != 0) return;
      segments.ratios[block.index()] = adapts && of_weights > 0 && of_updates > 0
                                           ? static_cast<float>(std::sqrt(of_weights) / std::sqrt(of_updates))
                                           : 1.0f;
    });
  }
};

/// The weights; the update is computed once more, which is as much memory as keeping it would be.
struct LambWeights : LambArguments {
  static constexpr const char* kName = "lamb weights";
  static constexpr int kThreads = kFlatThreads;
  struct Shared {
    AdamCoefficients coefficients;
    float rate;
  };

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    if (is_skipped(scalars)) return;
    const Piece piece = piece_of(segments, block.index());
    block.each([&](int thread) {
      if (thread != 0) return;
      shared.coefficients = *scalars.adam;
      shared.rate = *scalars.lr * options.adam.lr_scale * segments.ratios[piece.segment];
    });
    block.each([&](int thread) {
      const AdamCoefficients& c = shared.coefficients;
      each_four(piece.begin, piece.end, thread, aligned, [&](const Four& four) {
        const Pack<float> means = load(flat.states[0], four);
        const Pack<float> squares = load(flat.states[1], four);
        Pack<float> weights = load(flat.weights, four);
        for (int k = 0; k < 4; ++k)
          weights.at[k] -=
              shared.rate * (adam_update(c, means.at[k], squares.at[k]) + c.decay * weights.at[k]);
        store(weights, four, flat.weights);
      });
    });
  }
};

inline void step_lamb(const FlatGroup& flat, const StepScalars& scalars, const LambOptions& options,
                      const Segments& segments) {
  if (segments.count == 0) return;
  // Adam's with a rate of 1, whose updates are then the bias-corrected mean / root.
  AdamOptions adam = options.adam;
  adam.decoupled = false;
  launch(ComputeAdamCoefficients{adam, scalars.steps, nullptr, scalars.adam}, 1);
  const LambArguments arguments{flat, scalars, options, segments, is_aligned(flat)};
  launch(LambMoments{arguments}, lamb_slots(flat.count, segments.count));
  launch(LambRatios{arguments}, segments.count);
  launch(LambWeights{arguments}, lamb_slots(flat.count, segments.count));
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
