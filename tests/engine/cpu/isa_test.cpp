// What a lesser machine computes. Each case has a process of its own: the first kernel settles the instruction set for the rest of one.
#include "engine/core/isa.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <iostream>
#include <vector>

#include "dlpipe/random.h"
#include "engine/core/kernel_table.h"
#include "engine/cpu/conv/conv2d_product.h"
#include "engine/cpu/conv/unit_kernels.h"
#include "engine/cpu/gemm/block_product.h"
#include "engine/cpu/gemm/gemm.h"

namespace dlpipe::engine::cpu {
namespace {

class IsaTest : public testing::Test {
 protected:
  IsaTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

[[noreturn]] void leave(bool is_right) {
  std::exit(is_right ? 0 : 1);
}

/// What kernels of every kind take together.
bool runs(KernelIsa wanted, Isa loops, int64_t lanes) {
  const BlockProduct& product = block_product();  // before anybody asks kernel_isa()
  (void)hwy::SupportedTargets();                  // has Highway choose anew
  std::cerr << isa_name(kernel_isa()) << ", loops " << static_cast<int>(isa()) << ", lanes "
            << product.panel / 2 << " " << unit_kernels().lanes << " " << pixel_product().lanes << '\n';
  return kernel_isa() == wanted && isa() == loops && product.panel == 2 * lanes &&
         block_product().panel == 2 * lanes && unit_kernels().lanes == lanes &&
         pixel_product().lanes == lanes;
}

TEST_F(IsaTest, TheVariableOfOneDnnHoldsAllKernels) {
  if ((hwy::SupportedTargets() & HWY_AVX2) == 0) GTEST_SKIP() << "there is nothing to leave out";
  for (const char* name : {"avx2", "AVX2"}) {
    EXPECT_EXIT(
        {
          ::setenv("ONEDNN_MAX_CPU_ISA", name, 1);
          leave(runs(KernelIsa::kAvx2, Isa::kAvx2, 8));
        },
        testing::ExitedWithCode(0), "");
  }
  EXPECT_EXIT(
      {
        ::setenv("ONEDNN_MAX_CPU_ISA", "SSE41", 1);
        leave(runs(KernelIsa::kSse41, Isa::kBaseline, 4));
      },
      testing::ExitedWithCode(0), "");
}

std::vector<float> product_of_24_columns() {
  constexpr int64_t kRows = 64, kColumns = 24, kTerms = 64;
  RandomStream random(20261128, 1);
  std::vector<float> a(kRows * kTerms), b(kTerms * kColumns), c(kRows * kColumns);
  for (float& value : a) value = random.uniform() - 0.5f;
  for (float& value : b) value = random.uniform() - 0.5f;
  gemm(kRows, kColumns, kTerms, {a.data()}, {b.data()}, nullptr, c.data(), DType::kF32);
  return c;
}

// Fewer columns than a panel of AVX-512 go elsewhere there, and are blocks on AVX2.
TEST_F(IsaTest, ALimitedMachineComputesTheBitsOfALesserOne) {
  if ((hwy::SupportedTargets() & HWY_AVX2) == 0) GTEST_SKIP() << "there is nothing to leave out";
  EXPECT_EXIT(
      {
        throw_if_error(limit_kernel_isa(KernelIsa::kAvx2));
        const std::vector<float> limited = product_of_24_columns();
        hwy::SetSupportedTargetsForTest(HWY_AVX2 | HWY_SSE4);
        leave(limited == product_of_24_columns() && runs(KernelIsa::kAvx2, Isa::kAvx2, 8));
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace dlpipe::engine::cpu
