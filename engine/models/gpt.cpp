#include "dlpipe/engine/models/gpt.h"

#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {
namespace {

class Gpt final : public LayerChain {
 public:
  Gpt(const char* name, const GptSizes& sizes, int64_t vocabulary, int64_t length)
      : name_(name), positions_(add_parameter("positions", Tensor::zeros({length, sizes.width}))) {
    const auto tokens = add_module("tokens", std::make_shared<Embedding>(vocabulary, sizes.width));
    add_section({"tokens", "positions"}, 0,
                [this, tokens](const Residual& ids) { return embed(*tokens, ids.x); });
    for (int i = 0; i < sizes.blocks; ++i) {
      const std::string block_name = dlpipe::concat("blocks.", i);
      const auto block =
          add_module(block_name, std::make_shared<TransformerBlock>(sizes.width, sizes.heads, true));
      add_section({block_name}, TransformerBlock::cost(sizes.width, length),
                  [block](Residual stream) { return (*block)(std::move(stream)); });
    }
    const auto norm = add_module("norm", std::make_shared<LayerNorm>(sizes.width));
    add_section({"norm", "tokens"}, static_cast<double>(vocabulary * sizes.width),
                [norm, tokens](Residual stream) {
                  const Tensor rows = norm->forward_residual(stream);
                  return Residual{tokens->logits(reshape(rows, {rows.size(0) * rows.size(1), rows.size(2)}))};
                });
  }

  std::string kind() const override { return "Gpt"; }
  void reset_parameters(uint64_t seed, const std::string& prefix) override {
    fill_normal(positions_, {seed, prefix + "positions"}, 0.0, 0.02);
  }

 private:
  Residual embed(Embedding& tokens, const Tensor& ids) const {
    const int64_t length = ids.size(1);
    if (length > positions_.size(0)) {
      refuse(name_, "expected at most ", positions_.size(0), " tokens, got ", length, "; cut the sequence");
    }
    return {tokens(ids) + slice(positions_, 0, 0, length)};
  }

  const char* name_;
  Tensor positions_;
};

}  // namespace

std::shared_ptr<Module> make_gpt(const char* name, const GptSizes& sizes, const ModelArguments& arguments) {
  check_token_model_arguments(name, arguments);
  auto model = std::make_shared<Gpt>(name, sizes, arguments.classes, arguments.length);
  initialize_transformer(*model, arguments.seed, sizes.blocks);
  return model;
}

}  // namespace dlpipe::engine
