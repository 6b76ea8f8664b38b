#include "dlpipe/engine/cpu/rows/softmax_rows.h"

namespace dlpipe::engine {

namespace {

struct SoftmaxRule {
  DLPIPE_INLINE static void values(const float* __restrict x, float* __restrict y, int64_t count,
                                   float largest) {
    for (int64_t i = 0; i < count; ++i) y[i] = vector_math::exp(x[i] - largest);
    const float sum = cpu::sum_terms(count, [y](int64_t i) DLPIPE_INLINE { return y[i]; });
    const float inverse = 1.0f / sum;
    for (int64_t i = 0; i < count; ++i) y[i] *= inverse;
  }
  // dx = y (dy - sum y dy)
  DLPIPE_INLINE static void gradients(const float* __restrict y, const float* __restrict grad_y,
                                      float* __restrict grad_x, int64_t count) {
    const float dot =
        cpu::sum_terms(count, [y, grad_y](int64_t i) DLPIPE_INLINE { return y[i] * grad_y[i]; });
    for (int64_t i = 0; i < count; ++i) grad_x[i] = y[i] * (grad_y[i] - dot);
  }
};

}  // namespace

extern const Kernels softmax_cpu;
constinit const Kernels softmax_cpu = cpu::softmax_kernels<SoftmaxRule>();

}  // namespace dlpipe::engine
