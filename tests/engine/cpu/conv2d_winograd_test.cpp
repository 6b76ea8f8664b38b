#include "engine/cpu/conv/conv2d_winograd.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "tests/engine/conv_testing.h"

namespace dlpipe::engine::cpu {
namespace {

using test::distance;

using test::kConvAnswers;
using test::same_bits;
using Case = test::ConvCase;
using Answer = test::ConvAnswer;

Answer by_winograd(const Case& c, const KernelChoice& choice) {
  return test::conv_by_kernels(
      c,
      [&](const Conv2dShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
        winograd_forward(s, choice, x, weight, bias, y, Activation::kNone);
      },
      [&](const Conv2dShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
        winograd_backward_data(s, choice, dy, weight, dx);
      },
      [&](const Conv2dShape& s, const Tensor& x, const Tensor& dy, float* dweight, float* dbias) {
        winograd_backward_weights(s, choice, x, dy, dweight, dbias);
      });
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (int64_t side : {1, 2, 3, 4, 5, 7, 8, 9, 13}) {
    for (int padding : {0, 1, 2}) {
      if (side + 2 * padding >= 3) all.push_back({3, side, side + 1, 8, 24, {padding, padding}});
    }
  }
  for (const Layout layout : {Layout::kBlocked8, Layout::kBlocked16}) {
    for (const std::array<int, 2> padding : {std::array{1, 1}, std::array{0, 2}}) {
      all.push_back({2, 11, 6, 32, 48, padding, layout});
    }
  }
  all.push_back({5, 14, 14, 40, 72, {1, 1}});  // neither side a whole number of panels
  all.push_back({70, 4, 4, 16, 16, {1, 1}});   // more tiles than a step has
  all.push_back({2, 9, 7, 24, 16, {1, 0}, Layout::kPlain, DType::kBF16});
  for (const Layout layout : {Layout::kPlain, Layout::kBlocked8, Layout::kBlocked16}) {
    for (const std::array<int, 2> dilation :
         {std::array{2, 2}, std::array{3, 1}, std::array{4, 5}, std::array{9, 7}}) {
      all.push_back({2, 13, 11, 32, 16, dilation, layout, DType::kF32, dilation});
    }
    all.push_back({2, 12, 13, 16, 32, {0, 3}, layout, DType::kF32, {4, 2}});
  }
  all.push_back({3, 9, 7, 16, 8, {2, 4}, Layout::kPlain, DType::kBF16, {2, 2}});
  return all;
}

TEST(ConvWinograd, EqualsTheF64Reference) {
  for (const Case& c : cases()) {
    const Answer expected = test::conv_by_reference(c);
    const Answer got = by_winograd(c, {kOwnWinograd, 2, 1});
    const double tolerance = c.dtype == DType::kBF16 ? 4e-3 : 2e-6;  // images are rounded to 8 bits
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(distance(got[i], expected[i]), i > 1 ? 2e-6 : tolerance)
          << c.name() << ", " << kConvAnswers[i];
    }
  }
}

// What fewer multiplications cost: the figures in ARCHITECTURE.md are what this prints.
TEST(ConvWinograd, IsNearlyAsExactAsTheDirectConvolution) {
  for (int64_t channels : {16, 64, 128}) {
    const Case c{1, 12, 12, channels, channels, {1, 1}};
    const Answer expected = test::conv_by_reference(c);
    const Answer winograd = by_winograd(c, {kOwnWinograd, 1, 1});
    const test::ConvInputs in(c);
    for (const char* pass : {"forward", "backward_data", "backward_weights"})
      kernel_table().set(dlpipe::concat("conv2d ", pass, " ", conv_key(in.shape, DType::kF32)),
                         {"direct", 1, 1});
    Tensor x = in.x.detach().set_requires_grad(true), weight = in.weight.detach().set_requires_grad(true);
    const Tensor y = conv2d(x, weight, in.bias, {.padding = {1, 1}});
    y.backward(in.dy);
    kernel_table().clear();
    const Answer direct = {plain(y.detach()), x.grad(), weight.grad()};
    for (size_t i = 0; i < direct.size(); ++i) {
      const double fast = distance(winograd[i], expected[i]), plain_error = distance(direct[i], expected[i]);
      std::printf("%lld channels, %s: largest error / largest value %.1e, direct %.1e\n",
                  static_cast<long long>(channels), kConvAnswers[i], fast, plain_error);
      EXPECT_LE(fast, 2e-6);
      EXPECT_LE(fast, 16 * plain_error);
    }
  }
}

TEST(ConvWinograd, TakesNanAndInfinityFromNowhere) {
  // Scratch and borders may hold anything: what an earlier, larger run left there must not reach a result.
  Case large{8, 13, 13, 48, 48, {1, 1}};
  by_winograd(large, {kOwnWinograd, 8, 1});
  std::memset(worker_scratch(1, 1 << 22), 0xff, 1 << 22);
  const Case small{1, 5, 5, 24, 24, {1, 1}};
  const Answer expected = test::conv_by_reference(small);
  const Answer got = by_winograd(small, {kOwnWinograd, 1, 1});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(distance(got[i], expected[i]), 2e-6) << kConvAnswers[i];
}

TEST(ConvWinograd, ImagesAreTheSameBitsHoweverTheyAreSliced) {
  for (const Case& c : {Case{6, 9, 10, 72, 88, {1, 1}},
                        Case{6, 9, 10, 72, 88, {2, 3}, Layout::kPlain, DType::kF32, {2, 3}}}) {
    const Answer whole = by_winograd(c, {kOwnWinograd, 6, 1});
    for (const KernelChoice& choice : {KernelChoice{kOwnWinograd, 1, 1}, KernelChoice{kOwnWinograd, 4, 2},
                                       KernelChoice{kOwnWinograd, 6, 4}, KernelChoice{kOwnWinograd, 6, 100},
                                       KernelChoice{kOwnWinograd, 2, 100}}) {
      const Answer sliced = by_winograd(c, choice);
      const std::string what = dlpipe::concat(choice.images, " images, ", choice.parts, " parts");
      EXPECT_TRUE(same_bits({whole[0], whole[1]}, {sliced[0], sliced[1]})) << what;
      // Sums over other slices round otherwise; channels' parts don't change them.
      for (size_t i : {2, 3})
        EXPECT_LE(distance(sliced[i], whole[i]), 2e-6) << what << ", " << kConvAnswers[i];
      if (choice.images == 6) {
        EXPECT_TRUE(same_bits({whole[2]}, {sliced[2]})) << what;
      }
    }
  }
}

TEST(ConvWinograd, IsTheSameBitsOnAnyNumberOfThreads) {
  const int former = engine_threads();
  const Case c{6, 9, 10, 40, 72, {1, 1}, Layout::kBlocked8};
  set_engine_threads(1);
  const Answer one = by_winograd(c, {kOwnWinograd, 1, 4});
  for (int threads : {2, 3, 8}) {
    set_engine_threads(threads);
    EXPECT_TRUE(same_bits(one, by_winograd(c, {kOwnWinograd, 1, 4}))) << threads;
  }
  set_engine_threads(former);
}

TEST(ConvWinograd, InstructionSetsAgree) {
  const Case c{3, 9, 10, 40, 72, {1, 1}};
  const Answer best = by_winograd(c, {kOwnWinograd, 2, 2});
  const Answer expected = test::conv_by_reference(c);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const Answer got = by_winograd(c, {kOwnWinograd, 2, 2});
    hwy::SetSupportedTargetsForTest(0);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(distance(got[i], expected[i]), 2e-6) << hwy::TargetName(target) << ", " << kConvAnswers[i];
    }
    // With fused multiply-add every sum is the same, whatever the width of the vectors.
    if (target < HWY_SSE4) {
      EXPECT_TRUE(same_bits(got, best)) << hwy::TargetName(target);
    }
  }
}

TEST(ConvWinograd, SaysWhatItTakes) {
  const auto shape = [](const Shape& x, const Shape& weight, const Conv2dAttrs& attrs) {
    return conv2d_shape(x, weight, attrs);
  };
  EXPECT_TRUE(winograd_fits(shape({1, 8, 8, 8}, {16, 8, 3, 3}, {.padding = {1, 1}})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 8}, {16, 8, 3, 3}, {.padding = {3, 1}})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 8}, {16, 8, 3, 3}, {.stride = {2, 1}, .padding = {1, 1}})));
  EXPECT_TRUE(winograd_fits(shape({1, 8, 8, 8}, {16, 8, 3, 3}, {.dilation = {1, 2}})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 8}, {16, 8, 3, 3}, {.padding = {5, 0}, .dilation = {2, 1}})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 8}, {16, 8, 3, 3}, {.padding = {9, 0}, .dilation = {9, 1}})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 16}, {16, 8, 3, 3}, {.groups = 2})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 12}, {16, 12, 3, 3}, {})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 16}, {20, 16, 3, 3}, {})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 16}, {16, 16, 3, 1}, {})));
}

}  // namespace
}  // namespace dlpipe::engine::cpu
