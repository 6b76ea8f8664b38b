#include "dlpipe/io/data/codec/pixels.h"

#include <algorithm>
#include <cstring>

namespace dlpipe::data {

void grey_to_rgb_row(const uint8_t* grey, uint8_t* rgb, int count) {
  for (int i = 0; i < count; ++i) {
    rgb[3 * i] = rgb[3 * i + 1] = rgb[3 * i + 2] = grey[i];
  }
}

void rgb_to_grey_row(const uint8_t* rgb, uint8_t* grey, int count) {
  for (int i = 0; i < count; ++i, rgb += 3) {
    grey[i] = static_cast<uint8_t>((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
  }
}

// a * b / 255, rounded to nearest, without a division.
static int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

void inverted_cmyk_to_rgb_row(const uint8_t* cmyk, uint8_t* rgb, int count) {
  for (int i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    const int white = cmyk[3];  // 255 - ink of black
    const int c = 255 - cmyk[0];
    const int m = 255 - cmyk[1];
    const int y = 255 - cmyk[2];
    rgb[0] = static_cast<uint8_t>(std::clamp(white - multiply_255(c, white), 0, 255));
    rgb[1] = static_cast<uint8_t>(std::clamp(white - multiply_255(m, white), 0, 255));
    rgb[2] = static_cast<uint8_t>(std::clamp(white - multiply_255(y, white), 0, 255));
  }
}

void convert_row(const uint8_t* from, int from_channels, uint8_t* to, int to_channels, int count) {
  if (from_channels == to_channels) {
    std::memcpy(to, from, static_cast<size_t>(count) * from_channels);
  } else if (from_channels == 1) {
    grey_to_rgb_row(from, to, count);
  } else {
    rgb_to_grey_row(from, to, count);
  }
}

}  // namespace dlpipe::data
