// The kernels of optimizers over flat groups (core/flat_steps.h): element by element in packs (sgd, adam, averages), then
// norms, then lamb.
#pragma once

#include <cmath>
#include <limits>

#include "engine/core/flat_steps.h"
#include "engine/cuda/grid/elements.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline constexpr int kFlatThreads = 256;

/// Four neighbours in a flat group. `first` is a multiple of four; only [begin, end) of the four are used.
struct Four {
  int64_t first;
  int begin;
  int end;
  bool in_pack;  // all four are used, and memory is aligned

  DLPIPE_DEVICE bool has(int k) const { return begin <= k && k < end; }
};
static_assert(kPackWidth<float> == 4);

/// Loads zeros for unused neighbours.
DLPIPE_DEVICE Pack<float> load(const float* from, const Four& four) {
  if (four.in_pack) return *reinterpret_cast<const Pack<float>*>(from + four.first);
  Pack<float> pack;
  for (int k = 0; k < 4; ++k) pack.at[k] = four.has(k) ? from[four.first + k] : 0.0f;
  return pack;
}
DLPIPE_DEVICE void store(const Pack<float>& pack, const Four& four, float* to) {
  if (four.in_pack) {
    *reinterpret_cast<Pack<float>*>(to + four.first) = pack;
    return;
  }
  for (int k = 0; k < 4; ++k) {
    if (four.has(k)) to[four.first + k] = pack.at[k];
  }
}

/// Calls body(Four) for this thread's part of [begin, end).
template <class Body>
DLPIPE_DEVICE void each_four(int64_t begin, int64_t end, int thread, bool aligned, const Body& body) {
  for (int64_t first = begin / 4 * 4 + thread * 4; first < end; first += kFlatThreads * 4) {
    Four four{first, begin > first ? static_cast<int>(begin - first) : 0,
              end - first < 4 ? static_cast<int>(end - first) : 4, false};
    four.in_pack = aligned && four.begin == 0 && four.end == 4;
    body(four);
  }
}
DLPIPE_DEVICE int64_t chunk_end(int64_t chunk, int64_t count) {
  return (chunk + 1) * kFlatChunk < count ? (chunk + 1) * kFlatChunk : count;
}

inline bool is_aligned(const FlatGroup& flat) {
  return is_pack_aligned(flat.weights) && is_pack_aligned(flat.gradients) &&
         is_pack_aligned(flat.states[0]) && is_pack_aligned(flat.states[1]);
}

DLPIPE_DEVICE bool is_skipped(const StepScalars& scalars) {
  return scalars.found_inf != nullptr && *scalars.found_inf != 0;
}
DLPIPE_DEVICE float scale_of(const float* scale) {
  return scale != nullptr ? *scale : 1.0f;
}

/// One step over a flat group. `Rule` is a struct with
///   kName; kStates; Coefficients coefficients(const StepScalars&) const: the same for all elements;
///   void update(const Coefficients&, float gradient, float& weight, float* states) const.
template <class Rule>
struct FlatStep {
  static constexpr const char* kName = Rule::kName;
  static constexpr int kThreads = kFlatThreads;
  struct Shared {
    typename Rule::Coefficients coefficients;
    float grad_scale;
  };
  FlatGroup flat;
  StepScalars scalars;
  Rule rule;
  bool aligned;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    if (is_skipped(scalars)) return;
    block.each([&](int thread) {
      if (thread != 0) return;
      shared.coefficients = rule.coefficients(scalars);
      shared.grad_scale = scale_of(scalars.grad_scale);
    });
    block.each([&](int thread) {
      each_four(block.index() * kFlatChunk, chunk_end(block.index(), flat.count), thread, aligned,
                [&](const Four& four) { take(four, shared); });
    });
  }

  DLPIPE_DEVICE void take(const Four& four, const Shared& shared) const {
    const Pack<float> gradients = load(flat.gradients, four);
    Pack<float> weights = load(flat.weights, four);
    Pack<float> states[2];
    for (int i = 0; i < Rule::kStates; ++i) states[i] = load(flat.states[i], four);
    for (int k = 0; k < 4; ++k) {
      float own[2];
      for (int i = 0; i < Rule::kStates; ++i) own[i] = states[i].at[k];
      rule.update(shared.coefficients, shared.grad_scale * gradients.at[k], weights.at[k], own);
      for (int i = 0; i < Rule::kStates; ++i) states[i].at[k] = own[i];
    }
    for (int i = 0; i < Rule::kStates; ++i) store(states[i], four, flat.states[i]);
    store(weights, four, flat.weights);
  }
};

template <class Rule>
void launch_step(const FlatGroup& flat, const StepScalars& scalars, const Rule& rule) {
  launch(FlatStep<Rule>{flat, scalars, rule, is_aligned(flat)}, blocks_for(flat.count, kFlatChunk));
}

template <bool kMomentum>
struct SgdRule {
  static constexpr const char* kName = "sgd";
  static constexpr int kStates = kMomentum ? 1 : 0;
  struct Coefficients {
    float lr;
    float momentum;
    float decay;  // through the gradient
    float keep;   // below 1: decoupled decay
  };
  SgdOptions options;

  DLPIPE_DEVICE Coefficients coefficients(const StepScalars& scalars) const {
    const SgdOptions& o = options;
    const float lr = *scalars.lr;
    const float shrink = static_cast<float>(double{lr} * o.weight_decay) * (o.lr_scale * o.decay_scale);
    return {lr * o.lr_scale, static_cast<float>(o.momentum),
            o.decoupled ? 0.0f : static_cast<float>(o.weight_decay) * o.decay_scale,
            o.decoupled ? 1.0f - shrink : 1.0f};
  }
  DLPIPE_DEVICE void update(const Coefficients& c, float gradient, float& weight, float* velocity) const {
    const float kept = c.keep * weight;
    float direction = gradient + c.decay * kept;
    if constexpr (kMomentum) {
      velocity[0] = c.momentum * velocity[0] + direction;
      direction = options.nesterov ? direction + c.momentum * velocity[0] : velocity[0];
    }
    weight = kept - c.lr * direction;
  }
};

/// Computes AdamCoefficients once, in f64 and with one thread. Every thread of the step would need longer
/// for the two powers than for its share of the elements.
struct ComputeAdamCoefficients {
  static constexpr const char* kName = "adam coefficients";
  static constexpr int kThreads = kWarp;
  using Shared = NoShared;
  AdamOptions options;
  const int64_t* steps;
  const float* lr;  // null: the rate is 1
  AdamCoefficients* to;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      if (thread != 0) return;
      const AdamOptions& o = options;
      const double rate = lr != nullptr ? double{*lr} * o.lr_scale : 1.0;
      const auto power = static_cast<double>(*steps + 1);
      const double decay = o.weight_decay * o.decay_scale;
      *to = {static_cast<float>(1.0 - o.beta1),
             static_cast<float>(o.beta2),
             static_cast<float>(1.0 - o.beta2),
             static_cast<float>(rate / (1.0 - std::pow(o.beta1, power))),
             static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(o.beta2, power))),
             static_cast<float>(o.epsilon),
             o.decoupled ? 0.0f : static_cast<float>(decay),
             o.decoupled ? 1.0f - static_cast<float>(rate * decay) : 1.0f};
    });
  }
};
DLPIPE_DEVICE void update_moments(const AdamCoefficients& c, float gradient, float& mean, float& square) {
  mean += c.take1 * (gradient - mean);
  square = c.keep2 * square + c.take2 * (gradient * gradient);
}
DLPIPE_DEVICE float adam_update(const AdamCoefficients& c, float mean, float square) {
  return c.step_size * (mean / (std::sqrt(square) * c.root_scale + c.epsilon));
}

struct AdamRule {
  static constexpr const char* kName = "adam";
  static constexpr int kStates = 2;
  using Coefficients = AdamCoefficients;

  DLPIPE_DEVICE Coefficients coefficients(const StepScalars& scalars) const { return *scalars.adam; }
  DLPIPE_DEVICE void update(const Coefficients& c, float gradient, float& weight, float* moments) const {
    const float kept = c.keep * weight;
    update_moments(c, gradient + c.decay * kept, moments[0], moments[1]);
    weight = kept - adam_update(c, moments[0], moments[1]);
  }
};

/// The rule of averages. The group's weights are the averages, its gradients are the averaged values.
struct EmaRule {
  static constexpr const char* kName = "ema";
  static constexpr int kStates = 0;
  struct Coefficients {
    float keep;
    float take;
  };
  double decay;

  DLPIPE_DEVICE Coefficients coefficients(const StepScalars&) const {
    return {static_cast<float>(decay), static_cast<float>(1.0 - decay)};
  }
  DLPIPE_DEVICE void update(const Coefficients& c, float weight, float& average, float*) const {
    average = c.keep * average + c.take * weight;
  }
};

inline void step_sgd(const FlatGroup& flat, const StepScalars& scalars, const SgdOptions& options) {
  if (options.momentum == 0.0) return launch_step(flat, scalars, SgdRule<false>{options});
  launch_step(flat, scalars, SgdRule<true>{options});
}

inline void step_adam(const FlatGroup& flat, const StepScalars& scalars, const AdamOptions& options) {
  launch(ComputeAdamCoefficients{options, scalars.steps, scalars.lr, scalars.adam}, 1);
  launch_step(flat, scalars, AdamRule());
}

/// averages = decay * averages + (1 - decay) * weights. found_inf may be null.
inline void update_ema(float* averages, const float* weights, int64_t count, double decay,
                       const int* found_inf) {
  launch_step({.weights = averages, .gradients = weights, .count = count}, {.found_inf = found_inf},
              EmaRule{decay});
}

// The gradients' norm, whether they are finite, and the loss scale.

struct AddDoubles {
  DLPIPE_DEVICE double operator()(double a, double b) const { return a + b; }
};

/// Sums squares in f64, where squares of finite f32 can't overflow. One block per chunk.
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

/// The sum of `count` parts, `stride` apart; the same for all threads. Two phases.
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

/// Runs as one block.
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
  const float* right;  // null: zeros
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

/// Uses one thread.
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

/// Computes norm_parts(count) partial sums for finish_norm.
inline void sum_squares(const float* gradients, int64_t count, double* parts) {
  launch(SquaresOfChunk{gradients, count, parts, is_pack_aligned(gradients)}, norm_parts(count));
}

/// Computes the norm of the gradients times the inverse scale, and the factor that limits it to max_norm.
/// As in clip_grad_norm, a norm that isn't finite clips nothing.
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

/// Runs after the steps of all flat groups. Counts the step unless found_inf (may be null) is set, and updates the loss scale.
inline void end_step(int64_t* steps, const int* found_inf, const LossScale& loss_scale) {
  launch(EndStep{steps, found_inf, loss_scale}, 1);
}

// lamb over a flat group and its segments.

/// A block's part in lamb: the intersection of a segment and a chunk. The block's number is segment + chunk,
/// which increases along the group. If a segment ends with its chunk, one of the numbers has no elements.
struct Piece {
  int64_t segment;
  int64_t begin;
  int64_t end;
};
DLPIPE_DEVICE int64_t first_slot(const Segments& segments, int64_t segment) {
  return segment + segments.offsets[segment] / kFlatChunk;
}
DLPIPE_DEVICE Piece piece_of(const Segments& segments, int64_t slot) {
  int64_t segment = 0;  // the last one whose first slot is <= slot
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

/// The arguments of all lamb kernels.
struct LambArguments {
  FlatGroup flat;
  StepScalars scalars;
  LambOptions options;
  Segments segments;
  bool aligned;
};

/// Updates the moments, and computes each piece's sums of squares of weights and of updates.
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

/// Computes |weights| / |updates|. One block per segment.
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

/// Updates the weights. Recomputes the update, which needs no more memory traffic than storing it.
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
  // With a rate of 1, Adam's updates are the bias-corrected mean / root.
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
