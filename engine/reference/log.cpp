#include "dlpipe/engine/ops/log.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels log_reference;
const Kernels log_reference = reference::unary_kernels<LogFormula>();

}  // namespace dlpipe::engine
