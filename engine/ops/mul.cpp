#include "dlpipe/engine/ops/mul.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord mul_op;
constinit const OpRecord mul_op = elementwise_record<MulFormula, "mul">([] { return binary_samples(-1, 1); });

Tensor mul(const Tensor& a, const Tensor& b) {
  return apply_one(mul_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
