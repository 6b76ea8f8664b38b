#include "dlpipe/engine/ops/mul.h"

#include "dlpipe/engine/cpu/loops/binary.h"

namespace dlpipe::engine {

extern const Kernels mul_cpu;
const Kernels mul_cpu = cpu::binary_kernels<MulFormula>();

}  // namespace dlpipe::engine
