// Copies images between the forms that tensors and kernels use: plain NHWC (f32 or bf16) and channel-blocked nChw8c /
// nChw16c (f32), and for stems between NHWC and channel planes. Single-threaded: called for a slice of images inside a
// parallel body. Any thread.
#pragma once

#include <cstdint>

#include "dlpipe/dtype.h"

namespace dlpipe::engine::cpu {

/// The sizes of consecutive images.
struct ImageRun {
  int64_t images = 0;
  int64_t pixels = 0;  // height * width
  int64_t channels = 0;
  /// Channels of a pixel in the plain form; more than `channels` if only a part of them is copied. Plain images are pixels
  /// * plain_channels apart.
  int64_t plain_channels = 0;
};

/// NHWC -> nChw{block}c and back; `channels` is a multiple of `block`, 8 or 16. T is float or BFloat16.
template <class T>
void plain_to_blocked(const ImageRun& run, int block, const T* from, float* to);
template <class T>
void blocked_to_plain(const ImageRun& run, int block, const float* from, T* to);

/// NHWC -> NCHW and back; meant for few channels.
template <class T>
void plain_to_planes(const ImageRun& run, const T* from, float* to);
template <class T>
void planes_to_plain(const ImageRun& run, const float* from, T* to);

/// Converts `count` elements.
void widen(const BFloat16* from, float* to, int64_t count);
void narrow(const float* from, BFloat16* to, int64_t count);

}  // namespace dlpipe::engine::cpu
