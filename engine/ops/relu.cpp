#include "dlpipe/engine/ops/relu.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord relu_op;
constinit const OpRecord relu_op =
    elementwise_record<ReluFormula, "relu">([] { return unary_samples(-1, 1); });

Tensor relu(const Tensor& x) {
  return apply_one(relu_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
