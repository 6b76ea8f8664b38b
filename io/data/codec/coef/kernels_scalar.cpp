#include "dlpipe/base/coef_math.h"
#include "dlpipe/io/data/codec/coef/kernels.h"

namespace dlpipe::data::coef {
namespace {

void samples(const TileBlocks& blocks, int first, int count, const QuantTable& quant, uint8_t* out,
             ptrdiff_t stride) {
  for (int block = first; block < first + count; ++block, out += 8) {
    int16_t data[64];
    natural_coefficients(blocks, block, data);
    for (int i = 0; i < 64; ++i) data[i] = dequantised(data[i], quant[static_cast<size_t>(i)]);
    for (int x = 0; x < 8; ++x) inverse_transform<kColumnShift>(data + x, 8);
    for (int y = 0; y < 8; ++y) {
      inverse_transform<kRowShift>(data + ptrdiff_t{8} * y, 1);
      for (int x = 0; x < 8; ++x) out[y * stride + x] = sample_of(data[8 * y + x]);
    }
  }
}

void columns(const uint8_t* near, const uint8_t* far, int count, uint16_t* out) {
  for (int i = 0; i < count; ++i)
    out[i] = static_cast<uint16_t>(far == nullptr ? near[i] : weighted(near[i], far[i]));
}

void widen(const uint16_t* columns, int count, bool vertical, uint8_t* out) {
  for (int i = 0; i < count; ++i) {
    out[2 * i] = widened(columns[i], columns[i - 1], false, vertical);
    out[2 * i + 1] = widened(columns[i], columns[i + 1], true, vertical);
  }
}

void between(const uint8_t* near, const uint8_t* far, int bias, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) out[i] = between_rows(near[i], far[i], bias);
}

void convert(const uint8_t* y, const uint8_t* cb, const uint8_t* cr, int count, uint8_t* rgb) {
  for (int i = 0; i < count; ++i, rgb += 3) {
    const Rgb color = ycc_to_rgb(y[i], cb[i], cr[i]);
    rgb[0] = color.r;
    rgb[1] = color.g;
    rgb[2] = color.b;
  }
}

}  // namespace

const Kernels& scalar_kernels() {
  static const Kernels plain = {samples, columns, widen, between, convert};
  return plain;
}

}  // namespace dlpipe::data::coef
