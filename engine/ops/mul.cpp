#include "dlpipe/engine/ops/mul.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord mul_op;
const OpRecord mul_op = {
    .name = "mul",
    .infer = [](auto inputs, auto, const Attrs&) { return binary_rule("mul", inputs); },
    .save_inputs = bit(0) | bit(1),
    .layouts = kAllLayouts,
    .image_inputs = bit(0) | bit(1),
    .samples = [] { return binary_samples(-1, 1); },
};

Tensor mul(const Tensor& a, const Tensor& b) {
  return apply_one(mul_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
