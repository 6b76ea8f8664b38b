#include "dlpipe/engine/ops/erf.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord erf_op;
constinit const OpRecord erf_op = elementwise_record<ErfFormula, "erf">([] { return unary_samples(-3, 3); });

Tensor erf(const Tensor& x) {
  return apply_one(erf_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
