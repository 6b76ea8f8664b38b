#include "dlpipe/engine/ops/scale.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord scale_op;
const OpRecord scale_op = {
    .name = "scale",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("scale", inputs); },
    .layouts = kAllLayouts,
    .samples =
        [] {
          return unary_samples(-1, 1, ScaleAttrs{-1.5, 0.25});
        },
};

Tensor scale(const Tensor& x, double factor, double offset) {
  return apply_one(scale_op, {x}, ScaleAttrs{factor, offset});
}

}  // namespace dlpipe::engine
