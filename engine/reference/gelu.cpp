#include "dlpipe/engine/ops/gelu.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels gelu_reference;
const Kernels gelu_reference = reference::unary_kernels<GeluFormula>();

}  // namespace dlpipe::engine
