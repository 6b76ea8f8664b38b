#include "dlpipe/engine/ops/scale.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels scale_cpu;
const Kernels scale_cpu = cpu::unary_kernels<ScaleFormula>();

}  // namespace dlpipe::engine
