#include "io/data/codec/pixels.h"

#include <cstring>

#include "arithmetic/coefficients.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

void grey_to_rgb_row(const uint8_t* grey, uint8_t* rgb, int count) {
  for (int i = 0; i < count; ++i, rgb += 3) {
    rgb[0] = rgb[1] = rgb[2] = grey[i];
  }
}

void rgb_to_grey_row(const uint8_t* rgb, uint8_t* grey, int count) {
  for (int i = 0; i < count; ++i, rgb += 3) {
    grey[i] = dlpipe::coef::grey_of({rgb[0], rgb[1], rgb[2]});
  }
}

void inverted_cmyk_to_rgb_row(const uint8_t* cmyk, uint8_t* rgb, int count) {
  for (int i = 0; i < count; ++i, cmyk += 4, rgb += 3) {
    const dlpipe::coef::Rgb color = dlpipe::coef::inverted_cmyk_to_rgb(cmyk[0], cmyk[1], cmyk[2], cmyk[3]);
    rgb[0] = color.r;
    rgb[1] = color.g;
    rgb[2] = color.b;
  }
}

void composite_row(const uint8_t* from, int from_channels, uint8_t* to, int to_channels, int count,
                   const std::array<uint8_t, 3>& background) {
  const int colours = from_channels - 1;
  for (int i = 0; i < count; ++i, from += from_channels, to += to_channels) {
    const int alpha = from[colours];
    std::array<uint8_t, 3> pixel{};
    for (size_t c = 0; c < 3; ++c) {
      const int value = background[c] * (255 - alpha) + from[colours == 1 ? 0 : c] * alpha + 128;
      pixel[c] = static_cast<uint8_t>(((value >> 8) + value) >> 8);
    }
    if (to_channels == 1)
      to[0] = colours == 1 ? pixel[0] : dlpipe::coef::grey_of({pixel[0], pixel[1], pixel[2]});
    else
      std::memcpy(to, pixel.data(), pixel.size());
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

Status check_encodable(const ConstImageView& image) {
  if (image.width >= 1 && image.height >= 1 && (image.channels == 1 || image.channels == 3)) return {};
  return misuse("codec", "cannot encode an image of ", image.width, "x", image.height, "x", image.channels,
                "; give it pixels and 1 or 3 channels");
}

}  // namespace dlpipe::data
