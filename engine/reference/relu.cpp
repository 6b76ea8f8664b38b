#include "dlpipe/engine/ops/relu.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels relu_reference;
const Kernels relu_reference = reference::unary_kernels<ReluFormula>();

}  // namespace dlpipe::engine
