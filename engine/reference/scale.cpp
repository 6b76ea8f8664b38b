#include "dlpipe/engine/ops/scale.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels scale_reference;
const Kernels scale_reference = reference::unary_kernels<ScaleFormula>();

}  // namespace dlpipe::engine
