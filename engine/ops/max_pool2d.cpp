// max_pool2d: the largest value of every window; NaN counts as largest. The hidden output holds where in its
// window the first maximum stood (row * kernel width + column), one byte while windows have at most 256
// places, lying as the output lies.
#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/pool2d_record.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>,
                              const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<Pool2dAttrs>();
  const Pool2dShape s = pool2d_shape("max_pool2d", inputs[0], attrs);
  const Shape shape{s.n, s.oh, s.ow, s.c};
  const DType index = int64_t{attrs.kernel[0]} * attrs.kernel[1] <= 256 ? DType::kU8 : DType::kI32;
  return {{shape, inputs[0].dtype, Layout::kPlain}, {shape, index, Layout::kPlain}};
}

std::vector<OpSample> samples() {
  return {
      pool2d_sample("2x2", {2, 6, 8, 16}, {}),
      pool2d_sample("3x3 stride 2 pad 1", {2, 7, 8, 8},
                    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}),
      pool2d_sample("3x3 stride 2 pad 1, wide", {1, 8, 7, 40},
                    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}),
      pool2d_sample("odd channels", {1, 5, 6, 3}, {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 0}}),
      pool2d_sample("ceil", {2, 6, 6, 4}, {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}),
      pool2d_sample("ceil, a window above the image", {1, 2, 4, 3},
                    {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}),
      pool2d_sample("stride above kernel", {1, 9, 9, 2}, {.kernel = {2, 2}, .stride = {3, 3}}),
      pool2d_sample("window above a byte", {1, 20, 21, 2},
                    {.kernel = {17, 17}, .stride = {2, 2}, .padding = {4, 4}}),
  };
}

}  // namespace

extern const OpRecord max_pool2d_op;
const OpRecord max_pool2d_op{
    .name = "max_pool2d",
    .attr_form = &attr_form<Pool2dAttrs>,
    .infer = infer,
    .save_outputs = bit(1),
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"3x3 stride 2",
                                        {{{32, 112, 112, 64}}},
                                        Pool2dAttrs{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}}};
        },
    .f32 = {1e-6, 1e-7, "the forward copies; the gradient adds at most the overlapping windows"},
    .flops = pool2d_flops,
};

Tensor max_pool2d(const Tensor& x, const Pool2dAttrs& attrs) {
  return apply_one(max_pool2d_op, {x}, attrs);
}

}  // namespace dlpipe::engine
