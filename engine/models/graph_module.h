// A captured graph as a model that is trained: floating constants are its parameters, the ops' own gradients walk back.
//
// What is in inference form stays so: batch norm keeps its statistics, dropout is not there.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/graph/run.h"
#include "dlpipe/engine/models/model.h"

namespace dlpipe::engine {

class GraphModule final : public Module {
 public:
  /// Holds the graph's constants themselves. kMisuse names what can't be trained: other inputs than one of pictures
  /// ([N,H,W,C] or [N,C,H,W], f32), other outputs than one of logits [N, classes], an op without a gradient.
  explicit GraphModule(graph::Graph graph);
  /// Pictures [N,H,W,C], floating; logits [N, classes].
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Graph"; }
  std::string graph_json() const override;

 private:
  graph::Runner runner_;
};

/// A graph as a model of the table is: a record, and weights that it can start from.
struct TrainableGraph {
  /// Named "graph"; builds GraphModules for pictures of the graph's size, their weights zeros. Only the last product is
  /// drawn (as Linear's first weights are), for any number of classes; `head` is its prefix, "" where the graph doesn't
  /// end with one.
  std::shared_ptr<const ModelRecord> record;
  std::vector<NamedTensor>
      weights;  // the graph's own constants, named as the state_dict of what `record` builds
};
/// Errors as GraphModule's.
TrainableGraph trainable_graph(graph::Graph graph);

}  // namespace dlpipe::engine
