#include "dlpipe/engine/ops/scale.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord scale_op;
constinit const OpRecord scale_op = elementwise_record<ScaleFormula, "scale">([] {
  return unary_samples(-1, 1, ScaleAttrs{-1.5, 0.25});
});

Tensor scale(const Tensor& x, double factor, double offset) {
  return apply_one(scale_op, {x}, ScaleAttrs{factor, offset});
}

}  // namespace dlpipe::engine
