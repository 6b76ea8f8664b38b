// The image of golden/: tiles of 16 x 16 pixels, by turns noise and a slope.
#pragma once

#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {

/// The same as make_image() in golden/golden_image.py.
inline OwnedImage make_image(int channels, int width, int height) {
  OwnedImage image(width, height, channels);
  size_t to = 0;
  for (uint32_t y = 0; y < static_cast<uint32_t>(height); ++y) {
    for (uint32_t x = 0; x < static_cast<uint32_t>(width); ++x) {
      for (uint32_t c = 0; c < static_cast<uint32_t>(channels); ++c) {
        const uint32_t noise = ((x * 73 + y * 15101 + c * 57 + 1) * 2654435761u) >> 24;
        const uint32_t slope = (x * 5 + y * 3 + c * 40) % 256;
        image.pixels[to++] = static_cast<uint8_t>((x / 16 + y / 16) % 2 == 0 ? noise : slope);
      }
    }
  }
  return image;
}

}  // namespace dlpipe::augment
