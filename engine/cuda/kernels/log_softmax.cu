#include "dlpipe/engine/cuda/loops/softmax_rows.h"

namespace dlpipe::engine {
namespace {

/// dx = dy - e^y sum dy
struct LogSoftmaxRule {
  static constexpr const char* kName = "log_softmax";
  static constexpr const char* kGradientName = "log_softmax gradient";
  DLPIPE_DEVICE static float norm(float sum) { return vector_math::log(sum); }
  DLPIPE_DEVICE static float value(float shifted, float norm) { return shifted - norm; }
  DLPIPE_DEVICE static float term(float, float grad) { return grad; }
  DLPIPE_DEVICE static float gradient(float y, float grad, float sum) {
    return grad - vector_math::exp(y) * sum;
  }
};

}  // namespace

DLPIPE_CUDA_KERNELS(log_softmax) = cuda::softmax_kernels<LogSoftmaxRule>();

}  // namespace dlpipe::engine
