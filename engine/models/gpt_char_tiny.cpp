#include "dlpipe/engine/models/gpt.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build(const ModelArguments& arguments) {
  return make_gpt("gpt_char_tiny", {.blocks = 4, .heads = 4, .width = 128}, arguments);
}

}  // namespace

extern const ModelRecord gpt_char_tiny_model;
const ModelRecord gpt_char_tiny_model = {.name = "gpt_char_tiny",
                                         .help =
                                             "GPT of 4 blocks, 128 wide, tied head; 0.8 M parameters and a "
                                             "vocabulary, 64 tokens: minutes on a CPU",
                                         .default_size = 64,
                                         .build = build,
                                         .head = "tokens.",
                                         .input = ModelInput::kTokens,
                                         .default_classes = 65};

}  // namespace dlpipe::engine
