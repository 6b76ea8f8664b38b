#include <algorithm>
#include <vector>

#include "dlpipe/augment/resize.h"
#include "dlpipe/augment/resize_axis.h"

namespace dlpipe::augment {

namespace {

struct Taps {
  int begin = 0;  // relative to the source's first pixel that is there
  std::vector<int32_t> weights;
};

std::vector<Taps> axis_taps(const ResizeAxis& axis, int first, int count, int support_begin) {
  std::vector<Taps> all(static_cast<size_t>(count));
  std::vector<double> real(static_cast<size_t>(axis.max_taps()));
  for (int i = 0; i < count; ++i) {
    const int begin = axis.begin(first + i);
    all[i].begin = begin - support_begin;
    all[i].weights.resize(static_cast<size_t>(axis.end(first + i) - begin));
    axis.weights(first + i, real.data(), all[i].weights.data());
  }
  return all;
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
        *to++ = weighted_pixel(sum);
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
      out.row(y)[i] = weighted_pixel(sum);
    }
  }
}

}  // namespace

void resize_scalar(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out,
                   bool mirror) {
  const Region support = resize_support(geometry);
  const Region& window = geometry.window;
  std::vector<Taps> across = axis_taps(horizontal_axis(geometry), window.x, window.width, support.x);
  if (mirror) std::reverse(across.begin(), across.end());
  const std::vector<Taps> down = axis_taps(vertical_axis(geometry), window.y, window.height, support.y);

  const bool columns_first = is_vertical_first(geometry);
  const int width = columns_first ? support.width : window.width;
  const int height = columns_first ? window.height : support.height;
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

}  // namespace dlpipe::augment
