#include "dlpipe/engine/ops/cast.h"

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

extern const OpRecord cast_op;
const OpRecord cast_op = {
    .name = "cast",
    .attr_form = &attr_form<CastAttrs>,
    .infer =
        [](auto inputs, auto, const Attrs& attrs) {
          expect_inputs("cast", inputs, 1, 1);
          return std::vector<TensorSpec>{{inputs[0].shape, attrs.as<CastAttrs>().dtype}};
        },
    .autocast = Autocast::kAsIs,
    .batch_inputs = bit(0),
    // Rounding has no derivative to compare with: narrower targets are tested by themselves.
    .samples =
        [] {
          return std::vector<OpSample>{{"to f64", {{{3, 41}}}, CastAttrs{DType::kF64}, -8, 8}};
        },
    .bench =
        [] {
          return std::vector<OpSample>{{"to bf16", {{{64, 56, 56, 64}}}, CastAttrs{DType::kBF16}},
                                       {"to f32", {{{64, 56, 56, 64}}}, CastAttrs{DType::kF32}}};
        },
};

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return apply_one(cast_op, {x}, CastAttrs{dtype});
}

}  // namespace dlpipe::engine
