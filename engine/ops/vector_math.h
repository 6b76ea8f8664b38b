// exp, expm1, log, tanh and the normal distribution for formulas: the standard library's for double; for float
// without branches, tables or calls, so that loops over them are vectorised. Pure functions; NaN stays NaN.
// Errors are measured in tests/engine/ops/vector_math_test.cpp over the whole range: at most 2 units in the
// last place, tanh 3; the normal distribution 2.5e-7 and, in its lower tail, 5e-6 of its value.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "engine/ops/elementwise.h"

namespace dlpipe::engine::vector_math {

DLPIPE_FORMULA double exp(double x) {
  return std::exp(x);
}
DLPIPE_FORMULA double log(double x) {
  return std::log(x);
}
DLPIPE_FORMULA double tanh(double x) {
  return std::tanh(x);
}
/// The standard normal distribution at x, and the exponential that its density shares.
template <class T>
struct Normal {
  T cdf;          // P(X <= x)
  T exponential;  // e^(-x^2 / 2); the density is this over sqrt(2 pi)
};
DLPIPE_FORMULA Normal<double> normal(double x) {
  return {0.5 * std::erfc(-0.70710678118654752440 * x), std::exp(-0.5 * x * x)};
}
DLPIPE_FORMULA double sqrt(double x) {
  return std::sqrt(x);
}
DLPIPE_FORMULA float sqrt(float x) {
  return __builtin_sqrtf(x);
}

/// `condition ? yes : no` with bit operations; both are computed. GCC 14 compiles a conditional with long operands to a branch,
/// and loops with branches are not vectorised.
DLPIPE_FORMULA float select(bool condition, float yes, float no) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return std::bit_cast<float>((std::bit_cast<uint32_t>(yes) & mask) | (std::bit_cast<uint32_t>(no) & ~mask));
}

/// x = n ln 2 + r with |r| <= ln 2 / 2: returns e^r - 1 and sets *n to n (an integer).
DLPIPE_FORMULA float reduced_expm1(float x, float* n) {
  // Adding 1.5 * 2^23 rounds to an integer (ties to even) in the low bits of the significand.
  constexpr float kRound = 12582912.0f;
  const float rounded = x * 1.44269504f + kRound;
  *n = rounded - kRound;
  // ln 2 in two parts, the first with so few bits that n times it is exact (Cody and Waite, 1980).
  const float r = (x - *n * 0.693359375f) - *n * -2.12194440e-4f;
  // Taylor's series; the next term is r^8 / 8! < 6e-9 of e^r.
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  return p * r * r + r;
}

/// 2^n for an integer n in [-126, 127].
DLPIPE_FORMULA float power_of_two(float n) {
  const auto bits = std::bit_cast<uint32_t>(n + 12582912.0f);  // n + 0x4b400000
  return std::bit_cast<float>((bits - 0x4b400000u + 127u) << 23);
}

DLPIPE_FORMULA float exp(float x) {
  x = x < -104.0f ? -104.0f : x;  // below: 0 (in this order NaN passes)
  x = x > 89.0f ? 89.0f : x;      // above: infinity
  float n;
  const float p = reduced_expm1(x, &n);
  // 2^n in two factors: n reaches from -150 (subnormal results) to 128 (infinity).
  const float half = (n * 0.5f + 12582912.0f) - 12582912.0f;
  return (p + 1.0f) * power_of_two(half) * power_of_two(n - half);
}

/// e^x - 1 for x in [-80, 80].
DLPIPE_FORMULA float expm1(float x) {
  float n;
  const float p = reduced_expm1(x, &n);
  const float scale = power_of_two(n);
  return p * scale + (scale - 1.0f);
}

DLPIPE_FORMULA float log(float x) {
  // Subnormals are scaled up first.
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const auto bits = std::bit_cast<uint32_t>(scaled);
  // scaled = 2^n m with m in [sqrt(1/2), sqrt(2)).
  const uint32_t shifted = bits - 0x3f3504f3u;
  const float n = static_cast<float>(static_cast<int32_t>(shifted) >> 23) - (tiny ? 23.0f : 0.0f);
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u);
  // log m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.1716; the next term is s^13 / 13 < 1e-11.
  const float f = m - 1.0f;
  const float s = f / (m + 1.0f);
  const float s2 = s * s;
  float p = 2.0f / 11;
  p = p * s2 + 2.0f / 9;
  p = p * s2 + 2.0f / 7;
  p = p * s2 + 2.0f / 5;
  p = p * s2 + 2.0f / 3;
  // 2s = f - s f, which keeps the bits of f for m near 1.
  const float log_m = f - s * (f - s2 * p);
  float result = n * 0.693359375f + (log_m + n * -2.12194440e-4f);
  result = x == 0.0f ? -__builtin_inff() : result;
  result = x < 0.0f ? __builtin_nanf("") : result;
  return (x == __builtin_inff() || x != x) ? x : result;
}

DLPIPE_FORMULA float tanh(float x) {
  // (e^2x - 1) / (e^2x + 1), odd; 1 to the last bit from 9.02 on.
  const float magnitude = x < 0.0f ? -x : x;
  const float t = expm1(2.0f * (magnitude > 10.0f ? 10.0f : magnitude));
  const float result = t / (t + 2.0f);
  return x < 0.0f ? -result : x == x ? result : x;
}

DLPIPE_FORMULA Normal<float> normal(float x) {
  const float magnitude = select(x < 0.0f, -x, x);
  const float exponential = exp(-0.5f * x * x);
  // The tail beyond |x| over the exponential, as t times a polynomial in t = 1 / (1 + 0.26 |x|) (minimax fit
  // on [0, 14], relative error 2.5e-8); beyond, the exponential is 0.
  const float t = 1.0f / (1.0f + 0.26f * magnitude);
  float p = 0.03050634264945984f;
  p = p * t - 0.1528353989124298f;
  p = p * t + 0.25150376558303833f;
  p = p * t - 0.1509619802236557f;
  p = p * t + 0.1609559953212738f;
  p = p * t + 0.05102454125881195f;
  p = p * t + 0.1030309870839119f;
  p = p * t + 0.10301665961742401f;
  p = p * t + 0.10375906527042389f;
  const float tail = p * t * exponential;
  return {select(x < 0.0f, tail, 1.0f - tail), exponential};
}

// sin and cos. As above, those for double are the standard library's; those for float have no branches, tables
// or calls. Errors are below one unit in the last place (tests/engine/ops/vector_math_test.cpp).

DLPIPE_FORMULA double sin(double x) {
  return std::sin(x);
}
DLPIPE_FORMULA double cos(double x) {
  return std::cos(x);
}

/// Angles of 2^31 quarter turns and more return NaN: floats are 256 apart there.
constexpr float kMostRadians = 3.3e9f;

/// sin(x + quarters * pi / 2), computed in double and rounded once.
DLPIPE_FORMULA float sine(float x, uint64_t quarters) {
  // Adding 1.5 * 2^52 rounds to an integer n in the low bits of the significand.
  constexpr double kRound = 6755399441055744.0;
  const double wide = x;
  const double rounded = wide * 0.6366197723675814 + kRound;
  const double n = rounded - kRound;
  // x = n pi/2 + r, |r| <= pi/4: pi/2 in three parts, the first two of 22 bits, so that n times them is exact.
  const double r = ((wide - n * 0x1.921fb0p+0) - n * 0x1.5110b0p-22) - n * 0x1.18469898cc517p-44;
  const double r2 = r * r;
  // Taylor's series; the next terms are below 1e-11 of the sums.
  double s = -1.0 / 39916800;
  s = s * r2 + 1.0 / 362880;
  s = s * r2 - 1.0 / 5040;
  s = s * r2 + 1.0 / 120;
  s = s * r2 - 1.0 / 6;
  s = (s * r2 + 1.0) * r;  // last, so that -0 returns -0
  double c = 1.0 / 479001600;
  c = c * r2 - 1.0 / 3628800;
  c = c * r2 + 1.0 / 40320;
  c = c * r2 - 1.0 / 720;
  c = c * r2 + 1.0 / 24;
  c = c * r2 - 0.5;
  c = c * r2 + 1.0;
  // Bit operations, as in select(): odd quarters are cosines, and the third and fourth quarters are negative.
  const uint64_t quarter = std::bit_cast<uint64_t>(rounded) + quarters;
  const uint64_t odd = 0u - (quarter & 1u);
  const uint64_t bits = (std::bit_cast<uint64_t>(c) & odd) | (std::bit_cast<uint64_t>(s) & ~odd);
  const auto result = static_cast<float>(std::bit_cast<double>(bits ^ ((quarter & 2u) << 62)));
  const float magnitude = select(x < 0.0f, -x, x);
  return select(magnitude <= kMostRadians, result, __builtin_nanf(""));
}
DLPIPE_FORMULA float sin(float x) {
  return sine(x, 0);
}
DLPIPE_FORMULA float cos(float x) {
  return sine(x, 1);
}

}  // namespace dlpipe::engine::vector_math
