// The export of a graph, node by node: the names of its values in the model, and helpers for the ops' code. Internal to
// engine/onnx. The ops' code is in export_images.cpp, export_math.cpp and export_shapes.cpp: one method for each op of the
// table in export.cpp.
//
// A value has up to two names in the model: with dlpipe's order of axes ("plain"), and, for images, with ONNX's ("planes",
// [N,C,H,W]). A transpose converts one into the other when it is first needed.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/graph.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "engine/ops/conv_unit.h"

namespace dlpipe::engine::onnx {

class Exporter {
 public:
  explicit Exporter(const graph::Graph& graph) : graph_(graph), names_(graph.values.size()) {}
  Model run();

 private:
  struct Names {
    std::string plain;
    std::string planes;
  };
  using Node = graph::Node;
  using ValueId = graph::ValueId;
  using Method = void (Exporter::*)(const Node&);

  static size_t index(ValueId id) { return static_cast<size_t>(id); }
  const graph::Value& value(ValueId id) const { return graph_.value(id); }
  /// Calls the method for the node's op.
  void export_node(const Node& node);
  void add_output(ValueId id);
  ValueInfo info_of(ValueId id, const std::string& name) const;
  [[noreturn]] void refuse(const Node& node, std::string_view why) const;

  // Add nodes and constants to the model; each returns the name of its output.
  /// A node with one output.
  std::string emit(const std::string& op, std::vector<std::string> inputs, const std::string& output,
                   std::vector<Attribute> attributes = {});
  std::string add_initializer(const std::string& name, ElementType type, std::vector<int64_t> dims,
                              const void* data, size_t bytes);
  std::string scalar(double number, DType dtype);
  std::string integers(const std::vector<int64_t>& values);
  std::string add_constant(const std::string& name, const Tensor& tensor);
  /// For causal attention: minus infinity above the diagonal.
  std::string causal_mask(int64_t length);

  // Names.
  std::string unused(const std::string& base);
  std::string temporary(const std::string& base) { return unused(concat(base, ".part")); }
  std::string unused_constant(ValueId id);
  bool is_planes(ValueId id) const {
    return names_[index(id)].plain.empty() && !names_[index(id)].planes.empty();
  }
  std::string plain(ValueId id);
  std::string planes(ValueId id);
  std::string new_plain(ValueId id) { return names_[index(id)].plain = unused(value(id).name); }
  std::string new_planes(ValueId id);

  // Attributes of nodes.
  static ElementType type_of(DType dtype);
  static Attribute ints(std::string name, std::vector<int64_t> values);
  static Attribute integer(std::string name, int64_t value);
  static Attribute number(std::string name, double value);
  static Attribute text(std::string name, std::string_view value);

  // Images.
  /// `bias` may be kNone. `x` and `out` are planes.
  void convolve(const std::string& x, ValueId weight, ValueId bias, const Conv2dAttrs& attrs,
                const std::string& out);
  /// convolve(), then the unit's activation.
  void convolve_unit(const std::string& x, ValueId weight, ValueId bias, const ConvUnitAttrs& attrs,
                     const std::string& out);
  void convolution(const Node& node);
  void convolution_transpose(const Node& node);
  void convolution_unit(const Node& node);
  void convolution_pair(const Node& node);
  std::vector<Attribute> window_of(const Pool2dAttrs& attrs);
  void max_pool(const Node& node);
  void avg_pool(const Node& node);
  void global_pool(const Node& node);
  void resize(const Node& node);
  // Flattens with channels first, the order of flatten().
  void flatten(const Node& node);
  void batch_norm(const Node& node);

  // Elementwise ops, products, ops on rows and reductions.
  // Writes the node from `in` to `out`, in either order of axes. any_attrs is null for an op without attributes.
  void apply_unary(std::string_view op, const Attrs* any_attrs, DType dtype, const std::string& in,
                   const std::string& out);
  void unary(const Node& node);
  struct Pair {
    std::string left, right, out;
  };
  /// Both inputs and the output in one order of axes.
  Pair operands_of(const Node& node);
  void binary(const Node& node);
  void sum_relu(const Node& node);
  void comparison(const Node& node);
  void masked(const Node& node);
  void linear(const Node& node);
  std::string with_last_axes_turned(ValueId id, const std::string& base);
  void product(const Node& node);
  // [N,T,3*H*D] -> softmax(Q K^T / sqrt D) V, [N,T,H*D]
  void attention(const Node& node);
  void layer_norm_of(const std::string& x, const Node& node, size_t gamma, const std::string& out);
  void layer_norm(const Node& node);
  void add_layer_norm(const Node& node);
  void softmax(const Node& node);
  void reduction(const Node& node);
  void maximum(const Node& node);

  // Types and shapes.
  void cast_to(const Node& node);
  void reshape(const Node& node);
  void expand(const Node& node);
  // i64 [1]: `each` times the batch.
  std::string batch_size(const Node& node, int64_t each, const std::string& out);
  void transpose(const Node& node);
  void slice(const Node& node);
  void concatenate(const Node& node);
  void gather(const Node& node);

  const graph::Graph& graph_;
  std::vector<Names> names_;
  std::set<std::string> taken_;
  std::set<std::string> written_constants_;
  Model model_;
};

}  // namespace dlpipe::engine::onnx
