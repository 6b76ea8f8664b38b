// Models by name: `--model resnet18` and everything a checkpoint needs to rebuild the same model.
//
// To add a model to dlpipe: define `extern const ModelRecord NAME_model;` in models/NAME.cpp or in its family's file, test it
// in tests/engine/models/NAME_test.cpp, and add `dlpipe_register(model NAME)`, with FILE if it is in a family's file. A program
// adds its own record to a ModelRegistry value.
//
// Ownership: records are constants, models are shared pointers. Threads: records may be read from any thread; build() and
// summarize() are called from one thread at a time. Cost: build() draws every initial weight, in parallel; summarize() runs one
// blank input.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/module.h"
#include "dlpipe/registry.h"

namespace dlpipe::engine {

/// What a model is built for; stored in checkpoints.
struct ModelArguments {
  int64_t classes = 10;
  int64_t channels = 3;
  int64_t height = 32;
  int64_t width = 32;
  uint64_t seed = 0;   // of the initial weights
  int64_t length = 0;  // maximum sequence length in tokens; image models ignore it
};

/// The input of a model's forward.
enum class ModelInput : uint8_t {
  kImages,  // floating [N,H,W,C] -> logits [N, classes]
  kTokens,  // i64 ids [N,T] -> logits of the next token [N * T, classes]
};

/// What a model of images returns.
enum class ModelOutput : uint8_t {
  kImage,   // logits of the image, [N, classes]
  kPixels,  // logits of each pixel, [N,H,W,classes]
  /// Class logits and box codes, [N, rows, numbers] or [N, H, W, numbers]; BoxCoding says how to read a row.
  kBoxes,
};

/// How to read the rows of a detector's output. "grid": [N, ceil(H / stride), ceil(W / stride), classes + 4]. A row is one cell: its class
/// logits, then the logarithms of the distances from the cell's center to the left, upper, right and lower side of its object, in strides.
/// "fcos", "retinanet", "retinanet_giou" and "ssd": [N, rows, classes + others]. A row is one anchor of one level, as torchvision's
/// networks compute it: class logits (in ssd the background's comes first), four numbers that code the box, and in fcos the centerness.
struct BoxCoding {
  /// A grid of cells over the image, row by row. All cells have the same anchors.
  struct Level {
    int64_t rows = 0, columns = 0;
    /// fcos, retinanet: pixels between neighbouring cells. ssd: cells along the image, which may be a fraction.
    std::array<double, 2> pitch = {};  // down, across
    /// x_min, y_min, x_max, y_max in pixels, relative to the cell's corner. ssd: {0, 0, width, height} as fractions of the image's.
    std::vector<std::array<float, 4>> anchors = {};
    friend bool operator==(const Level&, const Level&) = default;
  };

  std::string name = "grid";
  int64_t others = 4;  // numbers of a row that are not class logits
  int64_t stride = 0;  // grid: the side of a cell in pixels of the image

  // The rest is for torchvision's networks and mostly has its names.
  int64_t height = 0, width = 0;  // of the images
  std::vector<Level> levels = {};
  /// retinanet, ssd: the weights of a box's center (x, y) and size (width, height) in its code.
  std::array<double, 4> weights = {1, 1, 1, 1};
  /// A detected box has a larger score than this; non-maximum suppression within a class uses this overlap (IoU).
  double score_thresh = 0, nms_thresh = 0;
  /// Boxes kept per level (ssd: per class) before non-maximum suppression; boxes kept per image after it.
  int64_t topk_candidates = 0, detections_per_img = 0;
  /// fcos: the largest distance of an anchor from its object's center, in anchor sizes.
  double center_sampling_radius = 0;
  /// retinanet, ssd: the smallest overlap (IoU) of an object's anchors; background anchors overlap every object by less than bg.
  double fg_iou_thresh = 0, bg_iou_thresh = 0;
  /// ssd: background anchors in the loss per anchor with an object.
  double neg_to_pos_ratio = 0;

  friend bool operator==(const BoxCoding&, const BoxCoding&) = default;
};

/// Weights that others publish under a model's parameter names, and how images are prepared for them.
struct PublishedWeights {
  const char* publisher;
  const char* normalize;  // the normalize op
  int64_t resize;         // the shorter side in pixels, before the center crop to the model's default size
};
/// torchvision's weights for ImageNet: RGB in 0..1, mean 0.485, 0.456, 0.406, std 0.229, 0.224, 0.225
/// (torchvision.transforms._presets.ImageClassification).
extern const PublishedWeights torchvision_weights;

struct ModelRecord {
  static constexpr const char* kKind = "model";
  static std::span<const ModelRecord* const> built_in();  // model_table()

  const char* name;
  const char* help;
  /// The image size (or number of tokens) that it is designed for; used by --val-augment's default and bench. 0: any.
  int64_t default_size;
  /// Returns the model with its initial weights, in training mode. Throws Error if it does not support the arguments.
  std::function<std::shared_ptr<Module>(const ModelArguments& arguments)> build;
  /// Prefix of the classifier's parameters ("fc."), for --reset-head.
  const char* head;
  /// Optional: sets weights that are computed from data. Called once before a training run's first step, with
  /// images [N,H,W,C] (f32, prepared as for validation, N at most 512), unless weights come from elsewhere.
  void (*initialize_from_images)(Module& model, const Tensor& images) = nullptr;
  ModelInput input = ModelInput::kImages;
  /// Number of classes (or vocabulary size) used in benchmarks. 0: 1000 from 96x96 on, else 10.
  int64_t default_classes = 0;
  const PublishedWeights* published = nullptr;  // null: there are no published weights with these names
  ModelOutput output = ModelOutput::kImage;
  BoxCoding boxes = {};  // if output is kBoxes
};

/// A batch of zeros with the input shape of a model built with `arguments`: tokens if arguments.length is set,
/// else images.
Tensor blank_input(const ModelArguments& arguments, int64_t batch);

std::span<const ModelRecord* const> model_table();
/// A value: copy builtin() and add to it.
using ModelRegistry = Registry<ModelRecord>;

/// Throws Error (kMisuse, "[area] ...") unless classes, channels, height and width are positive and an image is at
/// least min_size x min_size.
void check_model_arguments(const char* model, const ModelArguments& arguments, int64_t min_size);

/// The same for token models: checks classes and length.
void check_token_model_arguments(const char* model, const ModelArguments& arguments);

/// One call of a layer without children, in the order of the forward pass.
struct LayerSummary {
  std::string name;
  std::string kind;
  Shape output;            // for the whole batch
  int64_t parameters = 0;  // elements
  double flops = 0;        // of one forward pass of the batch; a multiply-add counts as two
  int64_t output_bytes = 0;
};
struct ModelSummary {
  std::vector<LayerSummary> layers;
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  int64_t state_bytes = 0;       // parameters and buffers
  int64_t gradient_bytes = 0;    // of the parameters that aren't frozen
  int64_t activation_bytes = 0;  // sum of the layers' outputs: an upper bound on what a training step keeps
  double flops = 0;
};
/// Runs one blank input through `model` (in eval mode without a graph; restores the mode) and scales to `batch`.
ModelSummary summarize(Module& model, const ModelArguments& arguments, int64_t batch);

}  // namespace dlpipe::engine
