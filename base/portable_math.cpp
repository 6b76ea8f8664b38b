#include "base/portable_math.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace dlpipe {

double portable_log(double x) {
  return log_formula(x);
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
  return sine_and_cosine_formula(x);
}

}  // namespace dlpipe
