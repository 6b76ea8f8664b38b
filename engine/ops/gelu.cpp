#include "dlpipe/engine/ops/gelu.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord gelu_op;
const OpRecord gelu_op = {
    .name = "gelu",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("gelu", inputs); },
    .save_inputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(-4, 4); },
};

Tensor gelu(const Tensor& x) {
  return apply_one(gelu_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
