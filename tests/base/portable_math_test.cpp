#include "base/portable_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "dlpipe/random.h"

namespace dlpipe {
namespace {

constexpr int kDraws = 100000;
constexpr double kUnit = 0x1p-52;
constexpr double kLibrary = 1;  // units that the C library, with which this compares, may be wrong by itself

double units(double got, double expected) {
  return std::abs(got - expected) / std::ldexp(kUnit, std::ilogb(expected));
}

TEST(PortableMath, LogIsWithinItsUnits) {
  RandomStream random(1, 0);
  for (int i = 0; i < kDraws; ++i) {
    const double x = 1 - random.uniform_double();
    if (x == 1) continue;
    ASSERT_LE(units(portable_log(x), std::log(x)), 4 + kLibrary) << x;
    ASSERT_LE(units(portable_log(1 / x), std::log(1 / x)), 4 + kLibrary) << 1 / x;
  }
  EXPECT_EQ(portable_log(1), 0);
}

TEST(PortableMath, ExpIsWithinItsUnits) {
  RandomStream random(2, 0);
  for (int i = 0; i < kDraws; ++i) {
    const double x = (random.uniform_double() - 0.5) * (i % 2 == 0 ? 2 : 1200);
    ASSERT_LE(units(portable_exp(x), std::exp(x)), 3 + 2 * std::abs(x) + kLibrary) << x;
  }
  EXPECT_EQ(portable_exp(0), 1);
  EXPECT_EQ(portable_exp(-1000), 0);
  EXPECT_EQ(portable_exp(1000), std::numeric_limits<double>::infinity());
}

TEST(PortableMath, SineAndCosineAreWithinAUnitOfOne) {
  RandomStream random(3, 0);
  for (int i = 0; i < kDraws; ++i) {
    const double x = (random.uniform_double() - 0.5) * (i % 2 == 0 ? 4 * std::numbers::pi : 2e6);
    const SineAndCosine both = portable_sine_and_cosine(x);
    ASSERT_NEAR(both.sine, std::sin(x), kUnit * (1 + kLibrary)) << x;
    ASSERT_NEAR(both.cosine, std::cos(x), kUnit * (1 + kLibrary)) << x;
  }
}

TEST(PortableMath, PowersAreWithinTheirExponentsUnits) {
  RandomStream random(5, 0);
  for (int i = 0; i < kDraws; ++i) {
    const double x = 0.5 + random.uniform_double();
    const int64_t exponent = random.below(i % 2 == 0 ? 10 : 500);
    const double expected = std::pow(x, static_cast<double>(exponent));
    ASSERT_LE(units(portable_power(x, exponent), expected), static_cast<double>(exponent) + kLibrary)
        << x << " to " << exponent;
  }
  EXPECT_EQ(portable_power(0.9, 0), 1);
  EXPECT_EQ(portable_power(0, 0), 1);
  EXPECT_EQ(portable_power(0, 3), 0);
  EXPECT_EQ(portable_power(0.999, int64_t{1} << 40), 0);
}

// The bits themselves: a compiler or an instruction set that rounds otherwise would change every run.
TEST(PortableMath, GivesTheseBitsEverywhere) {
  RandomStream random(4, 0);
  uint64_t hash = 0;
  const auto add = [&](double value) { hash = philox_mix(hash, std::bit_cast<uint64_t>(value)); };
  for (int i = 0; i < 1000; ++i) {
    const double x = 1 - random.uniform_double();
    add(portable_log(x));
    add(portable_exp(20 * x - 10));
    const SineAndCosine both = portable_sine_and_cosine(2 * std::numbers::pi * x);
    add(both.sine);
    add(both.cosine);
    add(random.normal());
  }
  EXPECT_EQ(hash, 10864462193862713410u);
  for (int64_t exponent = 0; exponent < 1000; ++exponent) add(portable_power(0.999, exponent));
  EXPECT_EQ(hash, 12104138350951061689u);
}

}  // namespace
}  // namespace dlpipe
