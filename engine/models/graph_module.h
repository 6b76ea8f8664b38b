// Models and graphs: captures a model's forward pass as a graph, and trains a captured graph as a model. Floating constants are
// its parameters; backward uses the ops' gradients.
//
// A graph in inference form stays so: batch norms keep their statistics, and there is no dropout. One in training form
// (dlpipe/graph.h) is run as it is in training mode and in its inference form in eval mode.
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
  bool of_places = false;               // a row of numbers for each pixel or cell
  std::optional<BoxCoding> boxes = {};  // of a captured detector, whose metadata have it: what its rows mean
};

/// Throws kMisuse with what is wrong unless `graph` has one input of images (f32, [N,H,W,C] or [N,C,H,W], at most 4 channels)
/// and one output with a number per class, f32 [N,classes], or per pixel or cell: of images [N,H,W,C] f32 [N,...,classes], of images
/// [N,C,H,W] f32 [N,classes,H,W], or, of a captured detector, f32 [N,rows,numbers].
ImageGraph image_graph(const graph::Graph& graph);
/// The output of such a graph with its classes last.
Tensor channels_last(const Tensor& outputs, const ImageGraph& images);

/// The forward pass of `model` in eval mode (restores the mode), of the input 'x' as `arguments` say (images
/// [N,H,W,C], or tokens [N,T] where a length is set) to the output. Constants are the model's own tensors, under
/// their names. Throws Error if the model can't be captured (graph/capture.h).
graph::Graph capture_model(Module& model, const ModelArguments& arguments, const std::string& name);

/// A captured model has PyTorch's modules as modules where one value leads into their nodes and one out ("layer1.0"): activations are
/// checkpointed by their names.
class GraphModule final : public Module {
 public:
  /// Holds the graph's constants themselves. kMisuse names what can't be trained: other inputs than one of images
  /// ([N,H,W,C] or [N,C,H,W], f32), other outputs than image_graph() takes, an op without a gradient.
  explicit GraphModule(const graph::Graph& graph);
  ~GraphModule() override;
  /// Images [N,H,W,C], floating; logits [N,classes] or [N,H,W,classes], or a detector's rows.
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Graph"; }
  std::string graph_json() const override;

 private:
  class Forms;
  class Section;
  struct Part {
    std::unique_ptr<Forms> forms;  // where `module` is null
    std::shared_ptr<Section> module;
  };

  std::string graph_json_;  // as it was given
  ImageGraph images_;
  std::unique_ptr<Forms> whole_;
  std::vector<Part> parts_;  // one behind the other: for what wants to see a part called
};

/// A graph in the form of a model of the table: a record, and weights to start from.
struct TrainableGraph {
  /// Named "graph"; builds GraphModules for images of the graph's size, with zero weights. Only the last product is drawn
  /// (like Linear's initial weights), for any number of classes; `head` is its prefix, "" if the graph doesn't end with a
  /// product.
  std::shared_ptr<const ModelRecord> record;
  std::vector<NamedTensor>
      weights;  // the graph's own constants, named as the state_dict of what `record` builds
};
/// Errors as for GraphModule.
TrainableGraph trainable_graph(graph::Graph graph);

}  // namespace dlpipe::engine
