// Gathers and scatters bits for writing and reading tiles, with and without BMI2; and includes x86's vector intrinsics for
// operations that Highway does not have. For .cpp files of this folder.
#pragma once

#if defined(__x86_64__)
// GCC 12 warns about the undefined lanes inside its own intrinsics.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

#include <cstdint>

// The readers are compiled several times, for instruction sets chosen at run time, so what they call must be inlined into
// functions for any machine.
#define DLPIPE_COEF_INLINE __attribute__((always_inline)) inline
#if defined(__x86_64__)
#define DLPIPE_COEF_TARGET __attribute__((target("bmi,bmi2,lzcnt,popcnt")))
#else
#define DLPIPE_COEF_TARGET
#endif

namespace dlpipe::data::coef {

inline constexpr uint64_t kOnes = 0x0101010101010101;

/// With BMI2's pdep, as an asm statement, because the intrinsic can't be inlined into a function for any machine.
struct Deposit {
#if defined(__x86_64__)
  static bool available() {
    return __builtin_cpu_supports("bmi2") != 0;
  }
  /// The bits of `bits`, from the lowest, at the places of `mask`.
  DLPIPE_COEF_INLINE static uint64_t pdep(uint64_t bits, uint64_t mask) {
    uint64_t out;
    asm("pdepq %2, %1, %0" : "=r"(out) : "r"(bits), "r"(mask));
    return out;
  }
  /// The bits of `bits` at the places of `mask`, moved together to the lowest ones.
  DLPIPE_COEF_INLINE static uint64_t pext(uint64_t bits, uint64_t mask) {
    uint64_t out;
    asm("pextq %2, %1, %0" : "=r"(out) : "r"(bits), "r"(mask));
    return out;
  }
#else
  static bool available() {
    return false;
  }
  static uint64_t pdep(uint64_t bits, uint64_t mask) {
    uint64_t out = 0;
    for (uint64_t bit = 1; mask != 0; bit <<= 1, mask &= mask - 1)
      if ((bits & bit) != 0) out |= mask & -mask;
    return out;
  }
#endif
  /// 1 in the bytes selected by the eight bits of `mask`.
  static uint64_t present(uint32_t mask) {
    return pdep(mask, kOnes);
  }
  /// Values of `width` bits, from the lowest, into those bytes.
  static uint64_t spread(uint64_t bits, uint64_t present, uint32_t width) {
    return pdep(bits, present * ((1u << width) - 1));
  }
};

struct Portable {
  static uint64_t pdep(uint64_t bits, uint64_t mask) {
    uint64_t out = 0;
    for (; mask != 0; bits >>= 1, mask &= mask - 1)
      if ((bits & 1) != 0) out |= mask & -mask;
    return out;
  }
  static uint64_t present(uint32_t mask) {
    uint64_t out = 0;
    for (int i = 0; i < 8; ++i) out |= uint64_t{(mask >> i) & 1} << (8 * i);
    return out;
  }
  static uint64_t spread(uint64_t bits, uint64_t present, uint32_t width) {
    uint64_t out = 0;
    for (int i = 0; i < 64; i += 8) {
      if (((present >> i) & 1) == 0) continue;
      out |= (bits & ((1u << width) - 1)) << i;
      bits >>= width;
    }
    return out;
  }
};

}  // namespace dlpipe::data::coef
