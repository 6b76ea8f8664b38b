// self_attention by cuDNN beside our own kernels and the reference in f64, on the first CUDA device; each
// skips where one of them isn't. What cuDNN isn't asked for needs no device.
#include "engine/cuda/cudnn/cudnn_attention.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/text.h"
#include "tests/engine/check_op.h"
#include "tests/engine/cuda/attention_case.h"
#include "tests/engine/cuda/cudnn_rig.h"

// This file is host code, which grid.h takes for the simulated grid's.
namespace dlpipe::engine::cuda::on_device {
bool attend(const AttentionProblem& problem);
}

namespace dlpipe::engine {
namespace {

std::vector<AttentionCase> attention_cases() {
  return {{"gpt_char", 4, 256, 6, 64, true},      {"gpt_char_tiny", 16, 64, 4, 32, true},
          {"gpt2_small", 2, 1024, 12, 64, true},  {"vit_small_cifar", 32, 64, 6, 64, false},
          {"odd length", 2, 131, 3, 64, false},   {"odd length, causal", 2, 131, 3, 64, true},
          {"short, causal", 3, 7, 2, 32, true},   {"128 wide", 2, 200, 2, 128, false},
          {"40 wide, causal", 2, 96, 2, 40, true}};
}

/// Outputs and the gradient of qkv, on `device` or, in f64, by the reference.
std::vector<std::vector<double>> run_attention(const AttentionCase& c, DType dtype, Device& device,
                                               Cudnn forward, Cudnn backward) {
  Tensor qkv = random_tensor(c.qkv(), dtype, device, 1);
  qkv.set_requires_grad(true);
  Tensor outputs;
  {
    const UseCudnn use(forward);
    outputs = self_attention(qkv, c.heads, c.causal);
  }
  const UseCudnn use(backward);
  outputs.backward(random_tensor(c.outputs(), dtype, device, 2));
  return {outputs.to_doubles(), qkv.grad().to_doubles()};
}
std::vector<std::vector<double>> run_attention(const AttentionCase& c, DType dtype, Device& device,
                                               Cudnn library) {
  return run_attention(c, dtype, device, library, library);
}
/// The reference's values in f64 of what was rounded to `dtype`.
std::vector<std::vector<double>> reference_attention(const AttentionCase& c, DType dtype) {
  const auto input = [&](const Shape& shape, int seed) {
    return cast(random_tensor(shape, dtype, cpu_device(), seed), DType::kF64);
  };
  Tensor qkv = input(c.qkv(), 1);
  qkv.set_requires_grad(true);
  const Tensor outputs = self_attention(qkv, c.heads, c.causal);
  outputs.backward(input(c.outputs(), 2));
  return {outputs.to_doubles(), qkv.grad().to_doubles()};
}

/// cuDNN's backward is taken of Hopper alone (cudnn_attention.h).
Cudnn backward_library(Device& device) {
  try {
    run_attention({"", 1, 64, 1, 64, false}, DType::kBF16, device, Cudnn::kNever, Cudnn::kOnly);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return Cudnn::kNever;
  }
  return Cudnn::kOnly;
}

/// cuDNN rounds the softmax and its gradient before it multiplies with them, both round the results: in bf16
/// to 8 bits, each up to 2^-9 of a number; in f16 to 11.
double rounding(DType dtype) {
  return dtype == DType::kBF16 ? 1e-2 : 2e-3;
}

void expect_near(const std::vector<std::vector<double>>& got,
                 const std::vector<std::vector<double>>& expected, DType dtype, const std::string& what) {
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_LT(relative_error(got[i], expected[i]), rounding(dtype)) << what << ", tensor " << i;
}

TEST(CudnnAttention, HasASlowTwinOfTheSameValues) {
  const Result<Device*> device = cuda_device(0);
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  const UseCudnn use(Cudnn::kNever);  // DeviceKernels checks the same samples by cuDNN
  check_on_device("self_attention", **device);
}

TEST(CudnnAttention, GivesTheReferencesValues) {
  std::string why;
  Device* const device = device_with_cudnn(why);
  if (device == nullptr) GTEST_SKIP() << why;
  const Cudnn backward = backward_library(*device);
  for (const AttentionCase& c : attention_cases()) {
    if (c.length > 256) continue;  // slow on the host
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      expect_near(run_attention(c, dtype, *device, Cudnn::kOnly, backward), reference_attention(c, dtype),
                  dtype, dlpipe::concat(c.name, ", ", dtype_name(dtype)));
    }
  }
}

TEST(CudnnAttention, GivesOurKernelsValues) {
  std::string why;
  Device* const device = device_with_cudnn(why);
  if (device == nullptr) GTEST_SKIP() << why;
  const Cudnn backward = backward_library(*device);
  for (const AttentionCase& c : attention_cases()) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const auto expected = run_attention(c, dtype, *device, Cudnn::kNever);
      const std::string what = dlpipe::concat(c.name, ", ", dtype_name(dtype));
      expect_near(run_attention(c, dtype, *device, Cudnn::kOnly, backward), expected, dtype, what);
      // What either's forward leaves is the other's backward to go on with.
      expect_near(run_attention(c, dtype, *device, Cudnn::kOnly, Cudnn::kNever), expected, dtype,
                  what + ", backward by our kernels");
      expect_near(run_attention(c, dtype, *device, Cudnn::kNever, backward), expected, dtype,
                  what + ", forward by our kernels");
    }
  }
}

TEST(CudnnAttention, GivesTheSameBitsAgain) {
  std::string why;
  Device* const device = device_with_cudnn(why);
  if (device == nullptr) GTEST_SKIP() << why;
  for (const AttentionCase& c : attention_cases()) {
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      const auto first = run_attention(c, dtype, *device, Cudnn::kAuto);
      for (int again = 0; again < 2; ++again)  // atomics would differ now and then, at large sizes
        EXPECT_EQ(run_attention(c, dtype, *device, Cudnn::kAuto), first)
            << c.name << ", " << dtype_name(dtype);
    }
  }
}

TEST(CudnnAttention, LeavesTheRestToOurKernels) {
  const auto attend = [](DType dtype, int64_t width) {
    return cuda::on_device::attend({.pass = cuda::AttentionPass::kForward,
                                    .shape = AttentionShape({2, 64, 3 * 2 * width}, {2, false}),
                                    .dtype = dtype});
  };
  {
    const UseCudnn use(Cudnn::kNever);
    EXPECT_FALSE(attend(DType::kBF16, 64));
  }
  EXPECT_FALSE(attend(DType::kF32, 64));
  EXPECT_FALSE(attend(DType::kBF16, 100));
  const UseCudnn use(Cudnn::kOnly);
  try {
    attend(DType::kF32, 64);
    ADD_FAILURE() << "cuDNN took f32";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("f32"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dlpipe::engine
