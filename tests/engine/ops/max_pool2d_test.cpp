#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {
namespace {

TEST(MaxPool2dOp, TheFirstOfEqualValuesGetsTheGradient) {
  for (Backend backend : {Backend::kReference, Backend::kCpu}) {
    const UseBackend use(backend);
    Tensor x = Tensor::full({1, 2, 2, 9}, 5.0);
    x.set_requires_grad(true);
    max_pool2d(x).backward(Tensor::full({1, 1, 1, 9}, 1.0));
    const std::vector<double> grad = x.grad().to_doubles();
    for (size_t i = 0; i < grad.size(); ++i) EXPECT_EQ(grad[i], i < 9 ? 1.0 : 0.0) << i;
  }
}

TEST(MaxPool2dOp, NanIsTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (Backend backend : {Backend::kReference, Backend::kCpu}) {
    const UseBackend use(backend);
    std::vector<float> values(4 * 9, 1.0f);
    values[9 + 2] = nan;   // the second of channel 2's window
    values[27 + 2] = nan;  // and the last
    values[3] = -std::numeric_limits<float>::infinity();
    Tensor x = Tensor::from<float>(values, {1, 2, 2, 9});
    x.set_requires_grad(true);
    const Tensor y = max_pool2d(x);
    for (size_t c = 0; c < 9; ++c) EXPECT_EQ(std::isnan(y.to_doubles()[c]), c == 2) << c;
    y.backward(Tensor::full({1, 1, 1, 9}, 1.0));
    EXPECT_EQ(x.grad().to_doubles()[9 + 2], 1.0);
    EXPECT_EQ(x.grad().to_doubles()[27 + 2], 0.0);
  }
}

TEST(MaxPool2dOp, PaddingNeverWins) {
  const Tensor x = Tensor::full({1, 3, 3, 8}, -7.0);
  const Tensor y = max_pool2d(x, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  EXPECT_EQ(y.shape(), (Shape{1, 2, 2, 8}));
  for (double value : y.to_doubles()) EXPECT_EQ(value, -7.0);
}

TEST(MaxPool2dOp, PlacesOfTheLargestWindowsHaveRoom) {
  const OpRecord& record = *value_or_throw(OpRegistry::builtin().find("max_pool2d"))->record;
  const auto places = [&](int side) {
    const TensorSpec x = {{1, side, side, 1}, DType::kF32};
    const bool defined = true;
    return record.infer({&x, 1}, {&defined, 1}, Pool2dAttrs{.kernel = {side, side}})[1].dtype;
  };
  EXPECT_EQ(places(16), DType::kU8);
  EXPECT_EQ(places(17), DType::kI32);
  EXPECT_EQ(places(1 << 16), DType::kI32);  // 2^32 places
}

TEST(MaxPool2dOp, SaysWhatIsWrongWithItsInputs) {
  const auto message = [](const Shape& shape, const Pool2dAttrs& attrs) -> std::string {
    try {
      max_pool2d(Tensor::zeros(shape), attrs);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_NE(message({2, 2}, {}).find("[max_pool2d] expected floating images"), std::string::npos);
  EXPECT_NE(message({1, 1, 1, 3}, {}).find("expected images of at least 2x2"), std::string::npos);
  EXPECT_NE(
      message({1, 4, 4, 3}, {.padding = {2, 2}}).find("expected padding of 0 to half the kernel, 1, got 2"),
      std::string::npos);
}

}  // namespace
}  // namespace dlpipe::engine
