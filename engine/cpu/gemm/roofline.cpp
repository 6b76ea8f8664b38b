#include "engine/cpu/gemm/roofline.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/counters.h"
#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "engine/cpu/gemm/block_product.h"
#include "engine/cpu/gemm/gemm.h"
#include "engine/cpu/gemm/pair_product.h"

namespace dlpipe::engine {
namespace {

/// The best rate of `round`, which does `work` in all, over repeated rounds.
template <class Round>
double best_rate(double work, double seconds, const Round& round) {
  double best = 0;
  const int64_t begin = now_ns();
  do {
    const int64_t start = now_ns();
    round();
    best = std::max(best, work / (static_cast<double>(std::max<int64_t>(1, now_ns() - start)) * 1e-9));
  } while (static_cast<double>(now_ns() - begin) * 1e-9 < seconds);
  return best;
}

// A product whose matrices have 28 KiB in all: rows of a, a strip of b, the result.
constexpr int64_t kRows = 24, kTerms = 64, kRepeats = 4000;

double f32_flops_per_s(double seconds) {
  const auto threads = static_cast<int64_t>(engine_threads());
  const cpu::BlockProduct& product = cpu::block_product();
  const int64_t columns = product.wide;
  const double work =
      2.0 * kRows * kTerms * static_cast<double>(columns) * kRepeats * static_cast<double>(threads);
  return best_rate(work, seconds, [&] {
    parallel_slices(threads, [&](int64_t) {
      std::vector<float> a(kRows * kTerms, 1.0f), b(static_cast<size_t>(kTerms * columns), 1.0f),
          c(static_cast<size_t>(kRows * columns));
      for (int64_t i = 0; i < kRepeats; ++i)
        product.run({a.data(), kTerms, 1}, b.data(), columns, kTerms, c.data(), columns, kRows, columns,
                    false);
    });
  });
}

double pair_flops_per_s(double seconds) {
  const auto threads = static_cast<int64_t>(engine_threads());
  constexpr int64_t kColumns = 64;
  constexpr double kWork = 2.0 * kRows * kTerms * kColumns * kRepeats;
  return best_rate(kWork * static_cast<double>(threads), seconds, [&] {
    parallel_slices(threads, [&](int64_t) {
      const cpu::PairPanels panels{kTerms, kColumns};
      const std::vector<BFloat16> a(kRows * kTerms, BFloat16(1.0f)), b(kTerms * kColumns, BFloat16(1.0f));
      std::vector<float> c(kRows * kColumns);
      cpu::PairProduct product;
      product.a = a.data(), product.a_row = kTerms, product.rows = kRows, product.terms = kTerms;
      product.b = b.data(), product.panels = panels, product.columns = kColumns;
      product.wide = c.data(), product.y_row = kColumns;
      for (int64_t i = 0; i < kRepeats; ++i) cpu::pair_product(product);
    });
  });
}

/// With AMX, which only oneDNN uses here: a product large enough for its kernels.
double tile_flops_per_s(double seconds) {
  constexpr int64_t kSide = 1024;
  const Tensor a = Tensor::full({kSide, kSide}, 1.0, DType::kBF16),
               y = Tensor::empty({kSide, kSide}, DType::kBF16);
  return best_rate(2.0 * kSide * kSide * kSide, seconds, [&] {
    cpu::onednn_gemm(kSide, kSide, kSide, {a.raw(), false, nullptr}, {a.raw(), false, nullptr}, nullptr,
                     y.raw(), DType::kBF16);
  });
}

}  // namespace

Roofline measure_roofline(DType dtype, double seconds) {
  Roofline roofline;
  const auto threads = static_cast<int64_t>(engine_threads());
  const bool in_bf16 = dtype == DType::kBF16 && cpu::has_pair_products();
  if (in_bf16) roofline.dtype = DType::kBF16;
  const auto flops = !in_bf16                          ? f32_flops_per_s
                     : kernel_isa() >= KernelIsa::kAmx ? tile_flops_per_s
                                                       : pair_flops_per_s;
  roofline.flops_per_s = flops(seconds / 2);
  constexpr size_t kBytes = size_t{64} << 20;  // a thread
  std::vector<char> from(kBytes * static_cast<size_t>(threads), 1), to(from.size());
  roofline.bytes_per_s = best_rate(2.0 * static_cast<double>(from.size()), seconds / 2, [&] {
    parallel_slices(threads, [&](int64_t i) {
      const size_t offset = static_cast<size_t>(i) * kBytes;
      std::memcpy(to.data() + offset, from.data() + offset, kBytes);
    });
  });
  return roofline;
}

}  // namespace dlpipe::engine
