#include "dlpipe/engine/ops/maximum.h"

#include "dlpipe/engine/ops/compared.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord maximum_op;
constinit const OpRecord maximum_op =
    elementwise_record<MaximumFormula, "maximum">([] { return compared_samples(); });

Tensor maximum(const Tensor& a, const Tensor& b) {
  return apply_one(maximum_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
