#include "dlpipe/random.h"

#include <cmath>
#include <numbers>

#include "base/portable_math.h"

namespace dlpipe {

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * portable_log(1.0 - uniform_double()));
  const SineAndCosine direction = portable_sine_and_cosine(2.0 * std::numbers::pi * uniform_double());
  spare_ = radius * direction.sine;
  has_spare_ = true;
  return radius * direction.cosine;
}

}  // namespace dlpipe
