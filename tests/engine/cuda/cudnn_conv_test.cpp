// conv2d by cuDNN beside conv2d by im2col and cuBLAS, on the first CUDA device; each skips where one of them
// isn't.
#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "engine/cuda/cudnn/cudnn_conv.h"
#include "tests/engine/check_op.h"
#include "tests/engine/cuda/cudnn_rig.h"

namespace dlpipe::engine {
namespace {

struct ConvCase {
  const char* name;
  Shape images;
  Shape weights;
  bool bias;
  Conv2dAttrs attrs;
};

std::vector<ConvCase> resnet_cases() {
  return {
      {"stem", {4, 64, 64, 3}, {64, 3, 7, 7}, false, {.stride = {2, 2}, .padding = {3, 3}}},
      {"1x1 up", {4, 14, 14, 64}, {256, 64, 1, 1}, false, {}},
      {"1x1 stride 2", {4, 14, 14, 256}, {512, 256, 1, 1}, false, {.stride = {2, 2}}},
      {"3x3", {4, 28, 28, 64}, {64, 64, 3, 3}, false, {.padding = {1, 1}}},
      {"3x3 stride 2", {4, 28, 28, 128}, {128, 128, 3, 3}, false, {.stride = {2, 2}, .padding = {1, 1}}},
      {"3x3 deep", {4, 7, 7, 512}, {512, 512, 3, 3}, false, {.padding = {1, 1}}},
      {"3x3 with bias", {4, 14, 14, 64}, {128, 64, 3, 3}, true, {.padding = {1, 1}}},
      {"3x3 with bias and relu",
       {4, 14, 14, 64},
       {128, 64, 3, 3},
       true,
       {.padding = {1, 1}, .activation = Activation::kRelu}},
      {"3x3 with relu",
       {4, 14, 14, 64},
       {128, 64, 3, 3},
       false,
       {.padding = {1, 1}, .activation = Activation::kRelu}},
      {"3x3 dilated", {4, 14, 14, 64}, {64, 64, 3, 3}, false, {.padding = {2, 2}, .dilation = {2, 2}}},
      {"32 groups", {4, 14, 14, 256}, {256, 8, 3, 3}, false, {.padding = {1, 1}, .groups = 32}},
  };
}

/// Outputs and the gradients of images, weights and bias, of numbers rounded to `dtype`, in `dtype` or as `in` says.
std::vector<std::vector<double>> run_conv(const ConvCase& c, DType dtype, Device& device, Cudnn library,
                                          std::optional<DType> in = {}) {
  const UseCudnn use(library);
  const auto random = [&](const Shape& shape, uint32_t seed) {
    return cast(random_tensor(shape, dtype, device, seed), in.value_or(dtype));
  };
  std::vector<Tensor> inputs = {random(c.images, 1), random(c.weights, 2)};
  if (c.bias) inputs.push_back(random({c.weights[0]}, 3));
  for (Tensor& input : inputs) input.set_requires_grad(true);
  const Tensor outputs = conv2d(inputs[0], inputs[1], c.bias ? inputs[2] : Tensor(), c.attrs);
  outputs.backward(random(outputs.shape(), 4));
  std::vector<std::vector<double>> out = {outputs.to_doubles()};
  for (const Tensor& input : inputs) out.push_back(input.grad().to_doubles());
  return out;
}

TEST(Cudnn, SaysWhatThereIs) {
  const std::string summary = cuda::cudnn_summary();
  std::cerr << summary << '\n';
  EXPECT_NE(summary.find("cuDNN"), std::string::npos);
  EXPECT_EQ(cuda::cudnn_summary(), summary);
}

TEST(CudnnConv2d, HasASlowTwinOfTheSameValues) {
  const Result<Device*> device = cuda_device(0);
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  const UseCudnn use(Cudnn::kNever);  // DeviceKernels checks the same samples by cuDNN
  check_on_device("conv2d", **device);
}

// Beside f32's sums of the same numbers by im2col. In f32 they differ by their order and by Winograd's transforms, some
// 1e-6; factors rounded to TF32 would leave 3e-4. Those of bf16 are rounded to 8 bits, at most 2^-9; of f16 to 11.
TEST(CudnnConv2d, GivesIm2colsValuesForResnetsShapes) {
  std::string why;
  Device* const device = device_with_cudnn(why);
  if (device == nullptr) GTEST_SKIP() << why;
  for (const ConvCase& c : resnet_cases()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto expected = run_conv(c, dtype, *device, Cudnn::kNever, DType::kF32);
      for (const Cudnn library : {Cudnn::kNever, Cudnn::kOnly}) {
        const auto got = run_conv(c, dtype, *device, library);
        const std::string what = dlpipe::concat(library == Cudnn::kOnly ? "by cuDNN, " : "by im2col, ",
                                                c.name, ", ", dtype_name(dtype), ", tensor ");
        for (size_t i = 0; i < expected.size(); ++i)
          EXPECT_LT(relative_error(got[i], expected[i]), dtype == DType::kF32 ? 5e-5 : 2e-3) << what << i;
      }
    }
  }
}

TEST(CudnnConv2d, ItsReluKeepsNan) {
  std::string why;
  Device* const device = device_with_cudnn(why);
  if (device == nullptr) GTEST_SKIP() << why;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    std::vector<float> values(4 * 14 * 14 * 64, 0.5f);
    values[(2 * 14 * 14 + 5 * 14 + 5) * 64] = NAN;  // of the third image, away from its border
    const Tensor images = cast(Tensor::from<float>(values, {4, 14, 14, 64}), dtype).to(*device);
    const Tensor weights = random_tensor({128, 64, 3, 3}, dtype, *device, 2);
    const Tensor bias = random_tensor({128}, dtype, *device, 3);
    const UseCudnn use(Cudnn::kOnly);
    const Tensor outputs =
        conv2d(images, weights, bias, {.padding = {1, 1}, .activation = Activation::kRelu});
    int64_t nan = 0;
    for (const double value : outputs.to_doubles()) nan += std::isnan(value) ? 1 : 0;
    EXPECT_EQ(nan, 9 * 128) << dtype_name(dtype);  // of the nine windows that see it
  }
}

TEST(CudnnConv2d, GivesTheSameBitsAgain) {
  std::string why;
  Device* const device = device_with_cudnn(why);
  if (device == nullptr) GTEST_SKIP() << why;
  for (const ConvCase& c : resnet_cases()) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto first = run_conv(c, dtype, *device, Cudnn::kAuto);
      EXPECT_EQ(run_conv(c, dtype, *device, Cudnn::kAuto), first) << c.name << ", " << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
