#include "engine/cpu/conv/conv2d_product.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
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

struct ProductCase {
  Shape x, weight;
  Conv2dAttrs attrs;
  bool bias = true;

  std::string name() const {
    return dlpipe::concat(x.to_string(), " by ", weight.to_string(), ", stride ", attrs.stride[0],
                          ", padding ", attrs.padding[0], "x", attrs.padding[1]);
  }
};

Tensor values_of(const Shape& shape, uint64_t key) {
  return test::uniform_noise(shape, RandomStream(20261127, key));
}

struct ProductInputs {
  explicit ProductInputs(const ProductCase& c)
      : x(values_of(c.x, 1)),
        weight(values_of(c.weight, 2)),
        bias(c.bias ? values_of({c.weight[0]}, 3) : Tensor()),
        shape(conv2d_shape(c.x, c.weight, c.attrs)) {}
  Tensor x, weight, bias;
  Conv2dShape shape;
};

Layout blocks() {
  return product_block() == 16 ? Layout::kBlocked16 : Layout::kBlocked8;
}

Tensor by_product(const ProductInputs& in, const KernelChoice& choice, Activation activation) {
  const NoGrad no_grad;
  const Tensor x = reorder(in.x, blocks());
  const Conv2dShape& s = in.shape;
  const Tensor y = reorder(Tensor::zeros({s.n, s.oh, s.ow, s.o}), blocks());
  std::memset(y.raw(), 0xff, y.size_bytes());
  product_forward(s, choice, x, in.weight, in.bias, y, activation);
  return plain(y);
}

Tensor by_reference(const ProductInputs& in, const ProductCase& c) {
  const NoGrad no_grad;
  const UseBackend use(Backend::kReference);
  const auto wide = [](const Tensor& t) { return t.defined() ? cast(t, DType::kF64) : Tensor(); };
  return conv2d(wide(in.x), wide(in.weight), wide(in.bias), c.attrs);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.size_bytes() == b.size_bytes() && std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0;
}

std::vector<ProductCase> product_cases() {
  return {
      {{2, 7, 9, 32}, {48, 32, 1, 1}, {}},  // an odd number of blocks
      {{1, 13, 11, 64}, {32, 64, 1, 1}, {}, false},
      {{1, 1, 1, 16}, {16, 16, 1, 1}, {}},
      {{3, 1, 5, 2048}, {32, 2048, 1, 1}, {}},
      {{1, 9, 7, 32}, {64, 32, 1, 1}, {.stride = {2, 2}}},
      {{1, 9, 7, 16}, {16, 16, 1, 1}, {.padding = {1, 2}}},
      {{2, 7, 7, 32}, {48, 32, 3, 3}, {.padding = {1, 1}}},
      {{1, 14, 15, 16}, {32, 16, 3, 3}, {.stride = {2, 1}, .padding = {1, 0}}},
      {{1, 12, 12, 16}, {16, 16, 3, 2}, {.padding = {2, 1}, .dilation = {2, 3}}},
      {{1, 3, 3, 16}, {16, 16, 5, 5}, {.padding = {4, 4}}},  // windows wider than the image
  };
}

class ConvProduct : public testing::Test {
 protected:
  void SetUp() override {
    if (product_block() == 0) GTEST_SKIP() << "this CPU has no AVX2";
  }
};

// Up to 2048 terms in f32.
TEST_F(ConvProduct, EqualsTheF64Reference) {
  for (const ProductCase& c : product_cases()) {
    const ProductInputs in(c);
    ASSERT_TRUE(product_fits(in.shape)) << c.name();
    EXPECT_LE(distance(by_product(in, {kOwnProduct, 1, 4}, Activation::kNone), by_reference(in, c)), 2e-6)
        << c.name();
  }
}

TEST_F(ConvProduct, ActivatesWhatItWrites) {
  for (const ProductCase& c : product_cases()) {
    ProductInputs in(c);
    in.x.data<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    const Tensor y = by_product(in, {kOwnProduct, 1, 4}, Activation::kNone);
    const NoGrad no_grad;
    EXPECT_TRUE(same_bits(by_product(in, {kOwnProduct, 1, 4}, Activation::kRelu), relu(y))) << c.name();
    EXPECT_TRUE(same_bits(by_product(in, {kOwnProduct, 1, 4}, Activation::kGelu), gelu(y))) << c.name();
    const std::vector<double> values = y.to_doubles();
    EXPECT_TRUE(std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); }))
        << c.name();
  }
}

TEST_F(ConvProduct, IsTheSameBitsHoweverItIsSlicedOnAnyNumberOfThreads) {
  const int former = engine_threads();
  const ProductCase strided{{5, 29, 31, 32}, {80, 32, 1, 1}, {.stride = {2, 2}}};
  for (const ProductCase& c : {product_cases()[0], product_cases()[6], strided}) {
    const ProductInputs in(c);
    const Tensor whole = by_product(in, {kOwnProduct, in.shape.n, 1}, Activation::kNone);
    for (int threads : {1, 3, 8}) {
      set_engine_threads(threads);
      for (const KernelChoice& choice :
           {KernelChoice{kOwnProduct, 1, 1}, KernelChoice{kOwnProduct, 1, 8}, KernelChoice{kOwnProduct, 4, 3},
            KernelChoice{kOwnProduct, 2, 100}}) {
        EXPECT_TRUE(same_bits(whole, by_product(in, choice, Activation::kNone)))
            << c.name() << ", " << threads << " threads, " << choice.images << " images, " << choice.parts
            << " parts";
      }
    }
  }
  set_engine_threads(former);
}

TEST_F(ConvProduct, InstructionSetsAgreeToTheBit) {
  for (const ProductCase& c : product_cases()) {
    const ProductInputs in(c);
    const Tensor best = by_product(in, {kOwnProduct, 1, 2}, Activation::kRelu);
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      if (target >= HWY_SSE4) continue;  // these vectors are no block
      hwy::SetSupportedTargetsForTest(target);
      const Tensor got = by_product(in, {kOwnProduct, 1, 2}, Activation::kRelu);
      hwy::SetSupportedTargetsForTest(0);
      EXPECT_TRUE(same_bits(got, best)) << hwy::TargetName(target) << ", " << c.name();
    }
  }
}

TEST_F(ConvProduct, SaysWhatItTakes) {
  const auto fits = [](const Shape& x, const Shape& weight, const Conv2dAttrs& attrs) {
    return product_fits(conv2d_shape(x, weight, attrs));
  };
  EXPECT_TRUE(fits({1, 8, 8, 32}, {16, 32, 1, 1}, {}));
  EXPECT_FALSE(fits({1, 8, 8, 36}, {16, 36, 1, 1}, {}));
  EXPECT_FALSE(fits({1, 8, 8, 32}, {20, 32, 1, 1}, {}));
  EXPECT_FALSE(fits({1, 8, 8, 32}, {32, 16, 1, 1}, {.groups = 2}));
}

TEST_F(ConvProduct, ATableCanNameItForwardAlone) {
  const NoGrad no_grad;
  const ProductCase c{{1, 8, 8, 32}, {32, 32, 1, 1}, {}};
  const ProductInputs in(c);
  const std::string key = conv_key(in.shape, DType::kF32);
  kernel_table().set(dlpipe::concat("conv2d forward ", key), {kOwnProduct, 1, 2});
  EXPECT_EQ(conv_explanation(ConvPass::kForward, in.shape, DType::kF32), kOwnProduct);
  EXPECT_LE(distance(conv2d(in.x, in.weight, in.bias, c.attrs), by_reference(in, c)), 2e-6);
  kernel_table().set(dlpipe::concat("conv2d backward_data ", key), {kOwnProduct, 1, 2});
  EXPECT_THROW(conv_choice(ConvPass::kBackwardData, in.shape, DType::kF32, product_block()), Error);
  kernel_table().clear();
}

}  // namespace
}  // namespace dlpipe::engine::cpu
