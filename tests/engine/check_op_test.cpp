// The checks must fail on kernels that break their promises.
#include "tests/engine/check_op.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/isa.h"
#include "tests/engine/distance.h"

namespace dlpipe::engine {
namespace {

/// The built-in op with other kernels in the cpu's place.
OpRow with_cpu(const char* name, const Kernels& kernels) {
  OpRow row = *OpRegistry::builtin().get(name);
  row.kernels[static_cast<int>(Backend::kCpu)] = &kernels;
  return row;
}

TEST(CheckOp, FailsWhereTheCpuKernelsTakeNoSample) {
  Kernels never = *OpRegistry::builtin().get("relu")->kernels[static_cast<int>(Backend::kCpu)];
  never.supports = [](std::span<const TensorSpec>, const Attrs&) { return false; };
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check_op(with_cpu("relu", never));
  }
  ASSERT_EQ(results.size(), 2);  // f32, bf16
  EXPECT_NE(std::string(results.GetTestPartResult(0).message()).find("cpu kernels take"), std::string::npos);
}

TEST(CheckOp, FailsWhereAnAnswerDependsOnTheInstructionSet) {
  if (cpu::isa() == cpu::Isa::kBaseline) GTEST_SKIP() << "this machine has one instruction set";
  Kernels wavering = *OpRegistry::builtin().get("relu")->kernels[static_cast<int>(Backend::kCpu)];
  wavering.forward = [](const ForwardArgs& args) {
    OpRegistry::builtin().get("relu")->kernels[static_cast<int>(Backend::kCpu)]->forward(args);
    const Tensor& y = args.outputs[0];
    if (y.dtype() != DType::kF32 || y.elements() == 0 || cpu::isa() != cpu::Isa::kBaseline) return;
    float& first = *static_cast<float*>(y.raw());
    first = std::nextafter(first, 1.0f);
  };
  testing::TestPartResultArray results;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check_op(with_cpu("relu", wavering));
  }
  ASSERT_GT(results.size(), 0);
  EXPECT_NE(std::string(results.GetTestPartResult(0).message()).find("isa 0"), std::string::npos);
}

TEST(Distance, OfNanIsInfinite) {
  const Tensor good = Tensor::from<float>(std::vector<float>{1, 2, 4}, {3});
  EXPECT_EQ(test::distance(good, Tensor::from<float>(std::vector<float>{1, 3, 4}, {3})), 0.25);
  for (const float bad : {NAN, INFINITY}) {
    for (size_t i = 0; i < 3; ++i) {
      std::vector<float> values = {1, 2, 4};
      values[i] = bad;
      const Tensor other = Tensor::from<float>(values, {3});
      EXPECT_EQ(test::distance(other, good), INFINITY) << i;
      EXPECT_EQ(test::distance(good, other), INFINITY) << i;
    }
  }
  EXPECT_EQ(test::largest_difference(good, Tensor()), INFINITY);
  EXPECT_EQ(test::largest_difference(good, Tensor::zeros({2})), INFINITY);
}

// Where one value is infinite or NaN, only its equal is near it, whatever the tolerance.
TEST(CheckOp, NothingIsNearAnInfinityOrNanButItself) {
  const Tolerance generous = {.relative = 0.5, .absolute = 1, .reason = "a test"};
  const auto of = [](double value) { return Tensor::full({1}, value); };
  for (const double special : {HUGE_VAL, -HUGE_VAL, static_cast<double>(NAN)}) {
    expect_near(of(special), of(special), generous, "itself");
    for (const double other : {0.0, 3e38, -special}) {
      if (std::isnan(other)) continue;
      for (const auto& [got, expected] : {std::pair(special, other), std::pair(other, special)}) {
        testing::TestPartResultArray results;
        {
          const testing::ScopedFakeTestPartResultReporter reporter(
              testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
          expect_near(of(got), of(expected), generous, "another");
        }
        EXPECT_EQ(results.size(), 1) << got << " for " << expected;
      }
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
