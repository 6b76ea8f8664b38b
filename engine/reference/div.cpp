#include "dlpipe/engine/ops/div.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels div_reference;
const Kernels div_reference = reference::binary_kernels<DivFormula>();

}  // namespace dlpipe::engine
