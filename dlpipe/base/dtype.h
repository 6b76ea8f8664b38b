// Element types. Values are fixed: they stand in datasets and checkpoints.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dlpipe/base/error.h"

namespace dlpipe {

enum class DType : uint8_t { kF32 = 0, kF64 = 1, kBF16 = 2, kU8 = 3, kI32 = 4, kI64 = 5 };

/// bfloat16: the upper half of an IEEE binary32, rounded to nearest even on the way in. NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  friend bool operator==(BFloat16, BFloat16) = default;
};
static_assert(sizeof(BFloat16) == 2);

size_t dtype_size(DType dtype);
/// "f32", "f64", "bf16", "u8", "i32", "i64".
std::string_view dtype_name(DType dtype);
Result<DType> parse_dtype(std::string_view name);
inline bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};

}  // namespace dlpipe
