#include "dlpipe/engine/ops/exp.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels exp_reference;
const Kernels exp_reference = reference::unary_kernels<ExpFormula>();

}  // namespace dlpipe::engine
