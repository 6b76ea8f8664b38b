#include "dlpipe/engine/ops/sub.h"

#include "dlpipe/engine/cpu/loops/binary.h"

namespace dlpipe::engine {

extern const Kernels sub_cpu;
const Kernels sub_cpu = cpu::binary_kernels<SubFormula>();

}  // namespace dlpipe::engine
