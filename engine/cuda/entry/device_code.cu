// The functions that engine/core/device_code.h needs from CUDA besides the ops.
#include "engine/core/device_code.h"

#include "base/text.h"
#include "engine/cuda/coef/coef_decode.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/loops/strided.h"
#include "engine/ops/conversions.h"
#include "engine/ops/shape_ops.h"

namespace dlpipe::engine::cuda {
namespace {

struct Widen {
  static constexpr const char* kName = "widen";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const uint8_t* from;
  int64_t* to;
  int64_t count;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t i = block.index() * kThreads + thread;
      if (i < count) to[i] = from[i];
    });
  }
};

void widen(const uint8_t* from, int64_t* to, int64_t count) {
  launch(Widen{from, to, count}, blocks_for(count, Widen::kThreads));
}

struct MixTargets {
  static constexpr const char* kName = "mix_targets";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const int64_t* labels;
  const float* weights;
  const SampleMix* mixes;
  int64_t n;
  int64_t* to_labels;
  float* to_weights;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t row = block.index() * kThreads + thread;
      if (row >= 2 * n) return;
      const MixedTarget target = mixed_target(labels, weights, mixes, n, row);
      to_labels[row] = target.label;
      to_weights[row] = target.weight;
    });
  }
};

void mix_targets(const int64_t* labels, const float* weights, const SampleMix* mixes, int64_t n,
                 int64_t* to_labels, float* to_weights) {
  launch(MixTargets{labels, weights, mixes, n, to_labels, to_weights},
         blocks_for(2 * n, MixTargets::kThreads));
}

void copy_strided(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                  size_t element_bytes) {
  strided_copy(to, row_major(shape), from, strides, shape, element_bytes);
}

}  // namespace

#if defined(__CUDACC__)
extern const DeviceCode device_code_cuda;
const DeviceCode device_code_cuda = {kernels_of,  copy_strided,     fill_elements,   widen,
                                     mix_targets, &flat_steps_cuda, coef_decode_cuda};
#else
// tests/engine/cuda/simulated.cpp checks the memory that decoding accesses.
void simulated_coef_decode(const coef::CoefBatch& batch, Stream& stream);
extern const DeviceCode device_code_cuda_simulated;
const DeviceCode device_code_cuda_simulated = {
    kernels_of,           copy_strided, fill_elements, widen, mix_targets, &flat_steps_cuda_simulated,
    simulated_coef_decode};
#endif

}  // namespace dlpipe::engine::cuda
