// sin and cos for formulas, as ops/vector_math.h has the others: in double the standard library's, in float without branches,
// tables or calls. Errors are below one unit in the last place (tests/engine/ops/vector_math_test.cpp).
#pragma once

#include "dlpipe/engine/ops/vector_math.h"

namespace dlpipe::engine::vector_math {

DLPIPE_FORMULA double sin(double x) {
  return std::sin(x);
}
DLPIPE_FORMULA double cos(double x) {
  return std::cos(x);
}

/// Angles of 2^31 quarter turns and more have no answer here (NaN): floats lie 256 apart there.
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
  s = (s * r2 + 1.0) * r;  // -0 of -0
  double c = 1.0 / 479001600;
  c = c * r2 - 1.0 / 3628800;
  c = c * r2 + 1.0 / 40320;
  c = c * r2 - 1.0 / 720;
  c = c * r2 + 1.0 / 24;
  c = c * r2 - 0.5;
  c = c * r2 + 1.0;
  // By bits, as select(): the odd quarters are cosines, the third and fourth are negative.
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
