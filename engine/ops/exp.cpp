#include "dlpipe/engine/ops/exp.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord exp_op;
constinit const OpRecord exp_op = elementwise_record<ExpFormula, "exp">([] { return unary_samples(-3, 3); });

Tensor exp(const Tensor& x) {
  return apply_one(exp_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
