// Models by name: `--model resnet18` and everything a checkpoint needs to build the same one again.
//
// Adding one: models/NAME.cpp with `extern const ModelRecord NAME_model;`, tests/engine/models/NAME_test.cpp
// and `dlpipe_register(model NAME)`; a program adds its own record to a ModelRegistry value.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/registry.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// What a model is built for; stands in checkpoints.
struct ModelArguments {
  int64_t classes = 10;
  int64_t channels = 3;
  int64_t height = 32;
  int64_t width = 32;
  uint64_t seed = 0;   // of the initial weights
  int64_t length = 0;  // most tokens of a sequence; models of images don't look at it
};

/// What a model's forward takes.
enum class ModelInput : uint8_t {
  kImages,  // floating [N,H,W,C] -> logits [N, classes]
  kTokens,  // i64 ids [N,T] -> logits of the next token [N * T, classes]
};

/// Weights that others publish under a model's names, and how pictures are prepared for them.
struct PublishedWeights {
  const char* publisher;
  const char* normalize;  // the op
  int64_t resize;         // of the shorter side, before the middle of the model's default size is cut out
};
/// torchvision's weights for ImageNet: RGB in 0..1, mean 0.485, 0.456, 0.406, std 0.229, 0.224, 0.225
/// (torchvision.transforms._presets.ImageClassification).
extern const PublishedWeights torchvision_weights;

struct ModelRecord {
  static constexpr const char* kKind = "model";
  static std::span<const ModelRecord* const> built_in();  // model_table()

  const char* name;
  const char* help;
  /// The image size (or number of tokens) it is made for; used by --val-augment's default and bench. 0: any.
  int64_t default_size;
  /// The model with its initial weights, in training mode. Error when the arguments can't be served.
  std::function<std::shared_ptr<Module>(const ModelArguments& arguments)> build;
  /// Prefix of the classifier's parameters ("fc."), for --reset-head.
  const char* head;
  /// Optional: sets weights that are computed from data. Called once before a training run's first step, with
  /// images [N,H,W,C] (f32, prepared as for validation, N at most 512), unless weights come from elsewhere.
  void (*initialize_from_images)(Module& model, const Tensor& images) = nullptr;
  ModelInput input = ModelInput::kImages;
  /// Classes (a vocabulary) that it is measured with. 0: 1000 from 96x96 on, else 10.
  int64_t default_classes = 0;
  const PublishedWeights* published = nullptr;  // null: nobody publishes weights of this model's names
};

/// Zeros of the shape that a model of `arguments` takes, `batch` of them: tokens where arguments.length is
/// set.
Tensor blank_input(const ModelArguments& arguments, int64_t batch);

std::span<const ModelRecord* const> model_table();
/// A value: copy builtin() and add to it.
using ModelRegistry = Registry<ModelRecord>;

/// Error (kMisuse, "[area] ...") unless classes, channels, height and width are positive and an image is at
/// least min_size x min_size.
void check_model_arguments(const char* model, const ModelArguments& arguments, int64_t min_size);

/// The same for models of tokens: classes and length.
void check_token_model_arguments(const char* model, const ModelArguments& arguments);

/// One call of a layer without children, in the order of the forward pass.
struct LayerSummary {
  std::string name;
  std::string kind;
  Shape output;            // of the whole batch
  int64_t parameters = 0;  // elements
  double flops = 0;        // of one forward pass of the batch; a multiply-add is two
  int64_t output_bytes = 0;
};
struct ModelSummary {
  std::vector<LayerSummary> layers;
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  int64_t state_bytes = 0;       // parameters and buffers
  int64_t gradient_bytes = 0;    // of what isn't frozen
  int64_t activation_bytes = 0;  // sum of the layers' outputs, the most that a training step keeps of them
  double flops = 0;
};
/// Runs one blank input through `model` (eval mode, no graph; the mode is put back) and scales to `batch`.
ModelSummary summarize(Module& model, const ModelArguments& arguments, int64_t batch);

}  // namespace dlpipe::engine
