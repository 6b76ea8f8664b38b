#include "dlpipe/engine/layers/transformer.h"

#include <cmath>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/ops/attention.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

SelfAttention::SelfAttention(int64_t width, int heads, bool causal) : heads_(heads), causal_(causal) {
  if (heads < 1 || width < 1 || width % heads != 0) {
    refuse("SelfAttention", "expected a width that ", heads, " heads divide, got ", width, "; change one");
  }
  qkv_ = add_module("qkv", std::make_shared<Linear>(width, 3 * width));
  proj_ = add_module("proj", std::make_shared<Linear>(width, width));
}

void SelfAttention::split_over(Collective& ranks) {
  if (heads_ % ranks.world() != 0)
    refuse("SelfAttention", heads_, " heads can't be split over ", ranks.world(),
           " ranks; take a number that divides them");
  qkv_->split_outputs(ranks, 3);
  proj_->split_inputs(ranks);
  heads_ /= ranks.world();
}

Tensor SelfAttention::forward(const Tensor& x) {
  return (*proj_)(self_attention((*qkv_)(x), heads_, causal_));
}

double SelfAttention::flops(const TensorSpec& x, const TensorSpec& /*y*/) const {
  Shape qkv = x.shape;
  qkv[-1] *= 3;
  return attention_flops(qkv, {heads_, causal_});
}

TransformerBlock::TransformerBlock(int64_t width, int heads, bool causal)
    : norm1_(add_module("norm1", std::make_shared<LayerNorm>(width))),
      attn_(add_module("attn", std::make_shared<SelfAttention>(width, heads, causal))),
      norm2_(add_module("norm2", std::make_shared<LayerNorm>(width))),
      fc1_(add_module("fc1", std::make_shared<Linear>(width, 4 * width))),
      fc2_(add_module("fc2", std::make_shared<Linear>(4 * width, width))) {}

Residual TransformerBlock::run(Residual stream) {
  Tensor normal = norm1_->forward_residual(stream);
  stream.branch = (*attn_)(normal);
  normal = norm2_->forward_residual(stream);
  stream.branch = (*fc2_)((*fc1_)(normal, Activation::kGelu));
  return stream;
}

void TransformerBlock::split_over(Collective& ranks) {
  attn_->split_over(ranks);
  fc1_->split_outputs(ranks);
  fc2_->split_inputs(ranks);
}

double TransformerBlock::cost(int64_t width, int64_t length) {
  return static_cast<double>(12 * width * width + 2 * width * length);
}

Tensor TransformerBlock::forward(const Tensor& x) {
  return run({x}).value();
}

Residual TransformerBlock::operator()(Residual stream) {
  if (is_watched()) return {(*this)(stream.value())};
  return run(std::move(stream));
}

void initialize_transformer(Module& model, uint64_t seed, int blocks) {
  initialize(model, seed);
  constexpr double kDeviation = 0.02;
  for (NamedTensor& parameter : model.parameters()) {
    const std::string& name = parameter.name;
    const bool ends_branch = name.ends_with("attn.proj.weight") || name.ends_with("fc2.weight");
    if (parameter.tensor.rank() > 1) {
      fill_normal(parameter.tensor, {seed, name}, 0.0,
                  ends_branch ? kDeviation / std::sqrt(2.0 * blocks) : kDeviation);
    } else if (name.ends_with("bias")) {
      fill_constant(parameter.tensor, 0.0);
    }
  }
}

}  // namespace dlpipe::engine
