#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/ops.h"

namespace dlpipe::engine {
namespace {

constexpr int kBlocks = 6;
constexpr int kHeads = 6;
constexpr int64_t kWidth = 384;

/// The small GPT of nanoGPT's character example: token and position embeddings, six pre-norm blocks 384 wide
/// with six heads, a last norm, and a head that shares the token embedding's weights.
class GptChar final : public Module {
 public:
  GptChar(int64_t vocabulary, int64_t length)
      : tokens_(add_module("tokens", std::make_shared<Embedding>(vocabulary, kWidth))),
        positions_(add_parameter("positions", Tensor::zeros({length, kWidth}))) {
    for (int i = 0; i < kBlocks; ++i) {
      blocks_.push_back(
          add_module(dlpipe::concat("blocks.", i), std::make_shared<TransformerBlock>(kWidth, kHeads, true)));
    }
    norm_ = add_module("norm", std::make_shared<LayerNorm>(kWidth));
  }

  Tensor forward(const Tensor& ids) override {
    const int64_t length = ids.size(1);
    if (length > positions_.size(0)) {
      throw Error(
          Status(ErrorCode::kMisuse, dlpipe::concat("[gpt_char] expected at most ", positions_.size(0),
                                                    " tokens, got ", length, "; cut the sequence")));
    }
    Tensor x = (*tokens_)(ids) + slice(positions_, 0, 0, length);
    for (const auto& block : blocks_) x = (*block)(x);
    const Tensor rows = reshape((*norm_)(x), {ids.elements(), kWidth});
    return linear(rows, tokens_->parameters()[0].tensor, Tensor());
  }
  std::string kind() const override { return "GptChar"; }
  void reset_parameters(uint64_t seed, const std::string& prefix) override {
    fill_normal(positions_, {seed, prefix + "positions"}, 0.0, 0.02);
  }

 private:
  std::shared_ptr<Embedding> tokens_;
  Tensor positions_;
  std::vector<std::shared_ptr<TransformerBlock>> blocks_;
  std::shared_ptr<LayerNorm> norm_;
};

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  check_token_model_arguments("gpt_char", arguments);
  auto model = std::make_shared<GptChar>(arguments.classes, arguments.length);
  initialize_transformer(*model, arguments.seed, kBlocks);
  return model;
}

}  // namespace

extern const ModelRecord gpt_char_model;
const ModelRecord gpt_char_model = {
    .name = "gpt_char",
    .help = "GPT of 6 blocks, 384 wide, tied head; 10.7 M parameters and a vocabulary, 256 tokens",
    .default_size = 256,
    .build = build,
    .head = "tokens.",
    .input = ModelInput::kTokens};

}  // namespace dlpipe::engine
