#include "dlpipe/engine/ops/relu.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord relu_op;
const OpRecord relu_op = {
    .name = "relu",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("relu", inputs); },
    .save_outputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(-1, 1); },
};

Tensor relu(const Tensor& x) {
  return apply_one(relu_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
