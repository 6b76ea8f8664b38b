// Sizes and parts of images for tests.
#pragma once

#include <cmath>

#include "dlpipe/image.h"
#include "dlpipe/random.h"

namespace dlpipe::augment {

/// Sizes from 1 to `most`, small ones as often as large ones.
inline int random_size(RandomStream& rng, int most) {
  return static_cast<int>(std::exp(rng.uniform_double() * std::log(most + 0.5)));
}
inline int random_below(RandomStream& rng, int n) {
  return static_cast<int>(rng.below(static_cast<uint32_t>(n)));
}
inline Region random_part(RandomStream& rng, int width, int height) {
  const int x = random_below(rng, width);
  const int y = random_below(rng, height);
  return {x, y, 1 + random_below(rng, width - x), 1 + random_below(rng, height - y)};
}

}  // namespace dlpipe::augment
