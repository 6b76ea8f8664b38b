// Tensors on a device that isn't the host: the simulated one, which watches what is copied when.
#include <gtest/gtest.h>

#include <array>
#include <numeric>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/ops/ops.h"
#include "tests/base/device/violations.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::engine {
namespace {

// Lives as long as the streams that threads have on it.
SimulatedDevice& device() {
  static SimulatedDevice simulated(std::chrono::microseconds(50));
  return simulated;
}

class DeviceTensor : public testing::Test {
 protected:
  void TearDown() override {
    synchronize(device());
    expect_no_violations(device());
  }
};

TEST_F(DeviceTensor, KeepsItsValuesThereAndBack) {
  const Tensor host = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor there = host.to(device());
  EXPECT_EQ(&there.device(), &device());
  EXPECT_EQ(there.shape(), host.shape());
  EXPECT_EQ(there.to_doubles(), host.to_doubles());
  EXPECT_EQ(there.clone().to(cpu_device()).to_doubles(), host.to_doubles());
}

TEST_F(DeviceTensor, StridedViewsComeContiguous) {
  const Tensor host = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor transposed = host.view_as({3, 2}, std::array<int64_t, 2>{1, 3}, 0);
  EXPECT_EQ(transposed.to(device()).to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
}

TEST_F(DeviceTensor, LargerThanOneCopy) {
  std::vector<int32_t> values(3'000'000);  // 12 MB
  std::iota(values.begin(), values.end(), 0);
  const Tensor there = Tensor::from<int32_t>(values, {3'000'000}).to(device()).clone();
  const Tensor back = there.to(cpu_device());
  EXPECT_TRUE(std::equal(values.begin(), values.end(), back.data<int32_t>()));
}

TEST_F(DeviceTensor, IsFilledAndWrittenFromTheHost) {
  const SimulatedCuda kernels(device());
  for (const DType dtype : {DType::kU8, DType::kBF16, DType::kF16, DType::kF32, DType::kF64, DType::kI64}) {
    const Tensor there = Tensor::full({300}, 3, dtype, device());
    EXPECT_EQ(there.to_doubles(), std::vector<double>(300, 3)) << dtype_name(dtype);
  }
  Tensor number = Tensor::empty({Shape(), DType::kF32}, device());
  const float value = 7;
  const uint32_t version = number.version();
  number.copy_from_host(&value, sizeof value);
  EXPECT_EQ(number.item(), 7);
  EXPECT_GT(number.version(), version);
}

TEST_F(DeviceTensor, WhatIsThereIsNotCopied) {
  const Tensor there = Tensor::full({4}, 1.0).to(device());
  EXPECT_EQ(there.to(device()).raw(), there.raw());
}

TEST_F(DeviceTensor, OpsAndViewsRunThere) {
  const SimulatedCuda kernels(device());
  const Tensor host = Tensor::from<float>(std::array<float, 6>{0, 1, 2, 3, 4, 5}, {2, 3});
  const Tensor there = host.to(device());
  EXPECT_EQ(transpose(there, {1, 0}).contiguous_copy().to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  Tensor weight = host.to(device());
  weight.set_requires_grad(true);
  sum(mul(weight, add(there, there))).backward();
  EXPECT_EQ(&weight.grad().device(), &device());
  EXPECT_EQ(weight.grad().to_doubles(), (std::vector<double>{0, 2, 4, 6, 8, 10}));
}

// Counts that only the host looks at would be waited for.
TEST_F(DeviceTensor, ModulesTakeTheirFloatsThereAndLeaveTheirCounts) {
  BatchNorm2d layer(4);
  layer.to(device());
  int counts = 0;
  for (const NamedTensor& entry : layer.state_dict()) {
    const bool is_count = entry.name == "num_batches_tracked";
    counts += is_count ? 1 : 0;
    EXPECT_EQ(&entry.tensor.device(), is_count ? &cpu_device() : &device()) << entry.name;
  }
  EXPECT_EQ(counts, 1);
}

TEST_F(DeviceTensor, WithoutKernelsItSaysWhy) {
  const Tensor there = Tensor::full({2, 3}, 1.0).to(device());
  const Tensor transposed = there.view_as({3, 2}, std::array<int64_t, 2>{1, 3}, 0);
  try {
    (void)transposed.contiguous_copy();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("simulated"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace dlpipe::engine
