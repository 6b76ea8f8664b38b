#include "dlpipe/engine/ops/sigmoid.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord sigmoid_op;
constinit const OpRecord sigmoid_op =
    elementwise_record<SigmoidFormula, "sigmoid">([] { return unary_samples(-4, 4); });

Tensor sigmoid(const Tensor& x) {
  return apply_one(sigmoid_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
