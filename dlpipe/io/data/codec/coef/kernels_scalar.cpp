#include <algorithm>

#include "dlpipe/io/data/codec/coef/kernels.h"

namespace dlpipe::data::coef {
namespace {

int16_t saturated(int32_t value) {
  return static_cast<int16_t>(std::clamp(value, -32768, 32767));
}

/// One dimension of jidctint.c's inverse transform, its products summed up; `step` from input to input.
template <int kShift>
void transform(int16_t* data, int step) {
  const auto in = [&](int k) { return int32_t{data[k * step]}; };
  const int32_t half = 1 << (kShift - 1);
  const int32_t even0 = (in(0) + in(4)) * 8192 + half;
  const int32_t even1 = (in(0) - in(4)) * 8192 + half;
  const int32_t even2 = in(2) * 4433 + in(6) * -10704;
  const int32_t even3 = in(2) * 10703 + in(6) * 4433;
  const int32_t odd0 = in(1) * 2260 + in(3) * -6436 + in(5) * 9633 + in(7) * -11363;
  const int32_t odd1 = in(1) * 6437 + in(3) * -11362 + in(5) * 2261 + in(7) * 9633;
  const int32_t odd2 = in(1) * 9633 + in(3) * -2259 + in(5) * -11362 + in(7) * -6436;
  const int32_t odd3 = in(1) * 11363 + in(3) * 9633 + in(5) * 6437 + in(7) * 2260;
  const int32_t sums[4] = {even0 + even3, even1 + even2, even1 - even2, even0 - even3};
  const int32_t odds[4] = {odd3, odd2, odd1, odd0};
  for (int k = 0; k < 4; ++k) {
    data[k * step] = saturated((sums[k] + odds[k]) >> kShift);
    data[(7 - k) * step] = saturated((sums[k] - odds[k]) >> kShift);
  }
}

void samples(const TileBlocks& blocks, int first, int count, const QuantTable& quant, uint8_t* out,
             ptrdiff_t stride) {
  for (int block = first; block < first + count; ++block, out += 8) {
    int16_t data[64];
    natural_coefficients(blocks, block, data);
    for (int i = 0; i < 64; ++i) data[i] = static_cast<int16_t>(data[i] * quant[static_cast<size_t>(i)]);
    for (int x = 0; x < 8; ++x) transform<11>(data + x, 8);
    for (int y = 0; y < 8; ++y) {
      transform<18>(data + ptrdiff_t{8} * y, 1);
      for (int x = 0; x < 8; ++x)
        out[y * stride + x] = static_cast<uint8_t>(std::clamp(data[8 * y + x] + 128, 0, 255));
    }
  }
}

void columns(const uint8_t* near, const uint8_t* far, int count, uint16_t* out) {
  for (int i = 0; i < count; ++i)
    out[i] = static_cast<uint16_t>(far == nullptr ? near[i] : 3 * near[i] + far[i]);
}

void widen(const uint16_t* columns, int count, bool vertical, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    const int thrice = 3 * columns[i];
    const int even = thrice + columns[i - 1];
    const int odd = thrice + columns[i + 1];
    out[2 * i] = static_cast<uint8_t>(vertical ? (even + 8) >> 4 : (even + 1) >> 2);
    out[2 * i + 1] = static_cast<uint8_t>(vertical ? (odd + 7) >> 4 : (odd + 2) >> 2);
  }
}

void between(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<uint8_t>((3 * near[i] + far[i] + bias) >> 2);
}

void ycc_to_rgb(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* rgb) {
  const auto clamped = [](int value) { return static_cast<uint8_t>(std::clamp(value, 0, 255)); };
  for (int i = 0; i < count; ++i) {
    const int blue = cb[i] - 128;
    const int red = cr[i] - 128;
    rgb[3 * i] = clamped(y[i] + ((91881 * red + 32768) >> 16));
    rgb[3 * i + 1] = clamped(y[i] + ((-22554 * blue - 46802 * red + 32768) >> 16));
    rgb[3 * i + 2] = clamped(y[i] + ((116130 * blue + 32768) >> 16));
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels plain = {samples, columns, widen, between, ycc_to_rgb};
  return plain;
}

}  // namespace dlpipe::data::coef
