// Element types (DType, and BFloat16 and Float16 for the types that C++20 lacks) and sizes (Shape) of tensors.
//
// Ownership: values; a Shape stores its sizes inline. Threads: all functions are pure. Cost: only to_string() allocates.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/error.h"

// For functions that host code and GPU kernels share, so that both compute the same bits.
#if defined(__CUDACC__)
#define DLPIPE_HOST_DEVICE __host__ __device__ inline
#else
#define DLPIPE_HOST_DEVICE inline
#endif

namespace dlpipe {

/// The values are fixed: datasets and checkpoints store them.
enum class DType : uint8_t { kF32 = 0, kF64 = 1, kBF16 = 2, kU8 = 3, kI32 = 4, kI64 = 5, kF16 = 6 };

/// Replaces the bits of an IEEE binary32 by its upper half, rounded to nearest even; NaN stays NaN. `Bits` is one
/// number or a compiler vector of numbers, so that this rounding is implemented once. Always inlined, so that it is
/// compiled for its caller's instruction set.
template <class Bits, class Mask>
__attribute__((always_inline)) DLPIPE_HOST_DEVICE void round_to_bf16(Bits& bits, const Mask& is_nan) {
  const Bits rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const Bits quiet = (bits >> 16) | 0x40u;
  bits = is_nan ? quiet : rounded;
}
/// Whether these are a NaN's bits.
DLPIPE_HOST_DEVICE constexpr bool is_nan_f32(uint32_t bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u;
}

/// bfloat16: the upper half of an IEEE binary32. Conversion rounds to nearest even; NaN stays NaN.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    auto u = std::bit_cast<uint32_t>(value);
    round_to_bf16(u, is_nan_f32(u));
    bits = static_cast<uint16_t>(u);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  friend bool operator==(BFloat16, BFloat16) = default;
};
static_assert(sizeof(BFloat16) == 2);
/// `value` rounded to the nearest bfloat16.
inline float rounded_to_bf16(float value) {
  return static_cast<float>(BFloat16(value));
}

/// IEEE 754 binary16: 5 bits of exponent (bias 15), 10 of fraction; its largest number is 65504, its smallest
/// 2^-24. Conversion rounds to nearest even, from 65520 on to infinity; NaN stays NaN.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  DLPIPE_HOST_DEVICE explicit Float16(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = u >> 16 & 0x8000u;
    const uint32_t magnitude = u & 0x7fffffffu;
    uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u;
    } else if (magnitude >= 0x47800000u) {  // 65536
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {  // 2^-14, the smallest normal number: another bias, 13 bits less
      half = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    } else {  // floats next to 1/2 are 2^-24 apart, like subnormal halves: the addition rounds correctly
      half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<uint16_t>(sign | half);
  }
  DLPIPE_HOST_DEVICE explicit operator float() const {
    const uint32_t sign = (bits & 0x8000u) << 16;
    const uint32_t magnitude = (bits & 0x7fffu) << 13;
    uint32_t u = magnitude + 0x38000000u;
    if (magnitude >= 0x0f800000u) {  // infinity and NaN: all bits of the exponent
      u += 0x38000000u;
    } else if (magnitude < 0x00800000u) {  // subnormal: as a fraction of 2^-14 that has lost its leading one
      u = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + 0x38800000u) - 0x1p-14f);
    }
    return std::bit_cast<float>(sign | u);
  }
  friend bool operator==(Float16, Float16) = default;
};
static_assert(sizeof(Float16) == 2);

size_t dtype_size(DType dtype);
/// "f32", "f64", "bf16", "u8", "i32", "i64", "f16".
std::string_view dtype_name(DType dtype);
Result<DType> parse_dtype(std::string_view name);
/// The 16-bit types, used for storage; computation is in f32.
constexpr bool is_low(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16;
}
/// The types with fast kernels on the host.
constexpr bool is_f32_or_bf16(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16;
}
constexpr bool is_floating(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || is_low(dtype);
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
struct DTypeOf<Float16> {
  static constexpr DType value = DType::kF16;
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

/// A tensor's sizes: at most kMaxRank dimensions, stored inline, so that shapes need no allocation.
class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  /// Throws std::length_error for more than kMaxRank dimensions. File parsers must check the rank first.
  explicit Shape(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  /// Size of dimension `i`; negative counts from the end (-1 is the last).
  int64_t operator[](int i) const { return dims_[i < 0 ? i + rank_ : i]; }
  int64_t& operator[](int i) { return dims_[i < 0 ? i + rank_ : i]; }
  /// Product of all sizes; 1 for rank 0.
  int64_t elements() const;
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  void push_back(int64_t size);
  /// "[2,3,4]"
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a.dims_[i] != b.dims_[i]) return false;
    }
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace dlpipe
