#include "dlpipe/engine/cpu/rows/softmax_rows.h"

namespace dlpipe::engine {

namespace {

struct LogSoftmaxRule {
  DLPIPE_INLINE static void values(const float* __restrict x, float* __restrict y, int64_t count,
                                   float largest) {
    const float sum = cpu::sum_terms(
        count, [x, largest](int64_t i) DLPIPE_INLINE { return vector_math::exp(x[i] - largest); });
    const float log_sum = vector_math::log(sum);
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] - largest - log_sum;
  }
  // dx = dy - e^y sum dy
  DLPIPE_INLINE static void gradients(const float* __restrict y, const float* __restrict grad_y,
                                      float* __restrict grad_x, int64_t count) {
    const float sum = cpu::sum_terms(count, [grad_y](int64_t i) DLPIPE_INLINE { return grad_y[i]; });
    for (int64_t i = 0; i < count; ++i) grad_x[i] = grad_y[i] - vector_math::exp(y[i]) * sum;
  }
};

}  // namespace

extern const Kernels log_softmax_cpu;
constinit const Kernels log_softmax_cpu = cpu::softmax_kernels<LogSoftmaxRule>();

}  // namespace dlpipe::engine
