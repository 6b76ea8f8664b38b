#include "dlpipe/engine/ops/tanh.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels tanh_cpu;
const Kernels tanh_cpu = cpu::unary_kernels<TanhFormula>();

}  // namespace dlpipe::engine
