#include "dlpipe/engine/cuda/loops/softmax_rows.h"

namespace dlpipe::engine {
namespace {

/// dx = y (dy - sum y dy)
struct SoftmaxRule {
  static constexpr const char* kName = "softmax";
  static constexpr const char* kGradientName = "softmax gradient";
  DLPIPE_DEVICE static float norm(float sum) { return 1.0f / sum; }
  DLPIPE_DEVICE static float value(float shifted, float norm) { return vector_math::exp(shifted) * norm; }
  DLPIPE_DEVICE static float term(float y, float grad) { return y * grad; }
  DLPIPE_DEVICE static float gradient(float y, float grad, float sum) { return y * (grad - sum); }
};

}  // namespace

DLPIPE_CUDA_KERNELS(softmax) = cuda::softmax_kernels<SoftmaxRule>();

}  // namespace dlpipe::engine
