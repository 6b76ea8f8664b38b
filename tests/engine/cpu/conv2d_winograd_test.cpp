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

struct Case {
  int64_t n, h, w, c, o;
  std::array<int, 2> padding;
  Layout layout = Layout::kPlain;
  DType dtype = DType::kF32;

  std::string name() const {
    return dlpipe::concat(n, "x", h, "x", w, "x", c, " to ", o, ", padding ", padding[0], "x", padding[1],
                          ", ", layout_name(layout), ", ", dtype_name(dtype));
  }
};

Tensor noise(const Shape& shape, uint64_t key, DType dtype) {
  const NoGrad no_grad;
  return cast(test::uniform_noise(shape, RandomStream(20261122, key)), dtype);
}

/// All gradients of one convolution: y, dx, dweight, dbias, plain.
using Answer = std::vector<Tensor>;
const char* const kNames[] = {"y", "dx", "dweight", "dbias"};

struct Inputs {
  explicit Inputs(const Case& c)
      : x(noise({c.n, c.h, c.w, c.c}, 1, c.dtype)),
        weight(noise({c.o, c.c, 3, 3}, 2, c.dtype)),
        bias(noise({c.o}, 3, c.dtype)),
        shape(conv2d_shape(x.shape(), weight.shape(), {.padding = {c.padding[0], c.padding[1]}})),
        dy(noise({shape.n, shape.oh, shape.ow, shape.o}, 4, c.dtype)) {}
  Tensor x, weight, bias;
  Conv2dShape shape;
  Tensor dy;
};

Answer by_reference(const Case& c) {
  const Inputs in(c);
  const UseBackend use(Backend::kReference);
  const auto leaf = [](const Tensor& t) { return cast(t, DType::kF64).detach().set_requires_grad(true); };
  Tensor x = leaf(in.x), weight = leaf(in.weight), bias = leaf(in.bias);
  const Tensor y = conv2d(x, weight, bias, {.padding = {c.padding[0], c.padding[1]}});
  y.backward(cast(in.dy, DType::kF64));
  return {y.detach(), x.grad(), weight.grad(), bias.grad()};
}

Answer by_winograd(const Case& c, const KernelChoice& choice) {
  const NoGrad no_grad;
  const Inputs in(c);
  const Tensor x = reorder(in.x, c.layout), dy = reorder(in.dy, c.layout);
  const Tensor weight = cast(in.weight, DType::kF32), bias = cast(in.bias, DType::kF32);
  const Tensor y = Tensor::empty(dy.spec()), dx = Tensor::empty(x.spec());
  const Tensor dweight = Tensor::empty(weight.shape()), dbias = Tensor::empty(bias.shape());
  winograd_forward(in.shape, choice, x, weight, bias, y, Activation::kNone);
  winograd_backward_data(in.shape, choice, dy, weight, dx);
  winograd_backward_weights(in.shape, choice, x, dy, dweight.data<float>(), dbias.data<float>());
  return {plain(y), plain(dx), dweight, dbias};
}

bool same_bits(const Answer& a, const Answer& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(a[i].raw(), b[i].raw(), a[i].size_bytes()) != 0) return false;
  }
  return true;
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
  return all;
}

TEST(ConvWinograd, EqualsTheF64Reference) {
  for (const Case& c : cases()) {
    const Answer expected = by_reference(c);
    const Answer got = by_winograd(c, {kOwnWinograd, 2, 1});
    const double tolerance = c.dtype == DType::kBF16 ? 4e-3 : 2e-6;  // images are rounded to 8 bits
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(distance(got[i], expected[i]), i > 1 ? 2e-6 : tolerance) << c.name() << ", " << kNames[i];
    }
  }
}

// What fewer multiplications cost: the figures in ARCHITECTURE.md are what this prints.
TEST(ConvWinograd, IsNearlyAsExactAsTheDirectConvolution) {
  for (int64_t channels : {16, 64, 128}) {
    const Case c{1, 12, 12, channels, channels, {1, 1}};
    const Answer expected = by_reference(c);
    const Answer winograd = by_winograd(c, {kOwnWinograd, 1, 1});
    const Inputs in(c);
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
                  static_cast<long long>(channels), kNames[i], fast, plain_error);
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
  const Answer expected = by_reference(small);
  const Answer got = by_winograd(small, {kOwnWinograd, 1, 1});
  for (size_t i = 0; i < got.size(); ++i) EXPECT_LE(distance(got[i], expected[i]), 2e-6) << kNames[i];
}

TEST(ConvWinograd, ImagesAreTheSameBitsHoweverTheyAreSliced) {
  const Case c{6, 9, 10, 72, 88, {1, 1}};
  const Answer whole = by_winograd(c, {kOwnWinograd, 6, 1});
  for (const KernelChoice& choice :
       {KernelChoice{kOwnWinograd, 1, 1}, KernelChoice{kOwnWinograd, 4, 2}, KernelChoice{kOwnWinograd, 6, 4},
        KernelChoice{kOwnWinograd, 6, 100}, KernelChoice{kOwnWinograd, 2, 100}}) {
    const Answer sliced = by_winograd(c, choice);
    const std::string what = dlpipe::concat(choice.images, " images, ", choice.parts, " parts");
    EXPECT_TRUE(same_bits({whole[0], whole[1]}, {sliced[0], sliced[1]})) << what;
    // Sums over other slices round otherwise; channels' parts don't change them.
    for (size_t i : {2, 3}) EXPECT_LE(distance(sliced[i], whole[i]), 2e-6) << what << ", " << kNames[i];
    if (choice.images == 6) {
      EXPECT_TRUE(same_bits({whole[2]}, {sliced[2]})) << what;
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
  const Answer expected = by_reference(c);
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const Answer got = by_winograd(c, {kOwnWinograd, 2, 2});
    hwy::SetSupportedTargetsForTest(0);
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LE(distance(got[i], expected[i]), 2e-6) << hwy::TargetName(target) << ", " << kNames[i];
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
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 8}, {16, 8, 3, 3}, {.dilation = {1, 2}})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 16}, {16, 8, 3, 3}, {.groups = 2})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 12}, {16, 12, 3, 3}, {})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 16}, {20, 16, 3, 3}, {})));
  EXPECT_FALSE(winograd_fits(shape({1, 8, 8, 16}, {16, 16, 3, 1}, {})));
}

}  // namespace
}  // namespace dlpipe::engine::cpu
