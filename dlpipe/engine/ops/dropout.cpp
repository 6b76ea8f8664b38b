// dropout: zeroes elements with probability p and scales the rest by 1/(1-p) (Srivastava et al., 2014).
#include "dlpipe/engine/ops/dropout.h"

#include "dlpipe/engine/device_memory.h"
#include "dlpipe/engine/ops.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

extern const OpRecord dropout_op;
const OpRecord dropout_op = {
    .name = "dropout",
    .infer = [](auto inputs, auto, const Attrs&) { return unary_rule("dropout", inputs); },
    .samples =
        [] {
          return unary_samples(-1, 1, DropoutAttrs{0.3, 7, 11, 2});
        },
};

RandomState& random_state() {
  thread_local RandomState state;
  return state;
}

Tensor dropout(const Tensor& x, double p, bool training) {
  if (!(p >= 0 && p < 1)) reject("dropout", concat("expected a probability from 0 to below 1, got ", p));
  if (!training || p == 0) return x;
  refuse_capture("dropout draws by the step's number, which the host knows");
  RandomState& state = random_state();
  return apply_one(dropout_op, {x}, DropoutAttrs{p, state.seed, state.step, state.call++});
}

}  // namespace dlpipe::engine
