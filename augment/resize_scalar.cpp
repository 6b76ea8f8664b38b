#include "dlpipe/augment/resize_scalar.h"

#include <algorithm>
#include <cstddef>

namespace dlpipe::augment {

namespace {

uint8_t clipped_pixel(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

void resize_rows(const std::vector<Taps>& across, const ConstImageView& in, const ImageView& out) {
  for (int y = 0; y < out.height; ++y) {
    uint8_t* to = out.row(y);
    for (const Taps& taps : across) {
      for (int c = 0; c < out.channels; ++c) {
        int32_t sum = kWeightHalf;
        const uint8_t* from = in.row(y) + ptrdiff_t{taps.begin} * in.channels + c;
        for (int32_t weight : taps.weights) {
          sum += weight * *from;
          from += in.channels;
        }
        *to++ = clipped_pixel(sum);
      }
    }
  }
}

void resize_columns(const std::vector<Taps>& down, const ConstImageView& in, const ImageView& out) {
  for (int y = 0; y < out.height; ++y) {
    const Taps& taps = down[y];
    for (int i = 0; i < out.width * out.channels; ++i) {
      int32_t sum = kWeightHalf;
      for (size_t t = 0; t < taps.weights.size(); ++t) {
        sum += taps.weights[t] * in.row(taps.begin + static_cast<int>(t))[i];
      }
      out.row(y)[i] = clipped_pixel(sum);
    }
  }
}

}  // namespace

void resize_scalar(const ResizeGeometry& geometry, std::vector<Taps> across, const std::vector<Taps>& down,
                   const ConstImageView& source, const ImageView& out, bool mirror) {
  if (mirror) std::reverse(across.begin(), across.end());
  const bool columns_first = is_vertical_first(geometry);
  const int width = columns_first ? source.width : out.width;
  const int height = columns_first ? out.height : source.height;
  const ptrdiff_t stride = ptrdiff_t{width} * out.channels;
  std::vector<uint8_t> pixels(static_cast<size_t>(stride * height));
  const ImageView between{pixels.data(), width, height, out.channels, stride};
  if (columns_first) {
    resize_columns(down, source, between);
    resize_rows(across, between, out);
  } else {
    resize_rows(across, source, between);
    resize_columns(down, between, out);
  }
}

void resize_scalar(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out,
                   bool mirror) {
  resize_scalar_by(horizontal_axis(geometry), vertical_axis(geometry), geometry, source, out, mirror);
}

}  // namespace dlpipe::augment
