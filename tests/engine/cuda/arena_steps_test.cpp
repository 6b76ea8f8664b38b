// The steps of engine/cuda/arena_steps.h over the simulated grid, against the optimizers of engine/optim.
#include "dlpipe/engine/cuda/arena_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/base/rng.h"
#include "dlpipe/engine/cuda/arena_kernels.h"
#include "dlpipe/engine/cuda/arena_lamb.h"
#include "dlpipe/engine/cuda/arena_norms.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine::cuda {
namespace {

// Tensors that begin and end anywhere; one fills a chunk and ends with it, one has nothing.
const std::vector<int64_t> kSizes = {7, 2 * kArenaChunk - 7, kArenaChunk, 0, 5, 9001, 1, 6, 4099};
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

int64_t total(const std::vector<int64_t>& sizes) {
  int64_t sum = 0;
  for (const int64_t size : sizes) sum += size;
  return sum;
}

/// Memory that knows when something was written beside it. `shift`: elements away from a pack's begin.
template <class T>
class Memory {
 public:
  explicit Memory(int64_t count, int64_t shift = 0) : lead_(16 + shift), count_(count) {
    all_.resize(static_cast<size_t>(lead_ + count + 16));
    std::memset(static_cast<void*>(all_.data()), kGuard, all_.size() * sizeof(T));
    std::fill_n(data(), count, T());
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    std::fill_n(data(), count_, std::bit_cast<T>(guard()));
    for (const T& value : all_) {
      if (std::memcmp(&value, guard().data(), sizeof(T)) == 0) continue;
      ADD_FAILURE() << "written outside of the arena, at " << &value - data() << " of " << count_;
      break;
    }
  }

  T* data() { return all_.data() + lead_; }
  T& operator[](int64_t i) { return data()[i]; }
  std::vector<T> values() { return {data(), data() + count_}; }

 private:
  static constexpr unsigned char kGuard = 0x5a;
  static std::array<unsigned char, sizeof(T)> guard() {
    std::array<unsigned char, sizeof(T)> bytes;
    bytes.fill(kGuard);
    return bytes;
  }

  int64_t lead_;
  int64_t count_;
  std::vector<T> all_;
};

void fill_random(float* to, int64_t count, uint64_t stream) {
  RandomStream random(11, stream);
  for (int64_t i = 0; i < count; ++i) to[i] = 2.0f * random.uniform() - 1.0f;
}

/// An arena of tensors, and the scalars of its steps.
struct Device {
  std::vector<int64_t> sizes;
  int64_t count;
  Memory<float> weights, gradients, first, second;
  Memory<BFloat16> low;
  int64_t steps = 0;
  float lr = 0.0f;
  float grad_scale = 1.0f;
  int found_inf = 0;

  explicit Device(const std::vector<int64_t>& of, int64_t shift = 0)
      : sizes(of),
        count(total(of)),
        weights(count, shift),
        gradients(count, shift),
        first(count, shift),
        second(count, shift),
        low(count, shift) {
    fill_random(weights.data(), count, 1);
  }

  Arena arena() {
    return {weights.data(), gradients.data(), {first.data(), second.data()}, low.data(), count};
  }
  StepScalars scalars() const { return {&steps, &lr, &grad_scale, &found_inf}; }
  void end() {
    end_step(&steps, &found_inf, {});
    found_inf = 0;  // the next norm says so
  }
  void new_gradients() { fill_random(gradients.data(), count, 100 + static_cast<uint64_t>(steps)); }

  /// All that a step may change.
  std::vector<uint32_t> bits() {
    std::vector<uint32_t> all = {static_cast<uint32_t>(steps)};
    for (Memory<float>* memory : {&weights, &first, &second}) {
      for (const float value : memory->values()) all.push_back(std::bit_cast<uint32_t>(value));
    }
    for (const BFloat16 value : low.values()) all.push_back(value.bits);
    return all;
  }
  void expect_low_is_the_weights() {
    for (int64_t i = 0; i < count; ++i) ASSERT_EQ(low[i].bits, BFloat16(weights[i]).bits) << i;
  }
};

/// The same tensors with an optimizer of engine/optim.
class Cpu {
 public:
  Cpu(const char* optimizer, const OptimizerArguments& arguments, Device& device) {
    int64_t begin = 0;
    for (const int64_t size : device.sizes) {
      parameters_.push_back(
          {"p" + std::to_string(parameters_.size()),
           Tensor::from<float>({device.weights.data() + begin, static_cast<size_t>(size)}, {size})});
      parameters_.back().tensor.set_requires_grad(true);
      begin += size;
    }
    optimizer_ = value_or_throw(find_optimizer(optimizer))->build(parameters_, arguments);
  }

  /// Takes the device's gradients, times `factor`.
  void take_gradients(Device& device, float factor = 1.0f) {
    int64_t begin = 0;
    for (NamedTensor& parameter : parameters_) {
      const int64_t size = parameter.tensor.elements();
      Tensor gradient =
          Tensor::from<float>({device.gradients.data() + begin, static_cast<size_t>(size)}, {size});
      for (int64_t i = 0; i < size; ++i) gradient.data<float>()[i] *= factor;
      parameter.tensor.set_grad(gradient);
      begin += size;
    }
  }
  void step(float lr) { optimizer_->step(double{lr}); }
  std::span<const NamedTensor> parameters() const { return parameters_; }

  std::vector<float> weights() const {
    std::vector<float> all;
    for (const NamedTensor& parameter : parameters_)
      all.insert(all.end(), parameter.tensor.data<float>(),
                 parameter.tensor.data<float>() + parameter.tensor.elements());
    return all;
  }
  std::vector<float> gradients() const {
    std::vector<float> all;
    for (const NamedTensor& parameter : parameters_) {
      const Tensor gradient = parameter.tensor.grad();
      all.insert(all.end(), gradient.data<float>(), gradient.data<float>() + gradient.elements());
    }
    return all;
  }

 private:
  std::vector<NamedTensor> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Within 1e-6 of `expected`; of `terms` where that is less and what was added up is of that size.
void expect_close(const std::vector<float>& got, const std::vector<float>& expected, float terms = 0.0f) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 1e-6 * std::max(terms, std::abs(expected[i]))) << i;
}
// Weights begin in [-1, 1) and move by about as much; where both cancel, f32's rounding of the terms remains.
constexpr float kTerms = 0.1f;

float rate_of(int64_t step) {
  return 0.1f / static_cast<float>(1 + step);
}

float factor_of(const std::vector<OptimizerArguments::Scale>& scales) {
  return scales.empty() ? 1.0f : static_cast<float>(scales.back().factor);
}
SgdOptions sgd_options(const OptimizerArguments& a) {
  return {.momentum = a.momentum,
          .nesterov = a.nesterov,
          .weight_decay = a.weight_decay,
          .decoupled = a.decoupled,
          .lr_scale = factor_of(a.lr_scales),
          .decay_scale = factor_of(a.decay_scales)};
}
AdamOptions adam_options(const OptimizerArguments& a) {
  return {a.beta1,
          a.beta2,
          a.epsilon,
          a.weight_decay,
          a.decoupled,
          factor_of(a.lr_scales),
          factor_of(a.decay_scales)};
}

/// Five steps of both, each gradient scaled by 1024 and back; the same bits, since nothing is contracted
/// here.
template <class Step>
void expect_the_cpus_bits(const char* optimizer, const OptimizerArguments& arguments, const Step& step) {
  for (const std::vector<int64_t>& sizes : {kSizes, {3}, {4}, {4 * kArenaThreads + 2}}) {
    for (const int64_t shift : {0, 1}) {
      Device device(sizes, shift);
      device.grad_scale = 1.0f / 1024.0f;
      Cpu cpu(optimizer, arguments, device);
      for (int i = 0; i < 5; ++i) {
        device.new_gradients();
        cpu.take_gradients(device);
        for (int64_t k = 0; k < device.count; ++k) device.gradients[k] *= 1024.0f;
        device.lr = rate_of(i);
        cpu.step(device.lr);
        step(device.arena(), device.scalars());
        device.end();
        ASSERT_EQ(device.weights.values(), cpu.weights()) << "step " << i << ", shift " << shift;
        device.expect_low_is_the_weights();
      }
      EXPECT_EQ(device.steps, 5);
    }
  }
}

std::vector<OptimizerArguments> kinds_of_decay() {
  std::vector<OptimizerArguments> all(4);
  all[1].weight_decay = 0.05;
  all[2].weight_decay = 0.05;
  all[2].decoupled = true;
  all[3] = all[2];
  all[3].lr_scales = {{"*", 0.3}};
  all[3].decay_scales = {{"*", 0.7}};
  return all;
}

TEST(ArenaSteps, SgdGivesTheCpusBits) {
  for (OptimizerArguments arguments : kinds_of_decay()) {
    for (const double momentum : {0.0, 0.9}) {
      for (const bool nesterov : {false, true}) {
        if (nesterov && momentum == 0.0) continue;
        arguments.momentum = momentum;
        arguments.nesterov = nesterov;
        expect_the_cpus_bits("sgd", arguments, [&](const Arena& arena, const StepScalars& scalars) {
          step_sgd(arena, scalars, sgd_options(arguments));
        });
      }
    }
  }
}

TEST(ArenaSteps, SgdWithoutMomentumNeedsNoState) {
  Device device({4099});
  device.new_gradients();
  device.lr = 0.5f;
  const std::vector<float> before = device.weights.values();
  Arena arena = device.arena();
  arena.states[0] = arena.states[1] = nullptr;
  arena.low = nullptr;
  step_sgd(arena, {&device.steps, &device.lr}, {.momentum = 0.0});
  for (int64_t i = 0; i < device.count; ++i)
    ASSERT_EQ(device.weights[i], before[static_cast<size_t>(i)] - 0.5f * device.gradients[i]);
}

TEST(ArenaSteps, DampeningBeginsWithTheSecondStep) {
  Device device({5000});
  std::vector<double> weights;
  for (const float weight : device.weights.values()) weights.push_back(weight);
  std::vector<double> velocity(weights.size(), 0.0);
  for (int step = 0; step < 4; ++step) {
    device.new_gradients();
    device.lr = rate_of(step);
    for (size_t i = 0; i < weights.size(); ++i) {
      const double gradient = device.gradients[static_cast<int64_t>(i)] + 0.01 * weights[i];
      velocity[i] = step == 0 ? gradient : 0.9 * velocity[i] + (1 - 0.25) * gradient;
      weights[i] -= double{device.lr} * velocity[i];
    }
    step_sgd(device.arena(), device.scalars(), {.dampening = 0.25, .weight_decay = 0.01});
    device.end();
  }
  expect_close(device.weights.values(), {weights.begin(), weights.end()}, kTerms);
}

TEST(ArenaSteps, AdamGivesTheCpusBits) {
  for (const OptimizerArguments& arguments : kinds_of_decay()) {
    expect_the_cpus_bits("adam", arguments, [&](const Arena& arena, const StepScalars& scalars) {
      step_adam(arena, scalars, adam_options(arguments));
    });
  }
}
TEST(ArenaSteps, AdamWGivesTheCpusBits) {
  OptimizerArguments arguments;
  arguments.beta1 = 0.8;
  arguments.beta2 = 0.95;
  arguments.epsilon = 1e-3;
  arguments.weight_decay = 0.1;
  AdamOptions options = adam_options(arguments);
  options.decoupled = true;
  expect_the_cpus_bits("adamw", arguments, [&](const Arena& arena, const StepScalars& scalars) {
    step_adam(arena, scalars, options);
  });
}

TEST(ArenaSteps, AdamReadsTheStepFromTheDevice) {
  Device device({64});
  device.new_gradients();
  device.lr = 0.1f;
  for (int i = 0; i < 3; ++i) {  // nobody counts: each is step 1, whose moments are new
    std::fill_n(device.first.data(), device.count, 0.0f);
    std::fill_n(device.second.data(), device.count, 0.0f);
    const std::vector<float> before = device.weights.values();
    step_adam(device.arena(), device.scalars(), {});
    for (int64_t k = 0; k < device.count; ++k)
      ASSERT_NEAR(std::abs(device.weights[k] - before[static_cast<size_t>(k)]), 0.1f, 1e-6);
  }
}

struct Norm {
  float norm = -1;
  float grad_scale = -1;
  int found_inf = -1;
};
Norm norm_of(float* gradients, int64_t count, double max_norm, const float* inverse_scale) {
  Memory<double> parts(norm_parts(count));
  sum_squares(gradients, count, parts.data());
  Norm norm;
  finish_norm(parts.data(), norm_parts(count), {max_norm, inverse_scale},
              {&norm.norm, &norm.grad_scale, &norm.found_inf});
  return norm;
}

TEST(ArenaSteps, ClipsAsTheCpuDoes) {
  for (const int64_t shift : {0, 1}) {
    Device device(kSizes, shift);
    device.new_gradients();
    for (const double max_norm : {0.5, 1e6}) {
      Cpu cpu("sgd", {}, device);
      cpu.take_gradients(device);
      const double norm = clip_grad_norm(cpu.parameters(), max_norm);
      for (int64_t i = 0; i < device.count; ++i) device.gradients[i] *= 512.0f;
      const float inverse = 1.0f / 512.0f;
      const Norm got = norm_of(device.gradients.data(), device.count, max_norm, &inverse);
      EXPECT_NEAR(got.norm, norm, 1e-7 * norm);
      EXPECT_EQ(got.found_inf, 0);
      std::vector<float> scaled = device.gradients.values();
      for (float& gradient : scaled) gradient *= got.grad_scale;
      expect_close(scaled, cpu.gradients());
      for (int64_t i = 0; i < device.count; ++i) device.gradients[i] *= inverse;
    }
  }
}

TEST(ArenaSteps, ANormIsTheSameBitsWhereverTheArenaLies) {
  const int64_t count = 9 * kArenaChunk + 3;
  Memory<float> here(count);
  Memory<float> there(count, 3);
  fill_random(here.data(), count, 1);
  fill_random(there.data(), count, 1);
  Memory<double> first(norm_parts(count));
  Memory<double> second(norm_parts(count));
  sum_squares(here.data(), count, first.data());
  sum_squares(there.data(), count, second.data());
  EXPECT_EQ(first.values(), second.values());
}

TEST(ArenaSteps, OneNormOfSeveralArenas) {
  const int64_t counts[] = {5000, 3};
  Memory<float> large(counts[0]);
  Memory<float> small(counts[1]);
  large[4999] = 3;
  small[2] = 4;
  Memory<double> parts(norm_parts(counts[0]) + norm_parts(counts[1]));
  sum_squares(large.data(), counts[0], parts.data());
  sum_squares(small.data(), counts[1], parts.data() + norm_parts(counts[0]));
  Norm norm;
  finish_norm(parts.data(), 3, {kInf}, {&norm.norm, &norm.grad_scale, nullptr});
  EXPECT_EQ(norm.norm, 5.0f);
  EXPECT_EQ(norm.grad_scale, 1.0f);
  EXPECT_EQ(norm_of(nullptr, 0, 1.0, nullptr).norm, 0.0f);
}

TEST(ArenaSteps, ANormOfManyPartsIsTheirSum) {
  Memory<double> parts(3001);
  for (int64_t i = 0; i < 3001; ++i) parts[i] = 1;
  Norm norm;
  finish_norm(parts.data(), 3001, {kInf}, {&norm.norm, nullptr, nullptr});
  EXPECT_EQ(norm.norm, static_cast<float>(std::sqrt(3001.0)));
}

TEST(ArenaSteps, GradientsThatAreNotFiniteAreFoundAndClipNothing) {
  const int64_t count = 2 * kArenaChunk + 5;
  Memory<float> gradients(count);
  const float inverse = 0.25f;
  for (const float bad : {kInf, -kInf, kNan}) {
    for (const int64_t at : {int64_t{0}, kArenaChunk + 77, count - 1}) {
      fill_random(gradients.data(), count, 5);
      gradients[at] = bad;
      const Norm norm = norm_of(gradients.data(), count, 0.1, &inverse);
      EXPECT_EQ(norm.found_inf, 1);
      EXPECT_EQ(norm.grad_scale, inverse);
      EXPECT_FALSE(std::isfinite(norm.norm));
    }
  }
  // Large ones are none.
  for (int64_t i = 0; i < count; ++i) gradients[i] = std::numeric_limits<float>::max();
  EXPECT_EQ(norm_of(gradients.data(), count, kInf, nullptr).found_inf, 0);
}

TEST(ArenaSteps, ALossThatIsNotFiniteIsFoundAndClipsNothing) {
  double part = 16;
  for (const float loss : {kInf, kNan, 2.0f}) {
    Norm norm;
    finish_norm(&part, 1, {kInf, nullptr, &loss}, {&norm.norm, &norm.grad_scale, &norm.found_inf});
    EXPECT_EQ(norm.norm, 4.0f);
    EXPECT_EQ(norm.grad_scale, 1.0f);
    EXPECT_EQ(norm.found_inf, loss == 2.0f ? 0 : 1);
  }
}

TEST(ArenaSteps, AHaltedRunStaysHalted) {
  int found_inf = 0, halted = 0;
  const struct {
    double part;
    int found_inf;
  } expected[] = {{1, 0}, {std::numeric_limits<double>::quiet_NaN(), 1}, {1, 1}, {1, 1}};
  for (const auto& e : expected) {
    finish_norm(&e.part, 1, {kInf}, {nullptr, nullptr, &found_inf, &halted});
    EXPECT_EQ(found_inf, e.found_inf);
  }
}

TEST(ArenaSteps, RestoresWhatAStepThatDidNotCountHasChanged) {
  const int64_t count = 700;
  Memory<float> before(count), now(count);
  fill_random(before.data(), count, 1);
  fill_random(now.data(), count, 2);
  const std::vector<float> changed = now.values();
  for (const int found_inf : {0, 1}) {
    restore(now.data(), before.data(), count, &found_inf);
    EXPECT_EQ(now.values(), found_inf == 0 ? changed : before.values());
  }
  set(now.data() + 1, 0.25f);
  EXPECT_EQ(now[1], 0.25f);
  EXPECT_EQ(now[2], before[2]);
}

/// LAMB in plain loops: moments in f32 as adam's, norms in f64.
class PlainLamb {
 public:
  PlainLamb(Device& device, const LambOptions& options)
      : options_(options),
        weights_(device.weights.values()),
        mean_(weights_.size(), 0.0f),
        square_(weights_.size(), 0.0f) {}

  const std::vector<float>& weights() const { return weights_; }

  void step(Device& device, int64_t t) {
    const AdamOptions& o = options_.adam;
    const double decay = o.weight_decay * o.decay_scale;
    size_t begin = 0;
    for (const int64_t size : device.sizes) {
      std::vector<double> updates;
      double weight_squares = 0;
      double update_squares = 0;
      for (size_t i = begin; i < begin + static_cast<size_t>(size); ++i) {
        const float gradient = device.grad_scale * device.gradients[static_cast<int64_t>(i)];
        mean_[i] += static_cast<float>(1 - o.beta1) * (gradient - mean_[i]);
        square_[i] = static_cast<float>(o.beta2) * square_[i] +
                     static_cast<float>(1 - o.beta2) * (gradient * gradient);
        const double mean = mean_[i] / (1 - std::pow(o.beta1, t));
        const double root = std::sqrt(square_[i] / (1 - std::pow(o.beta2, t)));
        updates.push_back(mean / (root + o.epsilon) + decay * weights_[i]);
        weight_squares += double{weights_[i]} * weights_[i];
        update_squares += updates.back() * updates.back();
      }
      const bool adapts = (options_.always_adapt || decay != 0) && weight_squares > 0 && update_squares > 0;
      const double ratio = adapts ? std::sqrt(weight_squares / update_squares) : 1.0;
      for (size_t i = 0; i < updates.size(); ++i)
        weights_[begin + i] =
            static_cast<float>(weights_[begin + i] - double{device.lr} * o.lr_scale * ratio * updates[i]);
      begin += static_cast<size_t>(size);
    }
  }

 private:
  LambOptions options_;
  std::vector<float> weights_, mean_, square_;
};

/// Offsets and scratch.
struct LambMemory {
  std::vector<int64_t> offsets{0};
  Memory<double> parts;
  Memory<float> ratios;

  explicit LambMemory(const Device& device)
      : parts(lamb_parts(device.count, static_cast<int64_t>(device.sizes.size()))),
        ratios(static_cast<int64_t>(device.sizes.size())) {
    for (const int64_t size : device.sizes) offsets.push_back(offsets.back() + size);
  }
  Segments segments() {
    return {offsets.data(), static_cast<int64_t>(offsets.size()) - 1, parts.data(), ratios.data()};
  }
};

TEST(ArenaSteps, LambGivesThePlainLoopsWeights) {
  const std::vector<LambOptions> all = {
      {.adam = {.epsilon = 1e-6, .weight_decay = 0.1}},
      {},  // adam's step
      {.adam = {.beta1 = 0.8, .beta2 = 0.95}, .always_adapt = true},
      {.adam = {.weight_decay = 0.1, .lr_scale = 0.3f, .decay_scale = 0.7f}}};
  for (const LambOptions& options : all) {
    for (const std::vector<int64_t>& sizes : {kSizes, {3}, {kArenaChunk}, {1, 1, 1, 1, 1, 1}, {0, 5, 0}}) {
      for (const int64_t shift : {0, 1}) {
        Device device(sizes, shift);
        std::fill_n(device.weights.data(), std::min<int64_t>(7, device.count), 0.0f);  // a tensor of norm 0
        device.grad_scale = 0.3f;
        LambMemory memory(device);
        PlainLamb plain(device, options);
        for (int step = 0; step < 4; ++step) {
          device.new_gradients();
          device.lr = rate_of(step);
          plain.step(device, step + 1);
          step_lamb(device.arena(), device.scalars(), options, memory.segments());
          device.end();
          expect_close(device.weights.values(), plain.weights(), kTerms);
          device.expect_low_is_the_weights();
        }
      }
    }
  }
}

TEST(ArenaSteps, LambWithoutDecayIsAdam) {
  Device lamb(kSizes);
  Device adam(kSizes);
  LambMemory memory(lamb);
  for (int step = 0; step < 3; ++step) {
    for (Device* device : {&lamb, &adam}) {
      device->new_gradients();
      device->lr = rate_of(step);
    }
    step_lamb(lamb.arena(), lamb.scalars(), {}, memory.segments());
    step_adam(adam.arena(), adam.scalars(), {.epsilon = 1e-6});
    lamb.end();
    adam.end();
    expect_close(lamb.weights.values(), adam.weights.values(), kTerms);
  }
}

TEST(ArenaSteps, EveryElementIsInOnePieceOfItsSegment) {
  Device device(kSizes);
  LambMemory memory(device);
  const Segments segments = memory.segments();
  std::vector<int> times(static_cast<size_t>(device.count), 0);
  for (int64_t slot = 0; slot < lamb_slots(device.count, segments.count); ++slot) {
    const Piece piece = piece_of(segments, slot);
    for (int64_t i = piece.begin; i < piece.end; ++i) {
      EXPECT_LE(memory.offsets[static_cast<size_t>(piece.segment)], i);
      EXPECT_LT(i, memory.offsets[static_cast<size_t>(piece.segment) + 1]);
      EXPECT_EQ(i / kArenaChunk, piece.begin / kArenaChunk);
      ++times[static_cast<size_t>(i)];
    }
  }
  EXPECT_EQ(times, std::vector<int>(times.size(), 1));
}

TEST(ArenaSteps, EmaGivesTheCpusBits) {
  Linear model(83, 61);
  const auto of_model = [&](const std::vector<NamedTensor>& tensors) {
    std::vector<float> all;
    for (const NamedTensor& entry : tensors)
      all.insert(all.end(), entry.tensor.data<float>(), entry.tensor.data<float>() + entry.tensor.elements());
    return all;
  };
  std::vector<NamedTensor> tensors = model.state_dict();
  const auto fill = [&](uint64_t stream) {
    for (NamedTensor& entry : tensors)
      fill_random(entry.tensor.data<float>(), entry.tensor.elements(), stream++);
  };
  fill(1);
  for (const int64_t shift : {0, 1}) {
    Ema ema(model, 0.99);
    const auto count = static_cast<int64_t>(of_model(tensors).size());
    Memory<float> averages(count, shift);
    Memory<float> weights(count, shift);
    std::ranges::copy(of_model(tensors), averages.data());
    for (uint64_t step = 0; step < 4; ++step) {
      fill(10 + 7 * step);
      ema.update(model);
      std::ranges::copy(of_model(tensors), weights.data());
      update_ema(averages.data(), weights.data(), count, 0.99, nullptr);
      ASSERT_EQ(averages.values(), of_model(ema.state())) << step;
    }
  }
}

TEST(ArenaSteps, FoundInfLeavesEverythingAsItIs) {
  Device device(kSizes);
  Memory<float> averages(device.count);
  LambMemory memory(device);
  device.lr = 0.1f;
  const std::vector<std::function<void()>> steps = {
      [&] { step_sgd(device.arena(), device.scalars(), {}); },
      [&] { step_sgd(device.arena(), device.scalars(), {.momentum = 0.0}); },
      [&] { step_adam(device.arena(), device.scalars(), {.weight_decay = 0.1, .decoupled = true}); },
      [&] {
        step_lamb(device.arena(), device.scalars(), {.adam = {.weight_decay = 0.1}}, memory.segments());
      }};
  for (const auto& step : steps) {
    device.new_gradients();
    step();
    device.end();
    const std::vector<uint32_t> before = device.bits();
    const std::vector<float> averages_before = averages.values();
    for (const float bad : {kNan, kInf}) {
      device.gradients[device.count - 1] = bad;
      Memory<double> parts(norm_parts(device.count));
      sum_squares(device.gradients.data(), device.count, parts.data());
      finish_norm(parts.data(), norm_parts(device.count), {1.0},
                  {nullptr, &device.grad_scale, &device.found_inf});
      ASSERT_EQ(device.found_inf, 1);
      step();
      update_ema(averages.data(), device.weights.data(), device.count, 0.5, &device.found_inf);
      device.end();
      EXPECT_EQ(device.bits(), before);
      EXPECT_EQ(averages.values(), averages_before);
    }
    const int64_t steps_before = device.steps;
    device.new_gradients();
    step();
    update_ema(averages.data(), device.weights.data(), device.count, 0.5, &device.found_inf);
    device.end();
    EXPECT_EQ(device.steps, steps_before + 1) << "the next good step counts";
    EXPECT_NE(device.bits(), before);
    EXPECT_NE(averages.values(), averages_before);
  }
}

TEST(ArenaSteps, TheRunGoesOnAsIfASkippedStepHadNotBeen) {
  Device device(kSizes);
  Cpu cpu("adamw", {}, device);
  for (int step = 0; step < 6; ++step) {
    device.new_gradients();
    device.lr = rate_of(step);
    if (step % 3 == 1) device.found_inf = 1;
    if (device.found_inf == 0) {
      cpu.take_gradients(device);
      cpu.step(device.lr);
    }
    step_adam(device.arena(), device.scalars(), {.decoupled = true});
    device.end();
    ASSERT_EQ(device.weights.values(), cpu.weights()) << step;
  }
  EXPECT_EQ(device.steps, 4);
}

struct Scaler {
  float scale;
  float inverse = 0;
  int good_steps = 0;
  int64_t steps = 0;

  void end(int found_inf, int interval) {
    end_step(&steps, &found_inf,
             {.scale = &scale, .inverse = &inverse, .good_steps = &good_steps, .interval = interval});
    EXPECT_EQ(inverse, 1.0f / scale);
  }
};

TEST(ArenaSteps, TheLossScaleGrowsAfterGoodStepsAndBacksOff) {
  Scaler scaler{.scale = 1024.0f};
  const struct {
    int found_inf;
    float scale;
    int good_steps;
    int64_t steps;
  } expected[] = {{0, 1024, 1, 1}, {0, 1024, 2, 2}, {0, 2048, 0, 3},  // the third in a row
                  {0, 2048, 1, 4}, {1, 1024, 0, 4}, {1, 512, 0, 4},  {0, 512, 1, 5},
                  {0, 512, 2, 6},  {0, 1024, 0, 7}, {1, 512, 0, 7}};
  for (const auto& e : expected) {
    scaler.end(e.found_inf, 3);
    EXPECT_EQ(scaler.scale, e.scale);
    EXPECT_EQ(scaler.good_steps, e.good_steps);
    EXPECT_EQ(scaler.steps, e.steps);
  }
}

TEST(ArenaSteps, TheLossScaleStaysFinite) {
  Scaler scaler{.scale = 0x1p127f};
  scaler.end(0, 1);
  EXPECT_EQ(scaler.scale, 0x1p127f);
  EXPECT_EQ(scaler.good_steps, 0);
}

}  // namespace
}  // namespace dlpipe::engine::cuda
