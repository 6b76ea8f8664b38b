#include "dlpipe/engine/ops/mask.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord mask_op;
constinit const OpRecord mask_op =
    elementwise_record<MaskFormula, "mask">([] { return binary_samples(-1, 1); });

Tensor mask(const Tensor& a, const Tensor& b) {
  return apply_one(mask_op, {a, b}, NoAttrs{});
}

}  // namespace dlpipe::engine
