#include "dlpipe/module.h"

#include <gtest/gtest.h>

#include <vector>

#include "dlpipe/random.h"
#include "engine/core/isa.h"

namespace dlpipe::engine {
namespace {

constexpr uint64_t kSeed = 0x0123456789abcdefu;
constexpr uint64_t kStream = 0x500000003u;  // both words of it

/// As many calls of one stream.
template <class Call>
std::vector<double> one_by_one(size_t count, Call call) {
  RandomStream random(kSeed, kStream);
  std::vector<double> values(count);
  for (double& value : values) value = call(random);
  return values;
}

// Counts that fill no block, no pair, several blocks and a whole stream of weights.
const std::vector<size_t> kCounts = {0, 1, 2, 7, 63, 64, 65, 1000, 4096};
const std::vector<cpu::Isa> kIsas = {cpu::Isa::kBaseline, cpu::Isa::kAvx2, cpu::Isa::kAvx512};

TEST(Draws, UniformNumbersAreThoseOfTheStream) {
  for (const size_t count : kCounts) {
    const auto expected = one_by_one(count, [](RandomStream& random) { return random.uniform_double(); });
    for (const cpu::Isa isa : kIsas) {
      const cpu::LimitIsa limit(isa);
      std::vector<double> values(count);
      draw_uniform(kSeed, kStream, values);
      EXPECT_EQ(values, expected) << count;
    }
  }
}

TEST(Draws, NormalNumbersAreThoseOfTheStream) {
  for (const size_t count : kCounts) {
    const auto expected = one_by_one(count, [](RandomStream& random) { return random.normal(); });
    for (const cpu::Isa isa : kIsas) {
      const cpu::LimitIsa limit(isa);
      std::vector<double> values(count);
      draw_normal(kSeed, kStream, values);
      EXPECT_EQ(values, expected) << count;
    }
  }
}

}  // namespace
}  // namespace dlpipe::engine
