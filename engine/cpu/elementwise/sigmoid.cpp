#include "dlpipe/engine/ops/sigmoid.h"

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

extern const Kernels sigmoid_cpu;
const Kernels sigmoid_cpu = cpu::unary_kernels<SigmoidFormula>();

}  // namespace dlpipe::engine
