#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/layers/layers.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {
namespace {

constexpr int kBlocks = 12;
constexpr int kHeads = 6;
constexpr int64_t kWidth = 384;
constexpr int kPatch = 4;

/// ViT-S (Dosovitskiy et al., "An image is worth 16x16 words", 2021, sizes of Touvron et al., "Training
/// data-efficient image transformers", 2021) with patches of 4x4 for small pictures, and the mean over
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
    for (int i = 0; i < kBlocks; ++i) {
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

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  check_model_arguments("vit_small_cifar", arguments, kPatch);
  auto model = std::make_shared<VitSmall>(arguments);
  initialize_transformer(*model, arguments.seed, kBlocks);
  return model;
}

}  // namespace

extern const ModelRecord vit_small_cifar_model;
const ModelRecord vit_small_cifar_model = {.name = "vit_small_cifar",
                                           .help =
                                               "ViT-S for small images: patches of 4x4, 12 blocks 384 wide; "
                                               "21.3 M parameters, 2.8 GFLOP forward at 32x32",
                                           .default_size = 32,
                                           .build = build,
                                           .head = "head."};

}  // namespace dlpipe::engine
