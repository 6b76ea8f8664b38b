#include "dlpipe/engine/ops/sub.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels sub_reference;
const Kernels sub_reference = reference::binary_kernels<SubFormula>();

}  // namespace dlpipe::engine
