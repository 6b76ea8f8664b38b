#include "dlpipe/engine/ops/exp.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels exp_cpu;
const Kernels exp_cpu = cpu::unary_kernels<ExpFormula>();

}  // namespace dlpipe::engine
