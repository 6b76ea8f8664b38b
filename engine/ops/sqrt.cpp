#include "dlpipe/engine/ops/sqrt.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord sqrt_op;
constinit const OpRecord sqrt_op =
    elementwise_record<SqrtFormula, "sqrt">([] { return unary_samples(0.1, 4); });

Tensor sqrt(const Tensor& x) {
  return apply_one(sqrt_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
