// batch_prep: bytes of a batch to a normalised training input in one pass. u8 [N,H,W,C] -> prep.dtype
// [N,H,W,C] with out[..,c] = scale[c] in[..,c] + bias[c], computed in f32, where `in` is, for samples that
// prep.mix mixes, lambda own + (1 - lambda) partner's, or the partner's inside a box. Optional second input:
// prep.mix as u8 [N, sizeof(SampleMix)], for kernels that can't read the host's. No gradient.
#include "dlpipe/engine/ops/batch_prep.h"

#include "dlpipe/engine/ops/bench_samples.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

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

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
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

std::vector<OpSample> samples() {
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
    .infer = infer,
    .differentiable = 0,
    .autocast = Autocast::kAsIs,
    .samples = samples,
    .bench =
        [] {
          return large_sample(samples(), {{{64, 224, 224, 3}, DType::kU8}});
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
