#include "dlpipe/engine/ops/gelu.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord gelu_op;
constinit const OpRecord gelu_op =
    elementwise_record<GeluFormula, "gelu">([] { return unary_samples(-4, 4); });

Tensor gelu(const Tensor& x) {
  return apply_one(gelu_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
