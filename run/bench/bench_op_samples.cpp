#include "dlpipe/run/bench/bench_op_samples.h"

#include <algorithm>
#include <string_view>

#include "dlpipe/engine/ops/attention.h"
#include "dlpipe/engine/ops/concat.h"
#include "dlpipe/engine/ops/cross_entropy.h"
#include "dlpipe/engine/ops/elementwise.h"
#include "dlpipe/engine/ops/layer_norm.h"
#include "dlpipe/engine/ops/matmul.h"
#include "dlpipe/engine/ops/max.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/reduction.h"
#include "dlpipe/engine/ops/softmax.h"

namespace dlpipe::run {
namespace {

using engine::OpSample;
using engine::TensorSpec;

struct Large {
  const char* op;
  OpSample sample;
};

TensorSpec f32(const Shape& shape) {
  return {shape, DType::kF32};
}
TensorSpec ids(const Shape& shape) {
  return {shape, DType::kI64};
}

std::vector<Large> image_samples() {
  const TensorSpec image = f32({32, 56, 56, 64}), channels = f32({64});
  return {
      {"conv2d", {"3x3", {image, f32({64, 64, 3, 3})}, engine::Conv2dAttrs{.padding = {1, 1}}}},
      {"conv2d", {"1x1", {f32({32, 14, 14, 1024}), f32({256, 1024, 1, 1})}, engine::Conv2dAttrs{}}},
      {"conv2d",
       {"7x7 stride 2",
        {f32({32, 224, 224, 3}), f32({64, 3, 7, 7})},
        engine::Conv2dAttrs{.stride = {2, 2}, .padding = {3, 3}}}},
      {"batch_norm",
       {"training", {image, channels, channels, channels, channels}, engine::BatchNormAttrs{}, 0.25, 2}},
      {"max_pool2d",
       {"3x3 stride 2",
        {f32({32, 112, 112, 64})},
        engine::Pool2dAttrs{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}}},
      {"avg_pool2d", {"2x2 stride 2", {f32({32, 112, 112, 64})}, engine::Pool2dAttrs{}}},
      {"concat", {"channels", {image, image}, engine::ConcatAttrs{3}}},
  };
}

std::vector<Large> matrix_samples() {
  const TensorSpec rows = f32({16384, 1024}), width = f32({1024});
  return {
      {"linear", {"with bias", {f32({4096, 1024}), f32({4096, 1024}), f32({4096})}, engine::LinearAttrs{}}},
      {"matmul", {"square", {f32({2048, 2048}), f32({2048, 2048})}, engine::MatmulAttrs{}}},
      {"matmul", {"batch", {f32({96, 512, 64}), f32({96, 64, 512})}, engine::MatmulAttrs{}}},
      {"self_attention", {"12 heads", {f32({8, 512, 3 * 768})}, engine::AttentionAttrs{12, true}}},
      {"layer_norm", {"rows", {rows, width, width}, engine::LayerNormAttrs{}}},
      {"add_layer_norm", {"rows", {rows, rows, width, width}, engine::LayerNormAttrs{}}},
      {"softmax", {"rows", {rows}, engine::SoftmaxAttrs{1}}},
      {"log_softmax", {"rows", {rows}, engine::SoftmaxAttrs{1}}},
      {"cross_entropy",
       {"rows", {f32({16384, 1000}), ids({16384})}, engine::CrossEntropyAttrs{}, -1, 1, 1000}},
      {"embedding", {"long table", {f32({50257, 768}), ids({16, 512})}, engine::Attrs{}, -1, 1, 50257}},
      {"max", {"rows", {rows}, engine::MaxAttrs{1, false}}},
      {"mean", {"rows", {rows}, engine::ReductionAttrs{engine::bit(1), false}}},
      {"sum", {"rows", {rows}, engine::ReductionAttrs{engine::bit(1), false}}},
  };
}

/// In place of those of the record's first sample, whose attributes suit any shape.
struct LargeInputs {
  const char* op;
  std::vector<TensorSpec> inputs;
};
std::vector<LargeInputs> large_inputs() {
  const TensorSpec rows = f32({16384, 1024});
  return {{"batch_prep", {{{64, 224, 224, 3}, DType::kU8}}},
          {"flatten", {f32({128, 14, 14, 512})}},
          {"global_avg_pool", {f32({256, 7, 7, 2048})}},
          {"mse", {rows, rows}}};
}

/// What is undefined doesn't occur here: all inputs of a sample are there.
bool passes(const engine::OpRecord& record, const OpSample& sample) {
  const auto defined = std::make_unique<bool[]>(sample.inputs.size());
  std::fill_n(defined.get(), sample.inputs.size(), true);
  try {
    record.infer(sample.inputs, {defined.get(), sample.inputs.size()}, sample.attrs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

OpSample grown(const engine::OpRecord& record, const OpSample& sample) {
  constexpr int64_t kElements = int64_t{1} << 24;
  OpSample out = sample;
  const Shape& first = sample.inputs.at(0).shape;
  if (first.rank() == 0 || first.elements() == 0) return sample;
  const int64_t factor = std::max<int64_t>(1, kElements / first.elements());
  for (TensorSpec& input : out.inputs) {
    if (input.shape.rank() == 0 || input.shape[0] != first[0]) continue;
    Shape longer;
    for (int axis = 0; axis < input.shape.rank(); ++axis)
      longer.push_back(axis == 0 ? input.shape[0] * factor : input.shape[axis]);
    input.shape = longer;
  }
  out.name = "large";
  return passes(record, out) ? out : sample;
}

}  // namespace

std::vector<OpSample> large_samples(const engine::OpRecord& record) {
  std::vector<OpSample> samples;
  for (const std::vector<Large>& list : {image_samples(), matrix_samples()}) {
    for (const Large& one : list) {
      if (std::string_view(one.op) == record.name) samples.push_back(one.sample);
    }
  }
  if (!samples.empty() || record.samples == nullptr) return samples;
  const std::vector<OpSample> own = record.samples();
  if (own.empty()) return samples;
  samples.push_back(grown(record, own.front()));
  for (const LargeInputs& one : large_inputs()) {
    if (std::string_view(one.op) == record.name) samples.front().inputs = one.inputs;
  }
  return samples;
}

}  // namespace dlpipe::run
