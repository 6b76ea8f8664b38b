#include "dlpipe/engine/ops/cos.h"

namespace dlpipe::engine {

extern const OpRecord cos_op;
constinit const OpRecord cos_op =
    elementwise_record<CosFormula, "cos">([] { return unary_samples(-10, 10); });

Tensor cos(const Tensor& x) {
  return apply_one(cos_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
