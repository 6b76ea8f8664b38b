#include "dlpipe/augment/resize.h"
#include "dlpipe/augment/resize_axis.h"

namespace dlpipe::augment {

namespace {

uint8_t round_and_clip(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

struct Weights {
  int begin = 0;
  std::vector<int32_t> taps;
};

std::vector<Weights> axis_weights(const ResizeAxis& axis, int first, int count) {
  std::vector<Weights> all(static_cast<size_t>(count));
  std::vector<double> real(static_cast<size_t>(axis.max_taps()));
  for (int i = 0; i < count; ++i) {
    all[i].begin = axis.begin(first + i);
    all[i].taps.resize(static_cast<size_t>(axis.end(first + i) - all[i].begin));
    axis.weights(first + i, real.data(), all[i].taps.data());
  }
  return all;
}

}  // namespace

Status resize_scalar(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out,
                     bool mirror) {
  const Region support = resize_support(geometry);
  const int channels = out.channels;
  const int width = geometry.window.width;
  const std::vector<Weights> across =
      axis_weights(ResizeAxis::horizontal(geometry), geometry.window.x, width);
  const std::vector<Weights> down =
      axis_weights(ResizeAxis::vertical(geometry), geometry.window.y, geometry.window.height);

  std::vector<uint8_t> rows(size_t(support.height) * size_t(width) * size_t(channels));
  for (int y = 0; y < support.height; ++y) {
    uint8_t* to = rows.data() + size_t(y) * size_t(width) * size_t(channels);
    for (int x = 0; x < width; ++x) {
      const Weights& w = across[mirror ? width - 1 - x : x];
      for (int c = 0; c < channels; ++c) {
        int32_t sum = kWeightHalf;
        for (size_t t = 0; t < w.taps.size(); ++t) {
          sum += w.taps[t] * source.row(y)[(w.begin - support.x + ptrdiff_t(t)) * channels + c];
        }
        *to++ = round_and_clip(sum);
      }
    }
  }
  for (int y = 0; y < geometry.window.height; ++y) {
    const Weights& w = down[y];
    const uint8_t* from = rows.data() + size_t(w.begin - support.y) * size_t(width) * size_t(channels);
    for (int x = 0; x < width * channels; ++x) {
      int32_t sum = kWeightHalf;
      for (size_t t = 0; t < w.taps.size(); ++t) sum += w.taps[t] * from[t * size_t(width * channels) + x];
      out.row(y)[x] = round_and_clip(sum);
    }
  }
  return {};
}

}  // namespace dlpipe::augment
