// The windows of a convolution as rows of a matrix, and back. Elements of images and windows are numbered in 32
// bits; see chunk_images().
#pragma once

#include <algorithm>
#include <limits>

#include "engine/cuda/grid/elements.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// Returns the index of `i` along an innermost axis of `size`; `i` becomes the index over the outer axes.
DLPIPE_DEVICE int take_index(uint32_t& i, int64_t size) {
  const auto divisor = static_cast<uint32_t>(size);
  const uint32_t at = i % divisor;
  i /= divisor;
  return static_cast<int>(at);
}

/// Calls use(tap, pixel) for each tap of the window at (oh, ow) that is inside the image, in order.
template <class Use>
DLPIPE_DEVICE void each_tap(const Conv2dShape& s, int oh, int ow, const Use& use) {
  const int top = oh * s.stride[0] - s.padding[0];
  const int left = ow * s.stride[1] - s.padding[1];
  for (int kh = 0; kh < s.kh; ++kh) {
    const int h = top + kh * s.dilation[0];
    if (h < 0 || h >= s.h) continue;
    for (int kw = 0; kw < s.kw; ++kw) {
      const int w = left + kw * s.dilation[1];
      if (w >= 0 && w < s.w) use(kh * s.kw + kw, h * s.w + w);
    }
  }
}

/// Calls use(tap, window) for each tap that some window of the image has on pixel (h, w), in order.
template <class Use>
DLPIPE_DEVICE void each_window(const Conv2dShape& s, int h, int w, const Use& use) {
  for (int kh = 0; kh < s.kh; ++kh) {
    const int top = h + s.padding[0] - kh * s.dilation[0];
    const int oh = top / s.stride[0];
    if (top < 0 || oh * s.stride[0] != top || oh >= s.oh) continue;
    for (int kw = 0; kw < s.kw; ++kw) {
      const int left = w + s.padding[1] - kw * s.dilation[1];
      const int ow = left / s.stride[1];
      if (left >= 0 && ow * s.stride[1] == left && ow < s.ow) use(kh * s.kw + kw, oh * s.ow + ow);
    }
  }
}

/// Row (n, oh, ow) of `to` is that window, with zeros outside the image. Its columns are (group, kh, kw, c), so that
/// the columns of a group are contiguous. `Unit` is an element or a pack of them; channels are counted in units.
template <class Unit>
struct Im2col {
  static constexpr const char* kName = "im2col";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Unit* images;
  Unit* to;
  Conv2dShape s;
  int64_t c_group;  // channels per group
  int64_t units;    // of `to`

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t unit = block.index() * kThreads + thread;
      if (unit >= units) return;
      auto i = static_cast<uint32_t>(unit);
      const int c = take_index(i, c_group);
      const int kw = take_index(i, s.kw);
      const int kh = take_index(i, s.kh);
      const int group = take_index(i, s.groups);
      const int ow = take_index(i, s.ow);
      const int oh = take_index(i, s.oh);
      const int h = oh * s.stride[0] - s.padding[0] + kh * s.dilation[0];
      const int w = ow * s.stride[1] - s.padding[1] + kw * s.dilation[1];
      const bool inside = h >= 0 && h < s.h && w >= 0 && w < s.w;
      to[unit] = inside ? images[((i * s.h + h) * s.w + w) * s.c + group * c_group + c] : Unit();
    });
  }
};

/// The images' gradient from the windows' gradient. Each pixel's element sums its values in the windows, tap by tap.
template <class T>
struct Col2im {
  static constexpr const char* kName = "col2im";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const float* windows;
  T* to;
  Conv2dShape s;
  int64_t c_group;   // channels per group
  int64_t elements;  // of `to`

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t element = block.index() * kThreads + thread;
      if (element >= elements) return;
      auto i = static_cast<uint32_t>(element);
      const int c = take_index(i, c_group);
      const int group = take_index(i, s.groups);
      const int w = take_index(i, s.w);
      const int h = take_index(i, s.h);
      const int64_t taps = s.kh * s.kw;
      float sum = 0;
      each_window(s, h, w, [&](int64_t tap, int64_t window) {
        const int64_t row = i * s.oh * s.ow + window;
        sum += windows[((row * s.groups + group) * taps + tap) * c_group + c];
      });
      to[element] = narrowed<T>(sum);
    });
  }
};

/// to[m, column, row] = from[m, row, column]: turns weights [O, C/G, KH*KW] into rows (tap, c), or back.
template <class In, class Out>
struct TransposeMatrices {
  static constexpr const char* kName = "transposed matrices";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const In* from;
  Out* to;
  int64_t elements;
  int64_t rows;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i >= elements) return;
      const int64_t matrix = i / (rows * columns);
      const int64_t column = i / rows % columns;
      to[i] = narrowed<Out>(widened(from[(matrix * rows + i % rows) * columns + column]));
    });
  }
};

template <class In, class Out>
void transpose_matrices(const Tensor& from, const Tensor& to, int64_t rows, int64_t columns) {
  using Kernel = TransposeMatrices<In, Out>;
  launch(Kernel{elements_of<In>(from), elements_to<Out>(to), to.elements(), rows, columns},
         blocks_for(to.elements(), Kernel::kThreads));
}

inline int64_t image_elements(const Conv2dShape& s) {
  return s.h * s.w * s.c;
}
inline int64_t output_elements(const Conv2dShape& s) {
  return s.oh * s.ow * s.o;
}
/// The number of elements of one image's windows.
inline int64_t window_elements(const Conv2dShape& s) {
  return s.oh * s.ow * s.kh * s.kw * s.c;
}
inline constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();

/// The number of images (at least one) that have at most `most` elements in total, with `elements` each, and
/// whose elements can be numbered in 32 bits.
inline int64_t chunk_images(const Conv2dShape& s, int64_t elements, int64_t most) {
  const int64_t numbered = kMostElements / std::max(image_elements(s), output_elements(s));
  return std::max<int64_t>(1, std::min({s.n, most / elements, numbered}));
}

/// Calls use(first image, the convolution of a chunk of images) for each chunk.
template <class Use>
void each_chunk(const Conv2dShape& s, int64_t images, const Use& use) {
  for (int64_t first = 0; first < s.n; first += images) {
    Conv2dShape chunk = s;
    chunk.n = std::min(images, s.n - first);
    use(first, chunk);
  }
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
