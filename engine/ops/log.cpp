#include "dlpipe/engine/ops/log.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord log_op;
const OpRecord log_op = {
    .name = "log",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("log", inputs); },
    .save_inputs = bit(0),
    .layouts = kAllLayouts,
    .samples = [] { return unary_samples(0.1, 4); },
};

Tensor log(const Tensor& x) {
  return apply_one(log_op, {x}, NoAttrs{});
}

}  // namespace dlpipe::engine
