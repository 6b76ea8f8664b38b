// A graph: calls of the op table's records, captured once, without the code that made them.
//
// Values are what flows (shape, dtype), nodes are calls (record, attributes), weights are constant values. Nodes
// stand in an order in which they can run. Shapes are those of a batch of one sample; an axis that grows with the
// batch is marked, and so is a size in the attributes of a reshape or an expand. Layouts are no part of a graph: `apply` chooses
// them on the machine that runs it, so that a file means the same on every machine.
//
// A plain value type: copying copies handles of constants. Passes (passes.h) change graphs in place and keep
// what check() holds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/engine/core/attr_form.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine::graph {

/// Index into Graph::values.
using ValueId = int32_t;
/// An optional input that is absent.
inline constexpr ValueId kNone = -1;

struct Value {
  std::string name;
  Shape shape;              // of a batch of one
  uint32_t batch_axes = 0;  // bit(i): axis i is shape[i] times the batch
  DType dtype = DType::kF32;
  Tensor constant = {};  // defined: a weight, plain and contiguous

  bool is_constant() const { return constant.defined(); }
  /// For a batch of `batch`.
  Shape shape_at(int64_t batch) const;
  /// "f32 [N,28,28,1]", "f32 [49*N,384]".
  std::string type_text() const;
};

struct Node {
  const OpRow* op = nullptr;
  Attrs attrs;
  std::vector<ValueId> inputs;   // kNone where an optional one is absent
  std::vector<ValueId> outputs;  // the visible ones
  uint32_t batch_sizes = 0;      // bit(i): size i of the attribute "shape" is times the batch

  /// For a batch of `batch`.
  Attrs attrs_at(int64_t batch) const;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::map<std::string, std::string> metadata;  // of who wrote it; the engine doesn't look at it
  uint64_t constant_bytes_left = UINT64_MAX;    // of which passes may make new constants (passes.h)

  const Value& value(ValueId id) const { return values[static_cast<size_t>(id)]; }
  Value& value(ValueId id) { return values[static_cast<size_t>(id)]; }
  ValueId add_value(Value value);
  ValueId add_constant(std::string name, const Tensor& tensor);
  /// How many nodes and outputs of the graph read each value.
  std::vector<int> uses() const;
  /// The node that makes each value; -1: none.
  std::vector<int> producers() const;
  /// Every node and output that reads `from` reads `to`.
  void replace_uses(ValueId from, ValueId to);
  /// Lets go of values that nobody reads and that are no inputs, and numbers the rest anew.
  void drop_unused_values();
};

/// Gives what nodes answer the shapes and dtypes of the records' rules, in order: after inputs, constants or attributes have
/// changed. Axes that grow with the batch stay those they were.
void infer_shapes(Graph& graph);

/// kCorrupt, "[graph] ...", unless ids are in range, each value is made once and before it is read, every node has
/// as many outputs as its record, and every shape is what the record's shape rule says for batches of 1 and 2.
void check(const Graph& graph);

/// Of a sample's value, or a constant.
uint64_t bytes_of(const Value& value);
/// Of all constants, each counted once.
uint64_t constant_bytes(const Graph& graph);
/// Most bytes of values, constants apart, that are there at once in a run of one sample (run.h).
uint64_t peak_bytes(const Graph& graph);
/// What that may be: 4 GiB and 64 times the bytes of the constants. A small file, damaged or made for it, must not take all memory.
uint64_t most_peak_bytes(uint64_t constant_bytes);
/// kUnsupported, "[graph] FILE ...", where it is more.
void check_memory(const Graph& graph, const std::string& file);

/// As text, a line for each value that enters and each node:
///
///   mlp(x: f32 [N,28,28,1])
///     flatten = flatten(x)                                   f32 [N,784]
///     fc1 = linear(flatten, %fc1.weight, %fc1.bias) activation=relu   f32 [N,100]
///   -> fc1
///
/// A constant's name begins with %. Names are printable, of very long ones begin and end.
std::string to_text(const Graph& graph);
/// For Graphviz: `dot -Tsvg`.
std::string to_dot(const Graph& graph);

}  // namespace dlpipe::engine::graph
