#include "dlpipe/engine/ops/silu.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord silu_op;
constinit const OpRecord silu_op =
    elementwise_record<SiluFormula, "silu">([] { return unary_samples(-4, 4); });

Tensor silu(const Tensor& x) {
  return apply_one(silu_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
