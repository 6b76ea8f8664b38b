// Optimizer steps on CUDA over arenas: the parameters of a group lie one after another in one allocation, and
// so do their gradients, their state and their bf16 copies. A step of sgd or adam is one kernel over all of
// them, lamb's three.
//
// Formulas and the order of operations are those of engine/optim (sgd.cpp, adam_optimizer.cpp, clip.cpp,
// ema.cpp), in f32; nvcc may contract a product and a sum into one operation. What changes from step to step
// is read from device memory, so that a step can be captured in a graph once and replayed:
//
//   sum_squares(gradients, count, parts);          // once for each arena, into parts of its own
//   finish_norm(parts, all_parts, max_norm, inverse_loss_scale, {norm, grad_scale, found_inf});
//   step_adam(arena, {steps, lr, grad_scale, found_inf}, options);        // once for each arena
//   update_ema(averages, weights, count, decay, found_inf);
//   end_step(steps, found_inf, loss_scale);        // last: counts the step, or doesn't
//
// Where found_inf is set, weights, copies, state, averages and the number of steps keep their bits. Tensors
// that have a learning rate or a weight decay of their own are an arena of their own. Gaps between tensors
// are elements like others: zeros in weights and gradients stay zeros and count for nothing in a norm. All
// work goes to the calling thread's stream, and sums have an order that only counts and offsets decide.
#pragma once

#include <cmath>
#include <limits>

#include "dlpipe/engine/cuda/elements.h"

namespace dlpipe::engine::cuda {

/// Device memory. Sixteen bytes at a time are read where all pointers are aligned to that (`low`: to eight).
struct Arena {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* states[2] =
      {};  // sgd: momentum (none where it is 0); adam and lamb: mean, square. Zeros before step 1
  BFloat16* low = nullptr;  // gets the new weights too; null: there is none
  int64_t count = 0;        // of elements in each
};

/// In device memory, read by the kernels.
struct StepScalars {
  const int64_t* steps = nullptr;  // taken before this one
  const float* lr = nullptr;
  const float* grad_scale = nullptr;  // gradients are multiplied by it; null: they are taken as they are
  const int* found_inf = nullptr;     // not 0: the step changes nothing; null: it always counts
};

/// As OptimizerArguments; PyTorch's dampening: momentum = momentum * it + (1 - dampening) * gradient from
/// step 2 on.
struct SgdOptions {
  double momentum = 0.9;
  double dampening = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  bool decoupled = false;
  float lr_scale = 1.0f;
  float decay_scale = 1.0f;
};

/// Adam; AdamW where `decoupled`.
struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decoupled = false;
  float lr_scale = 1.0f;
  float decay_scale = 1.0f;
};

/// LAMB (You et al., "Large batch optimization for deep learning", 2020): adam's step plus weight_decay *
/// weights, times |weights| / |that| of each tensor (1 where either norm is 0).
struct LambOptions {
  AdamOptions adam = {.epsilon = 1e-6};  // `decoupled` means nothing
  bool always_adapt = false;  // else tensors without weight decay take adam's step, as in apex and timm
};
/// The tensors of an arena, and scratch: all in device memory.
struct Segments {
  const int64_t* offsets = nullptr;  // count + 1: where each begins, from 0; the last is the arena's count
  int64_t count = 0;
  double* parts = nullptr;  // lamb_parts()
  float* ratios = nullptr;  // count
};

/// In device memory, each null where it isn't wanted.
struct NormScalars {
  float* norm = nullptr;
  float* grad_scale = nullptr;  // for the steps: inverse loss scale and clipping in one
  int* found_inf = nullptr;     // 1 where a gradient isn't finite, else 0
};

/// PyTorch's GradScaler. Pointers are to device memory.
struct LossScale {
  float* scale = nullptr;     // null: the loss isn't scaled
  float* inverse = nullptr;   // 1 / scale, also before the first step
  int* good_steps = nullptr;  // since the scale last changed
  float growth = 2.0f;        // after `interval` good steps, where the result is finite
  float backoff = 0.5f;       // after a step with found_inf
  int interval = 2000;
};

/// The functions below as nvcc compiled them, for callers that it doesn't compile; and as g++ did.
struct ArenaSteps {
  void (*sgd)(const Arena&, const StepScalars&, const SgdOptions&);
  void (*adam)(const Arena&, const StepScalars&, const AdamOptions&);
  void (*lamb)(const Arena&, const StepScalars&, const LambOptions&, const Segments&);
  void (*ema)(float* averages, const float* weights, int64_t count, double decay, const int* found_inf);
  void (*sum_squares)(const float* gradients, int64_t count, double* parts);
  void (*finish_norm)(const double* parts, int64_t count, double max_norm, const float* inverse_scale,
                      const NormScalars& to);
  void (*unscale)(float* gradients, int64_t count, const float* inverse_scale, int* found_inf);
  void (*end_step)(int64_t* steps, int* found_inf, const LossScale& loss_scale);
};
extern const ArenaSteps arena_steps_cuda;
extern const ArenaSteps arena_steps_cuda_simulated;

inline constexpr int64_t kArenaChunk = 4096;  // elements a block; part of the definition of sums

/// How many partial sums sum_squares writes.
constexpr int64_t norm_parts(int64_t count) {
  return (count + kArenaChunk - 1) / kArenaChunk;
}
/// Two for each slot: see Piece.
constexpr int64_t lamb_slots(int64_t count, int64_t segments) {
  return norm_parts(count) + segments;
}
constexpr int64_t lamb_parts(int64_t count, int64_t segments) {
  return 2 * lamb_slots(count, segments);
}

inline namespace DLPIPE_GRID_NAMESPACE {

inline constexpr int kArenaThreads = 256;

/// Four neighbours in an arena, the first at a multiple of four; [begin, end) of them are meant.
struct Four {
  int64_t first;
  int begin;
  int end;
  bool in_pack;  // all are, in aligned memory

  DLPIPE_DEVICE bool has(int k) const { return begin <= k && k < end; }
};
static_assert(kPackWidth<float> == 4);

struct alignas(8) LowPack {
  BFloat16 at[4];
};

/// Zeros for those that aren't meant.
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
DLPIPE_DEVICE void store_low(const Pack<float>& pack, const Four& four, BFloat16* to) {
  LowPack low;
  for (int k = 0; k < 4; ++k) low.at[k] = narrowed<BFloat16>(pack.at[k]);
  if (four.in_pack) {
    *reinterpret_cast<LowPack*>(to + four.first) = low;
    return;
  }
  for (int k = 0; k < 4; ++k) {
    if (four.has(k)) to[four.first + k] = low.at[k];
  }
}

/// Calls body(Four) for the thread's share of [begin, end).
template <class Body>
DLPIPE_DEVICE void each_four(int64_t begin, int64_t end, int thread, bool aligned, const Body& body) {
  for (int64_t first = begin / 4 * 4 + thread * 4; first < end; first += kArenaThreads * 4) {
    Four four{first, begin > first ? static_cast<int>(begin - first) : 0,
              end - first < 4 ? static_cast<int>(end - first) : 4, false};
    four.in_pack = aligned && four.begin == 0 && four.end == 4;
    body(four);
  }
}
DLPIPE_DEVICE int64_t chunk_end(int64_t chunk, int64_t count) {
  return (chunk + 1) * kArenaChunk < count ? (chunk + 1) * kArenaChunk : count;
}

inline bool is_aligned(const Arena& arena) {
  return is_pack_aligned(arena.weights) && is_pack_aligned(arena.gradients) &&
         is_pack_aligned(arena.states[0]) && is_pack_aligned(arena.states[1]) &&
         reinterpret_cast<uintptr_t>(arena.low) % sizeof(LowPack) == 0;
}

DLPIPE_DEVICE bool is_skipped(const StepScalars& scalars) {
  return scalars.found_inf != nullptr && *scalars.found_inf != 0;
}
DLPIPE_DEVICE float scale_of(const float* scale) {
  return scale != nullptr ? *scale : 1.0f;
}

/// One step over an arena: `Rule` is a struct with
///   kName; kStates; Coefficients coefficients(const StepScalars&) const: the same for all elements;
///   void update(const Coefficients&, float gradient, float& weight, float* states) const.
template <class Rule>
struct ArenaStep {
  static constexpr const char* kName = Rule::kName;
  static constexpr int kThreads = kArenaThreads;
  struct Shared {
    typename Rule::Coefficients coefficients;
    float grad_scale;
  };
  Arena arena;
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
      each_four(block.index() * kArenaChunk, chunk_end(block.index(), arena.count), thread, aligned,
                [&](const Four& four) { take(four, shared); });
    });
  }

  DLPIPE_DEVICE void take(const Four& four, const Shared& shared) const {
    const Pack<float> gradients = load(arena.gradients, four);
    Pack<float> weights = load(arena.weights, four);
    Pack<float> states[2];
    for (int i = 0; i < Rule::kStates; ++i) states[i] = load(arena.states[i], four);
    for (int k = 0; k < 4; ++k) {
      float own[2];
      for (int i = 0; i < Rule::kStates; ++i) own[i] = states[i].at[k];
      rule.update(shared.coefficients, shared.grad_scale * gradients.at[k], weights.at[k], own);
      for (int i = 0; i < Rule::kStates; ++i) states[i].at[k] = own[i];
    }
    for (int i = 0; i < Rule::kStates; ++i) store(states[i], four, arena.states[i]);
    store(weights, four, arena.weights);
    if (arena.low != nullptr) store_low(weights, four, arena.low);
  }
};

template <class Rule>
void launch_step(const Arena& arena, const StepScalars& scalars, const Rule& rule) {
  launch(ArenaStep<Rule>{arena, scalars, rule, is_aligned(arena)}, blocks_for(arena.count, kArenaChunk));
}

template <bool kMomentum>
struct SgdRule {
  static constexpr const char* kName = "sgd";
  static constexpr int kStates = kMomentum ? 1 : 0;
  struct Coefficients {
    float lr;
    float momentum;
    float take;   // 1 - dampening; 1 in step 1
    float decay;  // through the gradient
    float keep;   // below 1: decoupled decay
  };
  SgdOptions options;

  DLPIPE_DEVICE Coefficients coefficients(const StepScalars& scalars) const {
    const SgdOptions& o = options;
    const float lr = *scalars.lr;
    const float shrink = static_cast<float>(double{lr} * o.weight_decay) * (o.lr_scale * o.decay_scale);
    return {lr * o.lr_scale, static_cast<float>(o.momentum),
            *scalars.steps == 0 ? 1.0f : static_cast<float>(1.0 - o.dampening),
            o.decoupled ? 0.0f : static_cast<float>(o.weight_decay) * o.decay_scale,
            o.decoupled ? 1.0f - shrink : 1.0f};
  }
  DLPIPE_DEVICE void update(const Coefficients& c, float gradient, float& weight, float* velocity) const {
    const float kept = c.keep * weight;
    float direction = gradient + c.decay * kept;
    if constexpr (kMomentum) {
      velocity[0] = c.momentum * velocity[0] + c.take * direction;
      direction = options.nesterov ? direction + c.momentum * velocity[0] : velocity[0];
    }
    weight = kept - c.lr * direction;
  }
};

/// See AdamStep of engine/optim/adam_optimizer.h.
struct AdamCoefficients {
  float take1;
  float keep2;
  float take2;
  float step_size;
  float root_scale;
  float epsilon;
  float decay;
  float keep;
};
/// Of step `t`, from 1 on, in f64.
DLPIPE_DEVICE AdamCoefficients adam_coefficients(const AdamOptions& o, bool decoupled, double rate,
                                                 int64_t t) {
  const auto power = static_cast<double>(t);
  const double decay = o.weight_decay * o.decay_scale;
  return {static_cast<float>(1.0 - o.beta1),
          static_cast<float>(o.beta2),
          static_cast<float>(1.0 - o.beta2),
          static_cast<float>(rate / (1.0 - std::pow(o.beta1, power))),
          static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(o.beta2, power))),
          static_cast<float>(o.epsilon),
          decoupled ? 0.0f : static_cast<float>(decay),
          decoupled ? 1.0f - static_cast<float>(rate * decay) : 1.0f};
}
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
  AdamOptions options;

  DLPIPE_DEVICE Coefficients coefficients(const StepScalars& scalars) const {
    return adam_coefficients(options, options.decoupled, double{*scalars.lr} * options.lr_scale,
                             *scalars.steps + 1);
  }
  DLPIPE_DEVICE void update(const Coefficients& c, float gradient, float& weight, float* moments) const {
    const float kept = c.keep * weight;
    update_moments(c, gradient + c.decay * kept, moments[0], moments[1]);
    weight = kept - adam_update(c, moments[0], moments[1]);
  }
};

/// The arena's weights are the averages, its gradients what is averaged.
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

struct AddDoubles {
  DLPIPE_DEVICE double operator()(double a, double b) const { return a + b; }
};

/// In f64, where no sum of squares of finite f32 overflows. One block a chunk.
struct SquaresOfChunk {
  static constexpr const char* kName = "sum of squares";
  static constexpr int kThreads = kArenaThreads;
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
      each_four(block.index() * kArenaChunk, chunk_end(block.index(), count), thread, aligned,
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
  double max_norm;
  const float* inverse_scale;
  NormScalars to;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    const double squares = sum_parts(block, shared, parts, count, 1);
    block.each([&](int thread) {
      if (thread != 0) return;
      const float scale = scale_of(inverse_scale);
      const bool finite = squares <= std::numeric_limits<double>::max();  // false for NaN
      const double norm = std::sqrt(squares) * scale;
      const auto factor = static_cast<float>(max_norm / (norm + 1e-6));
      if (to.norm != nullptr) *to.norm = static_cast<float>(norm);
      if (to.grad_scale != nullptr) *to.grad_scale = finite && factor < 1.0f ? scale * factor : scale;
      if (to.found_inf != nullptr) *to.found_inf = finite ? 0 : 1;
    });
  }
};

struct Unscale {
  static constexpr const char* kName = "unscale";
  static constexpr int kThreads = kArenaThreads;
  using Shared = NoShared;
  float* gradients;
  int64_t count;
  const float* inverse_scale;
  int* found_inf;
  bool aligned;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    const float scale = scale_of(inverse_scale);
    block.each([&](int thread) {
      bool finite = true;
      each_four(block.index() * kArenaChunk, chunk_end(block.index(), count), thread, aligned,
                [&](const Four& four) {
                  Pack<float> pack = load(gradients, four);
                  for (int k = 0; k < 4; ++k) {
                    finite = finite && std::fabs(pack.at[k]) <= std::numeric_limits<float>::max();
                    pack.at[k] *= scale;
                  }
                  store(pack, four, gradients);
                });
      if (!finite) *found_inf = 1;  // by several threads, all the same
    });
  }
};

/// One thread.
struct EndStep {
  static constexpr const char* kName = "end of step";
  static constexpr int kThreads = kWarp;
  using Shared = NoShared;
  int64_t* steps;
  int* found_inf;
  LossScale loss;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      if (thread != 0) return;
      const bool good = found_inf == nullptr || *found_inf == 0;
      if (good) ++*steps;
      if (found_inf != nullptr) *found_inf = 0;
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

/// What a block of lamb has: a segment's share of a chunk. Blocks are numbered segment + chunk, which grows
/// from piece to piece in the arena's order; where a segment ends with its chunk, one of the numbers has no
/// elements.
struct Piece {
  int64_t segment;
  int64_t begin;
  int64_t end;
};
DLPIPE_DEVICE int64_t first_slot(const Segments& segments, int64_t segment) {
  return segment + segments.offsets[segment] / kArenaChunk;
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
  return {segment, begin > chunk * kArenaChunk ? begin : chunk * kArenaChunk,
          chunk_end(chunk, segments.offsets[segment + 1])};
}

/// What lamb's kernels share.
struct LambArguments {
  Arena arena;
  StepScalars scalars;
  LambOptions options;
  Segments segments;
  bool aligned;

  /// Adam's, whose updates are then the bias-corrected mean / root.
  DLPIPE_DEVICE AdamCoefficients coefficients() const {
    return adam_coefficients(options.adam, false, 1.0, *scalars.steps + 1);
  }
};

/// The moments, and each piece's squares of weights and of updates.
struct LambMoments : LambArguments {
  static constexpr const char* kName = "lamb moments";
  static constexpr int kThreads = kArenaThreads;
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
      if (thread == 0) shared.coefficients = coefficients();
    });
    block.each([&](int thread) {
      const AdamCoefficients& c = shared.coefficients;
      const float grad_scale = scale_of(scalars.grad_scale);
      double weight_squares = 0;
      double update_squares = 0;
      each_four(piece.begin, piece.end, thread, aligned, [&](const Four& four) {
        const Pack<float> gradients = load(arena.gradients, four);
        const Pack<float> weights = load(arena.weights, four);
        Pack<float> means = load(arena.states[0], four);
        Pack<float> squares = load(arena.states[1], four);
        for (int k = 0; k < 4; ++k) {
          update_moments(c, grad_scale * gradients.at[k], means.at[k], squares.at[k]);
          const float update = adam_update(c, means.at[k], squares.at[k]) + c.decay * weights.at[k];
          weight_squares += double{weights.at[k]} * weights.at[k];
          update_squares += double{update} * update;
        }
        store(means, four, arena.states[0]);
        store(squares, four, arena.states[1]);
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
  static constexpr int kThreads = kArenaThreads;
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
  static constexpr int kThreads = kArenaThreads;
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
      shared.coefficients = coefficients();
      shared.rate = *scalars.lr * options.adam.lr_scale * segments.ratios[piece.segment];
    });
    block.each([&](int thread) {
      const AdamCoefficients& c = shared.coefficients;
      each_four(piece.begin, piece.end, thread, aligned, [&](const Four& four) {
        const Pack<float> means = load(arena.states[0], four);
        const Pack<float> squares = load(arena.states[1], four);
        Pack<float> weights = load(arena.weights, four);
        for (int k = 0; k < 4; ++k)
          weights.at[k] -=
              shared.rate * (adam_update(c, means.at[k], squares.at[k]) + c.decay * weights.at[k]);
        store(weights, four, arena.weights);
        if (arena.low != nullptr) store_low(weights, four, arena.low);
      });
    });
  }
};

inline void step_sgd(const Arena& arena, const StepScalars& scalars, const SgdOptions& options) {
  if (options.momentum == 0.0) return launch_step(arena, scalars, SgdRule<false>{options});
  launch_step(arena, scalars, SgdRule<true>{options});
}

inline void step_adam(const Arena& arena, const StepScalars& scalars, const AdamOptions& options) {
  launch_step(arena, scalars, AdamRule{options});
}

inline void step_lamb(const Arena& arena, const StepScalars& scalars, const LambOptions& options,
                      const Segments& segments) {
  if (segments.count == 0) return;
  const LambArguments arguments{arena, scalars, options, segments, is_aligned(arena)};
  launch(LambMoments{arguments}, lamb_slots(arena.count, segments.count));
  launch(LambRatios{arguments}, segments.count);
  launch(LambWeights{arguments}, lamb_slots(arena.count, segments.count));
}

/// averages = decay * averages + (1 - decay) * weights. found_inf may be null.
inline void update_ema(float* averages, const float* weights, int64_t count, double decay,
                       const int* found_inf) {
  launch_step({.weights = averages, .gradients = weights, .count = count}, {.found_inf = found_inf},
              EmaRule{decay});
}

/// Partial sums for finish_norm, norm_parts(count) of them.
inline void sum_squares(const float* gradients, int64_t count, double* parts) {
  launch(SquaresOfChunk{gradients, count, parts, is_pack_aligned(gradients)}, norm_parts(count));
}

/// The norm of the gradients times inverse_scale (null: 1), and what the steps multiply them by so that it is
/// at most max_norm: as clip_grad_norm, a norm that isn't finite clips nothing. max_norm may be infinity.
inline void finish_norm(const double* parts, int64_t count, double max_norm, const float* inverse_scale,
                        const NormScalars& to) {
  launch(FinishNorm{parts, count, max_norm, inverse_scale, to}, 1);
}

/// In place, for callers that look at gradients before the step; their grad_scale is then null. Sets
/// found_inf where a gradient isn't finite, and leaves it alone otherwise: it begins as 0, to which end_step
/// sets it back.
inline void unscale(float* gradients, int64_t count, const float* inverse_scale, int* found_inf) {
  launch(Unscale{gradients, count, inverse_scale, found_inf, is_pack_aligned(gradients)}, norm_parts(count));
}

/// After all arenas' steps: counts the step unless found_inf (may be null) is set, moves the loss scale, and
/// sets found_inf back to 0.
inline void end_step(int64_t* steps, int* found_inf, const LossScale& loss_scale) {
  launch(EndStep{steps, found_inf, loss_scale}, 1);
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
