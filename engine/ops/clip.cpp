#include "dlpipe/engine/ops/clip.h"

#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

extern const OpRecord clip_op;
constinit const OpRecord clip_op = elementwise_record<ClipFormula, "clip">([] {
  return unary_samples(-2, 2, ClipAttrs{-0.751, 1.252});
});

Tensor clip(const Tensor& x, double low, double high) {
  return apply_one(clip_op, {x}, ClipAttrs{low, high});
}

}  // namespace dlpipe::engine
