// The same test of products, by cublasLt and cuBLAS; products with an epilogue, which only cublasLt has.
#include "base/text.h"
#include "tests/engine/cuda/gemm_test.cpp"  // NOLINT

namespace dlpipe::engine::cuda {
namespace {

TEST_P(Gemm, ByCublasAlone) {
  const UseGemmLibrary use(GemmLibrary::kCublas);
  expect_the_sums_of_the_loop(GetParam());
}

// Where a kernel is missing, the error says so, and kAuto takes cuBLAS's.
TEST_P(Gemm, ByCublasLtAlone) {
  const UseGemmLibrary use(GemmLibrary::kCublasLt);
  try {
    expect_the_sums_of_the_loop(GetParam());
  } catch (const Error& error) {
    ASSERT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    GTEST_SKIP() << error.what();
  }
}

struct EpilogueCase {
  const char* name;
  int64_t m, n, k;
  DType dtype;
};
const EpilogueCase kEpilogueCases[] = {{"linear", 96, 80, 64, kF32},
                                       {"odd sizes", 33, 17, 51, kF32},
                                       {"linear", 96, 80, 64, kBF16},
                                       {"odd sizes", 33, 17, 51, kBF16},
                                       {"many rows", 4096, 64, 128, kBF16}};

/// x [m,k] times weight [n,k] transposed, plus bias [n]: exact, then rounded once, or the product before the bias as well.
std::vector<double> rounded_sums(const std::vector<double>& x, const std::vector<double>& weight,
                                 const std::vector<double>& bias, const EpilogueCase& c, bool product_too) {
  std::vector<double> sums;
  for (int64_t i = 0; i < c.m; ++i) {
    for (int64_t j = 0; j < c.n; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < c.k; ++k)
        sum += x[static_cast<size_t>(i * c.k + k)] * weight[static_cast<size_t>(j * c.k + k)];
      if (product_too) sum = rounded(sum, c.dtype);
      sums.push_back(rounded(sum + bias[static_cast<size_t>(j)], c.dtype));
    }
  }
  return sums;
}

/// Empty where each is one of the two.
std::string first_difference(const std::vector<double>& got, const std::vector<double>& expected,
                             const std::vector<double>& or_this) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (got[i] != expected[i] && got[i] != or_this[i])
      return concat("the one at ", i, " is ", got[i], ", expected ", expected[i], " or ", or_this[i]);
  }
  return "";
}

/// As linear's forward: x [m,k], weight [n,k], bias [n]. Whole numbers, so that every order gives the bits.
TEST(GemmEpilogues, BiasIsAddedBeforeRounding) {
  if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  int done = 0;
  for (const EpilogueCase& c : kEpilogueCases) {
    SCOPED_TRACE(c.name);
    const Tensor x = on_device_of(numbers(c.m * c.k, 1), c.dtype);
    const Tensor weight = on_device_of(numbers(c.n * c.k, 2), c.dtype);
    for (uint32_t seed = 3; seed < 5; ++seed) {  // another vector with the same plan
      const std::vector<double> bias = numbers(c.n, seed);
      const Tensor vector = on_device_of(bias, c.dtype);
      const Tensor y = on_device_of(std::vector<double>(static_cast<size_t>(c.m * c.n), 9.0), c.dtype);
      if (!gemm_with(GemmEpilogue::kBias, vector.raw(), c.m, c.n, c.k, {x.raw(), c.k},
                     {weight.raw(), c.k, true}, {y.raw(), c.n, 0, c.dtype}, c.dtype))
        continue;
      ++done;
      const auto sums = [&](bool product_too) {
        return rounded_sums(x.to_doubles(), weight.to_doubles(), bias, c, product_too);
      };
      const std::vector<double> once = sums(false), twice = sums(true);
      EXPECT_EQ(first_difference(y.to_doubles(), once, once), "") << "by the epilogue";
      for (const GemmLibrary library : {GemmLibrary::kCublas, GemmLibrary::kAuto}) {
        const Tensor added = on_device_of(std::vector<double>(static_cast<size_t>(c.m * c.n)), c.dtype);
        stored(c.dtype, [&](auto type) { fill_rows<decltype(type)>(vector, added); });
        const UseGemmLibrary use(library);
        gemm(c.m, c.n, c.k, {x.raw(), c.k}, {weight.raw(), c.k, true}, {added.raw(), c.n, 0, c.dtype, true},
             c.dtype);
        EXPECT_EQ(first_difference(added.to_doubles(), once, twice), "")
            << "added to what stands there, "
            << (library == GemmLibrary::kCublas ? "by cuBLAS" : "by cublasLt, if it can");
      }
    }
  }
  if (done == 0) GTEST_SKIP() << "cublasLt has none of them";
}

/// As linear's backward: grad [k,m], x [k,n] give the weights' gradient [m,n] and the bias's [m].
TEST(GemmEpilogues, SumsOfAAreTheBiasGradient) {
  if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  int done = 0;
  for (const EpilogueCase& c : kEpilogueCases) {
    SCOPED_TRACE(c.name);
    const std::vector<double> gradients = numbers(c.k * c.m, 1);
    const Tensor grad = on_device_of(gradients, c.dtype);
    const Tensor x = on_device_of(numbers(c.k * c.n, 2), c.dtype);
    const Tensor sums = on_device_of(std::vector<double>(static_cast<size_t>(c.m), 9.0), c.dtype);
    const Tensor got = on_device_of(std::vector<double>(static_cast<size_t>(c.m * c.n), 9.0), c.dtype);
    if (!gemm_with(GemmEpilogue::kSumsOfA, sums.raw(), c.m, c.n, c.k, {grad.raw(), c.m, true}, {x.raw(), c.n},
                   {got.raw(), c.n, 0, c.dtype}, c.dtype))
      continue;
    ++done;
    std::vector<double> expected(static_cast<size_t>(c.m), 0.0);
    for (size_t i = 0; i < gradients.size(); ++i) expected[i % expected.size()] += gradients[i];
    for (double& sum : expected) sum = rounded(sum, c.dtype);
    EXPECT_EQ(sums.to_doubles(), expected);
    const Tensor weights = on_device_of(std::vector<double>(static_cast<size_t>(c.m * c.n)), c.dtype);
    const UseGemmLibrary use(GemmLibrary::kCublas);
    gemm(c.m, c.n, c.k, {grad.raw(), c.m, true}, {x.raw(), c.n}, {weights.raw(), c.n, 0, c.dtype}, c.dtype);
    EXPECT_EQ(got.to_doubles(), weights.to_doubles());
  }
  if (done == 0) GTEST_SKIP() << "cublasLt has none of them";
}

/// Terms whose sum depends on their order: the bits must not.
TEST(GemmPrecision, IsTheSameBitsEveryTime) {
  if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  for (const DType dtype : {kF32, kBF16}) {
    const int64_t m = 64, n = 96, k = 1 << 15;  // few results and many terms: where sums are cut
    std::vector<double> values = numbers(k * n, 7);
    for (double& value : values) value = value / 3;
    const Tensor a = on_device_of({values.begin(), values.begin() + k * m}, dtype);
    const Tensor b = on_device_of(values, dtype);
    std::vector<double> first;
    for (int run = 0; run < 5; ++run) {
      const Tensor c = on_device_of(std::vector<double>(m * n), kF32);
      gemm(m, n, k, {a.raw(), m, true}, {b.raw(), n}, {c.raw(), n}, dtype);
      if (run == 0) first = c.to_doubles();
      ASSERT_EQ(c.to_doubles(), first) << run;
    }
  }
}

TEST(GemmPrecision, Tf32RoundsFactorsWhereItIsAllowed) {
  if (device() == nullptr) GTEST_SKIP() << "no CUDA device";
  const UseTf32 use(true);
  const std::vector<double> fine(64 * 64, 1 + 0x1p-9);  // TF32 has it
  std::vector<double> identity(64 * 64, 0.0);
  for (size_t i = 0; i < 64; ++i) identity[i * 65] = 1;
  const Tensor a = on_device_of(fine, kF32), b = on_device_of(identity, kF32),
               c = on_device_of(identity, kF32);
  for (const GemmLibrary library : {GemmLibrary::kAuto, GemmLibrary::kCublas}) {
    const UseGemmLibrary from(library);
    gemm(64, 64, 64, {a.raw(), 64}, {b.raw(), 64}, {c.raw(), 64}, kF32);
    EXPECT_EQ(c.to_doubles(), fine);
  }
}

}  // namespace
}  // namespace dlpipe::engine::cuda
