// A trained model from its weights: what eval, predict and generate begin with. Throws Error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/core/constant_cache.h"
#include "dlpipe/engine/graph/graph.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/run/config/registries.h"
#include "dlpipe/run/record/checkpoint.h"

namespace dlpipe::run {

/// Which weights, and what a checkpoint doesn't say or is to be done otherwise. Empty: as the checkpoint says.
struct ModelOptions {
  std::string weights =
      {};                  // a checkpoint, a run (its best, else its last checkpoint), or a safetensors file
  std::string model = {};  // of a bare safetensors file, which doesn't say
  std::string classes = {};      // for a bare file: a text file with a name on each line, or a dataset
  std::string val_augment = {};  // the weights' normalisation is added where this has none
  std::string tta = {};          // views.h
  std::string dtype = {};
  std::vector<std::string> input_shapes =
      {};  // of an ONNX file that leaves some open: read_onnx (graph_weights.h)
};

/// Whether a bare file will do; else a checkpoint is asked for, as its alphabet is needed.
enum class BareFiles : uint8_t { kTaken, kRefused };

struct LoadedModel {
  std::shared_ptr<engine::Module> model;  // in eval mode, with the averaged weights where there are some
  ModelState state;
  std::string path;                // of the checkpoint's directory, or of the bare file
  int64_t step = -1;               // of the checkpoint; -1: a bare file
  std::vector<std::string> notes;  // for a person: what was found out or assumed
};
/// A bare file's classes are those of options.classes, else of `dataset`, else their numbers; its pictures are
/// cut to the model's input size and normalised as normalization_of (weights_source.h) says, or as `dataset`'s
/// pixels ask for. `dataset` may be null.
LoadedModel load_model(const ModelOptions& options, const Registries& registries = {},
                       const data::Dataset* dataset = nullptr, BareFiles bare_files = BareFiles::kTaken);

/// What a checkpoint would say of a graph that takes pictures, from an ONNX file `options.weights`: their size and the number of
/// classes by the graph, names and preparation as load_model finds them for a bare file. kMisuse where it is no such graph
/// (engine/models/picture_graph.h), and where the chain makes pictures of another size.
ModelState state_of_pictures(const engine::graph::Graph& graph, const ModelOptions& options,
                             const Registries& registries, const data::Dataset* dataset,
                             std::vector<std::string>& notes);

/// A cache of what kernels make of a model's weights, its parameters(): packed, transformed, in a low dtype. For who has it stand while the
/// model runs (UseConstantCache) and leaves its weights where and as they are meanwhile. It takes memory, most often once
/// more that of the weights.
engine::ConstantCache weights_as_constants(std::span<const engine::NamedTensor> parameters);

/// The dtype that the model runs in on its device: `asked`, else the checkpoint's.
DType dtype_of(const LoadedModel& loaded, const std::string& asked);

}  // namespace dlpipe::run
