// Models and graphs: captures a model's forward pass as a graph, and trains a captured graph as a model. Its f32 constants become
// parameters; backward uses the ops' gradients.
//
// A graph in inference form stays in it: batch norms keep their statistics, and there is no dropout. A graph in training form
// (dlpipe/graph.h) runs unchanged in training mode, and in its inference form in eval mode.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/graph.h"
#include "dlpipe/models.h"

namespace dlpipe::engine {

struct ImageGraph {
  int64_t channels = 0, height = 0, width = 0;  // of its images
  int64_t classes = 0;
  bool channels_first = false;          // [N,C,H,W], as in most ONNX files
  bool of_places = false;               // the output has a row of numbers for each pixel or cell
  std::optional<BoxCoding> boxes = {};  // how to read a captured detector's rows, from its metadata
};

/// Throws kMisuse unless `graph` has one input and one output of these forms. Input: images, f32, [N,H,W,C] or [N,C,H,W], at most
/// 4 channels. Output, f32: [N,classes]; for each pixel or cell [N,...,classes] if images are [N,H,W,C], or [N,classes,H,W] if they
/// are [N,C,H,W]; for a detector whose metadata has a BoxCoding, [N,rows,numbers], or [N,rows,columns,numbers] for a grid.
ImageGraph image_graph(const graph::Graph& graph);
/// The output of such a graph with the classes as its last axis.
Tensor channels_last(const Tensor& outputs, const ImageGraph& images);

/// Captures the forward pass of `model` in eval mode (restores the mode). The input 'x' is as `arguments` describe:
/// images [N,H,W,C], or tokens [N,T] if a length is set. Constants are the model's own tensors, under their names.
/// Throws Error if the model can't be captured (graph/capture.h).
graph::Graph capture_model(Module& model, const ModelArguments& arguments, const std::string& name);

/// Trains a graph. PyTorch modules of a captured model become modules here ("layer1.0") if a single value enters their nodes and a
/// single value leaves them. Their names select activation checkpointing.
class GraphModule final : public Module {
 public:
  /// Shares the graph's constants, without a copy. kMisuse names what can't be trained: inputs or outputs that
  /// image_graph() refuses, or an op without a gradient.
  explicit GraphModule(const graph::Graph& graph);
  ~GraphModule() override;
  /// Images [N,H,W,C], floating -> logits [N,classes] or [N,H,W,classes], or a detector's rows.
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Graph"; }
  std::string graph_json() const override;

 private:
  class Forms;
  class Section;
  struct Part {
    std::unique_ptr<Forms> forms;  // set if `module` is null
    std::shared_ptr<Section> module;
  };

  std::string graph_json_;  // of the graph before any change
  ImageGraph images_;
  std::unique_ptr<Forms> whole_;
  std::vector<Part> parts_;  // the same in consecutive parts, for hooks and checkpointing of a part's module
};

/// A graph in the form of a model of the table: a record, and weights to start from.
struct TrainableGraph {
  /// Named "graph"; builds GraphModules for images of the graph's size, with zero weights. Only the classifier is initialised
  /// (like Linear's weights), for any number of classes. It is the one linear with constant weights that decides this number; `head`
  /// is its prefix. `head` is "" if there is no such linear, if something else depends on the number of classes (a second classifier, a
  /// batch norm of logits), or if other constants have the same prefix.
  std::shared_ptr<const ModelRecord> record;
  std::vector<NamedTensor>
      weights;  // the graph's own constants, named as the state_dict of what `record` builds
};
/// Errors as for GraphModule.
TrainableGraph trainable_graph(graph::Graph graph);

}  // namespace dlpipe::engine
