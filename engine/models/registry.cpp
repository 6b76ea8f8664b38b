#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {

const PublishedWeights torchvision_weights = {"torchvision",
                                              "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)", 256};

std::span<const ModelRecord* const> ModelRecord::built_in() {
  return model_table();
}

void check_model_arguments(const char* model, const ModelArguments& arguments, int64_t min_size) {
  if (arguments.classes < 1 || arguments.channels < 1 || arguments.height < min_size ||
      arguments.width < min_size) {
    refuse(model, "expected images of at least ", min_size, "x", min_size, " with a class or more, got ",
           arguments.height, "x", arguments.width, "x", arguments.channels, " and ", arguments.classes,
           " classes; resize the images or choose another model");
  }
}

void check_token_model_arguments(const char* model, const ModelArguments& arguments) {
  if (arguments.classes < 1 || arguments.length < 1) {
    refuse(model, "expected a vocabulary and sequences of a token or more, got ", arguments.classes, " and ",
           arguments.length, "; set both");
  }
}

Tensor blank_input(const ModelArguments& arguments, int64_t batch) {
  if (arguments.length > 0) return Tensor::zeros({batch, arguments.length}, DType::kI64);
  return Tensor::zeros({batch, arguments.height, arguments.width, arguments.channels});
}

}  // namespace dlpipe::engine
