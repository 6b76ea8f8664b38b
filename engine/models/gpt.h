// GPTs of any size: what gpt_char and gpt_char_tiny are made of. Internal to engine/models.
#pragma once

#include <memory>

#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {

struct GptSizes {
  int blocks;
  int heads;
  int64_t width;
};

/// As nanoGPT's: token and position embeddings, pre-norm blocks, a last norm, and a head that shares the
/// token embedding's weights; ids i64 [N,T] -> logits [N * T, classes]. Error (kMisuse, "[name] ...") for
/// arguments that don't fit and for sequences longer than arguments.length.
std::shared_ptr<Module> make_gpt(const char* name, const GptSizes& sizes, const ModelArguments& arguments);

}  // namespace dlpipe::engine
