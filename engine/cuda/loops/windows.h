// Shared by kernels over images [N,H,W,C]: several channels of a pixel per thread, pooling windows, one thread
// per pixel, and sums of channels over rows of pixels.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <type_traits>

#include "engine/cuda/grid/elements.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// kWidth neighbouring channels of a pixel. They are read and written together if memory is aligned.
template <class T, int kWidth, bool kAligned>
struct alignas(kAligned ? std::min<size_t>(16, sizeof(T) * kWidth) : alignof(T)) Channels {
  T at[kWidth];

  static DLPIPE_DEVICE Channels read(const T* from) { return *reinterpret_cast<const Channels*>(from); }
  DLPIPE_DEVICE void write(T* to) const {
#if defined(__CUDA_ARCH__)
    // In loops, nvcc would store each element separately.
    if constexpr (kAligned && sizeof(Channels) == 16)
      return __stwb(reinterpret_cast<uint4*>(to), std::bit_cast<uint4>(*this));
#endif
    *reinterpret_cast<Channels*>(to) = *this;
  }
};

/// Calls body(T(), width, aligned) for images of `dtype` and `channels` at `pointers`; width and aligned are
/// constants. Width is the number of elements in sixteen bytes, or 1. It depends only on the number of
/// channels, so the order of sums doesn't depend on the addresses of tensors.
template <class Body>
void by_channels(DType dtype, int64_t channels, std::initializer_list<const void*> pointers,
                 const Body& body) {
  stored(dtype, [&](auto type) {
    constexpr int kWidth = kPackWidth<decltype(type)>;
    if (channels % kWidth != 0) return body(type, std::integral_constant<int, 1>(), std::true_type());
    if (std::all_of(pointers.begin(), pointers.end(), is_pack_aligned))
      return body(type, std::integral_constant<int, kWidth>(), std::true_type());
    body(type, std::integral_constant<int, kWidth>(), std::false_type());
  });
}

/// Pool2dShape (ops/window.h) along one axis.
struct WindowAxis {
  int size;   // pixels of the image
  int count;  // number of windows
  int kernel;
  int stride;
  int padding;

  struct Range {
    int begin;
    int end;
  };
  DLPIPE_DEVICE int begin(int window) const { return window * stride - padding; }
  /// The part of a window inside the image.
  DLPIPE_DEVICE Range inside(int window) const {
    const int first = begin(window);
    return {first < 0 ? 0 : first, first + kernel < size ? first + kernel : size};
  }
  /// The windows that cover a position of the image.
  DLPIPE_DEVICE Range covering(int place) const {
    const int past = place + padding - kernel + 1;  // lower bound of the first window's start
    const int end = (place + padding) / stride + 1;
    return {past <= 0 ? 0 : (past + stride - 1) / stride, end < count ? end : count};
  }
  /// How many positions a window counts in an average: those in the padding count, those beyond it don't.
  DLPIPE_DEVICE int padded_length(int window) const {
    const int first = begin(window);
    return (first + kernel < size + padding ? first + kernel : size + padding) - first;
  }
};

struct Windows {
  WindowAxis rows;
  WindowAxis columns;
  int channels;

  explicit Windows(const Pool2dShape& s)
      : rows{static_cast<int>(s.h), static_cast<int>(s.oh), s.kernel[0], s.stride[0], s.padding[0]},
        columns{static_cast<int>(s.w), static_cast<int>(s.ow), s.kernel[1], s.stride[1], s.padding[1]},
        channels(static_cast<int>(s.c)) {}

  /// The index of channel c of pixel (h, w) in the images; below, of window (oh, ow) in the output.
  DLPIPE_DEVICE int64_t input(int n, int h, int w, int c) const {
    return ((static_cast<int64_t>(n) * rows.size + h) * columns.size + w) * channels + c;
  }
  DLPIPE_DEVICE int64_t output(int n, int oh, int ow, int c) const {
    return ((static_cast<int64_t>(n) * rows.count + oh) * columns.count + ow) * channels + c;
  }
};

/// Calls body(n, h, w, c) for every pixel and every Body::kWidth-th channel, with one thread each. A block
/// covers part of a row of pixels.
template <class Body>
struct EachPixel {
  static constexpr const char* kName = Body::kName;
  static constexpr int kThreads = 128;
  using Shared = NoShared;
  Body body;
  int height;
  int row_threads;
  int groups;  // groups of kWidth channels

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    const int tiles = (row_threads + kThreads - 1) / kThreads;
    const auto index = static_cast<int>(block.index());
    const int row = index / tiles;
    block.each([&](int thread) {
      const int i = index % tiles * kThreads + thread;
      if (i < row_threads) body(row / height, row % height, i / groups, i % groups * Body::kWidth);
    });
  }
};

template <class Body>
void launch_each_pixel(const Shape& images, const Body& body) {
  const auto groups = static_cast<int>(images[3] / Body::kWidth);
  const EachPixel<Body> kernel{body, static_cast<int>(images[1]), static_cast<int>(images[2]) * groups,
                               groups};
  launch(kernel, images[0] * images[1] * blocks_for(kernel.row_threads, kernel.kThreads));
}

/// How a block covers [rows, channels]: kSide threads side by side with kWidth channels each, and kLanes rows at once.
template <int kWidth>
struct RowTile {
  static constexpr int kThreads = 256;
  static constexpr int kSide = kWidth > 1 ? 8 : 32;
  static constexpr int kLanes = kThreads / kSide;
  static constexpr int kChannels = kSide * kWidth;
};

/// Sums of every channel of [rows, channels] over chunks of rows, in an order that depends only on the shape.
/// One block per chunk and tile of channels. `Terms` is a struct with
///   kName, kWidth, kSums; struct Factors, the values that it keeps for its channels;
///   Factors factors(first row of the chunk, channel); add(element, factors, sums[kSums][kWidth]);
///   store(chunk, index of the sum, channel, sum).
template <class Terms>
struct ChannelSums {
  static constexpr const char* kName = Terms::kName;
  static constexpr int kWidth = Terms::kWidth;
  using Tile = RowTile<kWidth>;
  static constexpr int kThreads = Tile::kThreads;
  struct Shared {
    float part[Terms::kSums][Tile::kLanes][Tile::kChannels];
  };
  Terms terms;
  int64_t rows;
  int64_t channels;
  int64_t chunk;  // rows per chunk

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared& shared) const {
    // In 32 bits: a 64-bit division calls a subroutine, for which ptxas saves registers.
    const auto tiles = static_cast<uint32_t>(blocks_for(channels, Tile::kChannels));
    const auto index = static_cast<uint32_t>(block.index());
    const int64_t number = index / tiles;
    const int64_t first = number * chunk;
    const int64_t end = first + chunk < rows ? first + chunk : rows;
    const int64_t left = static_cast<int64_t>(index % tiles) * Tile::kChannels;
    block.each([&](int thread) {
      const int lane = thread / Tile::kSide;
      const int column = thread % Tile::kSide * kWidth;
      const int64_t channel = left + column;
      float sums[Terms::kSums][kWidth] = {};
      if (channel < channels) {
        const typename Terms::Factors factors = terms.factors(first, channel);
        for (int64_t row = first + lane; row < end; row += Tile::kLanes)
          terms.add(row * channels + channel, factors, sums);
      }
      for (int i = 0; i < Terms::kSums; ++i) {
        for (int k = 0; k < kWidth; ++k) shared.part[i][lane][column + k] = sums[i][k];
      }
    });
    block.each([&](int thread) {
      const int i = thread / Tile::kChannels;
      const int column = thread % Tile::kChannels;
      static_assert(Terms::kSums * Tile::kChannels <= kThreads);
      if (i >= Terms::kSums || left + column >= channels) return;
      float sum = 0;
      for (int lane = 0; lane < Tile::kLanes; ++lane) sum += shared.part[i][lane][column];
      terms.store(number, i, left + column, sum);
    });
  }
};

template <class Terms>
void launch_channel_sums(int64_t rows, int64_t channels, int64_t chunk, const Terms& terms) {
  launch(ChannelSums<Terms>{terms, rows, channels, chunk},
         blocks_for(rows, chunk) * blocks_for(channels, RowTile<Terms::kWidth>::kChannels));
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
