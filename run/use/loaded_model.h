// A trained model from its weights: what is known about the weights that a user names, and the model for eval, predict and
// generate.
//
// Weights as a user names them: a checkpoint or run of dlpipe's, or a file of tensors with PyTorch's names, safetensors or what
// torch.save wrote. Used by `train --init`, `eval`, `predict`, `generate` and `info`. Throws Error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/augment.h"
#include "dlpipe/config.h"
#include "dlpipe/dataset.h"
#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/predictor.h"
#include "engine/core/constant_cache.h"
#include "run/record/checkpoint.h"

namespace dlpipe::run {

/// Where weights are and what is known about them. A value; keeps no file open.
struct WeightsSource {
  std::string path;  // the file, or the checkpoint's directory
  std::optional<ModelState>
      state;  // of the checkpoint that it is, is part of, or was exported or compiled from; nullopt: a bare file
  int64_t step = 0;  // of that checkpoint; -1: a file, which does not record it
  /// Names and shapes; without the prefixes that torch.nn.DataParallel ("module."), torch.compile ("_orig_mod.") and, in files
  /// that do not record their model, PyTorch Lightning ("model.", "net.") put before every name.
  std::vector<engine::NamedShape> shapes;
  std::vector<std::string> notes;  // for the user: what was left out
  std::shared_ptr<const engine::ModelRecord>
      graph;                 // the model itself, if there is no code that builds it (graph_model.h)
  bool is_of_graph = false;  // a file that only has the weights of such a model

  // The source of copy_weights: the file, whose names begin with `prefix`, or a checkpoint's tensors.
  std::string prefix;
  std::vector<engine::NamedTensor> checkpoint_tensors;
};

/// What `dlpipe export-weights` records in a file about its model, for open_weights: a JSON object under "dlpipe". For a captured
/// model it is the object without the graph, under "dlpipe_captured", because the graph has numbers that PyTorch's state_dict
/// does not have.
std::map<std::string, std::string> weights_metadata(const ModelState& state);

/// The state_dict of PyTorch's model. For a captured model: `tensors` without the numbers of its code, and with tied weights
/// under each of their names.
std::vector<engine::NamedTensor> published_tensors(const ModelState& state,
                                                   const std::vector<engine::NamedTensor>& tensors);

/// Of a checkpoint or a run, the averaged weights if it has them, else the weights; sizes and checksums are
/// verified. Of a safetensors file, its tensors; only names and shapes are read. Throws for other kinds of
/// files, with the command that converts them.
WeightsSource open_weights(const std::string& path);

/// Copies the source's tensors into `model`, which `record` built from `arguments`. With `keep_head`, the model's own classifier
/// (parameters under record.head) is unchanged. kMisuse names the first tensors that differ, and the model of `registries` that
/// the weights fit, or how they differ if the model is the same; it ends with `head_advice` if keep_head would help. After an
/// error, nothing has been read or copied.
void copy_weights(const WeightsSource& source, const engine::ModelRecord& record, bool keep_head,
                  engine::Module& model, const engine::ModelArguments& arguments,
                  const Registries& registries, std::string_view head_advice = {});

/// The arguments of a model of `record` that follow from the shapes: classes, and channels if there is a convolution. nullopt:
/// there is no classifier with that model's name.
std::optional<engine::ModelArguments> arguments_from(std::span<const engine::NamedShape> shapes,
                                                     const engine::ModelRecord& record);
/// The image model that all tensors fit; "" if there is none.
std::string fitting_model(std::span<const engine::NamedShape> shapes, const Registries& registries);
/// The message for a bare file without a named model: that it does not record its model, and what to give.
std::string without_model(const WeightsSource& source, const Registries& registries);

/// How images are normalised for given weights, and the source of that information.
struct WeightsNormalization {
  std::string op;      // "normalize(mean=...,std=...)"; empty: unknown
  std::string origin;  // for the user
};
/// The checkpoint's if the source has one; else, for colour images, a captured model's own, or that of the published weights with
/// the record's names.
WeightsNormalization normalization_of(const WeightsSource& source, const engine::ModelRecord& record,
                                      int64_t channels, const augment::OpRegistry& registry);

/// The warning if images are evaluated with `chain` and an op in it is random, with an alternative; "" otherwise.
std::string random_chain_warning(const augment::Chain& chain, std::string_view chain_text);

/// How images are cropped for weights without a checkpoint: as their publisher does, to the model's own size, or, for a model of
/// any size, to the size of `dataset`'s first image. kMisuse if the size is unknown.
std::string default_cut(const engine::ModelRecord& record, const data::Dataset* dataset);

// A trained model from its weights, for eval, predict and generate. Throws Error.

/// Whether a bare file is enough; otherwise a checkpoint is required, because its alphabet is needed.
enum class BareFiles : uint8_t { kTaken, kRefused };

/// A bare file's classes are those of options.classes, else of `dataset`, else their numbers; its images are cropped to the
/// model's input size and normalised by normalization_of (loaded_model.h), or by `dataset`'s statistics. `dataset` may be null.
LoadedModel load_model(const ModelOptions& options, const Registries& registries = {},
                       const data::Dataset* dataset = nullptr, BareFiles bare_files = BareFiles::kTaken);

/// The state that a checkpoint would have for an image graph from an ONNX file `options.weights`: image size and number of
/// classes from the graph, names and preparation as in load_model for a bare file. kMisuse if it is not such a graph
/// (engine/models/graph_module.h), or if the chain makes images of another size.
ModelState state_of_images(const engine::graph::Graph& graph, const ModelOptions& options,
                           const Registries& registries, const data::Dataset* dataset,
                           std::vector<std::string>& notes);

/// A cache of a model's weights, its parameters(), as kernels pack, transform or cast them. For callers that keep it active
/// while the model runs (UseConstantCache) and do not change or move its weights meanwhile. It needs memory, usually as much as
/// the weights.
engine::ConstantCache weights_as_constants(std::span<const engine::NamedTensor> parameters);

/// The dtype that the model runs in on its device: `asked`, else the checkpoint's.
DType dtype_of(const LoadedModel& loaded, const std::string& asked);

// The names of a model's classes if its own file does not have them.

/// `count` names from `from`: a text file with a name on each line, a dataset or a folder of splits. If `from` is empty, names
/// are numbers, which `notes` reports. kMisuse, naming `weights` and what determines its classes, if the number of names differs.
/// Rethrows errors of reading.
std::vector<std::string> class_names(const std::string& from, const std::string& weights,
                                     const std::string& counted_by, int64_t count,
                                     std::vector<std::string>& notes);

/// "0", "1", ...: names of unnamed classes.
std::vector<std::string> numbered_classes(int64_t count);

}  // namespace dlpipe::run
