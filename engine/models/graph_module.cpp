#include "engine/models/graph_module.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/graph.h"
#include "dlpipe/module.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"
#include "engine/graph/capture.h"
#include "engine/graph/graph_file.h"
#include "engine/graph/matching.h"
#include "engine/graph/passes.h"
#include "engine/layers/recompute.h"
#include "engine/models/box_coding.h"
#include "engine/ops/batch_norm.h"
#include "io/formats/json.h"

namespace dlpipe::engine {

static constexpr int64_t kMostChannels = 4;

/// The BoxCoding in a captured detector's metadata, if there is one.
static std::optional<BoxCoding> boxes_of(const graph::Graph& graph) {
  const auto text = graph.metadata.find(kBoxesKey);
  if (text == graph.metadata.end()) return std::nullopt;
  return value_or_throw(box_coding_from(value_or_throw(formats::Json::parse(text->second)), graph.name));
}

/// Returns the number of classes. Throws if the output's shape doesn't fit the rows of `boxes`.
static int64_t classes_of_rows(const graph::Graph& graph, const BoxCoding& boxes) {
  const graph::Value& y = graph.value(graph.outputs[0]);
  const bool is_grid = boxes.levels.empty();  // [N,rows,columns,numbers]
  int64_t rows = 0;
  for (const BoxCoding::Level& level : boxes.levels)
    rows += level.rows * level.columns * static_cast<int64_t>(level.anchors.size());
  const int rank = is_grid ? 4 : 3;
  if (y.dtype != DType::kF32 || y.shape.rank() != rank || y.batch_axes != bit(0) || y.shape[0] != 1 ||
      (!is_grid && y.shape[1] != rows) || y.shape[-1] <= boxes.others)
    refuse("model", graph.name, " returns ", y.type_text(), "; a detector ",
           is_grid ? std::string("with a grid returns f32 [N,rows,columns,classes+")
                   : dlpipe::concat("with ", rows, " anchors returns f32 [N,", rows, ",classes+"),
           boxes.others, "]");
  return y.shape[-1] - boxes.others;
}

ImageGraph image_graph(const graph::Graph& graph) {
  if (graph.inputs.size() != 1 || graph.outputs.size() != 1)
    refuse("model", graph.name, " has ", graph.inputs.size(), " inputs and ", graph.outputs.size(),
           " outputs; an image model has one of each");
  const graph::Value& x = graph.value(graph.inputs[0]);
  const Shape& in = x.shape;
  if (x.batch_axes == 0 && in.rank() == 4)
    refuse("model", graph.name, " takes ", x.type_text(), " as '", x.name, "', images in batches of exactly ",
           in[0], "; export it with a variable batch size (torch.onnx.export: dynamic_axes={'", x.name,
           "': {0: 'N'}}, or dynamic_shapes with dynamo)");
  const bool is_batch = x.dtype == DType::kF32 && in.rank() == 4 && x.batch_axes == bit(0) && in[0] == 1;
  // PyTorch's images have their channels first, also if they are as narrow as channels are few.
  const bool channels_first =
      is_batch && in[1] <= kMostChannels && (in[3] > kMostChannels || graph::is_captured(graph));
  if (!is_batch || (!channels_first && in[3] > kMostChannels))
    refuse("model", graph.name, " takes ", x.type_text(), " as '", x.name,
           "'; an image model takes f32 [N,C,H,W] or [N,H,W,C]");
  if (std::optional<BoxCoding> boxes = boxes_of(graph)) {
    const int64_t classes = classes_of_rows(graph, *boxes);
    const Shape image = channels_first ? Shape{in[1], in[2], in[3]} : Shape{in[3], in[1], in[2]};
    return {image[0], image[1], image[2], classes, channels_first, false, std::move(boxes)};
  }
  const graph::Value& y = graph.value(graph.outputs[0]);
  // An output for each pixel or cell is [N,classes,H,W], or [N,...,classes] as in dlpipe's own models.
  const bool of_places =
      channels_first ? y.shape.rank() == 4 && y.shape[2] == in[2] && y.shape[3] == in[3] : y.shape.rank() > 2;
  if (y.dtype != DType::kF32 || (y.shape.rank() != 2 && !of_places) || y.batch_axes != bit(0) ||
      y.shape[0] != 1)
    refuse("model", graph.name, " returns ", y.type_text(), "; an image model returns f32 [N,classes]",
           channels_first ? ", or [N,classes,H,W] with the size of its images" : "");
  if (channels_first) return {in[1], in[2], in[3], y.shape[1], true, of_places};
  return {in[3], in[1], in[2], y.shape[-1], false, of_places};
}

Tensor channels_last(const Tensor& outputs, const ImageGraph& images) {
  return images.channels_first && images.of_places ? transpose(outputs, {0, 2, 3, 1}) : outputs;
}

graph::Graph capture_model(Module& model, const ModelArguments& arguments, const std::string& name) {
  std::vector<std::pair<std::string, Tensor>> weights;
  for (const NamedTensor& tensor : model.state_dict()) weights.emplace_back(tensor.name, tensor.tensor);
  const graph::CaptureInput input = {"x", blank_input(arguments, 1).spec(), bit(0)};
  const EvalScope mode(model);
  return graph::capture(name, {&input, 1}, weights, [&](const std::vector<Tensor>& inputs) {
    return std::vector<Tensor>{model(inputs[0])};
  });
}

namespace {

using graph::Graph;
using graph::kNone;
using graph::Value;
using graph::ValueId;

bool has_gradient(const OpRow& op) {
  const Kernels* const reference = op.kernels[static_cast<size_t>(Backend::kReference)];
  return op.record->view_gradient != nullptr || (reference != nullptr && reference->backward != nullptr);
}

void check_trainable(const Graph& graph) {
  image_graph(graph);
  for (const graph::Node& node : graph.nodes) {
    if (node.op->record->differentiable == 0 || has_gradient(*node.op)) continue;
    refuse("model", graph.name, " has a ", node.op->record->name,
           ", which has no gradient; compile it with --passes none, or leave that op out");
  }
}

/// Whether a constant with one element at this input is a number of a formula, such as 0.5. It is if the input may also be a batch,
/// or is the op's only input. Otherwise the constant is a weight, such as the bias of a convolution with one channel.
bool takes_numbers(const graph::Node& node, size_t input) {
  return node.inputs.size() == 1 || (node.op->record->batch_inputs & bit(static_cast<int>(input))) != 0;
}

/// The f32 constants that training changes: all their readers compute a gradient for them, and they aren't single numbers of
/// formulas. Value::trained, if it is set, excludes a constant or makes a single number a weight.
std::vector<bool> trained_constants(const Graph& graph) {
  std::vector<bool> trained(graph.values.size(), false);
  for (size_t i = 0; i < trained.size(); ++i) {
    const Value& value = graph.values[i];
    trained[i] = value.is_constant() && value.dtype == DType::kF32 && value.shape.elements() > 0 &&
                 value.trained.value_or(true);
  }
  for (const graph::Node& node : graph.nodes) {
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == kNone) continue;
      const Value& value = graph.value(node.inputs[i]);
      const bool is_number = !value.trained && value.shape.elements() == 1 && takes_numbers(node, i);
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

void set_rows(Graph& graph, const Head& head, int64_t rows) {
  for (const ValueId id : {head.weight, head.bias}) {
    if (id == kNone) continue;
    Value& value = graph.value(id);
    value.shape = value.shape.rank() == 1 ? Shape{rows} : Shape{rows, value.shape[1]};
    value.constant = expand(Tensor::zeros(Shape{}), value.shape);
  }
}

/// Whether the model has one more class if `head` has one more row. If not, something else depends on the number of classes, such as
/// a second classifier that is added or a batch norm of logits, or the head's rows aren't the classes.
bool decides_classes(Graph graph, const Head& head, int64_t classes) {
  set_rows(graph, head, classes + 1);
  try {
    graph::infer_shapes(graph);
    graph::check(graph);
    return image_graph(graph).classes == classes + 1;
  } catch (const Error&) {
    return false;
  }
}

/// The linear with constant weights that alone decides the number of classes. nullopt if there is none, or more than one.
std::optional<Head> head_of(const Graph& graph) {
  const ImageGraph images = image_graph(graph);
  if (images.boxes) return std::nullopt;
  std::optional<Head> found;
  std::set<ValueId> tried;
  for (const graph::Node& node : graph.nodes) {
    if (!graph::is_op(node, "linear")) continue;
    const Head head{node.inputs[1], node.inputs.size() > 2 ? node.inputs[2] : kNone};
    const Value& weight = graph.value(head.weight);
    const bool has_classes = weight.is_constant() && weight.shape[0] == images.classes &&
                             (head.bias == kNone || graph.value(head.bias).is_constant());
    if (!has_classes || !tried.insert(head.weight).second || !decides_classes(graph, head, images.classes))
      continue;
    if (found) return std::nullopt;
    found = head;
  }
  return found;
}

/// Gives the head's constants a prefix that no other constant has and returns it: their own if possible, else "head.", "head2."
/// and so on. Constants of a captured model keep PyTorch's names; returns "" if these have no such prefix.
std::string name_head(Graph& graph, const Head& head) {
  std::string& weight = graph.value(head.weight).name;
  std::string none;
  std::string& bias = head.bias == kNone ? none : graph.value(head.bias).name;
  std::string prefix = weight.ends_with(".weight") ? weight.substr(0, weight.size() - 6) : "";
  const auto others = [&] {  // other constants with this prefix
    int64_t count = 0;
    for (ValueId id = 0; id < static_cast<ValueId>(graph.values.size()); ++id)
      count += graph.value(id).is_constant() && id != head.weight && id != head.bias &&
               graph.value(id).name.starts_with(prefix);
    return count;
  };
  if (head.bias != kNone && bias != prefix + "bias") prefix.clear();
  if (graph.value(head.weight).trained) return prefix.empty() || others() > 0 ? "" : prefix;
  for (int number = 1; prefix.empty() || others() > 0; ++number)
    prefix = number == 1 ? "head." : dlpipe::concat("head", number, ".");
  weight = prefix + "weight";
  bias = prefix + "bias";
  return prefix;
}

void draw_head(Graph& graph, const Head& head, const std::string& prefix, int64_t classes, uint64_t seed) {
  set_rows(graph, head, classes);
  Value& weight = graph.value(head.weight);
  weight.constant = Tensor::empty(weight.shape);
  Tensor bias;
  if (head.bias != kNone) bias = graph.value(head.bias).constant = Tensor::empty({classes});
  reset_affine(weight.constant, bias, seed, prefix);
  graph::infer_shapes(graph);
}

/// A graph, and the strings that its record points to.
class GraphRecord {
 public:
  explicit GraphRecord(Graph graph) : graph_(std::move(graph)) {
    check_trainable(graph_);
    head_ = head_of(graph_);
    if (head_) prefix_ = name_head(graph_, *head_);
    if (prefix_.empty()) head_.reset();
    images_ = image_graph(graph_);
    record_.name = "graph";
    record_.help = "a captured graph";
    record_.default_size = images_.height == images_.width ? images_.height : 0;
    record_.build = [this](const ModelArguments& arguments) { return build(arguments); };
    record_.head = prefix_.c_str();
    record_.default_classes = images_.classes;
    if (images_.of_places) record_.output = ModelOutput::kPixels;
    if (!images_.boxes) return;
    record_.output = ModelOutput::kBoxes;
    record_.boxes = *images_.boxes;
    if (const auto own = graph_.metadata.find(kNormalizeKey); own != graph_.metadata.end()) {
      normalize_ = own->second;
      published_ = {"", normalize_.c_str(), record_.default_size};  // "": the model itself has the numbers
      record_.published = &published_;
    }
  }
  GraphRecord(const GraphRecord&) = delete;
  GraphRecord& operator=(const GraphRecord&) = delete;

  const ModelRecord& record() const { return record_; }
  /// The constants, by name. Releases the memory of the trained ones; build() fills them with zeros.
  std::vector<NamedTensor> take_weights() {
    std::vector<NamedTensor> weights;
    const std::vector<bool> trained = trained_constants(graph_);
    const std::vector<std::string> names = graph::constant_names(graph_);
    for (size_t i = 0; i < names.size(); ++i) {
      Value& value = graph_.values[i];
      if (!value.is_constant()) continue;
      weights.push_back({names[i], value.constant});
      if (trained[i]) value.constant = expand(Tensor::zeros(Shape{}), value.shape);
    }
    return weights;
  }

 private:
  std::shared_ptr<Module> build(const ModelArguments& arguments) const {
    if (arguments.channels != images_.channels || arguments.height != images_.height ||
        arguments.width != images_.width)
      refuse("model", graph_.name, " takes images of ", images_.height, "x", images_.width, "x",
             images_.channels, ", got ", arguments.height, "x", arguments.width, "x", arguments.channels,
             "; make --augment and --val-augment end with that size");
    Graph own = graph_;
    for (Value& value : own.values) {
      if (value.is_constant()) value.constant = value.constant.contiguous_copy();
    }
    if (head_) {
      draw_head(own, *head_, prefix_, arguments.classes, arguments.seed);
    } else if (images_.boxes && arguments.classes != images_.classes) {
      refuse("model", graph_.name, " detects ", images_.classes, " classes, the data has ", arguments.classes,
             images_.boxes->levels.empty()
                 ? std::string("; train a new detector_small, or use data with the same classes")
                 : dlpipe::concat("; capture a model made for ", arguments.classes,
                                  " (torchvision's num_classes",
                                  images_.boxes->name == "ssd" ? ", which counts the background" : "", ")"));
    } else if (arguments.classes != images_.classes) {
      refuse("model", graph_.name, " has ", images_.classes, " classes, the data has ", arguments.classes,
             ", and the model has no classifier that can be replaced; build the model with these classes");
    }
    return std::make_shared<GraphModule>(own);
  }

  Graph graph_;
  std::optional<Head> head_;
  std::string prefix_;
  ImageGraph images_;
  std::string normalize_;
  PublishedWeights published_{};
  ModelRecord record_{};
};

Graph fused_for_training(Graph graph) {
  if (graph::is_captured(graph)) graph::fuse_for_training(graph);
  return graph;
}

/// The longest common module path: "layer1.0" for "layer1.0.conv1" and "layer1.0.bn1".
std::string common_module(const std::string& a, const std::string& b) {
  const std::vector<std::string> x = split(a, '.'), y = split(b, '.');
  std::string common;
  for (size_t i = 0; i < std::min(x.size(), y.size()) && x[i] == y[i]; ++i)
    common += dlpipe::concat(common.empty() ? "" : ".", x[i]);
  return common;
}

/// Nodes [begin, end). One value enters them, and one leaves them.
struct Range {
  size_t begin = 0, end = 0;
  std::string name;  // of the module whose constants they read; "": the whole model, or no constants
};

/// A model's nodes as consecutive ranges, each with the nodes of one PyTorch module. Nodes that belong to no module, including those
/// before the first constant, are in ranges without a name.
class Ranges {
 public:
  explicit Ranges(const Graph& graph) : graph_(graph) {
    std::vector<size_t> last_use(graph.values.size(), 0);
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId id : graph.nodes[i].inputs)
        if (id != kNone) last_use[static_cast<size_t>(id)] = i;
    }
    for (const ValueId id : graph.outputs) last_use[static_cast<size_t>(id)] = graph.nodes.size();
    // Inputs and results of nodes that later nodes still read. A range ends where only one is left.
    std::set<ValueId> alive(graph.inputs.begin(), graph.inputs.end());
    size_t begin = 0;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const ValueId id : graph.nodes[i].outputs)
        if (last_use[static_cast<size_t>(id)] > i) alive.insert(id);
      for (const ValueId id : graph.nodes[i].inputs)
        if (id != kNone && last_use[static_cast<size_t>(id)] <= i) alive.erase(id);
      if (alive.size() == 1 || i + 1 == graph.nodes.size()) {
        add({begin, i + 1, {}});
        begin = i + 1;
      }
    }
  }
  const std::vector<Range>& all() const { return ranges_; }

 private:
  void add(Range range) {
    std::set<std::string> names;
    for (size_t i = range.begin; i < range.end; ++i) {
      for (const ValueId id : graph_.nodes[i].inputs) {
        if (id == kNone || !graph_.value(id).is_constant()) continue;
        const std::string& name = graph_.value(id).name;
        if (!name.starts_with(graph::kLiteralPrefix)) names.insert(name);
      }
    }
    bool is_first = true;
    for (const std::string& name : names) {
      const std::string module = name.substr(0, name.find('.') == std::string::npos ? 0 : name.rfind('.'));
      range.name = is_first ? module : common_module(range.name, module);
      is_first = false;
    }
    // Ops without constants belong to the range before them.
    if (is_first && !ranges_.empty()) {
      ranges_.back().end = range.end;
      return;
    }
    // Merges with an earlier range of the same module, or one that reads the same constant, and with all ranges between.
    for (size_t i = 0; i < ranges_.size(); ++i) {
      const bool shares = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
        const auto user = users_.find(name);
        return user != users_.end() && user->second >= ranges_[i].begin && user->second < ranges_[i].end;
      });
      if (!shares && (range.name.empty() || ranges_[i].name != range.name)) continue;
      for (size_t k = i; k < ranges_.size(); ++k) range.name = common_module(range.name, ranges_[k].name);
      range.begin = ranges_[i].begin;
      ranges_.resize(i);
      break;
    }
    for (const std::string& name : names) users_[name] = range.begin;
    ranges_.push_back(std::move(range));
  }

  const Graph& graph_;
  std::vector<Range> ranges_;
  std::map<std::string, size_t> users_;  // by constant: the first node of the range that reads it
};

/// The nodes of `range` as a separate graph, which shares the constants.
Graph part_of(const Graph& graph, const Range& range) {
  Graph part = graph;
  part.nodes.assign(graph.nodes.begin() + static_cast<std::ptrdiff_t>(range.begin),
                    graph.nodes.begin() + static_cast<std::ptrdiff_t>(range.end));
  std::set<ValueId> made;
  for (const graph::Node& node : part.nodes) made.insert(node.outputs.begin(), node.outputs.end());
  part.inputs.clear();
  for (const graph::Node& node : part.nodes) {
    for (const ValueId id : node.inputs) {
      if (id != kNone && !graph.value(id).is_constant() && !made.contains(id) &&
          std::ranges::find(part.inputs, id) == part.inputs.end())
        part.inputs.push_back(id);
    }
  }
  if (range.end < graph.nodes.size()) {
    std::set<ValueId> read(graph.outputs.begin(), graph.outputs.end());
    for (size_t i = range.end; i < graph.nodes.size(); ++i)
      read.insert(graph.nodes[i].inputs.begin(), graph.nodes[i].inputs.end());
    part.outputs.clear();
    for (const ValueId id : made) {
      if (read.contains(id)) part.outputs.push_back(id);
    }
  }
  // Unmarks unused constants, so that drop_unused_values() removes them: the whole model keeps the buffers.
  std::set<ValueId> used;
  for (const graph::Node& node : part.nodes) used.insert(node.inputs.begin(), node.inputs.end());
  for (size_t i = 0; i < part.values.size(); ++i) {
    const bool is_used = used.contains(static_cast<ValueId>(i));
    if (part.values[i].is_constant() && !is_used) part.values[i].trained.reset();
  }
  part.drop_unused_values();
  return part;
}

}  // namespace

/// A graph in the forms that training and evaluation need.
class GraphModule::Forms {
 public:
  /// `counts`: the model's num_batches_tracked, by name.
  Forms(const Graph& graph, const std::map<std::string, Tensor>& counts) : live_(fused_for_training(graph)) {
    if (graph::is_training_form(graph)) inference_.emplace(graph::inference_form(graph));
    for (size_t i = 0; i < live_.graph().nodes.size(); ++i) {
      const graph::Node& node = live_.graph().nodes[i];
      if (!graph::is_op(node, "batch_norm") || !node.attrs.as<BatchNormAttrs>().training) continue;
      const Value& gamma = live_.graph().value(node.inputs[1]);
      std::string name = live_.graph().value(node.inputs[3]).name;  // "layer1.0.bn1.running_mean"
      name = dlpipe::concat(name.substr(0, name.rfind('.') + 1), "num_batches_tracked");
      const auto count = counts.find(name);
      norms_.push_back({i, gamma.trained == true ? gamma.constant : Tensor(),
                        count == counts.end() ? Tensor() : count->second});
    }
    frozen_.assign(norms_.size(), false);
  }

  Tensor forward(const Tensor& x, bool training) {
    if (!training) return (inference_ ? *inference_ : live_).forward({&x, 1})[0];
    note_frozen();
    if (is_recomputing() && !norms_.empty()) {
      if (!recomputed_) recomputed_.emplace(with_norms(true));
      return recomputed_->forward({&x, 1})[0];
    }
    count_batches();
    return (partly_live_ ? *partly_live_ : live_).forward({&x, 1})[0];
  }

 private:
  struct Norm {
    size_t node;
    Tensor gamma, batches;  // `batches` is undefined if the model doesn't count them
  };

  // Makes batch norms with frozen parameters keep their statistics in training.
  void note_frozen() {
    std::vector<bool> frozen;
    for (const Norm& norm : norms_) frozen.push_back(norm.gamma.defined() && !norm.gamma.requires_grad());
    if (frozen == frozen_) return;
    frozen_ = frozen;
    partly_live_.emplace(with_norms(false));
    recomputed_.reset();
  }

  // `own_statistics`: live norms update copies that nothing reads, because the first forward has already updated the model's.
  Graph with_norms(bool own_statistics) const {
    Graph graph = live_.graph();
    for (size_t i = 0; i < norms_.size(); ++i) {
      graph::Node& node = graph.nodes[norms_[i].node];
      graph::set_attribute(node, "training", !frozen_[i]);
      for (const size_t input : {3, 4}) {
        if (!own_statistics || frozen_[i]) continue;
        Value& statistics = graph.value(node.inputs[input]);
        statistics.constant = statistics.constant.clone();
      }
    }
    return graph;
  }

  void count_batches() {
    if (statistics_peers() != nullptr && !statistics_peers()->leads()) return;
    for (size_t i = 0; i < norms_.size(); ++i) {
      Tensor& batches = norms_[i].batches;
      if (frozen_[i] || !batches.defined()) continue;
      ++*batches.data<int64_t>();
      batches.bump_version();
    }
  }

  graph::Runner live_;  // the graph; ops of a captured model are fused
  std::optional<graph::Runner> inference_, partly_live_, recomputed_;
  std::vector<Norm> norms_;
  std::vector<bool> frozen_;  // which of norms_ partly_live_ freezes
};

/// The part of a captured model that computes one PyTorch module. It has that module's parameters.
class GraphModule::Section final : public Module {
 public:
  Section(Forms forms, const std::vector<std::pair<std::string, Value>>& constants,
          const std::vector<bool>& trained)
      : forms_(std::move(forms)) {
    for (size_t i = 0; i < constants.size(); ++i)
      trained[i] ? add_parameter(constants[i].first, constants[i].second.constant)
                 : add_buffer(constants[i].first, constants[i].second.constant);
  }
  Tensor forward(const Tensor& x) override { return forms_.forward(x, is_training()); }
  std::string kind() const override { return "Graph"; }
  bool wants_a_call() const { return is_watched(); }

 private:
  Forms forms_;
};

GraphModule::~GraphModule() = default;

GraphModule::GraphModule(const Graph& graph)
    : graph_json_(graph::graph_json(graph)), images_(image_graph(graph)) {
  check_trainable(graph);
  const std::vector<bool> trained = trained_constants(graph);
  const std::vector<std::string> names = graph::constant_names(graph);
  std::map<std::string, Tensor> counts;
  for (const Value& value : graph.values) {
    if (value.is_constant() && value.dtype == DType::kI64) counts.emplace(value.name, value.constant);
  }
  whole_ = std::make_unique<Forms>(graph, counts);
  std::vector<bool> is_placed(names.size(), false);
  // Only captured graphs record which constants are parameters; in others, names don't identify modules.
  const std::vector<Range> ranges = graph::is_captured(graph) ? Ranges(graph).all() : std::vector<Range>{};
  for (const Range& range : ranges) {
    Part part{std::make_unique<Forms>(part_of(graph, range), counts), nullptr};
    if (!range.name.empty() && ranges.size() > 1) {
      std::vector<std::pair<std::string, Value>> constants;
      std::vector<bool> are_trained;
      const std::string prefix = range.name + ".";
      for (size_t i = 0; i < names.size(); ++i) {
        if (is_placed[i] || !graph.values[i].is_constant() || !names[i].starts_with(prefix)) continue;
        constants.emplace_back(names[i].substr(prefix.size()), graph.values[i]);
        are_trained.push_back(trained[i]);
        is_placed[i] = true;
      }
      part.module =
          add_module(range.name, std::make_shared<Section>(std::move(*part.forms), constants, are_trained));
      part.forms.reset();
    }
    parts_.push_back(std::move(part));
  }
  for (size_t i = 0; i < names.size(); ++i) {
    const Value& value = graph.values[i];
    if (!value.is_constant() || is_placed[i]) continue;
    // Shares memory with the graph.
    if (trained[i])
      add_parameter(names[i], value.constant);
    else
      add_buffer(names[i], value.constant);
  }
}

Tensor GraphModule::forward(const Tensor& x) {
  Tensor images = cast(plain(x), DType::kF32);
  if (images_.channels_first) images = transpose(images, {0, 3, 1, 2});
  const bool by_parts = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.module != nullptr && part.module->wants_a_call();
  });
  // Run whole, the graph keeps the kernels' layouts from part to part.
  if (!by_parts) return channels_last(whole_->forward(images, is_training()), images_);
  for (const Part& part : parts_)
    images = part.module != nullptr ? (*part.module)(images) : part.forms->forward(images, is_training());
  return channels_last(images, images_);
}

std::string GraphModule::graph_json() const {
  return graph_json_;
}

TrainableGraph trainable_graph(Graph graph) {
  graph = graph::without_chains(std::move(graph));
  graph::remove_dead_nodes.run(graph);  // weights that no output depends on have no gradient
  graph.drop_unused_values();
  const auto own = std::make_shared<GraphRecord>(std::move(graph));
  return {{own, &own->record()}, own->take_weights()};
}

}  // namespace dlpipe::engine
