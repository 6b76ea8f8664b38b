#include "engine/cpu/conv/conv2d_taps.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/parallel.h"
#include "tests/engine/conv_testing.h"

namespace dlpipe::engine::cpu {
namespace {

using test::ConvAnswer;
using test::ConvCase;
using test::ConvInputs;

ConvAnswer by_taps(const ConvCase& c, const KernelChoice& choice) {
  return test::conv_by_kernels(
      c,
      [&](const Conv2dShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
        taps_forward(s, choice, x, weight, bias, y, Activation::kNone);
      },
      [&](const Conv2dShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
        taps_backward_data(s, choice, dy, weight, dx);
      },
      taps_backward_weights);
}

std::vector<ConvCase> taps_cases() {
  std::vector<ConvCase> all = {
      {2, 9, 7, 3, 5, {1, 1}},
      {1, 1, 1, 2, 3, {1, 1}},
      {3,
       6,
       8,
       5,
       300,
       {1, 2},
       Layout::kPlain,
       DType::kF32,
       {1, 2}},  // more outputs than are multiplied at once
      {1, 5, 6, 300, 7, {3, 3}, Layout::kPlain, DType::kF32, {3, 3}},      // more inputs
      {1, 40, 20, 8, 8, {12, 12}, Layout::kPlain, DType::kF32, {12, 12}},  // more pixels
      {2, 9, 7, 16, 8, {6, 6}, Layout::kPlain, DType::kF32, {6, 6}},
      {2, 9, 7, 16, 8, {9, 7}, Layout::kPlain, DType::kF32, {9, 7}},  // only the centre is inside
      {2, 9, 7, 4, 6, {2, 0}, Layout::kPlain, DType::kF32, {2, 3}, {4, 2}},
      {2, 6, 5, 4, 6, {7, 9}, Layout::kPlain, DType::kF32, {3, 4}, {3, 3}},  // outputs that only see padding
      {2, 6, 7, 24, 16, {3, 3}, Layout::kPlain, DType::kBF16, {3, 3}},
      {1, 4, 4, 8, 8, {0, 0}, Layout::kPlain, DType::kF32, {1, 1}, {1, 1}},
      {2, 6, 5, 3, 8, {9, 10}, Layout::kPlain, DType::kF32, {1, 1}, {14, 16}},  // larger than the image
      {2, 6, 5, 16, 16, {8, 8}, Layout::kPlain, DType::kBF16, {1, 1}, {15, 15}},
  };
  for (const Layout layout : {Layout::kBlocked8, Layout::kBlocked16}) {
    all.push_back({2, 11, 6, 32, 48, {4, 4}, layout, DType::kF32, {4, 4}});
    all.push_back({2, 11, 6, 48, 272, {4, 2}, layout, DType::kF32, {4, 2}});
  }
  return all;
}

TEST(ConvTaps, EqualTheF64Reference) {
  for (const ConvCase& c : taps_cases()) {
    ASSERT_TRUE(taps_fit(ConvInputs(c).shape)) << c.name();
    const ConvAnswer expected = test::conv_by_reference(c), got = by_taps(c, {kOwnTaps, 2, 2});
    const double tolerance = c.dtype == DType::kBF16 ? 4e-3 : 2e-6;  // images are rounded to 8 bits
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(test::distance(got[i], expected[i]), i > 1 ? 2e-6 : tolerance)
          << c.name() << ", " << test::kConvAnswers[i];
    }
  }
}

TEST(ConvTaps, AreTheSameBitsForAnyCutAndNumberOfThreads) {
  const int former = engine_threads();
  const ConvCase c{5, 19, 10, 72, 136, {4, 4}, Layout::kBlocked8, DType::kF32, {4, 4}};
  set_engine_threads(1);
  const ConvAnswer one = by_taps(c, {kOwnTaps, 5, 1});
  for (int threads : {1, 2, 5}) {
    set_engine_threads(threads);
    for (const KernelChoice& choice :
         {KernelChoice{kOwnTaps, 1, 1}, KernelChoice{kOwnTaps, 2, 3}, KernelChoice{kOwnTaps, 1, 100}}) {
      EXPECT_TRUE(test::same_bits(one, by_taps(c, choice)))
          << threads << " threads, " << choice.images << " images, " << choice.parts << " parts";
    }
  }
  set_engine_threads(former);
}

TEST(ConvTaps, AreTheSameBitsOnAllInstructionSetsWithFusedMultiplyAdd) {
  const ConvCase c{2, 9, 10, 40, 72, {3, 5}, Layout::kPlain, DType::kF32, {3, 5}};
  const ConvAnswer best = by_taps(c, {kOwnTaps, 1, 2}), expected = test::conv_by_reference(c);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const ConvAnswer got = by_taps(c, {kOwnTaps, 1, 2});
    hwy::SetSupportedTargetsForTest(0);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(test::distance(got[i], expected[i]), 2e-6)
          << hwy::TargetName(target) << ", " << test::kConvAnswers[i];
    }
    if (target < HWY_SSE4) {
      EXPECT_TRUE(test::same_bits(got, best)) << hwy::TargetName(target);
    }
  }
}

TEST(ConvTaps, ActivateWhatTheyWrite) {
  const NoGrad no_grad;
  for (const ConvCase& c : taps_cases()) {
    const ConvInputs in(c);
    const Tensor x = reorder(in.x, c.layout), weight = cast(in.weight, DType::kF32);
    const auto of = [&](Activation activation) {
      const Tensor y = Tensor::empty(reorder(in.dy, c.layout).spec());
      taps_forward(in.shape, {kOwnTaps, 1, 2}, x, weight, Tensor(), y, activation);
      return plain(y);
    };
    const Tensor y = of(Activation::kNone);
    EXPECT_TRUE(test::same_bits({of(Activation::kRelu)}, {relu(y)})) << c.name();
    EXPECT_TRUE(test::same_bits({of(Activation::kGelu)}, {gelu(y)})) << c.name();
  }
}

TEST(ConvTaps, CountTheTapsInsideTheImage) {
  const auto inside = [](int64_t side, int padding, int dilation) {
    return taps_inside(conv2d_shape({1, side, side, 1}, {1, 1, 3, 3},
                                    {.padding = {padding, padding}, .dilation = {dilation, dilation}}));
  };
  EXPECT_DOUBLE_EQ(inside(8, 0, 1), 9);
  EXPECT_DOUBLE_EQ(inside(8, 8, 8), 1);
  EXPECT_DOUBLE_EQ(inside(8, 6, 6), 1.5 * 1.5);  // 8 centres and 2 of each side, for 8 outputs
  EXPECT_FALSE(taps_fit(conv2d_shape({1, 8, 8, 4}, {4, 4, 3, 3}, {.stride = {2, 1}})));
  EXPECT_FALSE(taps_fit(conv2d_shape({1, 8, 8, 4}, {4, 2, 3, 3}, {.groups = 2})));
}

// Through the op, which chooses the kernels.
TEST(ConvTaps, ComputeTheGradientsOfLargeKernels) {
  const ConvCase c{2, 8, 6, 4, 16, {10, 10}, Layout::kPlain, DType::kF32, {1, 1}, {18, 16}};
  const ConvInputs in(c);
  const auto leaf = [](const Tensor& t) { return t.detach().set_requires_grad(true); };
  Tensor x = leaf(in.x), weight = leaf(in.weight), bias = leaf(in.bias);
  const Tensor y = conv2d(x, weight, bias, c.attrs());
  y.backward(in.dy);
  const ConvAnswer got = {plain(y.detach()), plain(x.grad()), weight.grad(), bias.grad()},
                   expected = test::conv_by_reference(c);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(test::distance(got[i], expected[i]), 2e-6) << test::kConvAnswers[i];
}

TEST(ConvTaps, AreChosenForGradientsOfLargeKernelsAndNotForOrdinaryOnes) {
  if (kernel_isa() < KernelIsa::kAvx2) GTEST_SKIP() << "no fused multiply-add";
  const auto chooses = [](ConvPass pass, int64_t side, int64_t kernel, int64_t channels) {
    const auto padding = static_cast<int>(kernel / 2);
    const Conv2dShape shape = conv2d_shape({1, side, side, channels}, {channels, channels, kernel, kernel},
                                           {.padding = {padding, padding}});
    return taps_choice(pass, shape, DType::kF32).has_value();
  };
  for (const ConvPass pass : {ConvPass::kBackwardData, ConvPass::kBackwardWeights}) {
    EXPECT_TRUE(chooses(pass, 12, 15, 8));
    EXPECT_TRUE(chooses(pass, 5, 7, 64));
    EXPECT_FALSE(chooses(pass, 5, 7, 8));
    EXPECT_FALSE(chooses(pass, 2, 3, 64));
    EXPECT_FALSE(chooses(pass, 14, 7, 64));
  }
  EXPECT_FALSE(chooses(ConvPass::kForward, 12, 15, 8));
}

}  // namespace
}  // namespace dlpipe::engine::cpu
