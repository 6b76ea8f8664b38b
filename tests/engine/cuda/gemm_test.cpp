// Matrix products against double loops: as C++ those of the simulated grid, compiled by nvcc (-x cu)
// cublasLt's and cuBLAS's. Factors are whole numbers, so that every order of a sum gives the same bits.
#include "engine/cuda/gemm/gemm.h"

#include <gtest/gtest.h>

#include <vector>

namespace dlpipe::engine::cuda {
namespace {

Device* device() {
#if defined(__CUDACC__)
  const Result<Device*> cuda = cuda_device(0);
  return cuda.ok() ? *cuda : nullptr;
#else
  return &cpu_device();
#endif
}

double rounded(double value, DType dtype) {
  double out = 0;
  stored(dtype, [&](auto type) {
    out = static_cast<double>(static_cast<float>(decltype(type)(static_cast<float>(value))));
  });
  return out;
}

Tensor on_device_of(const std::vector<double>& values, DType dtype) {
  const Tensor tensor = Tensor::empty({{static_cast<int64_t>(values.size())}, dtype}, *device());
  Tensor to = tensor;
  stored(dtype, [&](auto type) {
    std::vector<decltype(type)> narrow;
    for (const double value : values) narrow.emplace_back(static_cast<float>(value));
    to.copy_from_host(narrow.data(), tensor.size_bytes());
  });
  return tensor;
}

/// Whole numbers from -4 to 4.
std::vector<double> numbers(int64_t count, uint32_t seed) {
  std::vector<double> values;
  for (uint32_t state = seed; count > 0; --count) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator
    values.push_back(static_cast<double>((state >> 16) % 9) - 4);
  }
  return values;
}

struct Case {
  const char* name;
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
  int64_t gap = 0;  // elements between a matrix's rows
  int64_t batch = 1;
  bool one_b = false;         // for the batch
  bool side_by_side = false;  // matrices of the batch are column blocks of one
  bool accumulate = false;
  DType dtype = DType::kF32;
  DType result = DType::kF32;
};

/// Where a batch of matrices lies.
struct Place {
  int64_t rows, columns, row, stride, elements;
  Place(const Case& c, int64_t rows_, int64_t columns_, bool one)
      : rows(rows_),
        columns(columns_),
        row((c.side_by_side && !one ? c.batch : 1) * columns + c.gap),
        stride(one              ? 0
               : c.side_by_side ? columns
                                : rows * row + 3),
        elements(stride * (c.batch - 1) + rows * row) {}
  size_t at(int64_t matrix, int64_t r, int64_t column) const {
    return static_cast<size_t>(matrix * stride + r * row + column);
  }
};

class Gemm : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  }
};

void expect_the_sums_of_the_loop(const Case& c) {
  const Place at_a(c, c.transpose_a ? c.k : c.m, c.transpose_a ? c.m : c.k, false);
  const Place at_b(c, c.transpose_b ? c.n : c.k, c.transpose_b ? c.k : c.n, c.one_b);
  const Place at_c(c, c.m, c.n, false);
  const std::vector<double> a = numbers(at_a.elements, 1);
  const std::vector<double> b = numbers(at_b.elements, 2);
  std::vector<double> expected = numbers(at_c.elements, 3);
  const Tensor in_a = on_device_of(a, c.dtype);
  const Tensor in_b = on_device_of(b, c.dtype);
  const Tensor out = on_device_of(expected, c.result);
  for (int64_t i = 0; i < c.batch; ++i) {
    for (int64_t m = 0; m < c.m; ++m) {
      for (int64_t n = 0; n < c.n; ++n) {
        double sum = c.accumulate ? expected[at_c.at(i, m, n)] : 0;
        for (int64_t k = 0; k < c.k; ++k) {
          sum += a[c.transpose_a ? at_a.at(i, k, m) : at_a.at(i, m, k)] *
                 b[c.transpose_b ? at_b.at(i, n, k) : at_b.at(i, k, n)];
        }
        expected[at_c.at(i, m, n)] = rounded(sum, c.result);
      }
    }
  }
  gemm(c.m, c.n, c.k, {in_a.raw(), at_a.row, c.transpose_a, at_a.stride},
       {in_b.raw(), at_b.row, c.transpose_b, at_b.stride},
       {out.raw(), at_c.row, at_c.stride, c.result, c.accumulate}, c.dtype, c.batch);
  EXPECT_EQ(out.to_doubles(), expected);  // and what lies between rows and matrices is as it was
}

TEST_P(Gemm, GivesTheSumsOfTheLoop) {
  expect_the_sums_of_the_loop(GetParam());
}

constexpr DType kF32 = DType::kF32;
constexpr DType kBF16 = DType::kBF16;
constexpr DType kF16 = DType::kF16;
const Case kCases[] = {
    {.name = "Plain", .m = 5, .n = 3, .k = 7},
    {.name = "ATransposed", .m = 5, .n = 3, .k = 7, .transpose_a = true},
    {.name = "BTransposed", .m = 5, .n = 3, .k = 7, .transpose_b = true},
    {.name = "BothTransposed", .m = 5, .n = 3, .k = 7, .transpose_a = true, .transpose_b = true},
    {.name = "Vectors", .m = 1, .n = 1, .k = 300},
    {.name = "Large", .m = 130, .n = 67, .k = 257, .transpose_b = true},
    {.name = "WideRows", .m = 5, .n = 4, .k = 6, .transpose_a = true, .gap = 5},
    {.name = "Accumulates", .m = 9, .n = 8, .k = 33, .gap = 2, .accumulate = true},
    {.name = "Batch", .m = 4, .n = 6, .k = 5, .transpose_b = true, .batch = 7},
    {.name = "BatchAccumulates", .m = 4, .n = 6, .k = 5, .gap = 1, .batch = 3, .accumulate = true},
    {.name = "OneBForAll", .m = 4, .n = 6, .k = 5, .batch = 3, .one_b = true},
    {.name = "ColumnBlocks", .m = 6, .n = 4, .k = 8, .batch = 3, .side_by_side = true},
    {.name = "ColumnBlocksTransposed",
     .m = 6,
     .n = 4,
     .k = 8,
     .transpose_a = true,
     .batch = 3,
     .side_by_side = true},
    {.name = "Low", .m = 17, .n = 9, .k = 40, .transpose_b = true, .dtype = kBF16, .result = kBF16},
    {.name = "LowAccumulates", .m = 17, .n = 9, .k = 40, .accumulate = true, .dtype = kBF16, .result = kBF16},
    {.name = "LowIntoF32", .m = 8, .n = 8, .k = 999, .transpose_a = true, .dtype = kBF16, .result = kF32},
    {.name = "LowIntoF32Accumulates",
     .m = 3,
     .n = 5,
     .k = 99,
     .gap = 3,
     .batch = 2,
     .accumulate = true,
     .dtype = kBF16,
     .result = kF32},
    {.name = "Half", .m = 17, .n = 9, .k = 40, .transpose_b = true, .dtype = kF16, .result = kF16},
    {.name = "HalfAccumulates", .m = 17, .n = 9, .k = 40, .accumulate = true, .dtype = kF16, .result = kF16},
    {.name = "HalfIntoF32", .m = 8, .n = 8, .k = 999, .transpose_a = true, .dtype = kF16, .result = kF32},
    {.name = "NoTermsAreZero", .m = 3, .n = 2, .k = 0, .gap = 2, .batch = 2},
    {.name = "NoTermsAddNothing", .m = 3, .n = 2, .k = 0, .accumulate = true},
    {.name = "NoRows", .m = 0, .n = 2, .k = 3},
};
INSTANTIATE_TEST_SUITE_P(Cuda, Gemm, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(GemmPrecision, F32KeepsAllBits) {
  if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  const std::vector<double> fine(64 * 64, 1 + 0x1p-20);  // 1 in TF32
  std::vector<double> identity(64 * 64, 0.0);
  for (size_t i = 0; i < 64; ++i) identity[i * 65] = 1;
  const Tensor a = on_device_of(fine, kF32);
  const Tensor b = on_device_of(identity, kF32);
  const Tensor c = on_device_of(identity, kF32);
  gemm(64, 64, 64, {a.raw(), 64}, {b.raw(), 64}, {c.raw(), 64}, kF32);
  EXPECT_EQ(c.to_doubles(), fine);
}

TEST(GemmPrecision, LowSumsAreF32) {
  if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  for (const DType dtype : {kBF16, kF16}) {
    const Tensor ones = on_device_of(std::vector<double>(4096, 1.0), dtype);  // sums would stay at 256, 2048
    const Tensor c = on_device_of({0.0}, dtype);
    gemm(1, 1, 4096, {ones.raw(), 4096}, {ones.raw(), 1}, {c.raw(), 1, 0, dtype}, dtype);
    EXPECT_EQ(c.item(), 4096) << dtype_name(dtype);
  }
}

TEST(FillRowsKernel, WritesEveryRow) {
  if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  for (const int64_t columns : {5, 8, 300}) {  // in elements and in packs, several blocks
    for (const DType dtype : {kF32, kBF16, kF16}) {
      const std::vector<double> row = numbers(columns, 4);
      const Tensor to = on_device_of(std::vector<double>(static_cast<size_t>(columns * 21), 9.0), dtype);
      stored(dtype, [&](auto type) { fill_rows<decltype(type)>(on_device_of(row, dtype), to); });
      const std::vector<double> got = to.to_doubles();
      for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], row[i % row.size()]) << columns << ", " << i;
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine::cuda
