#include "dlpipe/engine/models/gpt.h"

#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {
namespace {

class Gpt final : public Module {
 public:
  Gpt(const char* name, const GptSizes& sizes, int64_t vocabulary, int64_t length)
      : name_(name),
        tokens_(add_module("tokens", std::make_shared<Embedding>(vocabulary, sizes.width))),
        positions_(add_parameter("positions", Tensor::zeros({length, sizes.width}))) {
    for (int i = 0; i < sizes.blocks; ++i) {
      blocks_.push_back(add_module(dlpipe::concat("blocks.", i),
                                   std::make_shared<TransformerBlock>(sizes.width, sizes.heads, true)));
    }
    norm_ = add_module("norm", std::make_shared<LayerNorm>(sizes.width));
  }

  Tensor forward(const Tensor& ids) override {
    const int64_t length = ids.size(1);
    if (length > positions_.size(0)) {
      refuse(name_, "expected at most ", positions_.size(0), " tokens, got ", length, "; cut the sequence");
    }
    Residual stream = {(*tokens_)(ids) + slice(positions_, 0, 0, length)};
    for (const auto& block : blocks_) stream = (*block)(std::move(stream));
    const Tensor rows = reshape(norm_->forward_residual(stream), {ids.elements(), positions_.size(1)});
    return tokens_->logits(rows);
  }
  std::string kind() const override { return "Gpt"; }
  void reset_parameters(uint64_t seed, const std::string& prefix) override {
    fill_normal(positions_, {seed, prefix + "positions"}, 0.0, 0.02);
  }

 private:
  const char* name_;
  std::shared_ptr<Embedding> tokens_;
  Tensor positions_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
};

}  // namespace

std::shared_ptr<Module> make_gpt(const char* name, const GptSizes& sizes, const ModelArguments& arguments) {
  check_token_model_arguments(name, arguments);
  auto model = std::make_shared<Gpt>(name, sizes, arguments.classes, arguments.length);
  initialize_transformer(*model, arguments.seed, sizes.blocks);
  return model;
}

}  // namespace dlpipe::engine
