// Optimizers that keep the mean and the square of each gradient: adam, adamw, adam8bit, lamb.
#include "engine/optim/adam.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/portable_math.h"
#include "dlpipe/optim.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"
#include "engine/optim/flat_groups.h"
#include "engine/optim/gradients.h"

namespace dlpipe::engine {
namespace {

void update_run(const AdamStep& c, const ElementRun& run) {
  cpu::on_best_isa([c, count = run.count, weights = run.weights, gradients = run.gradients,
                    mean = run.state(0), square = run.state(1)]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      const float weight = c.keep * weights[i];
      const float gradient = gradients[i] + c.decay * weight;
      mean[i] += c.take1 * (gradient - mean[i]);
      square[i] = c.keep2 * square[i] + c.take2 * (gradient * gradient);
      weights[i] = weight - c.step_size * (mean[i] / (std::sqrt(square[i]) * c.root_scale + c.epsilon));
    }
  });
}

class AdamOptimizer final : public ElementwiseOptimizer {
 public:
  AdamOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments, bool decoupled)
      : ElementwiseOptimizer(std::move(parameters), arguments, a_float_each({"mean", "square"})),
        arguments_(arguments),
        decoupled_(decoupled) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    lr_ = lr;
    step_ = step;
  }
  void update(const ElementRun& run) const override {
    update_run(adam_step(arguments_, decoupled_, lr_, step_, run), run);
  }
  void update_flat(const FlatPart& part) const override {
    part.code.adam(part.flat, part.scalars,
                   {arguments_.beta1, arguments_.beta2, arguments_.epsilon, arguments_.weight_decay,
                    decoupled_, part.lr_scale, part.decay_scale});
  }

 private:
  OptimizerArguments arguments_;
  bool decoupled_;
  double lr_ = 0.0;
  int64_t step_ = 0;
};

}  // namespace

AdamStep adam_step(const OptimizerArguments& arguments, bool decoupled, double lr, int64_t t,
                   const ElementRun& run) {
  const double rate = lr * run.lr_scale, decay = arguments.weight_decay * run.decay_scale;
  AdamStep step;
  step.take1 = static_cast<float>(1.0 - arguments.beta1);
  step.keep2 = static_cast<float>(arguments.beta2);
  step.take2 = static_cast<float>(1.0 - arguments.beta2);
  step.step_size = static_cast<float>(rate / (1.0 - portable_power(arguments.beta1, t)));
  step.root_scale = static_cast<float>(1.0 / std::sqrt(1.0 - portable_power(arguments.beta2, t)));
  step.epsilon = static_cast<float>(arguments.epsilon);
  step.decay = decoupled ? 0.0f : static_cast<float>(decay);
  step.keep = decoupled ? 1.0f - static_cast<float>(rate * decay) : 1.0f;
  return step;
}

void check_adam_arguments(const char* name, const OptimizerArguments& a) {
  check_optimizer_argument(a.beta1 >= 0.0 && a.beta1 < 1.0, name, "beta1", a.beta1, "a number in [0, 1)");
  check_optimizer_argument(a.beta2 >= 0.0 && a.beta2 < 1.0, name, "beta2", a.beta2, "a number in [0, 1)");
  check_optimizer_argument(a.epsilon > 0.0, name, "epsilon", a.epsilon, "a number above 0");
  check_optimizer_argument(a.weight_decay >= 0.0, name, "weight_decay", a.weight_decay,
                           "a number of at least 0");
}

std::unique_ptr<Optimizer> build_adam(const char* name, std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments, bool decoupled) {
  check_adam_arguments(name, arguments);
  return std::make_unique<AdamOptimizer>(std::move(parameters), arguments, decoupled);
}

namespace {

std::unique_ptr<Optimizer> make_adam(std::vector<NamedTensor> parameters,
                                     const OptimizerArguments& arguments) {
  return build_adam("adam", std::move(parameters), arguments, arguments.decoupled);
}

constexpr OptionDefault kAdamOptions[] = {{"lr", "0.001"},       {"beta1", "0.9"},
                                          {"beta2", "0.999"},    {"epsilon", "1e-08"},
                                          {"weight-decay", "0"}, {"decoupled", "false"}};

}  // namespace

extern const OptimizerRecord adam_optimizer;
const OptimizerRecord adam_optimizer = {
    "adam",    "Adam (Kingma and Ba, 2015); weight decay goes through the gradient unless --decoupled",
    make_adam, kAdamOptions,
    true,      true,
    true};

namespace {

std::unique_ptr<Optimizer> make_adamw(std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments) {
  return build_adam("adamw", std::move(parameters), arguments, true);
}

constexpr OptionDefault kAdamwOptions[] = {
    {"lr", "0.001"}, {"beta1", "0.9"}, {"beta2", "0.999"}, {"epsilon", "1e-08"}, {"weight-decay", "0.01"}};

}  // namespace

extern const OptimizerRecord adamw_optimizer;
const OptimizerRecord adamw_optimizer = {
    "adamw",    "Adam with decoupled weight decay (Loshchilov and Hutter, 2019)",
    make_adamw, kAdamwOptions,
    true,       true,
    true};

// Adam with moments of 8 bits each: 2.03 bytes per weight instead of adam's 8.
//
// Moments are stored in blocks of 256, as small floating-point numbers relative to the block's largest. The mean has
// a sign, four bits of exponent and three of significand; the root of the square has four and four. (The blocks are
// those of Dettmers et al., "8-bit optimizers via block-wise quantization", 2022; its numbers come from a table.)
// The root needs half the square's range of exponents, so that only zeros become zero and the denominator doesn't
// vanish for small gradients. Numbers are 6 % apart, and an average that changes by a thousandth per step would never
// reach the next one. So rounding is random and unbiased, by a hash of step and element: every run with the same seed
// rounds in the same way.

namespace {

constexpr int64_t kBlock = 256;

/// Small floating-point numbers in [0, 1]: a four-bit exponent, then kSignificand bits. Code 0 is 0; code c > 0
/// is the float whose upper bits are c + kFirst.
template <int kSignificand>
struct SmallFloat {
  static constexpr uint32_t kShift = 23 - kSignificand;
  static constexpr uint32_t kLargest = (1u << (4 + kSignificand)) - 1;
  static constexpr uint32_t kFirst = (127u << kSignificand) - kLargest;  // so that the largest code is 1
  DLPIPE_INLINE static float decode(uint32_t code) {
    const float value = std::bit_cast<float>((code + kFirst) << kShift);
    return code == 0 ? 0.0f : value;
  }
  /// The code of the largest number that is at most `value`, which is in [0, 1].
  DLPIPE_INLINE static uint32_t below(float value) {
    const auto code =
        static_cast<int32_t>(std::bit_cast<uint32_t>(value) >> kShift) - static_cast<int32_t>(kFirst);
    return static_cast<uint32_t>(std::clamp(code, 0, static_cast<int32_t>(kLargest)));
  }
};
using MeanCode = SmallFloat<3>;
using RootCode = SmallFloat<4>;

/// A pseudorandom number, uniform in [0, 1), for a pair: a multiply-and-shift hash (the finalizer of
/// MurmurHash3).
DLPIPE_INLINE inline float uniform(uint32_t key, uint32_t i) {
  uint32_t x = key ^ (i * 0x9e3779b9u);
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  x ^= x >> 16;
  return static_cast<float>(static_cast<int32_t>(x >> 8)) * 0x1p-24f;
}

/// A block's memory. Passed by value instead of by lambda captures, so that loops are vectorised.
struct Block {
  float* weights;
  const float* gradients;
  uint8_t* mean;
  float* mean_scale;
  uint8_t* root;
  float* root_scale;
  int64_t count;
};

DLPIPE_INLINE inline float inverse(float largest) {
  return largest > 0.0f ? 1.0f / largest : 0.0f;
}

/// Adam's step on a block: decodes the moments, updates in f32, and rounds the new moments.
DLPIPE_INLINE inline void update_block(const AdamStep& c, uint32_t key, const Block& block) {
  float mean[kBlock], square[kBlock];
  const float mean_scale = *block.mean_scale, old_root_scale = *block.root_scale;
  // The bits of non-negative floats have the same order as the floats. The largest integer can be found with
  // vector instructions.
  uint32_t largest_mean = 0, largest_square = 0;
  for (int64_t i = 0; i < block.count; ++i) {
    const uint32_t code = block.mean[i];
    const float magnitude = MeanCode::decode(code & 0x7fu) * mean_scale;
    const float old_mean = (code & 0x80u) != 0 ? -magnitude : magnitude;
    const float old_root = RootCode::decode(block.root[i]) * old_root_scale;
    const float weight = c.keep * block.weights[i];
    const float gradient = block.gradients[i] + c.decay * weight;
    mean[i] = old_mean + c.take1 * (gradient - old_mean);
    square[i] = c.keep2 * (old_root * old_root) + c.take2 * (gradient * gradient);
    block.weights[i] = weight - c.step_size * (mean[i] / (std::sqrt(square[i]) * c.root_scale + c.epsilon));
    largest_mean = std::max(largest_mean, std::bit_cast<uint32_t>(mean[i]) & 0x7fffffffu);
    largest_square = std::max(largest_square, std::bit_cast<uint32_t>(square[i]));
  }
  const float most_mean = std::bit_cast<float>(largest_mean);
  const float most_root = std::sqrt(std::bit_cast<float>(largest_square));
  *block.mean_scale = most_mean;
  *block.root_scale = most_root;
  const float mean_factor = inverse(most_mean), root_factor = inverse(most_root);
  for (int64_t i = 0; i < block.count; ++i) {
    const auto index = static_cast<uint32_t>(i);
    const float draw = uniform(key, index);
    const float value = std::min(std::abs(mean[i]) * mean_factor, 1.0f);
    uint32_t code = MeanCode::below(value);
    const float low = MeanCode::decode(code), high = MeanCode::decode(code + 1);
    code += draw * (high - low) < value - low ? 1u : 0u;
    code = std::min(code, MeanCode::kLargest);
    block.mean[i] = static_cast<uint8_t>(code | (mean[i] < 0.0f ? 0x80u : 0u));

    const float root = std::min(std::sqrt(square[i]) * root_factor, 1.0f);
    uint32_t root_code = RootCode::below(root);
    const float below = RootCode::decode(root_code), above = RootCode::decode(root_code + 1);
    // Unbiased for the square, because the average is one of squares.
    root_code += draw * (above * above - below * below) < root * root - below * below ? 1u : 0u;
    root_code = std::min(root_code, RootCode::kLargest);
    block.root[i] = static_cast<uint8_t>(root > 0.0f ? std::max(root_code, 1u) : 0u);
  }
}

std::vector<StateForm> states_of(const Shape& parameter) {
  const Shape blocks = {divide_up(parameter.elements(), kBlock)};
  return {{"mean", parameter, DType::kU8},
          {"mean_scale", blocks, DType::kF32, kBlock},
          {"root", parameter, DType::kU8},
          {"root_scale", blocks, DType::kF32, kBlock}};
}

class Adam8bit final : public ElementwiseOptimizer {
 public:
  Adam8bit(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments)
      : ElementwiseOptimizer(std::move(parameters), arguments, states_of), arguments_(arguments) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    lr_ = lr;
    step_ = step;
  }

  void update(const ElementRun& run) const override {
    const AdamStep step = adam_step(arguments_, arguments_.decoupled, lr_, step_, run);
    for (int64_t begin = 0; begin < run.count; begin += kBlock) {
      const Block block = {run.weights + begin,
                           run.gradients + begin,
                           run.state<uint8_t>(0) + begin,
                           run.state<float>(1) + begin / kBlock,
                           run.state<uint8_t>(2) + begin,
                           run.state<float>(3) + begin / kBlock,
                           std::min(kBlock, run.count - begin)};
      const uint32_t key =
          (static_cast<uint32_t>(step_) * 0x27d4eb2fu + run.key) * 0x165667b1u + static_cast<uint32_t>(begin);
      cpu::on_best_isa([=]() DLPIPE_INLINE { update_block(step, key, block); });
    }
  }

 private:
  OptimizerArguments arguments_;
  double lr_ = 0.0;
  int64_t step_ = 0;
};

std::unique_ptr<Optimizer> make_adam8bit(std::vector<NamedTensor> parameters,
                                         const OptimizerArguments& arguments) {
  check_adam_arguments("adam8bit", arguments);
  return std::make_unique<Adam8bit>(std::move(parameters), arguments);
}

constexpr OptionDefault kAdam8bitOptions[] = {{"lr", "0.001"},       {"beta1", "0.9"},
                                              {"beta2", "0.999"},    {"epsilon", "1e-08"},
                                              {"weight-decay", "0"}, {"decoupled", "false"}};

}  // namespace

extern const OptimizerRecord adam8bit_optimizer;
const OptimizerRecord adam8bit_optimizer = {
    "adam8bit",
    "Adam with moments of 8 bits: a quarter of its memory; weight decay goes through the gradient unless "
    "--decoupled",
    make_adam8bit,
    kAdam8bitOptions,
    false,
    true};

// LAMB (You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", 2020,
// algorithm 2): the update is adam's bias-corrected one plus weight_decay * weights. It is multiplied, for each
// tensor, by |weights| / |update| (1 if either norm is 0). As in the authors' code, tensors without weight decay
// (decay_vectors, decay_scales) use adam's step without that factor.

namespace {

constexpr int64_t kSlice = 16384;  // elements per partial sum; part of the definition of sums

struct Squares {
  double weights = 0.0;
  double updates = 0.0;
};

/// The update of an element whose moments are updated. `c`: adam's, with learning rate 1 and without decoupled decay.
DLPIPE_INLINE inline float update_of(const AdamStep& c, float weight, float mean, float square) {
  return c.step_size * (mean / (std::sqrt(square) * c.root_scale + c.epsilon)) + c.decay * weight;
}

Squares move_moments(const AdamStep& c, const ElementRun& run, int64_t begin, int64_t end) {
  Squares out;
  cpu::on_best_isa([c, &out, count = end - begin, weights = run.weights + begin,
                    gradients = run.gradients + begin, mean = run.state(0) + begin,
                    square = run.state(1) + begin]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) {
      mean[i] += c.take1 * (gradients[i] - mean[i]);
      square[i] = c.keep2 * square[i] + c.take2 * (gradients[i] * gradients[i]);
    }
    out.weights = lane_sum(count, [=](int64_t i) DLPIPE_INLINE { return double{weights[i]} * weights[i]; });
    out.updates = lane_sum(count, [=](int64_t i) DLPIPE_INLINE {
      const double update = update_of(c, weights[i], mean[i], square[i]);
      return update * update;
    });
  });
  return out;
}

void move_weights(const AdamStep& c, float rate, const ElementRun& run, int64_t begin, int64_t end) {
  cpu::on_best_isa([c, rate, count = end - begin, weights = run.weights + begin, mean = run.state(0) + begin,
                    square = run.state(1) + begin]() DLPIPE_INLINE {
    for (int64_t i = 0; i < count; ++i) weights[i] -= rate * update_of(c, weights[i], mean[i], square[i]);
  });
}

class Lamb final : public ElementwiseOptimizer {
 public:
  Lamb(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments)
      : ElementwiseOptimizer(std::move(parameters), arguments, a_float_each({"mean", "square"}),
                             [](const NamedTensor&) { return true; }),
        arguments_(arguments) {}

 protected:
  void begin_step(double lr, int64_t step) override {
    lr_ = static_cast<float>(lr);
    step_ = step;
  }
  void update(const ElementRun&) const override {}  // all parameters are updated whole

  void update_whole(const ElementRun& run, int64_t /*rows*/) const override {
    ElementRun unscaled = run;
    unscaled.lr_scale = 1.0f;
    const AdamStep c = adam_step(arguments_, false, 1.0, step_, unscaled);
    std::vector<Squares> slices(static_cast<size_t>(divide_up(run.count, kSlice)));
    parallel_ranges(run.count, kSlice, [&](int64_t begin, int64_t end) {
      slices[static_cast<size_t>(begin / kSlice)] = move_moments(c, run, begin, end);
    });
    Squares all;
    for (const Squares& slice : slices) {
      all.weights += slice.weights;
      all.updates += slice.updates;
    }
    const bool adapts = run.decay_scale != 0.0f && all.weights > 0.0 && all.updates > 0.0;
    const float ratio = adapts ? static_cast<float>(std::sqrt(all.weights) / std::sqrt(all.updates)) : 1.0f;
    const float rate = lr_ * run.lr_scale * ratio;
    parallel_ranges(run.count, kSlice,
                    [&](int64_t begin, int64_t end) { move_weights(c, rate, run, begin, end); });
  }

  bool takes_segments() const override { return true; }
  void update_flat(const FlatPart& part) const override {
    cuda::LambOptions options;
    options.adam = {arguments_.beta1, arguments_.beta2, arguments_.epsilon, arguments_.weight_decay, false,
                    part.lr_scale,    part.decay_scale};
    options.always_adapt = part.decay_scale != 0.0f;
    part.code.lamb(part.flat, part.scalars, options, part.segments);
  }

 private:
  OptimizerArguments arguments_;
  float lr_ = 0.0f;
  int64_t step_ = 0;
};

std::unique_ptr<Optimizer> make_lamb(std::vector<NamedTensor> parameters,
                                     const OptimizerArguments& arguments) {
  check_adam_arguments("lamb", arguments);
  return std::make_unique<Lamb>(std::move(parameters), arguments);
}

constexpr OptionDefault kLambOptions[] = {
    {"lr", "0.01"}, {"beta1", "0.9"}, {"beta2", "0.999"}, {"epsilon", "1e-08"}, {"weight-decay", "0"}};

}  // namespace

extern const OptimizerRecord lamb_optimizer;
const OptimizerRecord lamb_optimizer = {"lamb",
                                        "adam's updates scaled to each tensor's own norm (You et al., 2020)",
                                        make_lamb, kLambOptions, true};

}  // namespace dlpipe::engine
