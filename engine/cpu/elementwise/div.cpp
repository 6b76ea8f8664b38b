#include "dlpipe/engine/ops/div.h"

#include "dlpipe/engine/cpu/loops/binary.h"

namespace dlpipe::engine {

extern const Kernels div_cpu;
const Kernels div_cpu = cpu::binary_kernels<DivFormula>();

}  // namespace dlpipe::engine
