#include "dlpipe/engine/ops/tanh.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels tanh_reference;
const Kernels tanh_reference = reference::unary_kernels<TanhFormula>();

}  // namespace dlpipe::engine
