#include "dlpipe/engine/ops/sin.h"

namespace dlpipe::engine {

extern const OpRecord sin_op;
constinit const OpRecord sin_op =
    elementwise_record<SinFormula, "sin">([] { return unary_samples(-10, 10); });

Tensor sin(const Tensor& x) {
  return apply_one(sin_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
