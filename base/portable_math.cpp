#include "dlpipe/base/portable_math.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace dlpipe {

double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // [1/2, 1)
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  const double t = (mantissa - 1) / (mantissa + 1);  // log m = 2 (t + t^3/3 + t^5/5 + ...), |t| < 0.172
  double sum = 0;
  for (int k = 21; k >= 1; k -= 2) sum = sum * t * t + 1.0 / k;
  return exponent * std::numbers::ln2 + 2 * t * sum;
}

double portable_exp(double x) {
  if (!(x > -700)) return 0;
  if (x > 700) return std::numeric_limits<double>::infinity();
  const double power = std::floor(x / std::numbers::ln2 + 0.5);
  const double rest = x - power * std::numbers::ln2;  // at most half of ln 2
  double sum = 1;
  for (int k = 14; k >= 1; --k) sum = 1 + sum * rest / k;
  return std::ldexp(sum, static_cast<int>(power));
}

SineAndCosine portable_sine_and_cosine(double x) {
  // pi / 2 in three parts (Cody and Waite): products of the first two with a quarter's number are exact.
  constexpr double kFirst = 0x1.921fb544p0, kSecond = 0x1.0b4611a6p-34, kThird = 0x1.3198a2e037073p-69;
  const double quarter = std::floor(x * (2 * std::numbers::inv_pi) + 0.5);
  const double rest = x - quarter * kFirst - quarter * kSecond - quarter * kThird;  // at most pi / 4
  const double square = rest * rest;
  double sine = 0, cosine = 0;  // Taylor: sin r = r (1 - r^2/(2*3) (1 - r^2/(4*5) (...)))
  for (int k = 20; k >= 2; k -= 2) {
    sine = square / (k * (k + 1)) * (1 - sine);
    cosine = square / ((k - 1) * k) * (1 - cosine);
  }
  sine = rest - rest * sine;
  cosine = 1 - cosine;
  switch (static_cast<long long>(quarter) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace dlpipe
