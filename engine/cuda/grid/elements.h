// Elements of f32, bf16 and f16 in memory, sixteen bytes at a time; computation is in f32. The bits equal those
// of the host, except for the payload of a NaN.
#pragma once

#include <bit>

#include "dlpipe/dtype.h"
#include "dlpipe/op.h"
#include "engine/cuda/grid/grid.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

DLPIPE_DEVICE float widened(float value) {
  return value;
}
DLPIPE_DEVICE float widened(BFloat16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}

DLPIPE_DEVICE float widened(Float16 value) {
#if defined(__CUDA_ARCH__)
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(value.bits));
  return out;
#else
  return static_cast<float>(value);
#endif
}

template <class T>
DLPIPE_DEVICE T narrowed(float value);
template <>
DLPIPE_DEVICE float narrowed<float>(float value) {
  return value;
}
template <>
DLPIPE_DEVICE BFloat16 narrowed<BFloat16>(float value) {
  auto u = std::bit_cast<uint32_t>(value);
  round_to_bf16(u, is_nan_f32(u));
  BFloat16 out;
  out.bits = static_cast<uint16_t>(u);
  return out;
}

template <>
DLPIPE_DEVICE Float16 narrowed<Float16>(float value) {
#if defined(__CUDA_ARCH__)
  Float16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(value));
  return out;
#else
  return Float16(value);
#endif
}

/// The number of elements in sixteen bytes.
template <class T>
inline constexpr int kPackWidth = static_cast<int>(16 / sizeof(T));
/// Neighbours that are read and written together.
template <class T, int kCount = kPackWidth<T>>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};
/// How many neighbours a thread converts from one dtype to another: at most sixteen bytes of each.
template <class In, class Out>
inline constexpr int kMapWidth = kPackWidth<In> < kPackWidth<Out> ? kPackWidth<In> : kPackWidth<Out>;

inline bool is_pack_aligned(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % sizeof(Pack<float>) == 0;
}

/// Whether `stored` supports the dtype.
inline bool is_stored(DType dtype) {
  return dtype == DType::kF32 || is_low(dtype);
}
/// Calls body(T()) with the storage type: float, BFloat16 or Float16.
template <class Body>
void stored(DType dtype, const Body& body) {
  if (dtype == DType::kBF16) return body(BFloat16());
  if (dtype == DType::kF16) return body(Float16());
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

/// `supports` of most kernels: whether all inputs have these dtypes.
inline bool supports_stored(std::span<const TensorSpec> inputs, const Attrs&) {
  for (const TensorSpec& spec : inputs) {
    if (!is_stored(spec.dtype)) return false;
  }
  return true;
}

}  // namespace DLPIPE_GRID_NAMESPACE

// The kernels of an op for the grid that this file is compiled for: a device's, or the simulated grid of tests.

#if !defined(__CUDACC__)
const Kernels* simulated_kernels_of(const OpRow& row);  // tests/engine/cuda/simulated.cpp has the table
#endif

inline namespace DLPIPE_GRID_NAMESPACE {

inline const Kernels* kernels_of(const OpRow& row) {
#if defined(__CUDACC__)
  return row.kernels[static_cast<int>(Backend::kCuda)];
#else
  return simulated_kernels_of(row);
#endif
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
