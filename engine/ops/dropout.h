// The attributes of the op dropout, shared by its record and its kernels on every backend.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/random.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {

/// Element i is kept if word i % 4 of Philox block i / 4 is at least p * 2^32; forward and backward draw the
/// same words again, so no mask is stored.
struct DropoutAttrs {
  double p = 0.5;
  uint64_t seed = 0;
  int64_t step = 0;
  uint32_t call = 0;
  Tensor device_key = {};  // i64 [1] on x's device: holds mixed_key(seed, step); undefined: use seed and step

  static constexpr uint64_t mixed_key(uint64_t seed, int64_t step) {
    return philox_mix(seed, static_cast<uint64_t>(step));
  }
  static constexpr std::array<uint32_t, 2> split(uint64_t mixed) {
    return {static_cast<uint32_t>(mixed), static_cast<uint32_t>(mixed >> 32)};
  }
  std::array<uint32_t, 2> key() const { return split(mixed_key(seed, step)); }
  /// Distinguishes this use of the generator from the pipeline's.
  static constexpr uint32_t kStream = 0x64726f70;  // "drop"
  static constexpr PhiloxBlock counter(uint64_t block, uint32_t call) {
    return {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), call, kStream};
  }
  /// An element whose word is below it is dropped. p must be below 1.
  uint32_t threshold() const { return static_cast<uint32_t>(p * 4294967296.0); }
  double scale() const { return 1.0 / (1.0 - p); }

  /// The same p with the random state of this thread's next call, for `x`: the key on x's device, if there is one.
  DropoutAttrs redrawn(const Tensor& x) const;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("p", self.p);
    visit("seed", self.seed);
    visit("step", self.step);
    visit("call", self.call);
  }
};

}  // namespace dlpipe::engine
