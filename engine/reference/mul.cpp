#include "dlpipe/engine/ops/mul.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels mul_reference;
const Kernels mul_reference = reference::binary_kernels<MulFormula>();

}  // namespace dlpipe::engine
