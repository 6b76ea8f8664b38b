// One run through an ONNX model's nodes: what each value is, and what a node's code needs of it. Internal to
// engine/onnx; the ops' code stands in the other files import_*.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/onnx/onnx_file.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine::onnx {

/// Where axis i of a model's image, [N,C,H,W], lies in its tensor, [N,H,W,C].
inline constexpr std::array<int, 4> kImageAxis = {0, 3, 1, 2};

/// Integers (or truths) that are known before any input is: shapes, axes, indices.
struct KnownInts {
  std::vector<int64_t> dims;
  std::vector<int64_t> values;
  /// By how much each grows with one sample more; empty where none does. Found by the second run of a capture, whose batch
  /// has one sample more than the first's; the first doesn't know.
  std::vector<int64_t> growth = {};

  /// What values[i] is for a batch of `samples`.
  int64_t at(size_t i, int64_t samples) const;
};

/// What a run leaves for the run for one sample more.
struct SmallerRun {
  std::map<std::string, KnownInts> ints;  // that nodes made
  std::map<std::string, Shape> shapes;    // of all values, as the model orders axes
};

/// A value of the model: a tensor, or integers that are known, from which a tensor can be made.
struct RunValue {
  Tensor tensor = {};
  bool is_image = false;  // the tensor is [N,H,W,C], the model's value [N,C,H,W]
  std::optional<KnownInts> ints = {};
  bool is_truth = false;  // a bool of the model, which depends on its input: 1 and 0 of f32 here
  /// The same for every input and every batch. The first run of a capture takes what sizes make for that, the second knows.
  bool is_constant = false;
  Tensor source = {};  // of `ints`: made by ops, and broadcasts to them
};

/// The model's constants, shared by both runs of a capture.
class Constants {
 public:
  explicit Constants(const Model& model);
  const std::map<std::string, RunValue>& values() const { return values_; }
  std::vector<std::pair<std::string, Tensor>> named_tensors() const;
  /// Of a tensor inside a node; made once.
  const RunValue& of(const std::string& name, const TensorValue& tensor);

 private:
  std::map<std::string, RunValue> values_;
};

/// "node 'conv1' (Conv)"; of one without a name its first output.
std::string node_text(const NodeEntry& node);

class Run {
 public:
  /// `smaller`: made() of the run for a batch of one sample less; nullptr: there was none.
  Run(const Model& model, Constants& constants, std::span<const Tensor> inputs,
      const SmallerRun* smaller = nullptr);
  /// Answers the model's outputs.
  std::vector<Tensor> run();
  SmallerRun made() const;

  int64_t opset() const { return opset_; }

  // Inputs of a node.
  bool has(const NodeEntry& node, size_t i) const {
    return i < node.inputs.size() && !node.inputs[i].empty();
  }
  const RunValue& value(const NodeEntry& node, size_t i) const;
  /// As the model orders axes.
  Tensor tensor(const NodeEntry& node, size_t i);
  /// [N,H,W,C] of a value [N,C,H,W].
  Tensor image(const NodeEntry& node, size_t i);
  /// Undefined where absent.
  Tensor optional_tensor(const NodeEntry& node, size_t i) {
    return has(node, i) ? tensor(node, i) : Tensor();
  }
  bool is_known(const NodeEntry& node, size_t i) const {
    return has(node, i) && value(node, i).ints.has_value();
  }
  /// kUnsupported where they depend on the input.
  const KnownInts& ints(const NodeEntry& node, size_t i) const;
  /// The model's shape of a value, whatever its order here.
  Shape shape(const NodeEntry& node, size_t i) const;
  /// The same as integers, which know how they grow.
  KnownInts sizes(const NodeEntry& node, size_t i) const;
  /// The only element of a constant, or of what nodes make of constants and sizes.
  double number(const NodeEntry& node, size_t i) const;
  /// Nothing where it is none.
  std::optional<double> known_number(const NodeEntry& node, size_t i) const;
  /// All elements of one.
  std::vector<double> numbers(const NodeEntry& node, size_t i) const;

  // Outputs of a node.
  void set(const NodeEntry& node, Tensor tensor, size_t output = 0);
  void set_image(const NodeEntry& node, Tensor tensor);
  /// In the form that the node's first input has.
  void set_like_input(const NodeEntry& node, Tensor tensor);
  /// `source`: what ops make, which broadcasts to them; else what reads them as a tensor reads a constant.
  void set_ints(const NodeEntry& node, KnownInts ints, size_t output = 0, Tensor source = {});
  /// What a bool of the model is here: `truth` is 1 and 0.
  void set_truth(const NodeEntry& node, const Tensor& truth, bool is_image);
  void set_value(const NodeEntry& node, RunValue value, size_t output = 0);

  // Attributes of a node.
  const Attribute* find(const NodeEntry& node, std::string_view name) const;
  int64_t attribute(const NodeEntry& node, std::string_view name, int64_t otherwise) const;
  double attribute(const NodeEntry& node, std::string_view name, double otherwise) const;
  std::string attribute(const NodeEntry& node, std::string_view name, const char* otherwise) const;
  std::vector<int64_t> attribute(const NodeEntry& node, std::string_view name,
                                 std::vector<int64_t> otherwise) const;
  /// Of input `i` where it is there, else of the attribute (what they were before a later opset).
  std::vector<int64_t> ints_or_attribute(const NodeEntry& node, size_t i, std::string_view name,
                                         std::vector<int64_t> otherwise) const;
  /// From the front, checked.
  int axis(const NodeEntry& node, int64_t axis, int rank) const;
  std::vector<int> axes(const NodeEntry& node, std::span<const int64_t> axes, int rank) const;
  /// The value that a Constant's tensor is.
  const RunValue& constant(const NodeEntry& node, const TensorValue& tensor);

  template <class... Parts>
  [[noreturn]] void refuse(const NodeEntry& node, const Parts&... parts) const {
    throw Error(Status(ErrorCode::kUnsupported, dlpipe::concat("[onnx] ", node_text(node), ": ", parts...)));
  }

 private:
  /// Answers whether the smaller batch's were the same.
  bool find_growth(const std::string& name, KnownInts& ints) const;
  /// What a node makes of constants alone is one.
  void mark_constants(const NodeEntry& node);

  const Model& model_;
  Constants& constants_;
  const SmallerRun* smaller_;
  int64_t opset_;
  size_t made_ints_ = 0;  // of all nodes so far
  std::map<std::string, RunValue> values_;
};

/// 1 where it is 0, and 0 where it is 1.
Tensor negated(const Tensor& truth);
/// Integers as floats of `dtype`; f64 has those below 2^53 whole.
Tensor as_floats(const Tensor& x, DType dtype);

/// The first input of what takes images. A line [N,C,W] is an image of one row.
struct Frame {
  Tensor image;  // [N,H,W,C]
  bool is_line = false;
};
Frame frame_of(Run& run, const NodeEntry& node);
/// The node's output, in the form of `frame`.
void set_frame(Run& run, const NodeEntry& node, const Frame& frame, const Tensor& y);

struct ImportedOp {
  const char* name;
  void (*call)(Run& run, const NodeEntry& node);
};
/// The row of a node's op; null where there is none.
const ImportedOp* find_op(const NodeEntry& node);
/// Of ONNX's own ops.
int64_t opset_of(const Model& model);

std::span<const ImportedOp> arithmetic_ops();
std::span<const ImportedOp> copy_ops();
std::span<const ImportedOp> einsum_ops();
std::span<const ImportedOp> image_ops();
std::span<const ImportedOp> math_ops();
std::span<const ImportedOp> norm_ops();
std::span<const ImportedOp> resize_ops();
std::span<const ImportedOp> shape_ops();
std::span<const ImportedOp> size_ops();

/// The plain tensor [N,C,H,W] of images.
Tensor planes_of(const Tensor& image);
Tensor image_of(const Tensor& planes);
/// Into how many pieces a node may cut or copy its input: a graph of more is no longer read by anyone.
inline constexpr int64_t kMostPieces = 1 << 10;
/// One after another along an axis, any number of them: more than concat takes are joined in groups first.
Tensor concat_all(std::vector<Tensor> parts, int axis);
/// `x` between `before` and `behind` places of `value` along an axis.
Tensor padded(const Tensor& x, int axis, int64_t before, int64_t behind, double value);

}  // namespace dlpipe::engine::onnx
