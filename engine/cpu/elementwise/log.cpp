#include "dlpipe/engine/ops/log.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels log_cpu;
const Kernels log_cpu = cpu::unary_kernels<LogFormula>();

}  // namespace dlpipe::engine
