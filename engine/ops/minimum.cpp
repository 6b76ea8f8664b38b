#include "dlpipe/engine/ops/minimum.h"

#include "dlpipe/engine/ops/compared.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord minimum_op;
constinit const OpRecord minimum_op =
    elementwise_record<MinimumFormula, "minimum">([] { return compared_samples(); });

Tensor minimum(const Tensor& a, const Tensor& b) {
  return apply_one(minimum_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
