#include "dlpipe/engine/ops/log.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord log_op;
constinit const OpRecord log_op = elementwise_record<LogFormula, "log">([] { return unary_samples(0.1, 4); });

Tensor log(const Tensor& x) {
  return apply_one(log_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
