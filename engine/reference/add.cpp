#include "dlpipe/engine/ops/add.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels add_reference;
const Kernels add_reference = reference::binary_kernels<AddFormula>();

}  // namespace dlpipe::engine
