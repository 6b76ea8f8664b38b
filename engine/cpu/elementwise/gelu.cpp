#include "dlpipe/engine/ops/gelu.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels gelu_cpu;
const Kernels gelu_cpu = cpu::unary_kernels<GeluFormula>();

}  // namespace dlpipe::engine
