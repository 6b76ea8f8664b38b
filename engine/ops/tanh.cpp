#include "dlpipe/engine/ops/tanh.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord tanh_op;
const OpRecord tanh_op = {
    .name = "tanh",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("tanh", inputs); },
    .save_outputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(-3, 3); },
};

Tensor tanh(const Tensor& x) {
  return apply_one(tanh_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
