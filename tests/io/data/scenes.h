// Images as smooth as photographs, at any size, and parts of them: what an image's copies look like.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "dlpipe/random.h"
#include "tests/io/data/codec/image_files.h"

namespace dlpipe::data {

struct SceneView {
  double x = 0, y = 0, side = 1;  // the part that is seen, of a square of side 1
  bool mirrored = false;
  double gain = 1;  // of brightness
};

/// A sum of waves, different for every seed.
inline Pixels scene(uint64_t seed, int width, int height, const SceneView& view = {}) {
  constexpr int kWaves = 24;
  struct Wave {
    double x, y, phase, height;
  };
  RandomStream random(seed, 7);
  const auto unit = [&] { return random.below(1 << 20) / static_cast<double>(1 << 20); };
  std::array<Wave, kWaves> waves{};
  for (Wave& wave : waves) {
    wave = {12 * unit() - 6, 12 * unit() - 6, 6.3 * unit(), 0};
    wave.height = 40 / (1 + std::hypot(wave.x, wave.y));
  }
  Pixels pixels(width, height, 3);
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const double across = (column + 0.5) / width;
      const double x = view.x + view.side * (view.mirrored ? 1 - across : across);
      const double y = view.y + view.side * (row + 0.5) / height;
      double value = 100;
      for (const Wave& wave : waves)
        value += wave.height * std::cos(2 * 3.14159265 * (wave.x * x + wave.y * y) + wave.phase);
      for (int c = 0; c < 3; ++c)
        pixels.bytes[(static_cast<size_t>(row) * width + column) * 3 + c] =
            static_cast<uint8_t>(std::clamp(view.gain * (value + 10 * c), 0.0, 255.0));
    }
  }
  return pixels;
}

}  // namespace dlpipe::data
