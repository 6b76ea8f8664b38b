// Logarithm, exponential, sine, cosine and integer powers, computed only from additions, products, divisions and
// floor, which IEEE 754 rounds identically everywhere. The last bits of a C library's results differ between versions
// and instruction sets; numbers that are derived from a seed or a schedule and determine a run (initial weights,
// crops, learning rates) are computed with these functions. Pure functions, any thread. Tens of nanoseconds. Each
// function states its error in units in the last place (tested by tests/base/portable_math_test.cpp).
#pragma once

#include <bit>
#include <cstdint>
#include <numbers>

namespace dlpipe {

/// For a positive normal number: within 4 units.
double portable_log(double x);
/// Within 3 + 2 |x| units; 0 below -700, infinity above 700.
double portable_exp(double x);

struct SineAndCosine {
  double sine;
  double cosine;
};
/// For |x| <= 1e6: within an absolute error of 2^-52, which is more units for results near 0.
SineAndCosine portable_sine_and_cosine(double x);

/// `base` to the power of an integer `exponent` >= 0, by repeated squaring: within `exponent` units.
constexpr double portable_power(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power *= base;
    base *= base;
  }
  return power;
}

// ---- the formulas without branches, for loops over arrays. A loop that is compiled for wider registers
// computes several at once, with the same bits. Other callers use the functions above.

/// portable_log.
inline __attribute__((always_inline)) double log_formula(double x) {
  constexpr int64_t kFraction = (int64_t{1} << 52) - 1;
  constexpr int64_t kRootOfTwo = std::bit_cast<int64_t>(std::numbers::sqrt2) & kFraction;
  // x = m 2^e with m in [sqrt(1/2), sqrt(2)), from its bits: m has the exponent of 1/2, or of 1 if the fraction is small.
  const auto bits = std::bit_cast<int64_t>(x);
  const int64_t fraction = bits & kFraction;
  const int64_t small = fraction < kRootOfTwo ? 1 : 0;
  // converts by placing the integer in the fraction of 2^52: not every instruction set has a conversion of 64-bit integers
  const double exponent =
      std::bit_cast<double>(((bits >> 52) - small) | 0x4330000000000000) - (0x1p52 + 1022);
  const auto mantissa = std::bit_cast<double>((fraction | 0x3fe0000000000000) + (small << 52));
  const double t = (mantissa - 1) / (mantissa + 1);  // log m = 2 (t + t^3/3 + t^5/5 + ...), |t| < 0.172
  double sum = 0;
#pragma GCC unroll 11
  for (int k = 21; k >= 1; k -= 2) sum = sum * t * t + 1.0 / k;
  return exponent * std::numbers::ln2 + 2 * t * sum;
}

/// portable_sine_and_cosine.
inline __attribute__((always_inline)) SineAndCosine sine_and_cosine_formula(double x) {
  // pi / 2 in three parts (Cody and Waite): products of the first two with the quarter number are exact.
  constexpr double kFirst = 0x1.921fb544p0, kSecond = 0x1.0b4611a6p-34, kThird = 0x1.3198a2e037073p-69;
  constexpr double kWhole = 0x1.8p52;  // adding it rounds a number to an integer
  const double turned = x * (2 * std::numbers::inv_pi) + 0.5;
  const double nearest = turned + kWhole - kWhole;
  const double quarter = nearest - (nearest > turned ? 1.0 : 0.0);                  // floor(turned)
  const double rest = x - quarter * kFirst - quarter * kSecond - quarter * kThird;  // at most pi / 4
  const double square = rest * rest;
  double sine = 0, cosine = 0;  // Taylor: sin r = r (1 - r^2/(2*3) (1 - r^2/(4*5) (...)))
#pragma GCC unroll 10
  for (int k = 20; k >= 2; k -= 2) {
    sine = square / (k * (k + 1)) * (1 - sine);
    cosine = square / ((k - 1) * k) * (1 - cosine);
  }
  sine = rest - rest * sine;
  cosine = 1 - cosine;
  const int64_t number = std::bit_cast<int64_t>(quarter + kWhole) & 3;
  const bool swapped = (number & 1) != 0;
  const double along = swapped ? cosine : sine;
  const double across = swapped ? sine : cosine;
  return {number >= 2 ? -along : along, number == 1 || number == 2 ? -across : across};
}

}  // namespace dlpipe
