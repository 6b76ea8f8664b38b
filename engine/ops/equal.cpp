#include "dlpipe/engine/ops/equal.h"

#include "dlpipe/engine/ops/compared.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord equal_op;
constinit const OpRecord equal_op =
    elementwise_record<EqualFormula, "equal">([] { return compared_samples(); });

Tensor equal(const Tensor& a, const Tensor& b) {
  return apply_one(equal_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
