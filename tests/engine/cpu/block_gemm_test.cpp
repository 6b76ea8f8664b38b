#include "engine/cpu/gemm/gemm.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

#include "dlpipe/random.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine::cpu {
namespace {

std::vector<float> noise(int64_t count, uint64_t key) {
  RandomStream random(20261122, key);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform_double() * 2 - 1);
  return values;
}

struct Product {
  int64_t m, n, k;
};
const Product kCases[] = {{1, 1, 1},      {5, 16, 7},    {24, 16, 256},  {25, 17, 257},
                          {200, 40, 300}, {13, 500, 33}, {193, 385, 64}, {64, 96, 1000}};

struct Problem {
  explicit Problem(const Product& c)
      : a(noise(c.m * c.k, 1)),
        b(noise(c.k * c.n, 2)),
        bias(noise(c.n, 3)),
        c(static_cast<size_t>(c.m * c.n)) {}
  std::vector<float> a, b, bias, c;
};

TEST(BlockGemm, EqualsPlainLoopsForEveryTransposition) {
  for (const Product& s : kCases) {
    for (int kind = 0; kind < 8; ++kind) {
      const bool ta = (kind & 1) != 0, tb = (kind & 2) != 0, with_bias = (kind & 4) != 0;
      Problem p(s);
      std::fill(p.c.begin(), p.c.end(), NAN);
      block_gemm(s.m, s.n, s.k, {p.a.data(), ta}, {p.b.data(), tb}, with_bias ? p.bias.data() : nullptr,
                 p.c.data());
      double worst = 0;
      for (int64_t i = 0; i < s.m; ++i) {
        for (int64_t j = 0; j < s.n; ++j) {
          double sum = with_bias ? p.bias[static_cast<size_t>(j)] : 0.0;
          for (int64_t t = 0; t < s.k; ++t) {
            sum += double{p.a[static_cast<size_t>(ta ? t * s.m + i : i * s.k + t)]} *
                   p.b[static_cast<size_t>(tb ? j * s.k + t : t * s.n + j)];
          }
          const double difference = std::abs(p.c[static_cast<size_t>(i * s.n + j)] - sum);
          worst = difference <= worst ? worst : difference;
        }
      }
      EXPECT_LE(worst, 2e-7 * static_cast<double>(s.k) + 1e-6)
          << s.m << "x" << s.n << "x" << s.k << ", kind " << kind;
    }
  }
}

TEST(BlockGemm, IsTheSameBitsOnAnyNumberOfThreadsAndInAnyCut) {
  const int former = engine_threads();
  const Product s{200, 410, 600};
  Problem p(s);
  set_engine_threads(1);
  block_gemm(s.m, s.n, s.k, {p.a.data()}, {p.b.data()}, p.bias.data(), p.c.data());
  const std::vector<float> one = p.c;
  for (int threads : {2, 3, 8}) {
    set_engine_threads(threads);
    block_gemm(s.m, s.n, s.k, {p.a.data()}, {p.b.data()}, p.bias.data(), p.c.data());
    EXPECT_EQ(p.c, one) << threads;
  }
  set_engine_threads(former);
  // The first rows alone are another cut of the same sums.
  std::vector<float> few(static_cast<size_t>(30 * s.n));
  for (const int64_t rows : {1, 2, 5, 23, 30}) {
    block_gemm(rows, s.n, s.k, {p.a.data()}, {p.b.data()}, p.bias.data(), few.data());
    EXPECT_EQ(std::memcmp(few.data(), one.data(), static_cast<size_t>(rows * s.n) * sizeof(float)), 0)
        << rows;
  }
}

}  // namespace
}  // namespace dlpipe::engine::cpu
