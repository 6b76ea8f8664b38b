#include "dlpipe/engine/ops/div.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord div_op;
const OpRecord div_op = {
    .name = "div",
    .infer = [](auto inputs, auto, const Attrs&) { return binary_rule("div", inputs); },
    .save_inputs = bit(0) | bit(1),
    .layouts = kAllLayouts,
    .image_inputs = bit(0) | bit(1),
    .samples = [] { return binary_samples(0.5, 2); },
};

Tensor div(const Tensor& a, const Tensor& b) {
  return apply_one(div_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
