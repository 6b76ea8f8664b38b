#include "dlpipe/engine/models/gpt.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return make_gpt("gpt_char", {.blocks = 6, .heads = 6, .width = 384}, arguments);
}

}  // namespace

extern const ModelRecord gpt_char_model;
const ModelRecord gpt_char_model = {
    .name = "gpt_char",
    .help = "GPT of 6 blocks, 384 wide, tied head; 10.7 M parameters and a vocabulary, 256 tokens",
    .default_size = 256,
    .build = build,
    .head = "tokens.",
    .input = ModelInput::kTokens,
    .default_classes = 65};

}  // namespace dlpipe::engine
