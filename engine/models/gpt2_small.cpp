#include "dlpipe/engine/models/gpt.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return make_gpt("gpt2_small", {.blocks = 12, .heads = 12, .width = 768}, arguments);
}

}  // namespace

extern const ModelRecord gpt2_small_model;
const ModelRecord gpt2_small_model = {
    .name = "gpt2_small",
    .help =
        "GPT-2's smallest: 12 blocks, 768 wide, tied head; 85.1 M parameters and a vocabulary, 1024 tokens",
    .default_size = 1024,
    .build = build,
    .head = "tokens.",
    .input = ModelInput::kTokens,
    .default_classes = 50257};

}  // namespace dlpipe::engine
