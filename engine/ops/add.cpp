#include "dlpipe/engine/ops/add.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord add_op;
const OpRecord add_op = {
    .name = "add",
    .infer = [](auto inputs, auto, const Attrs&) { return binary_rule("add", inputs); },
    .layouts = kAllLayouts,
    .image_inputs = bit(0) | bit(1),
    .view_gradient = [](size_t, const Tensor& grad, const Shape& shape,
                        const Attrs&) { return grad.shape() == shape ? grad : Tensor(); },
    .samples = [] { return binary_samples(-1, 1); },
};

Tensor add(const Tensor& a, const Tensor& b) {
  return apply_one(add_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
