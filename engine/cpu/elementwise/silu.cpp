#include "dlpipe/engine/ops/silu.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels silu_cpu;
const Kernels silu_cpu = cpu::unary_kernels<SiluFormula>();

}  // namespace dlpipe::engine
