#include "dlpipe/engine/ops/add.h"

#include "dlpipe/engine/cpu/loops/binary.h"

namespace dlpipe::engine {

extern const Kernels add_cpu;
const Kernels add_cpu = cpu::binary_kernels<AddFormula>();

}  // namespace dlpipe::engine
