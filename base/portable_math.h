// Logarithm, exponential, sine, cosine and whole powers from additions, products, divisions and floor alone, which IEEE 754
// rounds alike everywhere. A C library's last bits differ between versions and instruction sets; numbers that are made from a
// seed or a schedule and decide a run (initial weights, crops, learning rates) are computed with these. Pure functions, any
// thread. Tens of nanoseconds. Errors stand at each, in units of the last place (tests/base/portable_math_test.cpp holds them
// to it).
#pragma once

#include <cstdint>

namespace dlpipe {

/// Of a positive normal number: within 4 units.
double portable_log(double x);
/// Within 3 + 2 |x| units; 0 below -700, infinity above 700.
double portable_exp(double x);

struct SineAndCosine {
  double sine;
  double cosine;
};
/// For |x| <= 1e6: within 2^-52, of which results near 0 may have more units.
SineAndCosine portable_sine_and_cosine(double x);

/// `base` to a whole `exponent` of at least 0, by squares and products: within `exponent` units.
constexpr double portable_power(double base, int64_t exponent) {
  double power = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) power *= base;
    base *= base;
  }
  return power;
}

}  // namespace dlpipe
