#include "dlpipe/engine/ops/sqrt.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels sqrt_reference;
const Kernels sqrt_reference = reference::unary_kernels<SqrtFormula>();

}  // namespace dlpipe::engine
