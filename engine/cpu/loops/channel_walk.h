// Walks images channel by channel in vectors: the loops that per-channel ops (batch norm) share. A *chunk* is
// a matrix of `rows` pixels and `channels` columns, `stride` elements from row to row: some rows of a plain
// tensor, or one image of one block of a channel-blocked one, whose pixels lie without gaps. For bodies of
// on_best_isa(); everything is inlined.
//
// A ChannelVisitor gets strips of a chunk:
//
//   struct Sums {
//     // kVectors vectors of 8 per row; vector v holds channels channel + (v % kPixel) * 8 ...: below kVectors,
//     // kPixel vectors are a pixel, and a row of the strip several pixels.
//     template <int kVectors, int kPixel, class Io>
//     DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows, int64_t stride) const;
//   };
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>

#include "dlpipe/engine/cpu/loops/vec.h"

namespace dlpipe::engine::cpu {

struct Chunk {
  int64_t offset = 0;  // elements from the tensor's begin
  int64_t rows = 0;
  int64_t stride = 0;
  int64_t channel = 0;  // the first
  int64_t channels = 0;
};

/// Loads and stores of whole vectors.
struct WholeVectors {
  template <class T>
  DLPIPE_INLINE F32x8 get(const T* from) const {
    return load(from);
  }
  template <class T>
  DLPIPE_INLINE void put(T* to, const F32x8& lanes) const {
    store(to, lanes);
  }
};
/// Of the first `count` lanes, for the last channels of a row.
struct PartVectors {
  int64_t count;
  template <class T>
  DLPIPE_INLINE F32x8 get(const T* from) const {
    F32x8 lanes{};
    for (int64_t i = 0; i < count; ++i) lanes[i] = load_one(from + i);
    return lanes;
  }
  template <class T>
  DLPIPE_INLINE void put(T* to, const F32x8& lanes) const {
    for (int64_t i = 0; i < count; ++i) store_one(to + i, lanes[i]);
  }
};

/// Vectors of a strip of a wide row: 64 channels, whole lines of memory of any type. Narrower strips walk the
/// same rows again for every other line, which took twice as long in bf16.
inline constexpr int kStrip = 8;
/// Vectors of what is left of such a row, and of a row of several pixels: four sums at once hide the latency
/// of an addition.
inline constexpr int kPackedVectors = 4;

template <class Visitor>
concept ChannelVisitor = requires(const Visitor& visitor, int64_t number) {
  {
    visitor.template strip<kStrip, kStrip>(WholeVectors{}, number, number, number, number)
    } -> std::same_as<void>;
  {
    visitor.template strip<kPackedVectors, 1>(WholeVectors{}, number, number, number, number)
    } -> std::same_as<void>;
  { visitor.template strip<1, 1>(PartVectors{number}, number, number, number, number) } -> std::same_as<void>;
};

template <int kPixel, ChannelVisitor Visitor>
DLPIPE_INLINE inline void walk_pixels(const Chunk& chunk, const Visitor& visitor) {
  constexpr int64_t kPixels = kPackedVectors / kPixel;
  const int64_t packed = chunk.rows / kPixels;
  const int64_t rest = chunk.rows - packed * kPixels;
  visitor.template strip<kPackedVectors, kPixel>(WholeVectors{}, chunk.channel, chunk.offset, packed,
                                                 kPackedVectors * kLanes);
  if (rest > 0) {
    visitor.template strip<kPixel, kPixel>(
        WholeVectors{}, chunk.channel, chunk.offset + packed * kPackedVectors * kLanes, rest, chunk.stride);
  }
}

/// Whether walk() goes through the rows once: more strips come by the same lines of memory again.
inline bool is_one_pass(const Chunk& chunk) {
  return chunk.channels <= kPackedVectors * kLanes || chunk.channels == kStrip * kLanes;
}

template <ChannelVisitor Visitor>
DLPIPE_INLINE inline void walk(const Chunk& chunk, const Visitor& visitor) {
  if (chunk.stride == kLanes && chunk.channels == kLanes) return walk_pixels<1>(chunk, visitor);
  if (chunk.stride == 2 * kLanes && chunk.channels == 2 * kLanes) return walk_pixels<2>(chunk, visitor);
  int64_t c = 0;
  for (; c + kStrip * kLanes <= chunk.channels; c += kStrip * kLanes) {
    visitor.template strip<kStrip, kStrip>(WholeVectors{}, chunk.channel + c, chunk.offset + c, chunk.rows,
                                           chunk.stride);
  }
  for (; c + kPackedVectors * kLanes <= chunk.channels; c += kPackedVectors * kLanes) {
    visitor.template strip<kPackedVectors, kPackedVectors>(WholeVectors{}, chunk.channel + c,
                                                           chunk.offset + c, chunk.rows, chunk.stride);
  }
  for (; c + kLanes <= chunk.channels; c += kLanes) {
    visitor.template strip<1, 1>(WholeVectors{}, chunk.channel + c, chunk.offset + c, chunk.rows,
                                 chunk.stride);
  }
  if (c < chunk.channels) {
    visitor.template strip<1, 1>(PartVectors{chunk.channels - c}, chunk.channel + c, chunk.offset + c,
                                 chunk.rows, chunk.stride);
  }
}

}  // namespace dlpipe::engine::cpu
