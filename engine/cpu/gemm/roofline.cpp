#include "engine/cpu/gemm/roofline.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/counters.h"
#include "engine/core/parallel.h"
#include "engine/cpu/gemm/block_product.h"

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

}  // namespace

Roofline measure_roofline(double seconds) {
  Roofline roofline;
  const auto threads = static_cast<int64_t>(engine_threads());
  const cpu::BlockProduct& product = cpu::block_product();
  {
    // 28 KiB in all: rows of a, a strip of b, the result.
    constexpr int64_t kRows = 24, kTerms = 64;
    constexpr int64_t kRepeats = 4000;
    const int64_t columns = product.wide;
    const double work =
        2.0 * kRows * kTerms * static_cast<double>(columns) * kRepeats * static_cast<double>(threads);
    roofline.flops_per_s = best_rate(work, seconds / 2, [&] {
      parallel_slices(threads, [&](int64_t) {
        std::vector<float> a(kRows * kTerms, 1.0f), b(static_cast<size_t>(kTerms * columns), 1.0f),
            c(static_cast<size_t>(kRows * columns));
        for (int64_t i = 0; i < kRepeats; ++i)
          product.run({a.data(), kTerms, 1}, b.data(), columns, kTerms, c.data(), columns, kRows, columns,
                      false);
      });
    });
  }
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
