// Pooling: the largest or the mean value of each window of an image, or of the whole image.
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/window.h"

namespace dlpipe::engine {

static OpSample pool2d_sample(const char* name, Shape x, const Pool2dAttrs& attrs) {
  OpSample sample;
  sample.name = name;
  sample.inputs = {{x}};
  sample.attrs = attrs;
  return sample;
}

// FLOPs: one for each element of each window; for inputs that passed the op's shape rule.
static double pool2d_flops(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  const Pool2dShape s = pool2d_shape("pool2d", inputs[0], attrs.as<Pool2dAttrs>());
  return static_cast<double>(s.n * s.oh * s.ow * s.c) * s.kernel[0] * s.kernel[1];
}

// max_pool2d: the largest value of every window; NaN counts as largest. The hidden output is the index
// of the first maximum in its window (row * kernel width + column), one byte if windows have at most 256
// elements, in the output's layout.

namespace {

std::vector<TensorSpec> max_pool2d_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                        const Attrs& any_attrs) {
  const auto& attrs = any_attrs.as<Pool2dAttrs>();
  const Pool2dShape s = pool2d_shape("max_pool2d", inputs[0], attrs);
  const Shape shape{s.n, s.oh, s.ow, s.c};
  const DType index = int64_t{attrs.kernel[0]} * attrs.kernel[1] <= 256 ? DType::kU8 : DType::kI32;
  return {{shape, inputs[0].dtype, Layout::kPlain}, {shape, index, Layout::kPlain}};
}

std::vector<OpSample> max_pool2d_samples() {
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
    .infer = max_pool2d_rule,
    .save_outputs = bit(1),
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .samples = max_pool2d_samples,
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

// avg_pool2d: the mean of every window. Padding counts as zeros or not at all (count_include_pad); positions
// past the padding (ceil_mode) never count.

namespace {

std::vector<TensorSpec> avg_pool2d_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                        const Attrs& any_attrs) {
  const Pool2dShape s = pool2d_shape("avg_pool2d", inputs[0], any_attrs.as<Pool2dAttrs>());
  return {{{s.n, s.oh, s.ow, s.c}, inputs[0].dtype, Layout::kPlain}};
}

std::vector<OpSample> avg_pool2d_samples() {
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
    .infer = avg_pool2d_rule,
    .layouts = kAllLayouts,
    .batch_inputs = bit(0),
    .samples = avg_pool2d_samples,
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

// global_avg_pool: the mean of every channel of every image, [N,H,W,C] -> [N,C].

namespace {

std::vector<TensorSpec> global_avg_pool_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                             const Attrs&) {
  const TensorSpec& x = inputs[0];
  if (x.shape.rank() != 4 || !is_floating(x.dtype) || x.shape[1] * x.shape[2] == 0) {
    refuse("global_avg_pool", "expected floating images [N,H,W,C], got ", dtype_name(x.dtype), " ",
           x.shape.to_string(), "; reshape or cast");
  }
  return {{{x.shape[0], x.shape[3]}, x.dtype, Layout::kPlain}};
}

std::vector<OpSample> global_avg_pool_samples() {
  std::vector<OpSample> samples(3);
  samples[0].name = "whole blocks";
  samples[0].inputs = {{{2, 4, 5, 16}}};
  samples[1].name = "odd channels";
  samples[1].inputs = {{{3, 3, 2, 5}}};
  samples[2].name = "one pixel";
  samples[2].inputs = {{{2, 1, 1, 8}}};
  return samples;
}

double global_avg_pool_flops(std::span<const TensorSpec> inputs, const Attrs&) {
  return static_cast<double>(inputs[0].shape.elements());
}

}  // namespace

extern const OpRecord global_avg_pool_op;
const OpRecord global_avg_pool_op{
    .name = "global_avg_pool",
    .infer = global_avg_pool_rule,
    .layouts = kAllLayouts,
    .image_outputs = 0,
    .batch_inputs = bit(0),
    .samples = global_avg_pool_samples,
    .bench =
        [] {
          return std::vector<OpSample>{{"large", {{{256, 7, 7, 2048}}}, NoAttrs{}},
                                       {"of a small batch", {{{64, 7, 7, 2048}}}, NoAttrs{}}};
        },
    .f32 = {1e-5, 1e-6, "f32 sums of h*w values"},
    .flops = global_avg_pool_flops,
};

Tensor global_avg_pool(const Tensor& x) {
  return apply_one(global_avg_pool_op, {x});
}

}  // namespace dlpipe::engine
