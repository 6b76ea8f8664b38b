// Ops that convert elements: to another dtype, to another memory layout, from bytes to training inputs.
#include "engine/ops/conversions.h"

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/attr_form.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/records.h"
#include "engine/ops/window.h"

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
    // Rounding has no derivative to compare with: narrower targets are tested separately.
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

// reorder: the same values in another memory layout; the gradient has the input's layout. Only f32 has
// blocked layouts: other dtypes stay plain.

namespace {

std::vector<TensorSpec> reorder_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                     const Attrs& attrs) {
  const TensorSpec& x = inputs[0];
  const auto layout = attrs.as<Layout>();
  const int block = layout_block(layout);
  if (layout != Layout::kPlain && (x.shape.rank() != 4 || x.shape[3] % block != 0)) {
    refuse("reorder", "expected images [N,H,W,C] with C a multiple of ", block, " for ", layout_name(layout),
           ", got ", dtype_name(x.dtype), " ", x.shape.to_string());
  }
  return {{x.shape, x.dtype, Layout::kPlain}};
}

LayoutChoice choose_reorder_layout(std::span<const TensorSpec> inputs, const Attrs& attrs) {
  return {inputs[0].layout, inputs[0].dtype == DType::kF32 ? attrs.as<Layout>() : Layout::kPlain};
}

std::vector<OpSample> reorder_samples() {
  std::vector<OpSample> samples(3);
  samples[0].name = "to blocks of 8";
  samples[0].inputs = {{{2, 3, 5, 24}}};
  samples[0].attrs = Layout::kBlocked8;
  samples[1].name = "to blocks of 16";
  samples[1].inputs = {{{2, 3, 5, 32}}};
  samples[1].attrs = Layout::kBlocked16;
  samples[2].name = "plain stays plain";
  samples[2].inputs = {{{2, 3, 5, 7}}};
  samples[2].attrs = Layout::kPlain;
  return samples;
}

double reorder_flops(std::span<const TensorSpec>, const Attrs&) {
  return 0.0;
}

}  // namespace

extern const OpRecord reorder_op;
const OpRecord reorder_op{
    .name = "reorder",
    .infer = reorder_rule,
    .autocast = Autocast::kAsIs,
    .layouts = kAllLayouts,
    .choose_layout = choose_reorder_layout,
    .samples = reorder_samples,
    .f32 = {0.0, 0.0, "copies"},
    .bf16 = {0.0, 0.0, "copies"},
    .f16 = {0.0, 0.0, "copies"},
    .flops = reorder_flops,
};

Tensor reorder(const Tensor& x, Layout layout) {
  return x.layout() == layout ? x : apply_one(reorder_op, {x}, layout);
}

// batch_prep: converts the bytes of a batch to a normalised training input in one pass. u8 [N,H,W,C] ->
// prep.dtype [N,H,W,C] with out[..,c] = scale[c] in[..,c] + bias[c], computed in f32. For samples that prep.mix
// mixes, `in` is lambda own + (1 - lambda) partner's, or the partner's inside a box. Optional second input:
// prep.mix as u8 [N, sizeof(SampleMix)], for kernels that can't read host memory. No gradient.

namespace {

void check_mixes(const BatchPrep& prep, const Shape& images) {
  if (static_cast<int64_t>(prep.mix.size()) != images[0]) {
    reject("batch_prep", concat("expected a mix for each of ", images[0], " samples, got ", prep.mix.size()));
  }
  for (size_t n = 0; n < prep.mix.size(); ++n) {
    const SampleMix& mix = prep.mix[n];
    if (mix.partner < 0) continue;
    if (mix.partner >= images[0]) {
      reject("batch_prep", concat("expected a partner from 0 to ", images[0] - 1, " for sample ", n, ", got ",
                                  mix.partner));
    }
    const Region& box = mix.box;
    if (box.x < 0 || box.y < 0 || box.width < 0 || box.height < 0 || box.x > images[2] - box.width ||
        box.y > images[1] - box.height) {
      reject("batch_prep", concat("expected a box inside ", images[2], "x", images[1], " pixels for sample ",
                                  n, ", got ", box.width, "x", box.height, " at ", box.x, ",", box.y));
    }
  }
}

std::vector<TensorSpec> batch_prep_rule(std::span<const TensorSpec> inputs, std::span<const bool>,
                                        const Attrs& attrs) {
  expect_inputs("batch_prep", inputs, 1, 2);
  const auto& prep = attrs.as<BatchPrep>();
  expect_dtype("batch_prep", inputs[0], DType::kU8, "images");
  expect_rank("batch_prep", inputs[0], 4, "images [N,H,W,C]");
  if (inputs[0].shape[3] > BatchPrep::kMaxChannels) {
    reject("batch_prep",
           concat("expected at most ", BatchPrep::kMaxChannels, " channels, got ", inputs[0].shape[3]));
  }
  if (!is_floating(prep.dtype)) {
    reject("batch_prep", concat("expected a floating output dtype, got ", dtype_name(prep.dtype)));
  }
  if (!prep.mix.empty()) check_mixes(prep, inputs[0].shape);
  if (inputs.size() > 1) {
    expect_dtype("batch_prep", inputs[1], DType::kU8, "mixes");
    expect_shape("batch_prep", inputs[1],
                 {static_cast<int64_t>(prep.mix.size()), static_cast<int64_t>(sizeof(SampleMix))}, "mixes");
  }
  return {{inputs[0].shape, prep.dtype}};
}

std::vector<OpSample> batch_prep_samples() {
  std::vector<OpSample> samples;
  auto sample = [&](const char* name, const Shape& shape, DType dtype, std::vector<SampleMix> mix = {}) {
    BatchPrep prep;
    prep.scale = {0.017f, 0.0175f, 0.0174f, 0.5f};
    prep.bias = {-2.1f, -2.03f, -1.8f, 0.25f};
    prep.dtype = dtype;
    prep.mix = std::move(mix);
    samples.push_back({name, {{shape, DType::kU8}}, prep, 0, 0, 256});
  };
  sample("colour", {2, 5, 7, 3}, DType::kF32);
  sample("grey", {3, 5, 7, 1}, DType::kF32);
  sample("four channels", {2, 3, 3, 4}, DType::kF32);
  sample("to bf16", {2, 5, 7, 3}, DType::kBF16);
  sample("to f16", {2, 5, 7, 3}, DType::kF16);
  sample("large", {4, 61, 67, 3}, DType::kF32);
  const std::vector<SampleMix> averages = {{2, 0.3f, {}}, {}, {0, 0.75f, {}}};
  sample("averaged", {3, 5, 7, 3}, DType::kF32, averages);
  sample("averaged, packs to f16", {3, 4, 16, 1}, DType::kF16, averages);
  sample("averaged, packs to bf16", {3, 4, 16, 1}, DType::kBF16, averages);
  const std::vector<SampleMix> boxes = {{1, 0.9f, {0, 0, 1, 1}}, {2, 0.1f, {2, 1, 5, 4}}, {}};
  sample("boxes", {3, 5, 7, 3}, DType::kF32, boxes);
  sample("boxes, packs to bf16", {3, 8, 8, 2}, DType::kBF16, boxes);
  sample("large with both", {4, 61, 67, 3}, DType::kF32,
         {{3, 0.6f, {10, 20, 57, 41}}, {}, {1, 0.25f, {}}, {0, 0.5f, {0, 60, 67, 1}}});
  return samples;
}

}  // namespace

extern const OpRecord batch_prep_op;
const OpRecord batch_prep_op = {
    .name = "batch_prep",
    .infer = batch_prep_rule,
    .differentiable = 0,
    .autocast = Autocast::kAsIs,
    .samples = batch_prep_samples,
    .bench =
        [] {
          return large_sample(batch_prep_samples(), {{{64, 224, 224, 3}, DType::kU8}});
        },
    .f32 = {1e-6, 1e-6, "one product and one sum"},
};

Tensor batch_prep(const Tensor& images, const BatchPrep& prep) {
  return apply_one(batch_prep_op, {images}, prep);
}

Tensor batch_prep(const Tensor& images, const BatchPrep& prep, const Tensor& mixes) {
  return apply_one(batch_prep_op, {images, mixes}, prep);
}

}  // namespace dlpipe::engine
