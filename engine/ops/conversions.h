// Ops that convert elements: cast, reorder and batch_prep. Contains cast's attributes, and what the kernels of batch_prep
// share: which pixels of a mixed sample are its partner's, and how two pixels are averaged.
#pragma once

#include <cstdint>

#include "dlpipe/batch.h"
#include "dlpipe/op.h"
#include "engine/ops/elementwise.h"

namespace dlpipe::engine {

struct CastAttrs {
  DType dtype = DType::kF32;

  static void each(auto& self, auto&& visit) {  // core/attr_form.h
    visit("dtype", self.dtype);
  }
};

/// batch_prep with `mixes`, a copy of prep.mix on the images' device: u8 [N, sizeof(SampleMix)].
/// The function without `mixes` makes this copy itself and waits for it, if it mixes images on a device.
Tensor batch_prep(const Tensor& images, const BatchPrep& prep, const Tensor& mixes);

DLPIPE_FORMULA bool has_box(const SampleMix& mix) {
  return mix.box.width > 0 && mix.box.height > 0;
}
DLPIPE_FORMULA bool is_in_box(const Region& box, int x, int y) {
  return x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
}

/// lambda own + (1 - lambda) other. Rounds every step, so that a batch has the same bits wherever it is prepared: on
/// devices, nvcc would otherwise fuse a product and a sum into one instruction.
DLPIPE_FORMULA float averaged(float own, float other, float lambda) {
#if defined(__CUDA_ARCH__)
  return __fadd_rn(__fmul_rn(lambda, own), __fmul_rn(__fsub_rn(1.0f, lambda), other));
#else
  return lambda * own + (1.0f - lambda) * other;
#endif
}

/// One of a sample's two labels, with its weight in the loss. Row i < n is sample i with its own label,
/// row n + i the same sample with its partner's label. The two weights add up to weights[i].
struct MixedTarget {
  int64_t label;
  float weight;
};
DLPIPE_FORMULA MixedTarget mixed_target(const int64_t* labels, const float* weights, const SampleMix* mixes,
                                        int64_t n, int64_t row) {
  const int64_t i = row < n ? row : row - n;
  const SampleMix& mix = mixes[i];
  const float lambda = mix.partner < 0 ? 1.0f : mix.lambda;
  if (row < n) return {labels[i], weights[i] * lambda};
  return {labels[mix.partner < 0 ? i : mix.partner], weights[i] * (1.0f - lambda)};
}

}  // namespace dlpipe::engine
