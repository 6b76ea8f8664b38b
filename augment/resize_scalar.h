// A separable resize by plain loops, whatever its filter: what the kernels are held to, and what pictures of two channels go
// through. Internal to augment.
#pragma once

#include <cstdint>
#include <vector>

#include "dlpipe/augment/resize_axis.h"

namespace dlpipe::augment {

/// Which source pixels an output pixel takes.
struct Taps {
  int begin = 0;  // relative to the source's first pixel that is there
  std::vector<int32_t> weights;
};

/// Those of output pixels [first, first + count) of an axis, as resize_passes.h has them.
template <class Axis>
std::vector<Taps> axis_taps(const Axis& axis, int first, int count) {
  std::vector<Taps> all(static_cast<size_t>(count));
  std::vector<double> real(static_cast<size_t>(axis.max_taps()));
  for (int i = 0; i < count; ++i) {
    Taps& taps = all[static_cast<size_t>(i)];
    const int begin = axis.begin(first + i);
    taps.begin = begin - axis.begin(first);
    taps.weights.resize(static_cast<size_t>(axis.end(first + i) - begin));
    axis.weights(first + i, real.data(), taps.weights.data());
  }
  return all;
}

void resize_scalar(const ResizeGeometry& geometry, std::vector<Taps> across, const std::vector<Taps>& down,
                   const ConstImageView& source, const ImageView& out, bool mirror);

template <class Axis>
void resize_scalar_by(const Axis& across, const Axis& down, const ResizeGeometry& geometry,
                      const ConstImageView& source, const ImageView& out, bool mirror) {
  const Region& window = geometry.window;
  resize_scalar(geometry, axis_taps(across, window.x, window.width), axis_taps(down, window.y, window.height),
                source, out, mirror);
}

}  // namespace dlpipe::augment
