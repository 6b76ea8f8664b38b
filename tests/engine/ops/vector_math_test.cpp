#include "engine/ops/vector_math.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace dlpipe::engine::vector_math {
namespace {

// |got - exact| in units of the last place of the exact value as a float.
double error_in_ulps(float got, double exact) {
  const auto rounded = static_cast<float>(exact);
  if (!std::isfinite(rounded) || !std::isfinite(got)) return got == rounded ? 0 : 1e9;
  const double unit =
      std::max(std::abs(static_cast<double>(std::nextafterf(rounded, 2 * rounded)) - rounded), 1.5e-45);
  return std::abs(got - exact) / unit;
}

// Every 997th float of [low, high], in the order of their bits.
template <class Got, class Exact>
double worst_error(float low, float high, const Got& got, const Exact& exact) {
  double worst = 0;
  for (uint32_t bits = std::bit_cast<uint32_t>(low); bits <= std::bit_cast<uint32_t>(high); bits += 997) {
    const auto x = std::bit_cast<float>(bits);
    worst = std::max(worst, error_in_ulps(got(x), exact(static_cast<double>(x))));
  }
  return worst;
}

constexpr float kTiny = 1e-30f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(VectorMath, ExpIsWithinTwoUnits) {
  auto got = [](float x) { return exp(x); };
  auto exact = [](double x) { return std::exp(x); };
  EXPECT_LT(worst_error(kTiny, 88.7f, got, exact), 2);
  EXPECT_LT(worst_error(-kTiny, -87.0f, got, exact), 2);
  EXPECT_LT(worst_error(-87.0f, -110.0f, got, exact), 2) << "subnormal results";
  EXPECT_EQ(exp(0.0f), 1.0f);
  EXPECT_EQ(exp(-kInfinity), 0.0f);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_EQ(exp(89.5f), kInfinity);
  EXPECT_TRUE(std::isnan(exp(std::nanf(""))));
}

TEST(VectorMath, SineAndCosineAreWithinOneUnit) {
  const auto sine = [](float x) { return sin(x); };
  const auto cosine = [](float x) { return cos(x); };
  const auto exact_sine = [](double x) { return std::sin(x); };
  const auto exact_cosine = [](double x) { return std::cos(x); };
  EXPECT_LT(worst_error(kTiny, kMostRadians, sine, exact_sine), 1);
  EXPECT_LT(worst_error(-kTiny, -kMostRadians, sine, exact_sine), 1);
  EXPECT_LT(worst_error(kTiny, kMostRadians, cosine, exact_cosine), 1);
  EXPECT_LT(worst_error(-kTiny, -kMostRadians, cosine, exact_cosine), 1);
  EXPECT_TRUE(std::signbit(sin(-0.0f)));
  EXPECT_EQ(cos(0.0f), 1.0f);
  for (const float none : {kInfinity, -kInfinity, std::nanf(""), 3e38f}) {
    EXPECT_TRUE(std::isnan(sin(none))) << none;
    EXPECT_TRUE(std::isnan(cos(none))) << none;
  }
}

TEST(VectorMath, LogIsWithinTwoUnits) {
  EXPECT_LT(worst_error(
                1e-45f, 3e38f, [](float x) { return log(x); }, [](double x) { return std::log(x); }),
            2);
  EXPECT_LT(worst_error(
                0.9f, 1.1f, [](float x) { return log(x); }, [](double x) { return std::log(x); }),
            2);
  EXPECT_EQ(log(1.0f), 0.0f);
  EXPECT_EQ(log(0.0f), -kInfinity);
  EXPECT_EQ(log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log(-1.0f)));
  EXPECT_TRUE(std::isnan(log(std::nanf(""))));
}

TEST(VectorMath, TanhIsWithinThreeUnits) {
  EXPECT_LT(worst_error(
                kTiny, 20.0f, [](float x) { return tanh(x); }, [](double x) { return std::tanh(x); }),
            3);
  EXPECT_EQ(tanh(-0.7f), -tanh(0.7f));
  EXPECT_EQ(tanh(kInfinity), 1.0f);
  EXPECT_TRUE(std::isnan(tanh(std::nanf(""))));
}

TEST(VectorMath, TheNormalDistributionIsExactToAFloatAndItsTailToPartsOfAMillion) {
  for (float x = -12.0f; x <= 12.0f; x += 0.00037f) {
    const double exact = 0.5 * std::erfc(-static_cast<double>(x) / std::sqrt(2.0));
    const double error = std::abs(static_cast<double>(normal(x).cdf) - exact);
    ASSERT_LT(error, 2.5e-7) << x;
    if (x < 0) {
      ASSERT_LT(error, 5e-6 * exact) << x;
    }
  }
  EXPECT_NEAR(normal(0.0f).cdf, 0.5f, 1e-7);
  EXPECT_EQ(normal(kInfinity).cdf, 1.0f);
  EXPECT_EQ(normal(-kInfinity).cdf, 0.0f);
  EXPECT_EQ(normal(-20.0f).exponential, 0.0f);
  EXPECT_TRUE(std::isnan(normal(std::nanf("")).cdf));
}

}  // namespace
}  // namespace dlpipe::engine::vector_math
