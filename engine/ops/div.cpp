#include "dlpipe/engine/ops/div.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord div_op;
constinit const OpRecord div_op =
    elementwise_record<DivFormula, "div">([] { return binary_samples(0.5, 2); });

Tensor div(const Tensor& a, const Tensor& b) {
  return apply_one(div_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
