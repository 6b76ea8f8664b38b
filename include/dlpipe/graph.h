// Compiled models: a graph, its file format, and running it. A program that only runs models needs only this header and links
// dlpipe::runtime, without the code that reads datasets.
//
//   const engine::graph::Runner model(value_or_throw(engine::graph::read_graph("model.dlg")));
//   const std::vector<engine::Tensor> outputs = model.run({&x, 1});
//
// A Graph is a sequence of op calls, captured once and independent of the code that made them. Nodes are calls (op,
// attributes), in an order in which they can run. Values are their inputs and outputs (shape, dtype); weights
// are constant values. Shapes are those of a batch of one sample. Axes that grow with the batch are marked,
// as are such sizes in the attributes of a reshape or an expand. Layouts are not part of a graph: the machine
// that runs it chooses them, so that a file has the same meaning on every machine.
//
// Ownership: a Graph is a value; copies share the constants' memory. A Runner owns its graph. Threads: one thread at a time
// calls run(); kernels are parallel internally, or each thread runs parts of the batch (BatchParts). Cost: a run allocates from
// a caching allocator; a value's memory is released after its last reader. The first run packs weights.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {
class ConstantCache;
}

namespace dlpipe::engine::graph {

/// Index into Graph::values.
using ValueId = int32_t;
/// An optional input that is absent.
inline constexpr ValueId kNone = -1;

struct Value {
  std::string name;
  Shape shape;              // for a batch of one
  uint32_t batch_axes = 0;  // bit(i): the size of axis i is shape[i] times the batch
  DType dtype = DType::kF32;
  Tensor constant = {};  // defined: a weight, plain and contiguous
  /// For a constant of a captured model: true for a parameter that training changes; false for a buffer or a
  /// literal, which is kept even if no node reads it. nullopt: training changes it if it gets a gradient.
  std::optional<bool> trained = {};

  bool is_constant() const { return constant.defined(); }
  /// The shape for a batch of `batch`.
  Shape shape_at(int64_t batch) const;
  /// "f32 [N,28,28,1]", "f32 [49*N,384]".
  std::string type_text() const;
};

struct Node {
  const OpRow* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> inputs;   // kNone for an absent optional one
  std::vector<ValueId> outputs;  // the visible ones
  uint32_t batch_sizes = 0;      // bit(i): size i of the attribute "shape" is multiplied by the batch

  /// The attributes for a batch of `batch`.
  Attrs attrs_at(int64_t batch) const;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, std::string> metadata;  // from the program that wrote the file; the engine ignores it
  std::map<std::string, std::string>
      aliases;  // tied weights: other names of constants in PyTorch's state_dict
  uint64_t constant_bytes_left = UINT64_MAX;  // bytes that passes may still use for new constants

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  ValueId add_value(Value value);
  ValueId add_constant(std::string name, const Tensor& tensor);
  /// How many nodes and outputs of the graph read each value.
  std::vector<int> uses() const;
  /// The node that computes each value; -1: none.
  std::vector<int> producers() const;
  /// Replaces `from` by `to` in all nodes and outputs that read it.
  void replace_uses(ValueId from, ValueId to);
  /// Removes unused values: those that no node reads or computes, and that are not inputs, outputs or buffers
  /// (Value::trained) of the graph. Renumbers the rest.
  void drop_unused_values();
};

/// Recomputes the shapes and dtypes of all nodes' outputs with the ops' shape rules, in order. Call it after inputs, constants
/// or attributes have changed. The axes that grow with the batch stay the same.
void infer_shapes(Graph& graph);

/// Throws kCorrupt, "[graph] ...", unless ids are in range, each value is computed once and before it is read, every node has
/// as many outputs as its record, and every shape follows the record's shape rule for batches of 1 and 2.
void check(const Graph& graph);

/// Bytes of a value, for one sample, or of a constant.
uint64_t bytes_of(const Value& value);
/// Bytes of all constants, each counted once.
uint64_t constant_bytes(const Graph& graph);
/// Peak bytes of values during a run of one sample, without constants.
uint64_t peak_bytes(const Graph& graph);
/// The limit of peak_bytes(): 4 GiB plus 64 times the bytes of the constants. It keeps a small corrupt or malicious file from
/// using all memory.
uint64_t most_peak_bytes(uint64_t constant_bytes);
/// Throws kUnsupported, "[graph] FILE ...", if peak_bytes() exceeds the limit.
void check_memory(const Graph& graph, const std::string& file);

/// The graph as text, with a line for each input value and each node:
///
///   mlp(x: f32 [N,28,28,1])
///     flatten = flatten(x)                                   f32 [N,784]
///     fc1 = linear(flatten, %fc1.weight, %fc1.bias) activation=relu   f32 [N,100]
///   -> fc1
///
/// A constant's name begins with %. Names are made printable, and very long ones are shortened in the middle.
std::string to_text(const Graph& graph);
/// The graph in Graphviz's format, for `dot -Tsvg`.
std::string to_dot(const Graph& graph);

// Training form: batch norms use the batch's statistics and move the running ones, dropout and stochastic depth draw. Inference
// form: batch norms use the running statistics, nothing draws. Passes, compiled models and ONNX files have the inference form.

/// Whether any node is in training form.
bool is_training_form(const Graph& graph);
/// Prefix of the names of constants that are literals in a captured model's code and not in its state_dict.
inline constexpr std::string_view kLiteralPrefix = "literal/";
/// Whether the graph was captured from a PyTorch model. Its constants then record whether they are trained (Value::trained).
bool is_captured(const Graph& graph);
/// The same model in inference form. It shares the constants and drops buffers that no node reads.
Graph inference_form(Graph graph);

// The names that identify a graph's outputs.
//
// A graph's outputs are values, and a value has one name. A value that is also an input, a constant or another output therefore
// can't have a separate name for each.

/// The names, in the order of the outputs.
std::vector<std::string> output_names(const Graph& graph);

/// Sets the name of output i to `names[i]`. Outputs that are inputs or constants keep their name; if several outputs are the
/// same value, the first one's name is used. Another value that already has one of these names is renamed.
void name_outputs(Graph& graph, std::span<const std::string> names);

// ---- files: a safetensors file with the weights, and the graph as JSON in its metadata (engine/graph/FORMAT.md)
//
// Corrupt files are safe to read: sizes are checked before memory is allocated, and read_graph() only returns graphs that pass
// check(). Errors are values: kCorrupt, kUnsupported, or a read error.

/// Writes a temporary file and renames it. Omits metadata called `graph` or `checksum`, which the format uses itself.
Status write_graph(const std::string& path, const Graph& graph);
Result<Graph> read_graph(const std::string& path);
/// Whether `path` is a safetensors file that contains a graph; false if it can't be read.
bool is_graph_file(const std::string& path);

// ---- running a graph: its nodes one after another, with the same bits as the program that it was captured from in inference
// mode

// Whether a graph's samples can be computed separately, and how many at a time are best.

/// Whether the outputs for a batch are the concatenated outputs for its parts. True if axis 0 of everything that depends on the
/// inputs is the batch, and all ops' records declare that no node mixes samples (OpRecord::batch_inputs).
bool is_by_sample(const Graph& graph);

/// How to split a batch so that the values between nodes stay in the last-level cache.
struct BatchParts {
  int64_t samples = 0;  // per part; 0: the whole batch is one part
  /// Up to this many threads each run their own parts, from the first node to the last. With more threads, all run one part
  /// together.
  int64_t apart = 1;
};
/// Splits only graphs with conv_units: these mostly move such values, and their kernels are as fast with few
/// samples. The size of the parts, and therefore the bits, don't depend on the number of threads.
BatchParts batch_parts(const Graph& graph);

class Runner {
 public:
  /// Throws Error (kCorrupt) if the graph doesn't pass check().
  explicit Runner(Graph graph);
  ~Runner();
  Runner(Runner&&) noexcept;

  const Graph& graph() const { return graph_; }
  /// Computes the outputs for `inputs`, plain, without history. Throws kMisuse if shapes or dtypes don't match the graph's.
  std::vector<Tensor> run(std::span<const Tensor> inputs) const;
  /// The same with history, for a training step. Constants may have changed since the last call.
  std::vector<Tensor> forward(std::span<const Tensor> inputs) const;
  /// Called after every node of a run (for each part of the batch, if it runs in parts: BatchParts), with the node's index
  /// in the graph and how long it took.
  using Observer = std::function<void(size_t node, int64_t ns)>;
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Observer& observer) const;
  /// The batch size of these inputs; throws kMisuse if their shapes don't match the graph.
  int64_t batch_of(std::span<const Tensor> inputs) const;
  /// Bytes of the converted weights that kernels keep: packed ones, and those in a low dtype.
  size_t packed_bytes() const;

 private:
  std::vector<Tensor> run_nodes(std::span<const Tensor> inputs, const Observer& observer) const;
  std::vector<Tensor> run_by_parts(std::span<const Tensor> inputs, int64_t batch,
                                   const Observer& observer) const;
  void run_parts_apart(std::span<const Tensor> inputs, int64_t batch, int64_t parts,
                       std::vector<Tensor>* outputs) const;
  void run_part(std::span<const Tensor> inputs, int64_t batch, int64_t first, int64_t last,
                const Observer& observer, std::vector<Tensor>* outputs) const;

  Graph graph_;
  BatchParts parts_;                              // how run() splits a batch
  std::unique_ptr<ConstantCache> cache_;          // packed weights
  std::vector<std::vector<ValueId>> dead_after_;  // by node: values that no later node reads
};

}  // namespace dlpipe::engine::graph
