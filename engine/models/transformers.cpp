// Transformers: GPTs of any size, and a ViT for small images.
#include <memory>

#include "dlpipe/error.h"
#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/ops.h"
#include "engine/layers/staged.h"

namespace dlpipe::engine {
namespace {

struct GptSizes {
  int blocks;
  int heads;
  int64_t width;
};

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

/// A GPT as in nanoGPT: token and position embeddings, pre-norm blocks, a last norm, and a head that shares
/// the token embedding's weights; ids i64 [N,T] -> logits [N * T, classes]. Error (kMisuse, "[name] ...") for
/// invalid arguments and for sequences longer than arguments.length.
std::shared_ptr<Module> make_gpt(const char* name, const GptSizes& sizes, const ModelArguments& arguments) {
  check_token_model_arguments(name, arguments);
  auto model = std::make_shared<Gpt>(name, sizes, arguments.classes, arguments.length);
  initialize_transformer(*model, arguments.seed, sizes.blocks);
  return model;
}

/// A record of a GPT.
ModelRecord gpt(const char* name, const char* help, int64_t length, const GptSizes& sizes,
                int64_t vocabulary) {
  return {.name = name,
          .help = help,
          .default_size = length,
          .build = [=](const ModelArguments& arguments) { return make_gpt(name, sizes, arguments); },
          .head = "tokens.",
          .input = ModelInput::kTokens,
          .default_classes = vocabulary};
}

}  // namespace

extern const ModelRecord gpt2_small_model, gpt_char_model, gpt_char_tiny_model;
const ModelRecord gpt2_small_model =
    gpt("gpt2_small",
        "GPT-2's smallest: 12 blocks, 768 wide, tied head; 85.1 M parameters and a vocabulary, 1024 tokens",
        1024, {.blocks = 12, .heads = 12, .width = 768}, 50257);
const ModelRecord gpt_char_model =
    gpt("gpt_char", "GPT of 6 blocks, 384 wide, tied head; 10.7 M parameters and a vocabulary, 256 tokens",
        256, {.blocks = 6, .heads = 6, .width = 384}, 65);
const ModelRecord gpt_char_tiny_model = gpt(
    "gpt_char_tiny",
    "GPT of 4 blocks, 128 wide, tied head; 0.8 M parameters and a vocabulary, 64 tokens: minutes on a CPU",
    64, {.blocks = 4, .heads = 4, .width = 128}, 65);

namespace {

constexpr int kVitBlocks = 12;
constexpr int kHeads = 6;
constexpr int64_t kWidth = 384;
constexpr int kPatch = 4;

/// ViT-S (Dosovitskiy et al., "An image is worth 16x16 words", 2021, sizes of Touvron et al., "Training
/// data-efficient image transformers", 2021) with patches of 4x4 for small images, and the mean over
/// patches instead of a class token (Beyer, Zhai and Kolesnikov, "Better plain ViT baselines for
/// ImageNet-1k", 2022).
class VitSmall final : public LayerChain {
 public:
  explicit VitSmall(const ModelArguments& arguments)
      : positions_(add_parameter(
            "positions", Tensor::zeros({(arguments.height / kPatch) * (arguments.width / kPatch), kWidth}))) {
    const auto patches = add_module("patches", std::make_shared<Conv2d>(arguments.channels, kWidth, kPatch,
                                                                        Conv2dArguments{.stride = kPatch}));
    const double pixels = static_cast<double>(arguments.channels * kPatch * kPatch);
    add_section({"patches", "positions"}, pixels * kWidth, [this, patches](const Residual& images) {
      const Tensor rows = reshape(plain((*patches)(images.x)), {images.x.size(0), -1, kWidth});
      return Residual{rows + positions_};
    });
    for (int i = 0; i < kVitBlocks; ++i) {
      const std::string name = dlpipe::concat("blocks.", i);
      const auto block = add_module(name, std::make_shared<TransformerBlock>(kWidth, kHeads, false));
      add_section({name}, TransformerBlock::cost(kWidth, positions_.size(0)),
                  [block](Residual stream) { return (*block)(std::move(stream)); });
    }
    const auto norm = add_module("norm", std::make_shared<LayerNorm>(kWidth));
    const auto head = add_module("head", std::make_shared<Linear>(kWidth, arguments.classes));
    add_section({"norm", "head"}, kWidth, [norm, head](const Residual& stream) {
      return Residual{(*head)(mean((*norm)(stream.value()), {1}))};
    });
  }

  std::string kind() const override { return "VitSmall"; }
  void reset_parameters(uint64_t seed, const std::string& prefix) override {
    fill_normal(positions_, {seed, prefix + "positions"}, 0.0, 0.02);
  }

 private:
  Tensor positions_;
};

std::shared_ptr<Module> build_vit_small_cifar(const ModelArguments& arguments) {
  check_model_arguments("vit_small_cifar", arguments, kPatch);
  auto model = std::make_shared<VitSmall>(arguments);
  initialize_transformer(*model, arguments.seed, kVitBlocks);
  return model;
}

}  // namespace

extern const ModelRecord vit_small_cifar_model;
const ModelRecord vit_small_cifar_model = {.name = "vit_small_cifar",
                                           .help =
                                               "ViT-S for small images: patches of 4x4, 12 blocks 384 wide; "
                                               "21.3 M parameters, 2.8 GFLOP forward at 32x32",
                                           .default_size = 32,
                                           .build = build_vit_small_cifar,
                                           .head = "head."};

}  // namespace dlpipe::engine
