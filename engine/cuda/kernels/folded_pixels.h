// Images of a few channels, a network's first, as tensor cores take them: a pack of channels or two at a time. Where a
// convolution goes in steps of two, two neighbours of a row and of a column become channels of one pixel, and the convolution one
// in steps of one, of half the filters' sides (space to depth). Zeros fill what is left of a pack, and make filters of odd sides
// even: a NaN or an infinity in an image reaches windows one pixel further. Not run on a GPU yet.
#pragma once

#include "dlpipe/engine/cuda/grid/elements.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// How a convolution is folded. Its folded shape's sums are the ones of its own, and of zeros.
struct Folding {
  Conv2dShape shape;  // folded
  int fold = 1;       // neighbours of a row, and of a column, that become one
  int top = 0;        // rows of zeros before an image's first
  int left = 0;
  int weights_top = 0;  // the same of a filter's
  int weights_left = 0;
};

/// `width`: channels of a pack.
inline Folding folding_of(const Conv2dShape& s, int width) {
  Folding out;
  out.shape = s;
  const bool in_twos = s.stride == std::array{2, 2} && s.dilation == std::array{1, 1} && 4 * s.c <= 2 * width;
  if (in_twos && s.kh > 1 && s.kw > 1) {
    out.fold = 2;
    out.weights_top = s.padding[0] % 2;  // so that images begin with whole pairs of rows
    out.weights_left = s.padding[1] % 2;
    out.top = s.padding[0] + out.weights_top;
    out.left = s.padding[1] + out.weights_left;
    out.shape.kh = blocks_for(s.kh + out.weights_top, 2);
    out.shape.kw = blocks_for(s.kw + out.weights_left, 2);
    out.shape.h = s.oh + out.shape.kh - 1;
    out.shape.w = s.ow + out.shape.kw - 1;
    out.shape.stride = {1, 1};
    out.shape.padding = {0, 0};
  }
  out.shape.c = blocks_for(s.c * out.fold * out.fold, width) * width;
  return out;
}

/// Of [count, height, width, channels], images or filters.
struct Pixels {
  int64_t count;
  int height;
  int width;
  int channels;
};

/// One thread a pack of a folded pixel. `kFold`: neighbours of a row, and of a column, that become one.
template <class T, int kFold>
struct FoldPixels {
  static constexpr const char* kName = "folded pixels";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const T* from;
  Pack<T>* to;
  Pixels of;
  int top;
  int left;
  int height;  // folded
  int width;
  int packs;  // of a folded pixel

  int64_t threads() const { return of.count * height * width * packs; }

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= of.count * height * width * packs) return;
      const auto pixel = i / packs;
      const int row = static_cast<int>(pixel / width % height) * kFold - top;
      const int column = static_cast<int>(pixel % width) * kFold - left;
      const int64_t image = pixel / width / height * of.height;
      int phase = static_cast<int>(i % packs) * kPackWidth<T> / of.channels;
      int channel = static_cast<int>(i % packs) * kPackWidth<T> % of.channels;
      Pack<T> out;
      for (int k = 0; k < kPackWidth<T>; ++k) {
        const int y = row + phase / kFold, x = column + phase % kFold;
        const bool is_inside = phase < kFold * kFold && y >= 0 && y < of.height && x >= 0 && x < of.width;
        out.at[k] =
            is_inside ? from[((image + y) * of.width + x) * of.channels + channel] : narrowed<T>(0.0f);
        if (++channel < of.channels) continue;
        channel = 0;
        ++phase;
      }
      to[i] = out;
    });
  }
};

/// One thread per pixel, which it takes out of a folded one.
template <class T>
struct UnfoldPixels {
  static constexpr const char* kName = "unfolded pixels";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const T* from;
  T* to;
  Pixels of;
  int fold;
  int top;
  int left;
  int height;  // folded
  int width;
  int channels;

  int64_t threads() const { return of.count * of.height * of.width; }

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= of.count * of.height * of.width) return;
      const int x = static_cast<int>(i % of.width) + left;
      const int y = static_cast<int>(i / of.width % of.height) + top;
      const int64_t image = i / of.width / of.height;
      const int64_t pixel = (image * height + y / fold) * width + x / fold;
      const int phase = y % fold * fold + x % fold;
      for (int c = 0; c < of.channels; ++c)
        to[i * of.channels + c] = from[pixel * channels + phase * of.channels + c];
    });
  }
};

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
