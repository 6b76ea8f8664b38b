// Models by name: `--model resnet18` and everything a checkpoint needs to build the same one again.
//
// Adding one: models/NAME.cpp with `extern const ModelRecord NAME_model;`, tests/engine/models/NAME_test.cpp
// and `dlpipe_register(model NAME)`; a program adds its own record to a ModelRegistry value.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// What a model is built for; stands in checkpoints.
struct ModelArguments {
  int64_t classes = 10;
  int64_t channels = 3;
  int64_t height = 32;
  int64_t width = 32;
  uint64_t seed = 0;  // of the initial weights
};

struct ModelRecord {
  const char* name;
  const char* help;
  /// The image size it is made for; used by --val-augment's default and bench. 0: any.
  int64_t default_size;
  std::shared_ptr<Module> (*build)(const ModelArguments& arguments);
  /// Prefix of the classifier's parameters ("fc."), for --reset-head.
  const char* head;
};

class ModelRegistry {
 public:
  static const ModelRegistry& builtin();
  void add(const ModelRecord& record);
  /// kMisuse with the nearest name when there is none.
  Result<const ModelRecord*> find(std::string_view name) const;
  std::span<const ModelRecord* const> records() const { return records_; }

 private:
  std::vector<const ModelRecord*> records_;
};
std::span<const ModelRecord* const> model_table();

/// Layers, shapes, parameters, FLOPs and memory of one forward pass, as a table.
std::string summary(Module& model, const ModelArguments& arguments, int64_t batch);

}  // namespace dlpipe::engine
