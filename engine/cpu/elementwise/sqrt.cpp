#include "dlpipe/engine/ops/sqrt.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels sqrt_cpu;
const Kernels sqrt_cpu = cpu::unary_kernels<SqrtFormula>();

}  // namespace dlpipe::engine
