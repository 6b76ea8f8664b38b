// What the steps of engine/core/flat_steps.h share, over the simulated grid: norms and clipping, steps that
// don't count, averages, loss scales. The optimizers' own are in flat_optimizers_test.cpp and
// flat_lamb_test.cpp.
#include "engine/core/flat_steps.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "dlpipe/layers.h"
#include "engine/core/device_code.h"
#include "tests/engine/cuda/flat_rig.h"

namespace dlpipe::engine::cuda {
namespace {

using namespace test;  // NOLINT: the rig alone

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

TEST(FlatSteps, ClipsAsTheCpuDoes) {
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

TEST(FlatSteps, ANormIsTheSameBitsWhereverTheGroupLies) {
  const int64_t count = 9 * kFlatChunk + 3;
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

TEST(FlatSteps, OneNormOfSeveralGroups) {
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

TEST(FlatSteps, ANormOfManyPartsIsTheirSum) {
  Memory<double> parts(3001);
  for (int64_t i = 0; i < 3001; ++i) parts[i] = 1;
  Norm norm;
  finish_norm(parts.data(), 3001, {kInf}, {&norm.norm, nullptr, nullptr});
  EXPECT_EQ(norm.norm, static_cast<float>(std::sqrt(3001.0)));
}

TEST(FlatSteps, GradientsThatAreNotFiniteAreFoundAndClipNothing) {
  const int64_t count = 2 * kFlatChunk + 5;
  Memory<float> gradients(count);
  const float inverse = 0.25f;
  for (const float bad : {kInf, -kInf, kNan}) {
    for (const int64_t at : {int64_t{0}, kFlatChunk + 77, count - 1}) {
      fill_random(gradients.data(), count, 5);
      gradients[at] = bad;
      const Norm norm = norm_of(gradients.data(), count, 0.1, &inverse);
      EXPECT_EQ(norm.found_inf, kOverflow);
      EXPECT_EQ(norm.grad_scale, inverse);
      EXPECT_FALSE(std::isfinite(norm.norm));
    }
  }
  // Large ones are none.
  for (int64_t i = 0; i < count; ++i) gradients[i] = std::numeric_limits<float>::max();
  EXPECT_EQ(norm_of(gradients.data(), count, kInf, nullptr).found_inf, 0);
}

TEST(FlatSteps, ALossThatIsNotFiniteIsFoundAndClipsNothing) {
  double part = 16;
  for (const float loss : {kInf, kNan, 2.0f}) {
    Norm norm;
    finish_norm(&part, 1, {kInf, nullptr, &loss}, {&norm.norm, &norm.grad_scale, &norm.found_inf});
    EXPECT_EQ(norm.norm, 4.0f);
    EXPECT_EQ(norm.grad_scale, 1.0f);
    EXPECT_EQ(norm.found_inf, loss == 2.0f ? kAllFinite : kNonfinite);
  }
}

TEST(FlatSteps, AHaltedRunStaysHalted) {
  int found_inf = 0, halted = 0;
  const struct {
    double part;
    int found_inf;
  } expected[] = {{1, kAllFinite}, {kNan, kNonfinite}, {1, kNonfinite}, {1, kNonfinite}};
  for (const auto& e : expected) {
    finish_norm(&e.part, 1, {kInf}, {nullptr, nullptr, &found_inf, &halted});
    EXPECT_EQ(found_inf, e.found_inf);
  }
}

TEST(FlatSteps, GradientsThatTheLossScaleMadeTooLargeHaltNothing) {
  int found_inf = 0, halted = 0;
  const struct {
    float inverse, loss;
    double part;
    int found_inf, halted;
  } expected[] = {{1 / 65536.0f, 1, kInf, kOverflow, 0},
                  {1 / 65536.0f, 1, 1, kAllFinite, 0},
                  {0.5f, 1, kNan, kOverflow, 0},
                  {0.5f, kInf, kInf, kNonfinite, 1},  // no scale makes a loss finite
                  {1, 1, kInf, kNonfinite, 1},        // these would be too large without one
                  {2, 1, kInf, kNonfinite, 1}};
  for (const auto& e : expected) {
    halted = 0;
    finish_norm(&e.part, 1, {kInf, &e.inverse, &e.loss}, {nullptr, nullptr, &found_inf, &halted});
    EXPECT_EQ(found_inf, e.found_inf) << e.inverse << " " << e.loss << " " << e.part;
    EXPECT_EQ(halted, e.halted) << e.inverse << " " << e.loss << " " << e.part;
  }
}

TEST(FlatSteps, RestoresWhatAStepThatDidNotCountHasChanged) {
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

TEST(FlatSteps, SumsOfGradientsHaveTheHostsBits) {
  const int64_t count = kFlatChunk + 7;
  for (const int64_t shift : {0, 1}) {  // aligned and not
    Memory<float> left(count, shift), right(count, shift), to(count, shift);
    fill_random(left.data(), count, 1);
    fill_random(right.data(), count, 2);
    for (int64_t i = 0; i < count; ++i) left[i] = rounded_to_bf16(left[i]);
    left[3] = -0.0f;
    std::vector<float> expected(static_cast<size_t>(count));
    const auto expect_sum = [&](const float* a, const float* b, bool rounds) {
      const auto on_host = rounds ? flat_add_rounded : flat_add;
      on_host(cpu_device(), expected.data(), a, b, count);
      add(to.data(), a, b, count, rounds);
      const std::vector<float> got = to.values();
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), expected.size() * sizeof(float)), 0)
          << shift << (a != nullptr) << (b != nullptr) << rounds;
    };
    for (const bool rounds : {false, true}) {
      expect_sum(left.data(), right.data(), rounds);
      expect_sum(left.data(), nullptr, rounds);
    }
    expect_sum(nullptr, right.data(), true);
  }
}

TEST(FlatSteps, EmaGivesTheCpusBits) {
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

TEST(FlatSteps, FoundInfLeavesEverythingAsItIs) {
  Device device(kSizes);
  Memory<float> averages(device.count);
  LambMemory memory(device);
  device.lr = 0.1f;
  const std::vector<std::function<void()>> steps = {
      [&] { step_sgd(device.flat(), device.scalars(), {}); },
      [&] { step_sgd(device.flat(), device.scalars(), {.momentum = 0.0}); },
      [&] { step_adam(device.flat(), device.scalars(), {.weight_decay = 0.1, .decoupled = true}); },
      [&] {
        step_lamb(device.flat(), device.scalars(), {.adam = {.weight_decay = 0.1}}, memory.segments());
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
      ASSERT_EQ(device.found_inf, kNonfinite);
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

TEST(FlatSteps, TheRunGoesOnAsIfASkippedStepHadNotBeen) {
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
    step_adam(device.flat(), device.scalars(), {.decoupled = true});
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

TEST(FlatSteps, TheLossScaleGrowsAfterGoodStepsAndBacksOff) {
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

// torch/csrc: _amp_update_scale_, in f32 as there.
struct TorchScaler {
  float scale;
  int growth_tracker = 0;

  void update(bool found_inf, int interval) {
    if (found_inf) {
      scale *= 0.5f;
      growth_tracker = 0;
    } else if (growth_tracker + 1 == interval) {
      if (std::isfinite(scale * 2.0f)) scale *= 2.0f;
      growth_tracker = 0;
    } else {
      ++growth_tracker;
    }
  }
};

TEST(FlatSteps, TheLossScaleIsPyTorchsWhereverInfinitiesCome) {
  for (const int interval : {1, 2, 7, 2000}) {
    for (const float begin : {65536.0f, 0x1p126f, 0x1p-3f}) {
      Scaler scaler{.scale = begin};
      TorchScaler torch{begin};
      RandomStream random(7, static_cast<uint64_t>(interval));
      for (int step = 0; step < 4500; ++step) {
        const bool found_inf = step < 2400 ? random.below(9) == 0 : step == 2600;  // then a long good run
        scaler.end(found_inf ? kOverflow : kAllFinite, interval);
        torch.update(found_inf, interval);
        ASSERT_EQ(scaler.scale, torch.scale) << interval << ", step " << step;
        ASSERT_EQ(scaler.good_steps, torch.growth_tracker) << interval << ", step " << step;
        if (torch.scale < 0x1p-100f) scaler.scale = torch.scale = begin;  // 1 / scale stays finite
      }
    }
  }
}

TEST(FlatSteps, TheLossScaleStaysFinite) {
  Scaler scaler{.scale = 0x1p127f};
  scaler.end(0, 1);
  EXPECT_EQ(scaler.scale, 0x1p127f);
  EXPECT_EQ(scaler.good_steps, 0);
}

}  // namespace
}  // namespace dlpipe::engine::cuda
