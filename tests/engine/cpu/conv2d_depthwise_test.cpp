#include "engine/cpu/conv/conv2d_depthwise.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

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

struct DepthwiseCase {
  Shape x;
  std::array<int64_t, 2> kernel;
  Conv2dAttrs attrs = {};
  Layout layout = Layout::kPlain;
  DType dtype = DType::kF32;

  std::string name() const {
    return dlpipe::concat(x.to_string(), " by ", kernel[0], "x", kernel[1], ", stride ", attrs.stride[0],
                          ", padding ", attrs.padding[0], "x", attrs.padding[1], ", dilation ",
                          attrs.dilation[0], ", ", layout_name(layout), ", ", dtype_name(dtype));
  }
  Shape weight() const { return {x[3], 1, kernel[0], kernel[1]}; }
  Conv2dAttrs all_attrs() const {
    Conv2dAttrs all = attrs;
    all.groups = static_cast<int>(x[3]);
    return all;
  }
  Conv2dShape shape() const { return conv2d_shape(x, weight(), all_attrs()); }
  Tensor noise(const Shape& of, uint64_t key) const {
    const NoGrad no_grad;
    return cast(test::uniform_noise(of, RandomStream(20261201, key)), dtype);
  }
  Tensor images() const { return noise(x, 1); }
  Tensor gradient() const {
    const Conv2dShape s = shape();
    return noise({s.n, s.oh, s.ow, s.o}, 2);
  }
};

/// dweight, dbias.
test::ConvAnswer by_f64_reference(const DepthwiseCase& c) {
  const UseBackend use(Backend::kReference);
  const auto leaf = [](const Shape& shape) {
    return Tensor::zeros(shape, DType::kF64).set_requires_grad(true);
  };
  Tensor weight = leaf(c.weight()), bias = leaf({c.x[3]});
  conv2d(cast(c.images(), DType::kF64), weight, bias, c.all_attrs())
      .backward(cast(c.gradient(), DType::kF64));
  return {weight.grad(), bias.grad()};
}

test::ConvAnswer by_depthwise(const DepthwiseCase& c) {
  const NoGrad no_grad;
  const Tensor x = reorder(c.images(), c.layout), dy = reorder(c.gradient(), c.layout);
  const Tensor dweight = Tensor::empty(c.weight()), dbias = Tensor::empty({c.x[3]});
  depthwise_backward_weights(c.shape(), x, dy, dweight.data<float>(), dbias.data<float>());
  return {dweight, dbias};
}

std::vector<DepthwiseCase> depthwise_cases() {
  std::vector<DepthwiseCase> all = {
      {{2, 9, 8, 5}, {3, 3}, {.padding = {1, 1}}},
      {{3, 7, 7, 40}, {7, 7}, {.padding = {3, 3}}},
      {{20, 6, 5, 3}, {5, 5}, {.padding = {2, 2}}},  // fewer images a slice than there are
      {{1, 70, 3, 2}, {5, 3}, {.stride = {2, 1}, .padding = {2, 1}}},
      {{2, 9, 12, 6}, {4, 9}, {.padding = {3, 4}}},  // more taps than are summed together
      {{1, 20, 21, 4}, {3, 17}, {.padding = {1, 8}}},
      {{1, 300, 90, 2},
       {7, 5},
       {.stride = {2, 1}, .padding = {3, 2}, .dilation = {1, 3}}},  // several bands of rows
      {{1, 8, 9, 4}, {5, 5}, {.padding = {4, 4}, .dilation = {2, 2}}},
      {{2, 3, 3, 4}, {3, 3}, {.padding = {5, 6}, .dilation = {3, 4}}},  // outputs that only see padding
      {{1, 9, 9, 4}, {2, 2}, {.stride = {3, 3}}},                       // columns that nothing reads
      {{1, 1, 1, 2}, {1, 1}},
      {{2, 9, 7, 24}, {5, 5}, {.padding = {2, 2}}, Layout::kPlain, DType::kBF16},
  };
  for (const Layout layout : {Layout::kBlocked8, Layout::kBlocked16})
    all.push_back({{2, 11, 6, 48}, {5, 5}, {.stride = {1, 2}, .padding = {2, 2}}, layout});
  return all;
}

TEST(ConvDepthwise, EqualsTheF64Reference) {
  for (const DepthwiseCase& c : depthwise_cases()) {
    ASSERT_TRUE(depthwise_fits(c.shape())) << c.name();
    const test::ConvAnswer expected = by_f64_reference(c), got = by_depthwise(c);
    EXPECT_LE(test::distance(got[0], expected[0]), 2e-6) << c.name();
    EXPECT_LE(test::distance(got[1], expected[1]), 2e-6) << c.name();
  }
}

TEST(ConvDepthwise, IsTheSameBitsOnAnyNumberOfThreads) {
  const int former = engine_threads();
  for (const DepthwiseCase& c : depthwise_cases()) {
    set_engine_threads(1);
    const test::ConvAnswer one = by_depthwise(c);
    for (int threads : {2, 5}) {
      set_engine_threads(threads);
      EXPECT_TRUE(test::same_bits(one, by_depthwise(c))) << c.name() << ", " << threads << " threads";
    }
  }
  set_engine_threads(former);
}

TEST(ConvDepthwise, InstructionSetsAgree) {
  const DepthwiseCase c{{20, 7, 9, 8}, {5, 7}, {.padding = {2, 3}}};
  const test::ConvAnswer best = by_depthwise(c), expected = by_f64_reference(c);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const test::ConvAnswer got = by_depthwise(c);
    hwy::SetSupportedTargetsForTest(0);
    EXPECT_LE(test::distance(got[0], expected[0]), 2e-6) << hwy::TargetName(target);
    EXPECT_LE(test::distance(got[1], expected[1]), 2e-6) << hwy::TargetName(target);
    // With fused multiply-add every sum is the same, whatever the width of the vectors.
    if (target < HWY_SSE4) {
      EXPECT_TRUE(test::same_bits(got, best)) << hwy::TargetName(target);
    }
  }
}

TEST(ConvDepthwise, SaysWhatItTakes) {
  const auto fits = [](const Shape& weight, int groups) {
    return depthwise_fits(conv2d_shape({1, 8, 8, 8}, weight, {.groups = groups}));
  };
  EXPECT_TRUE(fits({8, 1, 5, 5}, 8));
  EXPECT_FALSE(fits({16, 1, 5, 5}, 8));
  EXPECT_FALSE(fits({8, 2, 5, 5}, 4));
}

}  // namespace
}  // namespace dlpipe::engine::cpu
