// From samples of components to pixels as seen: upsampling, colours, orientation. A thread per pixel.
#pragma once

#include "dlpipe/engine/cuda/coef/coef_samples.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

struct ColorPixels {
  static constexpr const char* kName = "coef_pixels";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  CoefBatch batch;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, NoShared&) const {
    const CoefPlace place = place_of(batch, coef::kColors, block.index());
    const coef::CoefSample& sample = *place.sample;
    const int count = sample.width * sample.height;
    const auto first = static_cast<int>(place.block * coef::kPixelsPerBlock);
    block.each([&](int thread) {
      for (int k = thread; k < coef::kPixelsPerBlock && first + k < count; k += kThreads)
        store(place, first + k);
    });
  }

 private:
  DLPIPE_DEVICE static void store(const CoefPlace& place, int pixel) {
    const coef::CoefSample& sample = *place.sample;
    const int seen_x = pixel % sample.seen_width();
    const int seen_y = pixel / sample.seen_width();
    const int x = sample.swap_axes ? seen_y : seen_x;
    const int y = sample.swap_axes ? seen_x : seen_y;
    const coef::Rgb color = color_at(place, sample.x + (sample.mirror_x ? sample.width - 1 - x : x),
                                     sample.y + (sample.mirror_y ? sample.height - 1 - y : y));
    uint8_t* const to = place.in_scratch<uint8_t>(sample.pixels) + int64_t{pixel} * sample.channels;
    if (sample.channels == 1) {
      to[0] = sample.components == 1 ? color.r : coef::grey_of(color);
      return;
    }
    to[0] = color.r;
    to[1] = color.g;
    to[2] = color.b;
  }

  /// Of the stored picture's pixel (x, y).
  DLPIPE_DEVICE static coef::Rgb color_at(const CoefPlace& place, int x, int y) {
    const uint8_t a = component_at(place, 0, x, y);
    if (place.sample->components == 1) return {a, a, a};
    const uint8_t b = component_at(place, 1, x, y);
    const uint8_t c = component_at(place, 2, x, y);
    const coef::ColorModel model = place.sample->color;
    if (model == coef::ColorModel::kYCbCr) return coef::ycc_to_rgb(a, b, c);
    if (model == coef::ColorModel::kRgb) return {a, b, c};
    const uint8_t white = component_at(place, 3, x, y);
    if (model == coef::ColorModel::kCmyk) return coef::inverted_cmyk_to_rgb(a, b, c, white);
    const coef::Rgb ink = coef::ycc_to_rgb(a, b, c);
    return coef::inverted_cmyk_to_rgb(255 - ink.r, 255 - ink.g, 255 - ink.b, white);
  }

  DLPIPE_DEVICE static uint8_t component_at(const CoefPlace& place, int component, int x, int y) {
    const coef::CoefPlane& plane = place.sample->plane[component];
    const uint8_t* const samples = place.in_scratch<uint8_t>(plane.samples);
    const auto row = int64_t{8} * (plane.end_block - plane.first_block);
    const int left = 8 * plane.first_block;
    const int top = 8 * plane.first_row;
    return coef::upsampled(plane.sampling, x, y,
                           [&](int i, int j) { return samples[(j - top) * row + i - left]; });
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
