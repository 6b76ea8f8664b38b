// avg_pool2d: the mean of every window. Padding counts as zeros or not at all (count_include_pad); what
// sticks out past the padding (ceil_mode) never counts.
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
  const Pool2dShape s = pool2d_shape("avg_pool2d", inputs[0], any_attrs.as<Pool2dAttrs>());
  return {{{s.n, s.oh, s.ow, s.c}, inputs[0].dtype, Layout::kPlain}};
}

std::vector<OpSample> samples() {
  return {
      pool2d_sample("2x2", {2, 6, 8, 16}, {}),
      pool2d_sample("3x3 stride 2 pad 1", {2, 7, 8, 8},
                    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}),
      pool2d_sample("padding not counted", {1, 5, 6, 3},
                    {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}, .count_include_pad = false}),
      pool2d_sample("ceil", {2, 6, 6, 4},
                    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .ceil_mode = true}),
      pool2d_sample("ceil, a window above the image", {1, 2, 4, 3},
                    {.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}),
      pool2d_sample("stride above kernel", {1, 9, 9, 2}, {.kernel = {2, 2}, .stride = {3, 3}}),
  };
}

}  // namespace

extern const OpRecord avg_pool2d_op;
const OpRecord avg_pool2d_op{
    .name = "avg_pool2d",
    .attr_form = &attr_form<Pool2dAttrs>,
    .infer = infer,
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .samples = samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"2x2 stride 2", {{{32, 112, 112, 64}}}, Pool2dAttrs{}}};
        },
    .f32 = {1e-5, 1e-6, "f32 sums of one window"},
    .flops = pool2d_flops,
};

Tensor avg_pool2d(const Tensor& x, const Pool2dAttrs& attrs) {
  return apply_one(avg_pool2d_op, {x}, attrs);
}

}  // namespace dlpipe::engine
