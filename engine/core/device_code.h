// The code that the engine runs on device memory: the ops' kernels and a few helpers, by kind of device.
// CUDA's code is built in if dlpipe is built with CUDA; tests provide that of their simulated device. All
// work is queued in the calling thread's stream (device_memory.h), and functions return immediately.
#pragma once

#include <cstdint>
#include <span>

#include "arithmetic/coef_batch.h"
#include "dlpipe/batch.h"
#include "dlpipe/device.h"
#include "dlpipe/op.h"
#include "engine/core/flat_steps.h"

namespace dlpipe::engine {

struct DeviceCode {
  /// Returns null if the op has no kernels here.
  const Kernels* (*kernels)(const OpRow& row);
  void (*copy_strided)(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                       size_t element_bytes);
  /// Writes the low `element_bytes` (1, 2, 4 or 8) of `bits` `count` times.
  void (*fill)(void* to, int64_t count, uint64_t bits, size_t element_bytes);
  void (*widen)(const uint8_t* from, int64_t* to, int64_t count);
  /// mixed_target (ops/conversions.h) of rows 0 .. 2n-1.
  void (*mix_targets)(const int64_t* labels, const float* weights, const SampleMix* mixes, int64_t n,
                      int64_t* to_labels, float* to_weights);
  const cuda::FlatSteps* steps;
  coef::CoefDecode decode_coefficients;  // queued in its stream argument
};

/// Throws Error (kUnsupported) if this program has no code for the device. Not for the host.
const DeviceCode& device_code(const Device& device);
/// For tests: sets the code of kSimulated devices, which must outlive them.
void set_simulated_device_code(const DeviceCode* code);

// Sums and copies of contiguous f32 values in a device's memory, for gradients of several grains and processes. On
// the host they are complete when they return; elsewhere they are queued in the calling thread's stream. A sum is one
// IEEE addition per element, so that the bits are the same on every device and for any number of threads.

/// to[i] = left[i] + right[i], all on `device`; `to` may be one of them. `right` null: zeros.
void flat_add(Device& device, float* to, const float* left, const float* right, int64_t count);
/// The same with values and sums rounded to bf16; left[i] must already be rounded. `left` null: only rounds right[i].
void flat_add_rounded(Device& device, float* to, const float* left, const float* right, int64_t count);
/// `from` null: zeros.
void flat_copy(Device& device, float* to, const float* from, int64_t count);

}  // namespace dlpipe::engine
