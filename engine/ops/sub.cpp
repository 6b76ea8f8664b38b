#include "dlpipe/engine/ops/sub.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord sub_op;
const OpRecord sub_op = {
    .name = "sub",
    .infer = [](auto inputs, auto, const Attrs&) { return binary_rule("sub", inputs); },
    .layouts = kAllLayouts,
    .image_inputs = bit(0) | bit(1),
    .view_gradient = [](size_t input, const Tensor& grad, const Shape& shape,
                        const Attrs&) { return input == 0 && grad.shape() == shape ? grad : Tensor(); },
    .samples = [] { return binary_samples(-1, 1); },
};

Tensor sub(const Tensor& a, const Tensor& b) {
  return apply_one(sub_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
