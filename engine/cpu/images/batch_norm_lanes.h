// The inner loops of batch norm, as visitors of walk() (channel_walk.h). T is the images' type; statistics
// are f32 within a chunk. Internal to cpu/images/batch_norm.cpp.
#pragma once

#include <cstdint>

#include "dlpipe/engine/cpu/loops/channel_walk.h"

namespace dlpipe::engine::cpu {

/// Adds up lanes that belong to the same channel: vectors v and v + kPixel.
template <int kVectors, int kPixel>
DLPIPE_INLINE inline void fold(F32x8 (&lanes)[kVectors]) {
  for (int v = kPixel; v < kVectors; ++v) lanes[v % kPixel] += lanes[v];
}

/// Per channel of one chunk: sum of d and of d^2, d = x - shift, where shift is the channel's value in the
/// chunk's first row: a value of the distribution itself, so that the variance doesn't drown in a large mean.
template <class T>
struct ShiftedSums {
  const T* x;
  int64_t first_row;  // offset of the chunk's first row less its first channel
  float* shift;       // [C] each, written for the chunk's channels; sums are added to
  float* sum;
  float* square;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 base[kVectors], sums[kVectors], squares[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      base[v] = io.get(x + first_row + channel + (v % kPixel) * kLanes);
      sums[v] = F32x8{};
      squares[v] = F32x8{};
    }
    for (int64_t row = 0; row < rows; ++row) {
      const T* here = x + offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        const F32x8 d = io.get(here + v * kLanes) - base[v];
        sums[v] += d;
        squares[v] += d * d;
      }
    }
    fold<kVectors, kPixel>(sums);
    fold<kVectors, kPixel>(squares);
    for (int v = 0; v < kPixel; ++v) {
      const int64_t c = channel + v * kLanes;
      io.put(shift + c, base[v]);
      io.put(sum + c, io.get(sum + c) + sums[v]);
      io.put(square + c, io.get(square + c) + squares[v]);
    }
  }
};

/// y = (x - mean) * scale + beta (+ residual) (then relu).
template <class T, bool kRelu, bool kResidual>
struct Normalise {
  const T* x;
  const T* residual;
  T* y;
  const float* mean;  // [C] each
  const float* scale;
  const float* beta;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 means[kVectors], scales[kVectors], betas[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = channel + (v % kPixel) * kLanes;
      means[v] = io.get(mean + c);
      scales[v] = io.get(scale + c);
      betas[v] = io.get(beta + c);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t here = offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        F32x8 value = (io.get(x + here + v * kLanes) - means[v]) * scales[v] + betas[v];
        if constexpr (kResidual) value += io.get(residual + here + v * kLanes);
        if constexpr (kRelu) value = relu_of(value);
        io.put(y + here + v * kLanes, value);
      }
    }
  }
};

/// Per channel of one chunk, g being dy where the relu let it through: sum of g and of g * (x - mean). Stores
/// g as the residual's gradient when asked.
template <class T, bool kRelu, bool kResidual>
struct GradientSums {
  const T* x;
  const T* y;
  const T* dy;
  T* dresidual;
  const float* mean;  // [C] each; sums are added to
  float* sum;
  float* sum_centred;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 means[kVectors], sums[kVectors], centred[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      means[v] = io.get(mean + channel + (v % kPixel) * kLanes);
      sums[v] = F32x8{};
      centred[v] = F32x8{};
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t here = offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t i = here + v * kLanes;
        F32x8 g = io.get(dy + i);
        if constexpr (kRelu) g = where_positive(io.get(y + i), g);
        if constexpr (kResidual) io.put(dresidual + i, g);
        sums[v] += g;
        centred[v] += g * (io.get(x + i) - means[v]);
      }
    }
    fold<kVectors, kPixel>(sums);
    fold<kVectors, kPixel>(centred);
    for (int v = 0; v < kPixel; ++v) {
      const int64_t c = channel + v * kLanes;
      io.put(sum + c, io.get(sum + c) + sums[v]);
      io.put(sum_centred + c, io.get(sum_centred + c) + centred[v]);
    }
  }
};

/// dx = a * (g - k1 - (x - mean) * k2), with a = gamma * inv_std and, in training, k1 = mean of g and
/// k2 = inv_std^2 * mean of g * (x - mean); zeros with running statistics.
template <class T, bool kRelu>
struct GradientOfImages {
  const T* x;
  const T* y;
  const T* dy;
  T* dx;
  const float* mean;  // [C] each
  const float* a;
  const float* k1;
  const float* k2;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 means[kVectors], as[kVectors], k1s[kVectors], k2s[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t c = channel + (v % kPixel) * kLanes;
      means[v] = io.get(mean + c);
      as[v] = io.get(a + c);
      k1s[v] = io.get(k1 + c);
      k2s[v] = io.get(k2 + c);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t here = offset + row * stride;
      for (int v = 0; v < kVectors; ++v) {
        const int64_t i = here + v * kLanes;
        F32x8 g = io.get(dy + i);
        if constexpr (kRelu) g = where_positive(io.get(y + i), g);
        io.put(dx + i, as[v] * (g - k1s[v] - (io.get(x + i) - means[v]) * k2s[v]));
      }
    }
  }
};

}  // namespace dlpipe::engine::cpu
