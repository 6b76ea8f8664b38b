#include "dlpipe/engine/ops/silu.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels silu_reference;
const Kernels silu_reference = reference::unary_kernels<SiluFormula>();

}  // namespace dlpipe::engine
