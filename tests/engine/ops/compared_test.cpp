// What random numbers don't meet: equal ones, zeros, infinity, NaN, in vectors and behind them. On each backend.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {
namespace {

constexpr float kUnbounded = std::numeric_limits<float>::infinity();
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr int64_t kCount = 37;  // two vectors of sixteen and five more

Tensor repeated(const std::vector<float>& values) {
  std::vector<float> all;
  for (int64_t i = 0; i < kCount; ++i) all.push_back(values[static_cast<size_t>(i) % values.size()]);
  return Tensor::from<float>(all, {kCount});
}

using Function = Tensor (*)(const Tensor&, const Tensor&);

// Outputs, and with `grads` the gradients to a and b of an output's gradient of 2.
void expect_gives(Function op, const std::vector<float>& a, const std::vector<float>& b,
                  const std::vector<float>& wanted, const std::vector<std::vector<float>>& grads = {}) {
  for (const Backend backend : {Backend::kReference, Backend::kCpu}) {
    SCOPED_TRACE(backend == Backend::kCpu ? "cpu" : "reference");
    const UseBackend use(backend);
    std::vector<Tensor> inputs = {repeated(a), repeated(b)};
    for (Tensor& input : inputs) input.set_requires_grad(!grads.empty());
    const Tensor y = op(inputs[0], inputs[1]);
    const auto expect_same = [](const Tensor& got, const std::vector<float>& values) {
      const Tensor expected = repeated(values);
      for (int64_t i = 0; i < kCount; ++i) {
        const float one = got.data<float>()[i], other = expected.data<float>()[i];
        EXPECT_TRUE(one == other || (one != one && other != other))
            << i << ": " << one << ", expected " << other;
      }
    };
    expect_same(y, wanted);
    if (grads.empty()) continue;
    y.backward(Tensor::full({kCount}, 2.0));
    for (size_t i = 0; i < 2; ++i) expect_same(inputs[i].grad(), grads[i]);
  }
}

const std::vector<float> kA = {1, 2, 3, -kUnbounded, kUnbounded, -0.0F, 5};
const std::vector<float> kB = {2, 2, 1, -kUnbounded, 7, 0.0F, -kUnbounded};

TEST(ComparedOps, EqualOnesAreEqual) {
  expect_gives(equal, kA, kB, {0, 1, 0, 1, 0, 1, 0});
  expect_gives(equal, {kNotANumber, 1, 1}, {kNotANumber, kNotANumber, 1}, {0, 0, 1});
}

TEST(ComparedOps, GreaterIsNotEqual) {
  expect_gives(greater, kA, kB, {0, 0, 1, 0, 1, 0, 1});
  expect_gives(greater, {kNotANumber, 1, 2}, {1, kNotANumber, 1}, {0, 0, 1});
}

TEST(ComparedOps, EqualOnesShareTheGradient) {
  const std::vector<float> a = {1, 2, 3}, b = {2, 2, 1};
  expect_gives(maximum, a, b, {2, 2, 3}, {{0, 1, 2}, {2, 1, 0}});
  expect_gives(minimum, a, b, {1, 2, 1}, {{2, 1, 0}, {0, 1, 2}});
}

TEST(ComparedOps, TheLargerOfANumberAndNanIsNan) {
  expect_gives(maximum, {kNotANumber, 1, kUnbounded}, {1, kNotANumber, 1},
               {kNotANumber, kNotANumber, kUnbounded});
  expect_gives(minimum, {kNotANumber, 1, -kUnbounded}, {1, kNotANumber, 1},
               {kNotANumber, kNotANumber, -kUnbounded});
}

TEST(ComparedOps, WhatIsNotKeptDoesNotMatter) {
  const std::vector<float> x = {kUnbounded, kNotANumber, 3, 4}, keep = {0, -0.0F, 1, -2};
  expect_gives(mask, x, keep, {0, 0, 3, 4}, {{0, 0, 2, 2}, {0, 0, 0, 0}});
}

}  // namespace
}  // namespace dlpipe::engine
