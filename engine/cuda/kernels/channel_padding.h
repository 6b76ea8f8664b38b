// Pixels of a few channels beside zeros, and back: tensor cores read a pack of channels at a time, and pixels of three lie
// aligned to nothing.
#pragma once

#include "dlpipe/engine/cuda/grid/elements.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// One thread a pixel of fewer channels than a pack has.
template <class T>
struct PadChannels {
  static constexpr const char* kName = "channels beside zeros";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const T* from;
  Pack<T>* to;
  int channels;
  int64_t pixels;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= pixels) return;
      Pack<T> pixel;
      for (int c = 0; c < kPackWidth<T>; ++c)
        pixel.at[c] = c < channels ? from[i * channels + c] : narrowed<T>(0.0f);
      to[i] = pixel;
    });
  }
};

/// One thread a pixel, which loses what PadChannels gave it.
template <class T>
struct DropChannels {
  static constexpr const char* kName = "channels without zeros";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Pack<T>* from;
  T* to;
  int channels;
  int64_t pixels;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= pixels) return;
      const Pack<T> pixel = from[i];
      for (int c = 0; c < kPackWidth<T>; ++c) {
        if (c < channels) to[i * channels + c] = pixel.at[c];
      }
    });
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
