#include "engine/ops/conv2d.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe::engine {
namespace {

Tensor counting(const Shape& shape) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::iota(values.begin(), values.end(), 1.0f);
  return Tensor::from<float>(values, shape);
}

struct Wanted {
  Shape shape;
  std::vector<double> y, grad_x, grad_weight;
};

// 2x3 pixels 1, 2, 3, ... and 3x3 weights 1, 2, 3, ...: the output, and gradients of the sum of 1, 2, 3, ... times it. All are
// what PyTorch's F.conv_transpose2d answers; integers, so that the order of sums doesn't matter.
void expect_transposes(const ConvTranspose2dAttrs& attrs, const Wanted& wanted) {
  for (const Backend backend : {Backend::kReference, Backend::kCpu}) {
    SCOPED_TRACE(backend == Backend::kCpu ? "cpu" : "reference");
    const UseBackend use(backend);
    Tensor x = counting({1, 2, 3, 1}), weight = counting({1, 1, 3, 3});
    x.set_requires_grad(true);
    weight.set_requires_grad(true);
    const Tensor y = conv_transpose2d(x, weight, {}, attrs);
    ASSERT_EQ(y.shape().to_string(), wanted.shape.to_string());
    EXPECT_EQ(y.to_doubles(), wanted.y);
    y.backward(counting(y.shape()));
    EXPECT_EQ(x.grad().to_doubles(), wanted.grad_x);
    EXPECT_EQ(weight.grad().to_doubles(), wanted.grad_weight);
  }
}

TEST(ConvTranspose2dOp, GivesWhatPytorchGives) {
  expect_transposes({.stride = {2, 2}, .padding = {1, 1}, .output_padding = {1, 0}},
                    {{1, 4, 5, 1},
                     {5, 14, 10, 24, 15, 16, 40, 26, 60, 36, 20, 44, 25, 54, 30, 32, 71, 40, 87, 48},
                     {128, 241, 184, 441, 681, 453},
                     {89, 124, 73, 160, 221, 128, 240, 326, 188}});
  expect_transposes(
      {.stride = {1, 2}, .padding = {0, 1}, .dilation = {1, 2}},
      {{1, 4, 7, 1},
       {0, 4, 0, 10, 0, 12, 0, 0, 26, 0, 56, 0, 54, 0, 0, 62, 0, 119, 0, 102, 0, 0, 67, 0, 118, 0, 93, 0},
       {417, 633, 411, 648, 948, 600},
       {127, 197, 125, 239, 344, 209, 351, 491, 293}});
}

TEST(ConvTranspose2dOp, AddsABiasInTheDtypeOfTheImages) {
  const Tensor x = counting({1, 1, 2, 1}), weight = counting({1, 2, 1, 1});
  const Tensor bias = Tensor::from<float>(std::vector<float>{10, 20}, {2});
  EXPECT_EQ(conv_transpose2d(x, weight, bias).to_doubles(), (std::vector<double>{11, 22, 12, 24}));
  const UseAutocast low(DType::kBF16);
  const Tensor y = conv_transpose2d(x, weight, bias);
  EXPECT_EQ(y.dtype(), DType::kBF16);
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{11, 22, 12, 24}));
}

TEST(ConvTranspose2dOp, AnswersNothingForAnEmptyBatch) {
  Tensor weight = counting({3, 2, 2, 2});
  weight.set_requires_grad(true);
  Tensor x = counting({0, 4, 5, 3});
  x.set_requires_grad(true);
  const Tensor y = conv_transpose2d(x, weight, {}, {.stride = {2, 2}});
  EXPECT_EQ(y.shape().to_string(), (Shape{0, 8, 10, 2}).to_string());
  y.backward(counting(y.shape()));
  EXPECT_EQ(weight.grad().to_doubles(), std::vector<double>(24, 0.0));
}

void expect_refusal(const Tensor& x, const Tensor& weight, const ConvTranspose2dAttrs& attrs,
                    const std::string& words, const Tensor& bias = {}) {
  try {
    conv_transpose2d(x, weight, bias, attrs);
    FAIL() << "taken; expected '" << words << "'";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(ConvTranspose2dOp, RefusesWhatItCannotTranspose) {
  const Tensor x = counting({1, 2, 3, 4}), weight = counting({4, 2, 3, 3});
  expect_refusal(counting({2, 3, 4}), weight, {},
                 "[conv_transpose2d] expected floating images [N,H,W,C], got f32 [2,3,4]");
  expect_refusal(x, counting({2, 4, 3, 3}), {}, "expected weights of 4 input channels");
  expect_refusal(x, counting({4, 2, 3}), {}, "weights [C,O/groups,KH,KW], got f32 [4,2,3]");
  expect_refusal(x, weight, {.groups = 3}, "groups that divide them");
  expect_refusal(x, weight, {.stride = {0, 1}}, "stride and dilation of at least 1");
  expect_refusal(x, weight, {.padding = {-1, 0}}, "padding of at least 0");
  expect_refusal(x, weight, {.stride = {2, 2}, .output_padding = {0, 2}}, "less than the stride 2, got 2");
  expect_refusal(x, weight, {.output_padding = {-1, 0}}, "output_padding of 0 or more");
  expect_refusal(x, weight, {.padding = {2, 0}}, "pad less");
  expect_refusal(x, counting({4, 0, 3, 3}), {}, "weights [4,0,3,3]");
  expect_refusal(x, weight, {}, "expected a bias [2], got [4]", counting({4}));
}

}  // namespace
}  // namespace dlpipe::engine
