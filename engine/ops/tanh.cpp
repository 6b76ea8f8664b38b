#include "dlpipe/engine/ops/tanh.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord tanh_op;
constinit const OpRecord tanh_op =
    elementwise_record<TanhFormula, "tanh">([] { return unary_samples(-3, 3); });

Tensor tanh(const Tensor& x) {
  return apply_one(tanh_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
