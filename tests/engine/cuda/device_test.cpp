// Every op's kernels on the first CUDA device. Skips where there is none.
#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "dlpipe/ops.h"

#include "tests/engine/check_op.h"
#include "tests/engine/cuda/large_samples.h"

namespace dlpipe::engine {
namespace {

std::vector<std::string> cuda_ops() {
  std::vector<std::string> names;
  for (const OpRow& row : op_table()) {
    const std::string name = row.record->name;  // cast's samples are of f64, which CUDA has no kernels for
    if (row.kernels[static_cast<int>(Backend::kCuda)] != nullptr && name != "cast") names.push_back(name);
  }
  return names;
}

class DeviceKernels : public testing::TestWithParam<std::string> {};

TEST_P(DeviceKernels, GiveTheReferencesValues) {
  const Result<Device*> device = cuda_device(0);
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  check_on_device(GetParam().c_str(), **device);
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceKernels, testing::ValuesIn(cuda_ops()),
                         [](const auto& param) { return param.param; });

struct MoreSamples {
  const char* op;
  std::vector<OpSample> (*samples)();
};
class DeviceKernelsOfMore : public testing::TestWithParam<MoreSamples> {};

TEST_P(DeviceKernelsOfMore, GiveTheReferencesValues) {
  const Result<Device*> device = cuda_device(0);
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  check_on_device(GetParam().op, **device, GetParam().samples);
}

INSTANTIATE_TEST_SUITE_P(Cuda, DeviceKernelsOfMore,
                         testing::Values(MoreSamples{"linear", linear_of_long_rows},
                                         MoreSamples{"conv2d", conv2d_of_few_channels},
                                         MoreSamples{"layer_norm", layer_norm_of_many_rows},
                                         MoreSamples{"add_layer_norm", add_layer_norm_of_many_rows}),
                         [](const auto& param) { return std::string(param.param.op); });

TEST(CudaCast, RoundsAsTheCpuDoes) {
  const Result<Device*> device = cuda_device(0);
  if (!device.ok()) GTEST_SKIP() << device.status().message();
  std::vector<float> values;
  for (uint64_t bits = 0; bits < 0x7f800000u; bits += 0x00012345u)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  const Tensor x = Tensor::from<float>(values, {static_cast<int64_t>(values.size())});
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const Tensor there = cast(x.to(**device), low);
    EXPECT_EQ(there.to_doubles(), cast(x, low).to_doubles()) << dtype_name(low);
    EXPECT_EQ(cast(there, DType::kF32).to_doubles(), there.to_doubles()) << dtype_name(low);
  }
}

}  // namespace
}  // namespace dlpipe::engine
