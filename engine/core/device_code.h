// What the engine runs on memory that the host doesn't touch: the ops' kernels and a few helpers, by kind of
// device. CUDA's are built in where dlpipe was built with CUDA; the tests hand in those of their simulated
// device. Everything here goes into the calling thread's stream (device_memory.h) and returns at once.
#pragma once

#include <cstdint>
#include <span>

#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/engine/core/flat_steps.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine {

struct DeviceCode {
  /// Null: there are none.
  const Kernels* (*kernels)(const OpRow& row);
  void (*copy_strided)(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                       size_t element_bytes);
  /// `count` times the low `element_bytes` (1, 2, 4 or 8) of `bits`.
  void (*fill)(void* to, int64_t count, uint64_t bits, size_t element_bytes);
  void (*widen)(const uint8_t* from, int64_t* to, int64_t count);
  /// mixed_target (ops/batch_prep.h) of rows 0 .. 2n-1.
  void (*mix_targets)(const int64_t* labels, const float* weights, const SampleMix* mixes, int64_t n,
                      int64_t* to_labels, float* to_weights);
  const cuda::FlatSteps* steps;
  coef::CoefDecode decode_coefficients;  // in the stream it is given
};

/// Error (kUnsupported) for a device that this program has no code for. Not for the host.
const DeviceCode& device_code(const Device& device);
/// For tests: what kSimulated devices run. It lives longer than they do.
void set_simulated_device_code(const DeviceCode* code);

}  // namespace dlpipe::engine
