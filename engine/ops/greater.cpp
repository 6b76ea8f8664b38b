#include "dlpipe/engine/ops/greater.h"

#include "dlpipe/engine/ops/compared.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord greater_op;
constinit const OpRecord greater_op =
    elementwise_record<GreaterFormula, "greater">([] { return compared_samples(); });

Tensor greater(const Tensor& a, const Tensor& b) {
  return apply_one(greater_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
