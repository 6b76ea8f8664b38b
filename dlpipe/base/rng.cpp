#include "dlpipe/base/rng.h"

#include <cmath>
#include <numbers>

namespace dlpipe {

double RandomStream::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_double()));
  const double angle = 2.0 * std::numbers::pi * uniform_double();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

}  // namespace dlpipe
