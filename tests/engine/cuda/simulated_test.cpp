#include "tests/engine/cuda/simulated.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/ops.h"
#include "engine/core/device_memory.h"
#include "engine/ops/conversions.h"
#include "tests/base/device/violations.h"
#include "tests/engine/check_op.h"
#include "tests/engine/cuda/check_simulated.h"
#include "tests/engine/cuda/large_samples.h"

namespace dlpipe::engine {
namespace {

class SimulatedKernels : public testing::TestWithParam<SimulatedRow> {};

TEST_P(SimulatedKernels, GiveTheReferencesValues) {
  check_kernels(GetParam().name, *GetParam().kernels);
}

/// The same through apply and autograd, in memory that the host can't touch.
TEST_P(SimulatedKernels, NeedNoHostOnADevice) {
  static SimulatedDevice device(std::chrono::microseconds(0));  // as long as the thread's stream
  const SimulatedCuda kernels(device);
  check_on_device(GetParam().name, device);
  synchronize(device);
  expect_no_violations(device);
}

/// conv2d as it goes to a library: low images of a few channels are folded.
TEST(SimulatedConvolutions, GiveTheReferencesValues) {
  const SimulatedConvolutions library;
  check_kernels("conv2d", simulated_kernels("conv2d"));
  std::map<int64_t, int> folded;
  for (const SimulatedConvolutions::Images& one : library.images()) {
    if (one.dtype != DType::kF32) ++folded[one.channels];
  }
  EXPECT_GT(folded[8], 10);
  EXPECT_GT(folded[16], 1);
  check_simulated("conv2d", conv2d_of_few_channels);
}

TEST(SimulatedLayerNorm, OfManyAndOfWideRows) {
  check_kernels("layer_norm", simulated_kernels("layer_norm"), layer_norm_of_many_rows);
}
TEST(SimulatedAddLayerNorm, OfManyAndOfWideRows) {
  check_kernels("add_layer_norm", simulated_kernels("add_layer_norm"), add_layer_norm_of_many_rows);
}

/// A filter that is folded ends in zeros, and zero times NaN is NaN: windows that only the longer filter reaches get one, too.
TEST(SimulatedConvolutions, NanReachesOnePixelFurtherWhereFiltersAreFolded) {
  std::vector<float> values(8 * 8 * 3, 0.5f);
  values[4 * 3] = NAN;  // of row 0: seen by the outputs' row 0 alone, and folded by row 1
  const Tensor images = cast(Tensor::from<float>(values, {1, 8, 8, 3}), DType::kBF16);
  const Tensor weights = Tensor::full({1, 3, 3, 3}, 0.25, DType::kBF16);
  const Attrs attrs(Conv2dAttrs{.stride = {2, 2}, .padding = {1, 1}});
  const auto rows_with_nan = [&] {
    const std::vector<Tensor> inputs = {images, weights};
    std::vector<Tensor> outputs = {Tensor::empty({1, 4, 4, 1}, DType::kBF16)};
    simulated_kernels("conv2d").forward({inputs, outputs, attrs});
    const std::vector<double> out = outputs[0].to_doubles();
    std::vector<int> rows;
    for (int row = 0; row < 4; ++row) {
      if (std::any_of(out.begin() + 4 * row, out.begin() + 4 * (row + 1),
                      [](double y) { return std::isnan(y); }))
        rows.push_back(row);
    }
    return rows;
  };
  EXPECT_EQ(rows_with_nan(), std::vector<int>{0});
  const SimulatedConvolutions library;
  EXPECT_EQ(rows_with_nan(), (std::vector<int>{0, 1}));
}

/// cast has a test of its own: its samples are of f64, which CUDA has no kernels for.
std::vector<SimulatedRow> rows_with_samples() {
  std::vector<SimulatedRow> rows;
  for (const SimulatedRow& row : simulated_table()) {
    if (std::string_view(row.name) != "cast") rows.push_back(row);
  }
  return rows;
}

INSTANTIATE_TEST_SUITE_P(Cuda, SimulatedKernels, testing::ValuesIn(rows_with_samples()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(SimulatedCast, RoundsAsTheCpuDoes) {
  const Kernels& kernels = simulated_kernels("cast");
  std::vector<float> values;
  for (uint64_t bits = 0; bits < 0xffff0000u; bits += 0x00012345u)
    values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  values.insert(values.end(), {NAN, INFINITY, -INFINITY, -0.0f});
  const Tensor x = Tensor::from<float>(values, {static_cast<int64_t>(values.size())});
  for (const DType low : {DType::kBF16, DType::kF16}) {
    const Tensor expected = cast(x, low);
    const std::vector<Tensor> inputs = {x};
    std::vector<Tensor> outputs = {Tensor::empty(x.shape(), low)};
    const Attrs attrs(CastAttrs{low});
    kernels.forward({inputs, outputs, attrs});
    EXPECT_EQ(std::memcmp(outputs[0].raw(), expected.raw(), expected.size_bytes()), 0) << dtype_name(low);
    std::vector<Tensor> wide = {Tensor::empty(x.shape())};
    kernels.backward({{}, {}, outputs, wide, attrs});
    const Tensor expected_wide = cast(expected, DType::kF32);
    EXPECT_EQ(std::memcmp(wide[0].raw(), expected_wide.raw(), expected_wide.size_bytes()), 0)
        << dtype_name(low);
  }
}

}  // namespace
}  // namespace dlpipe::engine
