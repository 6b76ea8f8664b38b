#include "dlpipe/engine/ops/silu.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord silu_op;
const OpRecord silu_op = {
    .name = "silu",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("silu", inputs); },
    .save_inputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(-4, 4); },
};

Tensor silu(const Tensor& x) {
  return apply_one(silu_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
