// Eight f32 lanes at a time, loaded from and stored to f32 or bf16 memory. Uses the compiler's vector
// types, so that one source works on every instruction set with the same bits (a lane's arithmetic doesn't
// depend on the number of registers). Eight lanes, because GCC splits wider comparisons on AVX2, and the
// kernels that use this are limited by memory anyway. For bodies of on_best_isa().
//
// Everything here is inlined into its caller, whose target selects the instructions, so the compiler's
// warning about passing vectors between functions doesn't apply.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <cstring>

#include "dlpipe/dtype.h"
#include "engine/core/isa.h"
#include "engine/cpu/loops/elementwise.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

namespace dlpipe::engine::cpu {

inline constexpr int64_t kLanes = 8;
using F32x8 = float __attribute__((vector_size(32)));
using U32x8 = uint32_t __attribute__((vector_size(32)));
using I32x8 = int32_t __attribute__((vector_size(32)));
using U16x8 = uint16_t __attribute__((vector_size(16)));
using U16x16 = uint16_t __attribute__((vector_size(32)));
using U8x8 = uint8_t __attribute__((vector_size(8)));

DLPIPE_INLINE inline F32x8 load(const float* from) {
  F32x8 lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}
DLPIPE_INLINE inline void store(float* to, const F32x8& lanes) {
  std::memcpy(to, &lanes, sizeof(lanes));
}

/// Converts to f32 by appending sixteen zero bits. The shuffle is one instruction; GCC would split a conversion to 32 bits
/// into halves.
DLPIPE_INLINE inline F32x8 load(const BFloat16* from) {
  U16x8 bits;
  std::memcpy(&bits, from, sizeof(bits));
  const U16x16 wide =
      __builtin_shufflevector(bits, U16x8{}, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return reinterpret_cast<F32x8>(
      __builtin_shufflevector(wide, wide, 8, 0, 8, 1, 8, 2, 8, 3, 8, 4, 8, 5, 8, 6, 8, 7));
}
/// Rounds to nearest even; NaN stays NaN.
DLPIPE_INLINE inline void store(BFloat16* to, const F32x8& lanes) {
  U32x8 bits = reinterpret_cast<U32x8>(lanes);
  const I32x8 is_nan = lanes != lanes;  // NOLINT(misc-redundant-expression)
  round_to_bf16(bits, is_nan);
  const U16x8 narrow = __builtin_convertvector(bits, U16x8);
  std::memcpy(static_cast<void*>(to), &narrow, sizeof(narrow));
}

/// The same number in every lane.
DLPIPE_INLINE inline F32x8 all(float value) {
  return F32x8{} + value;
}
/// x where `condition` is positive, else 0, lane by lane.
DLPIPE_INLINE inline F32x8 where_positive(const F32x8& condition, const F32x8& x) {
  return condition > 0.0f ? x : F32x8{};
}
/// max(x, 0); NaN stays NaN, as in ReluFormula.
DLPIPE_INLINE inline F32x8 relu_of(const F32x8& x) {
  return x < 0.0f ? F32x8{} : x;
}

// Walks images by channel in vectors: the loops that per-channel ops (batch norm, global_avg_pool) share. A *chunk* is a
// matrix of `rows` pixels and `channels` columns, with `stride` elements from row to row. It is some rows of a plain
// tensor, or one image of one block of a channel-blocked tensor, where pixels are contiguous. For bodies of on_best_isa();
// everything is inlined.
//
// A ChannelVisitor gets strips of a chunk:
//
//   struct Sums {
//     // A row has kVectors vectors of 8. Vector v holds the channels from channel + (v % kPixel) * 8 on. If kPixel <
//     // kVectors, a pixel is kPixel vectors, and a row of the strip is several pixels.
//     template <int kVectors, int kPixel, class Io>
//     DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows, int64_t stride) const;
//   };

struct Chunk {
  int64_t offset = 0;  // elements from the tensor's beginning
  int64_t rows = 0;
  int64_t stride = 0;
  int64_t channel = 0;  // the first channel
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
/// Loads and stores of the first `count` lanes, for the last channels of a row.
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

/// Vectors per strip of a wide row: 64 channels, which are whole cache lines of any type. Narrower strips would read the
/// same rows again for every other line, which took twice as long in bf16.
inline constexpr int kStrip = 8;
/// Vectors per strip for the rest of such a row, and for a row of several pixels. Four concurrent sums hide the latency of
/// an addition.
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

/// Whether walk() reads the rows once. With more strips it reads the same memory again.
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
