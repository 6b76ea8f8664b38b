// The kernels of sgd, adam and averages over a flat group (flat_steps.h): one element after another, in packs.
#pragma once

#include <cmath>

#include "dlpipe/engine/core/flat_steps.h"
#include "dlpipe/engine/cuda/grid/elements.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

inline constexpr int kFlatThreads = 256;

/// Four neighbours in a flat group, the first at a multiple of four; [begin, end) of them are meant.
struct Four {
  int64_t first;
  int begin;
  int end;
  bool in_pack;  // all are, in aligned memory

  DLPIPE_DEVICE bool has(int k) const { return begin <= k && k < end; }
};
static_assert(kPackWidth<float> == 4);

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

/// Calls body(Four) for the thread's share of [begin, end).
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

/// One step over a flat group: `Rule` is a struct with
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

/// AdamCoefficients in f64: two powers that take a thread longer than its share of the elements, so they are
/// computed once. One thread.
struct ComputeAdamCoefficients {
  static constexpr const char* kName = "adam coefficients";
  static constexpr int kThreads = kWarp;
  using Shared = NoShared;
  AdamOptions options;
  const int64_t* steps;
  const float* lr;  // null: a rate of 1
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

/// The group's weights are the averages, its gradients what is averaged.
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

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
