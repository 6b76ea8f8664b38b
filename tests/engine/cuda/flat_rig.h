// A flat group as engine/core/flat_steps.h takes it, with its scalars, and the same tensors with an optimizer of
// engine/optim: what the tests of flat groups compare.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/optim.h"
#include "dlpipe/random.h"
#include "engine/core/flat_steps.h"
#include "engine/cuda/flat/flat_kernels.h"

namespace dlpipe::engine::cuda::test {

// Tensors that begin and end anywhere; one fills a chunk and ends with it, one has nothing.
inline const std::vector<int64_t> kSizes = {7, 2 * kFlatChunk - 7, kFlatChunk, 0, 5, 9001, 1, 6, 4099};
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline int64_t total(const std::vector<int64_t>& sizes) {
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
      ADD_FAILURE() << "written outside of the group, at " << &value - data() << " of " << count_;
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

inline void fill_random(float* to, int64_t count, uint64_t stream) {
  RandomStream random(11, stream);
  for (int64_t i = 0; i < count; ++i) to[i] = 2.0f * random.uniform() - 1.0f;
}

/// A flat group of tensors, and the scalars of its steps.
struct Device {
  std::vector<int64_t> sizes;
  int64_t count;
  Memory<float> weights, gradients, first, second;
  int64_t steps = 0;
  float lr = 0.0f;
  float grad_scale = 1.0f;
  int found_inf = 0;
  AdamCoefficients adam = {kNan, kNan, kNan, kNan, kNan, kNan, kNan, kNan};

  explicit Device(const std::vector<int64_t>& of, int64_t shift = 0)
      : sizes(of),
        count(total(of)),
        weights(count, shift),
        gradients(count, shift),
        first(count, shift),
        second(count, shift) {
    fill_random(weights.data(), count, 1);
  }

  FlatGroup flat() { return {weights.data(), gradients.data(), {first.data(), second.data()}, count}; }
  StepScalars scalars() { return {&steps, &lr, &grad_scale, &found_inf, &adam}; }
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
    return all;
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
inline void expect_close(const std::vector<float>& got, const std::vector<float>& expected,
                         float terms = 0.0f) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 1e-6 * std::max(terms, std::abs(expected[i]))) << i;
}
// Weights begin in [-1, 1) and move by about as much; where both cancel, f32's rounding of the terms remains.
inline constexpr float kTerms = 0.1f;

inline float rate_of(int64_t step) {
  return 0.1f / static_cast<float>(1 + step);
}

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

}  // namespace dlpipe::engine::cuda::test
