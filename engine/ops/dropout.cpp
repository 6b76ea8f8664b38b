// dropout: zeroes elements with probability p and scales the rest by 1/(1-p) (Srivastava et al., 2014).
#include "dlpipe/engine/ops/dropout.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/core/device_code.h"
#include "dlpipe/engine/core/device_memory.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

static void check_probability(double p) {
  if (!(p >= 0 && p < 1)) reject("dropout", concat("expected a probability from 0 to below 1, got ", p));
}

extern const OpRecord dropout_op;
const OpRecord dropout_op = {
    .name = "dropout",
    .attr_form = &attr_form<DropoutAttrs>,
    .infer =
        [](auto inputs, auto, const Attrs& attrs) {
          check_probability(attrs.as<DropoutAttrs>().p);
          return unary_rule("dropout", inputs);
        },
    .samples =
        [] {
          return unary_samples(-1, 1, DropoutAttrs{0.3, 7, 11, 2});
        },
    .renew =
        [](Attrs& attrs) {
          auto renewed = attrs.as<DropoutAttrs>();
          renewed.seed = random_state().seed;
          renewed.step = random_state().step;
          attrs = std::move(renewed);
        },
};

RandomState& random_state() {
  thread_local RandomState state;
  return state;
}

Tensor dropout(const Tensor& x, double p, bool training) {
  check_probability(p);
  if (!training || p == 0) return x;
  RandomState& state = random_state();
  DropoutAttrs attrs{p, state.seed, state.step, state.call++};
  if (state.device_key.defined() && &state.device_key.device() == &x.device()) {
    attrs.device_key = state.device_key;
  } else {
    refuse_capture("dropout draws by a key that the host knows (RandomState::device_key)");
  }
  return apply_one(dropout_op, {x}, std::move(attrs));
}

void write_random_key(const RandomState& state) {
  device_code(state.device_key.device())
      .fill(state.device_key.raw(), 1, DropoutAttrs::mixed_key(state.seed, state.step), sizeof(uint64_t));
}

}  // namespace dlpipe::engine
