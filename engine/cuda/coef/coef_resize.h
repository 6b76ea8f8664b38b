// The antialiased resize of augment/resize.h on crops of all sizes: tables of weights first, then two passes
// in the order that Pillow takes for the crop's size. A thread an output pixel of an axis, then an output
// byte. A flip turns the table of the horizontal axis around.
#pragma once

#include "dlpipe/base/resize_axis.h"
#include "dlpipe/engine/cuda/coef/coef_samples.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// An axis' weights: CoefAxis::table taken apart. Neighbouring output pixels lie side by side.
struct AxisWeights {
  int32_t* begins;
  int32_t* taps;
  int32_t* weights;
};
DLPIPE_DEVICE AxisWeights weights_of(const CoefPlace& place, const coef::CoefAxis& axis) {
  auto* const begins = place.in_scratch<int32_t>(axis.table);
  return {begins, begins + axis.count, begins + int64_t{2} * axis.count};
}

struct ComputeWeights {
  static constexpr const char* kName = "coef_weights";
  static constexpr int kThreads = static_cast<int>(coef::kWeightsPerBlock);
  using Shared = NoShared;
  CoefBatch batch;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, NoShared&) const {
    const CoefPlace place = place_of(batch, coef::kWeights, block.index());
    const coef::CoefSample& sample = *place.sample;
    block.each([&](int thread) {
      if (place.block == 0 && thread == 0) batch.statuses[place.number] = 0;
      if (sample.components == 0) return;
      const auto i = static_cast<int>(place.block * coef::kWeightsPerBlock) + thread;
      if (i < sample.across.count) {
        store(place, sample.across, i, sample.flip);
      } else if (i < sample.across.count + sample.down.count) {
        store(place, sample.down, i - sample.across.count, false);
      }
    });
  }

 private:
  DLPIPE_DEVICE static void store(const CoefPlace& place, const coef::CoefAxis& axis, int i, bool flip) {
    const AxisWeights to = weights_of(place, axis);
    const ResizeAxis resize(axis.source_size, 0, axis.source_size, axis.out_size);
    const int pixel = axis.first + (flip ? axis.count - 1 - i : i);
    const int begin = resize.begin(pixel);
    const int taps = coef::clamped(resize.end(pixel) - begin, 0, axis.most_taps);
    const double middle = resize.center(pixel);
    const double per_pixel = 1.0 / resize.support;
    double sum = 0;
    for (int t = 0; t < taps; ++t) sum += resize.real_weight(begin + t, middle, per_pixel);
    to.begins[i] = coef::clamped(begin - axis.source_begin, 0, axis.source_count - taps);
    to.taps[i] = taps;
    for (int t = 0; t < taps; ++t)
      to.weights[int64_t{t} * axis.count + i] =
          ResizeAxis::fixed_weight(resize.real_weight(begin + t, middle, per_pixel), sum);
  }
};

/// One pass: the first from the region's pixels, the second from what the first gave to the batch.
template <bool kSecond>
struct ResizePass {
  static constexpr const char* kName = kSecond ? "coef_second_pass" : "coef_first_pass";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  CoefBatch batch;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, NoShared&) const {
    const CoefPlace place = place_of(batch, kSecond ? coef::kSecondPass : coef::kFirstPass, block.index());
    const coef::CoefSample& sample = *place.sample;
    const bool down = sample.vertical_first != kSecond;
    const coef::CoefAxis& axis = down ? sample.down : sample.across;
    const AxisWeights weights = weights_of(place, axis);
    const uint8_t* const from = place.in_scratch<uint8_t>(kSecond ? sample.between : sample.pixels);
    uint8_t* const to = kSecond ? batch.pixels + sample.out : place.in_scratch<uint8_t>(sample.between);
    const int in_row = kSecond ? sample.between_row() : sample.seen_width() * sample.channels;
    const int out_row = kSecond ? sample.across.count * sample.channels : sample.between_row();
    const int count = out_row * (kSecond ? sample.down.count : sample.between_rows());
    const auto first = static_cast<int>(place.block * coef::kBytesPerBlock);
    block.each([&](int thread) {
      for (int k = thread; k < coef::kBytesPerBlock && first + k < count; k += kThreads) {
        const int y = (first + k) / out_row;
        const int x = (first + k) % out_row;
        const int i = down ? y : x / sample.channels;
        const int begin = weights.begins[i];
        const int step = down ? in_row : sample.channels;
        const uint8_t* pixel =
            down ? from + int64_t{begin} * in_row + x
                 : from + int64_t{y} * in_row + begin * sample.channels + x % sample.channels;
        int32_t sum = kWeightHalf;
        for (int t = 0; t < weights.taps[i]; ++t, pixel += step)
          sum += weights.weights[int64_t{t} * axis.count + i] * *pixel;
        to[first + k] = weighted_pixel(sum);
      }
    });
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
