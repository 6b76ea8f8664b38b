#include "dlpipe/engine/ops/add_relu.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord add_relu_op;
constinit const OpRecord add_relu_op =
    elementwise_record<AddReluFormula, "add_relu">([] { return binary_samples(-1, 1); });

Tensor add_relu(const Tensor& a, const Tensor& b) {
  return apply_one(add_relu_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
