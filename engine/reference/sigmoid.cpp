#include "dlpipe/engine/ops/sigmoid.h"

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine {

extern const Kernels sigmoid_reference;
const Kernels sigmoid_reference = reference::unary_kernels<SigmoidFormula>();

}  // namespace dlpipe::engine
