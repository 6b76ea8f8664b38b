// Elements of f32 and bf16 in memory, sixteen bytes at a time; computing is in f32. The bits are the cpu
// kernels'.
#pragma once

#include <bit>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/cuda/grid.h"
#include "dlpipe/engine/op.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

DLPIPE_DEVICE float widened(float value) {
  return value;
}
DLPIPE_DEVICE float widened(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

template <class T>
DLPIPE_DEVICE T narrowed(float value);
template <>
DLPIPE_DEVICE float narrowed<float>(float value) {
  return value;
}
template <>
DLPIPE_DEVICE BFloat16 narrowed<BFloat16>(float value) {
  const auto u = std::bit_cast<uint32_t>(value);
  BFloat16 out;
  out.bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u
                                                                   : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  return out;
}

/// As many elements as sixteen bytes hold.
template <class T>
inline constexpr int kPackWidth = static_cast<int>(16 / sizeof(T));
template <class T>
struct alignas(16) Pack {
  T at[kPackWidth<T>];
};

inline bool is_pack_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(Pack<float>) == 0;
}

/// Calls body(T()) with the storage type: float or BFloat16.
template <class Body>
void stored(DType dtype, const Body& body) {
  if (dtype == DType::kBF16) return body(BFloat16());
  body(float());
}

template <class T>
const T* elements_of(const Tensor& tensor) {
  return static_cast<const T*>(tensor.raw());
}
template <class T>
T* elements_to(const Tensor& tensor) {
  return static_cast<T*>(tensor.raw());
}

/// What most kernels take: f32 and bf16, plain.
inline bool supports_f32_bf16(std::span<const TensorSpec> inputs, const Attrs&) {
  for (const TensorSpec& spec : inputs) {
    if (spec.dtype != DType::kF32 && spec.dtype != DType::kBF16) return false;
  }
  return true;
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
