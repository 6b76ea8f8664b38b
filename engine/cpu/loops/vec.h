// Eight f32 lanes at a time, loaded from and stored to f32 or bf16 memory: the compiler's vector types, so
// that one source serves every instruction set and gives the same bits on each (a lane's arithmetic is the
// same, whether lanes travel in one register or two). For bodies of on_best_isa(). Eight, because GCC takes
// wider comparisons apart on AVX2, and what uses this waits for memory anyway.
//
// Everything here is inlined into its caller, whose target decides the instructions; the compiler's warning
// about passing vectors between functions doesn't apply.
#pragma once

#include <cstdint>
#include <cstring>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/core/isa.h"
#include "dlpipe/engine/cpu/loops/one_element.h"

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

/// Each behind sixteen zero bits. By a shuffle, one instruction: GCC takes a conversion to 32 bits apart into
/// halves.
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

}  // namespace dlpipe::engine::cpu
