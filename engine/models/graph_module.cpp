#include "dlpipe/engine/models/graph_module.h"

#include <algorithm>
#include <optional>

#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/core/conversions.h"
#include "dlpipe/engine/graph/graph_file.h"
#include "dlpipe/engine/graph/passes.h"
#include "dlpipe/engine/layers/init.h"
#include "dlpipe/engine/models/picture_graph.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {

namespace {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::Value;
using graph::ValueId;

bool has_gradient(const OpRow& op) {
  const Kernels* const reference = op.kernels[static_cast<size_t>(Backend::kReference)];
  return op.record->view_gradient != nullptr || (reference != nullptr && reference->backward != nullptr);
}

void check_trainable(const Graph& graph) {
  picture_graph(graph);
  for (const Node& node : graph.nodes) {
    if (node.op->record->differentiable == 0 || has_gradient(*node.op)) continue;
    refuse("model", graph.name, " has a ", node.op->record->name,
           ", which has no gradient; compile it with --passes none, or leave that op out");
  }
}

/// Whether a constant of one element is a number there (the 0.5 of a formula): where ops take a batch as well, or take
/// nothing else. Beside the batch it is a weight (the bias of a convolution that has one channel).
bool takes_numbers(const Node& node, size_t input) {
  return node.inputs.size() == 1 || (node.op->record->batch_inputs & bit(static_cast<int>(input))) != 0;
}

/// The floating constants that training changes: those whose every reader passes a gradient on to them. Numbers alone
/// are no weights.
std::vector<bool> trained_constants(const Graph& graph) {
  std::vector<bool> trained(graph.values.size(), false);
  for (size_t i = 0; i < trained.size(); ++i) {
    const Value& value = graph.values[i];
    trained[i] = value.is_constant() && value.dtype == DType::kF32 && value.shape.elements() > 0;
  }
  for (const Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      const bool is_number = graph.value(node.inputs[i]).shape.elements() == 1 && takes_numbers(node, i);
      if (is_number || (node.op->record->differentiable & bit(static_cast<int>(i))) == 0)
        trained[static_cast<size_t>(node.inputs[i])] = false;
    }
  }
  return trained;
}

struct Head {
  ValueId weight = kNone;  // [classes, in]
  ValueId bias = kNone;
};

/// The last product, where it is a linear one of constants.
std::optional<Head> head_of(const Graph& graph) {
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    const bool has_matrix = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId id) {
      return id != kNone && graph.value(id).is_constant() && graph.value(id).shape.rank() >= 2;
    });
    if (!has_matrix) continue;
    if (std::string_view(node.op->record->name) != "linear") return std::nullopt;
    const Head head{node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : kNone};
    const bool known = graph.value(head.weight).is_constant() &&
                       (head.bias == kNone || graph.value(head.bias).is_constant());
    return known ? std::optional(head) : std::nullopt;
  }
  return std::nullopt;
}

/// The head's constants begin with one prefix, which no other one has: theirs, or "head.", "head2." and so on.
std::string name_head(Graph& graph, const Head& head) {
  std::string& weight = graph.value(head.weight).name;
  std::string none;
  std::string& bias = head.bias == kNone ? none : graph.value(head.bias).name;
  std::string prefix = weight.ends_with(".weight") ? weight.substr(0, weight.size() - 6) : "";
  const auto others = [&] {  // constants of that prefix which aren't the head's
    int64_t count = 0;
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id)
      count += graph.value(id).is_constant() && id != head.weight && id != head.bias &&
               graph.value(id).name.starts_with(prefix);
    return count;
  };
  if (head.bias != kNone && bias != prefix + "bias") prefix.clear();
  for (int number = 1; prefix.empty() || others() > 0; ++number)
    prefix = number == 1 ? "head." : dlpipe::concat("head", number, ".");
  weight = prefix + "weight";
  bias = prefix + "bias";
  return prefix;
}

void draw_head(Graph& graph, const Head& head, const std::string& prefix, int64_t classes, uint64_t seed) {
  Value& weight = graph.value(head.weight);
  weight.shape = {classes, weight.shape[1]};
  weight.constant = Tensor::empty(weight.shape);
  Tensor bias;
  if (head.bias != kNone) {
    graph.value(head.bias).shape = {classes};
    bias = graph.value(head.bias).constant = Tensor::empty({classes});
  }
  reset_affine(weight.constant, bias, seed, prefix);
  graph::infer_shapes(graph);
}

/// A graph, and the texts that its record points to.
class GraphRecord {
 public:
  explicit GraphRecord(Graph graph) : graph_(std::move(graph)) {
    check_trainable(graph_);
    head_ = head_of(graph_);
    if (head_) prefix_ = name_head(graph_, *head_);
    pictures_ = picture_graph(graph_);
    record_.name = "graph";
    record_.help = "a captured graph";
    record_.default_size = pictures_.height == pictures_.width ? pictures_.height : 0;
    record_.build = [this](const ModelArguments& arguments) { return build(arguments); };
    record_.head = prefix_.c_str();
    record_.default_classes = pictures_.classes;
  }
  GraphRecord(const GraphRecord&) = delete;
  GraphRecord& operator=(const GraphRecord&) = delete;

  const ModelRecord& record() const { return record_; }
  /// The constants, by name. Afterwards this holds no memory of those that are trained, which build() makes zeros.
  std::vector<NamedTensor> take_weights() {
    std::vector<NamedTensor> weights;
    const std::vector<bool> trained = trained_constants(graph_);
    const std::vector<std::string> names = graph::constant_names(graph_);
    for (size_t i = 0; i < names.size(); ++i) {
      Value& value = graph_.values[i];
      if (!value.is_constant()) continue;
      weights.push_back({names[i], value.constant});
      if (trained[i]) value.constant = expand(Tensor::zeros(Shape{1}), value.shape);
    }
    return weights;
  }

 private:
  std::shared_ptr<Module> build(const ModelArguments& arguments) const {
    if (arguments.channels != pictures_.channels || arguments.height != pictures_.height ||
        arguments.width != pictures_.width)
      refuse("model", graph_.name, " takes pictures of ", pictures_.height, "x", pictures_.width, "x",
             pictures_.channels, ", got ", arguments.height, "x", arguments.width, "x", arguments.channels,
             "; let --augment and --val-augment end with that size");
    Graph own = graph_;
    for (Value& value : own.values) {
      if (value.is_constant()) value.constant = value.constant.contiguous_copy();
    }
    if (head_) {
      draw_head(own, *head_, prefix_, arguments.classes, arguments.seed);
    } else if (arguments.classes != pictures_.classes) {
      refuse("model", graph_.name, " tells ", pictures_.classes, " classes apart, the data has ",
             arguments.classes,
             ", and it doesn't end with a linear product that could be drawn anew; export it with ",
             arguments.classes, " classes");
    }
    return std::make_shared<GraphModule>(std::move(own));
  }

  Graph graph_;
  std::optional<Head> head_;
  std::string prefix_;
  PictureGraph pictures_;
  ModelRecord record_{};
};

}  // namespace

GraphModule::GraphModule(Graph graph) : runner_(std::move(graph)) {
  check_trainable(runner_.graph());
  const std::vector<bool> trained = trained_constants(runner_.graph());
  const std::vector<std::string> names = graph::constant_names(runner_.graph());
  for (size_t i = 0; i < names.size(); ++i) {
    const Value& value = runner_.graph().values[i];
    if (!value.is_constant()) continue;
    // They share memory with the graph's.
    if (trained[i])
      add_parameter(names[i], value.constant);
    else
      add_buffer(names[i], value.constant);
  }
}

Tensor GraphModule::forward(const Tensor& x) {
  Tensor pictures = cast(plain(x), DType::kF32);
  if (picture_graph(runner_.graph()).channels_first) pictures = transpose(pictures, {0, 3, 1, 2});
  return runner_.forward({&pictures, 1})[0];
}

std::string GraphModule::graph_json() const {
  return graph::graph_json(runner_.graph());
}

TrainableGraph trainable_graph(Graph graph) {
  graph = graph::without_chains(std::move(graph));
  graph::remove_dead_nodes.run(graph);  // weights that no output depends on have no gradient
  graph.drop_unused_values();
  const auto own = std::make_shared<GraphRecord>(std::move(graph));
  return {{own, &own->record()}, own->take_weights()};
}

}  // namespace dlpipe::engine
