// Adam whose moments are kept in 8 bits each: 2.03 bytes per weight where adam keeps 8.
//
// Moments are stored in blocks of 256 as small floating-point numbers beside the block's largest: sign, four
// bits of exponent, three of significand for the mean; four and four for the square's root. (Dettmers et al.,
// "8-bit optimizers via block-wise quantization", 2022, has the blocks; its numbers come from a table.) The
// root has half the square's range of exponents, so that nothing but a zero becomes zero and small gradients
// don't meet a vanished denominator. An average that moves by a thousandth a step would stand still in
// numbers 6 % apart: rounding is up or down at random, right on average, by a hash of step and element, so
// that every run of the same seed rounds the same way.
#include <algorithm>
#include <bit>
#include <cmath>

#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/optim/adam_optimizer.h"

namespace dlpipe::engine {
namespace {

constexpr int64_t kBlock = 256;

/// Small numbers of `significand` bits after a four-bit exponent: code c > 0 stands for the float whose upper
/// bits are c + kFirst, the largest for 1.
template <int kSignificand>
struct SmallFloat {
  static constexpr uint32_t kShift = 23 - kSignificand;
  static constexpr uint32_t kLargest = (1u << (4 + kSignificand)) - 1;
  static constexpr uint32_t kFirst = (127u << kSignificand) - kLargest;  // the largest code stands for 1
  DLPIPE_INLINE static float decode(uint32_t code) {
    const float value = std::bit_cast<float>((code + kFirst) << kShift);
    return code == 0 ? 0.0f : value;
  }
  /// The code at or below `value`, in [0, 1].
  DLPIPE_INLINE static uint32_t below(float value) {
    const auto code =
        static_cast<int32_t>(std::bit_cast<uint32_t>(value) >> kShift) - static_cast<int32_t>(kFirst);
    return static_cast<uint32_t>(std::clamp(code, 0, static_cast<int32_t>(kLargest)));
  }
};
using MeanCode = SmallFloat<3>;
using RootCode = SmallFloat<4>;

/// Uniform in [0, 1), another number for every pair: a multiply-and-shift hash (the finalizer of
/// MurmurHash3).
DLPIPE_INLINE inline float uniform(uint32_t key, uint32_t i) {
  uint32_t x = key ^ (i * 0x9e3779b9u);
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  x ^= x >> 16;
  return static_cast<float>(static_cast<int32_t>(x >> 8)) * 0x1p-24f;
}

/// Where a block lies. Not inlined lambdas' captures: values, so that loops become vectors.
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

/// Adam's step on a block, in f32, between reading the moments and rounding them.
DLPIPE_INLINE inline void update_block(const AdamStep& c, uint32_t key, const Block& block) {
  float mean[kBlock], square[kBlock];
  const float mean_scale = *block.mean_scale, old_root_scale = *block.root_scale;
  // Of numbers that aren't negative the order of the bits is the order of the numbers, and an integer's
  // largest is found in vectors.
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
    // Between squares, whose average it is.
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

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  check_adam_arguments("adam8bit", arguments);
  return std::make_unique<Adam8bit>(std::move(parameters), arguments);
}

constexpr OptionDefault kOptions[] = {{"lr", "0.001"},      {"beta1", "0.9"},      {"beta2", "0.999"},
                                      {"epsilon", "1e-08"}, {"weight-decay", "0"}, {"decoupled", "false"}};

}  // namespace

extern const OptimizerRecord adam8bit_optimizer;
const OptimizerRecord adam8bit_optimizer = {
    "adam8bit",
    "Adam with moments of 8 bits: a quarter of its memory; weight decay goes through the gradient unless "
    "--decoupled",
    build,
    kOptions,
    false,
    true};

}  // namespace dlpipe::engine
