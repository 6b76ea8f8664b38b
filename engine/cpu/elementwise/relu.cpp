#include "dlpipe/engine/ops/relu.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels relu_cpu;
const Kernels relu_cpu = cpu::unary_kernels<ReluFormula>();

}  // namespace dlpipe::engine
