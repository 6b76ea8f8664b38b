#include "dlpipe/base/text.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {

const PublishedWeights torchvision_weights = {"torchvision",
                                              "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)", 256};

const ModelRegistry& ModelRegistry::builtin() {
  static const ModelRegistry registry = [] {
    ModelRegistry all;
    for (const ModelRecord* record : model_table()) all.add(*record);
    return all;
  }();
  return registry;
}

void ModelRegistry::add(const ModelRecord& record) {
  for (const ModelRecord* known : records_) {
    if (std::string_view(known->name) == record.name) {
      throw Error(Status(ErrorCode::kMisuse,
                         concat("[model] '", record.name, "' is registered already; choose another name")));
    }
  }
  records_.push_back(&record);
}

Result<const ModelRecord*> ModelRegistry::find(std::string_view name) const {
  std::vector<std::string> names;
  for (const ModelRecord* record : records_) {
    if (record->name == name) return record;
    names.emplace_back(record->name);
  }
  return Status(ErrorCode::kMisuse, concat("[model] no model '", name, "'", suggestion(name, names)));
}

void check_model_arguments(const char* model, const ModelArguments& arguments, int64_t min_size) {
  if (arguments.classes < 1 || arguments.channels < 1 || arguments.height < min_size ||
      arguments.width < min_size) {
    throw Error(Status(
        ErrorCode::kMisuse,
        concat("[", model, "] expected images of at least ", min_size, "x", min_size,
               " with a class or more, got ", arguments.height, "x", arguments.width, "x", arguments.channels,
               " and ", arguments.classes, " classes; resize the images or choose another model")));
  }
}

void check_token_model_arguments(const char* model, const ModelArguments& arguments) {
  if (arguments.classes < 1 || arguments.length < 1) {
    throw Error(Status(ErrorCode::kMisuse,
                       concat("[", model, "] expected a vocabulary and sequences of a token or more, got ",
                              arguments.classes, " and ", arguments.length, "; set both")));
  }
}

Tensor blank_input(const ModelArguments& arguments, int64_t batch) {
  if (arguments.length > 0) return Tensor::zeros({batch, arguments.length}, DType::kI64);
  return Tensor::zeros({batch, arguments.height, arguments.width, arguments.channels});
}

}  // namespace dlpipe::engine
