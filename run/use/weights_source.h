// Weights as a user names them: a checkpoint or run of dlpipe's, or a file of tensors with PyTorch's names, safetensors or what torch.save wrote.
// What `train --init`, `eval`, `predict`, `generate` and `info` read weights with. Throws Error.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/run/config/registries.h"
#include "dlpipe/run/record/checkpoint.h"

namespace dlpipe::run {

/// Where weights are and what is known about them. A value; keeps no file open.
struct WeightsSource {
  std::string path;  // the file, or the checkpoint's directory
  std::optional<ModelState>
      state;  // of the checkpoint that it is, lies in, was exported or compiled from; nothing: a bare file
  int64_t step = 0;  // of that checkpoint; -1: a file's, which doesn't say
  /// Names and shapes; without the prefixes that torch.nn.DataParallel ("module."), torch.compile ("_orig_mod.") and, in files
  /// that don't say of which model they are, PyTorch Lightning ("model.", "net.") put before every name.
  std::vector<engine::NamedShape> shapes;
  std::vector<std::string> notes;  // for a person: what was left out
  std::shared_ptr<const engine::ModelRecord>
      graph;  // the model itself, where no code builds it (graph_weights.h)

  // What copy_weights reads: the file, whose names begin with `prefix`, or a checkpoint's tensors.
  std::string prefix;
  std::vector<engine::NamedTensor> checkpoint_tensors;
};

/// What `dlpipe export-weights` says in a file of the model whose weights it holds, for open_weights: a JSON object under "dlpipe".
/// Empty for a model that no code builds.
std::map<std::string, std::string> weights_metadata(const ModelState& state);

/// A checkpoint or a run gives its averaged weights where it has some, else its weights; sizes and checksums
/// are compared. A safetensors file gives its own tensors, of which only names and shapes are read. Error for
/// other kinds of files, with the command that converts them.
WeightsSource open_weights(const std::string& path);

/// Copies the source's tensors into `model`, one of `record`, built of `arguments`. With `keep_head`, the model's own classifier
/// (parameters under record.head) stays as it is. kMisuse names the first tensors that differ, and the model
/// of `registries` that the weights fit, or what else they are of the same model; it ends with `head_advice` where keep_head
/// would help. Nothing has been read or copied then.
void copy_weights(const WeightsSource& source, const engine::ModelRecord& record, bool keep_head,
                  engine::Module& model, const engine::ModelArguments& arguments,
                  const Registries& registries, std::string_view head_advice = {});

/// The arguments that the shapes tell of a model of `record`: classes, and channels where there is a
/// convolution. Nothing: there is no classifier of that model's name.
std::optional<engine::ModelArguments> arguments_from(std::span<const engine::NamedShape> shapes,
                                                     const engine::ModelRecord& record);
/// The model of images that the tensors fit, all of them; "" when there is none.
std::string fitting_model(std::span<const engine::NamedShape> shapes, const Registries& registries);
/// Of a bare file where no model is named: that it doesn't say which, and what to give.
std::string without_model(const WeightsSource& source, const Registries& registries);

/// How pictures are normalised for some weights, and who says so.
struct WeightsNormalization {
  std::string op;      // "normalize(mean=...,std=...)"; empty: nobody knows
  std::string origin;  // for a person
};
/// The checkpoint's where the source has one; else, for pictures in colour, that of the weights which others
/// publish under the record's names.
WeightsNormalization normalization_of(const WeightsSource& source, const engine::ModelRecord& record,
                                      int64_t channels, const augment::OpRegistry& registry);

/// How pictures are cut for weights without a checkpoint: as their publisher does, to the model's own size, or,
/// of a model for any size, to that of `dataset`'s first picture. kMisuse where nobody knows.
std::string default_cut(const engine::ModelRecord& record, const data::Dataset* dataset);

}  // namespace dlpipe::run
