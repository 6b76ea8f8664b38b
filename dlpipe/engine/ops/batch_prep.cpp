// batch_prep: bytes of a batch to a normalised training input in one pass. u8 [N,H,W,C] -> prep.dtype
// [N,H,W,C] with out[..,c] = scale[c] in[..,c] + bias[c], computed in f32. No gradient.
#include "dlpipe/engine/ops.h"
#include "dlpipe/engine/ops/shape_rules.h"

namespace dlpipe::engine {

namespace {

std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& attrs) {
  expect_inputs("batch_prep", inputs, 1, 1);
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
  for (size_t n = 0; n < prep.mix.size(); ++n) {
    if (prep.mix[n].partner < 0) continue;
    throw Error(
        Status(ErrorCode::kUnsupported, concat("[batch_prep] sample ", n,
                                               " asks to be mixed with another: mixup and cutmix are not "
                                               "built yet; take them out of --augment")));
  }
  return {{inputs[0].shape, prep.dtype}};
}

std::vector<OpSample> samples() {
  std::vector<OpSample> samples;
  auto sample = [&](const char* name, const Shape& shape, DType dtype) {
    BatchPrep prep;
    prep.scale = {0.017f, 0.0175f, 0.0174f, 0.5f};
    prep.bias = {-2.1f, -2.03f, -1.8f, 0.25f};
    prep.dtype = dtype;
    samples.push_back({name, {{shape, DType::kU8}}, prep, 0, 0, 256});
  };
  sample("colour", {2, 5, 7, 3}, DType::kF32);
  sample("grey", {3, 5, 7, 1}, DType::kF32);
  sample("four channels", {2, 3, 3, 4}, DType::kF32);
  sample("to bf16", {2, 5, 7, 3}, DType::kBF16);
  sample("large", {4, 61, 67, 3}, DType::kF32);
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
    .f32 = {1e-6, 1e-6, "one product and one sum"},
};

Tensor batch_prep(const Tensor& images, const BatchPrep& prep) {
  return apply_one(batch_prep_op, {images}, prep);
}

}  // namespace dlpipe::engine
