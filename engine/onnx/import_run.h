// One run of an ONNX model, node by node: its values, and helpers for the ops' code. Internal to engine/onnx. The
// ops' code is in the other files import_*.cpp.
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

#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine::onnx {

/// kImageAxis[i]: the axis in the tensor [N,H,W,C] of axis i of the model's image [N,C,H,W].
inline constexpr std::array<int, 4> kImageAxis = {0, 3, 1, 2};

/// Integers (or booleans) that don't depend on input values: shapes, axes, indices.
struct KnownInts {
  std::vector<int64_t> dims;
  std::vector<int64_t> values;
  /// How much each grows with one more sample; empty if none does. The second run of a capture, which has one more sample than
  /// the first, determines it; the first run doesn't know it.
  std::vector<int64_t> growth = {};

  /// The value of values[i] for a batch of `samples`.
  int64_t at(size_t i, int64_t samples) const;
};

/// The results of a run that the run with one more sample needs.
struct SmallerRun {
  std::map<std::string, KnownInts> ints;  // results of nodes
  std::map<std::string, Shape> shapes;    // of all values, in the model's order of axes
};

/// A value of the model: a tensor, or known integers, from which a tensor can be made.
struct RunValue {
  Tensor tensor = {};
  bool is_image = false;  // the tensor is [N,H,W,C], the model's value [N,C,H,W]
  std::optional<KnownInts> ints = {};
  bool is_truth = false;  // a bool that depends on the model's input; stored as f32 1 and 0
  /// The same for every input and every batch. For values computed from sizes, the first run of a capture assumes this, and the
  /// second run knows it.
  bool is_constant = false;
  bool is_random = false;  // every run of the graph draws other numbers
  Tensor source = {};      // for `ints`: a tensor made by ops that broadcasts to them
};

/// The model's constants, shared by both runs of a capture.
class Constants {
 public:
  explicit Constants(const Model& model);
  const std::map<std::string, RunValue>& values() const { return values_; }
  std::vector<std::pair<std::string, Tensor>> named_tensors() const;
  /// The value of a tensor inside a node; created once.
  const RunValue& of(const std::string& name, const TensorValue& tensor);

 private:
  std::map<std::string, RunValue> values_;
};

/// Integers as a tensor of i64.
Tensor tensor_of(const KnownInts& ints);

/// "node 'conv1' (Conv)"; for a node without a name, with its first output.
std::string node_text(const NodeEntry& node);

class Run {
 public:
  /// `smaller`: made() of the run with one sample less; nullptr: this is the first run.
  Run(const Model& model, Constants& constants, std::span<const Tensor> inputs, const ImportOptions& options,
      const SmallerRun* smaller = nullptr);
  /// Returns the model's outputs.
  std::vector<Tensor> run();
  SmallerRun made() const;

  int64_t opset() const { return opset_; }
  const ImportOptions& options() const { return options_; }

  // Inputs of a node.
  bool has(const NodeEntry& node, size_t i) const {
    return i < node.inputs.size() && !node.inputs[i].empty();
  }
  const RunValue& value(const NodeEntry& node, size_t i) const;
  /// In the model's order of axes.
  Tensor tensor(const NodeEntry& node, size_t i);
  /// As [N,H,W,C], for a value [N,C,H,W].
  Tensor image(const NodeEntry& node, size_t i);
  /// Undefined if absent.
  Tensor optional_tensor(const NodeEntry& node, size_t i) {
    return has(node, i) ? tensor(node, i) : Tensor();
  }
  bool is_known(const NodeEntry& node, size_t i) const {
    return has(node, i) && value(node, i).ints.has_value();
  }
  /// kUnsupported if they depend on the input.
  const KnownInts& ints(const NodeEntry& node, size_t i) const;
  /// The shape of a value in the model's order of axes.
  Shape shape(const NodeEntry& node, size_t i) const;
  /// The same as integers that grow with the batch.
  KnownInts sizes(const NodeEntry& node, size_t i) const;
  /// The only element of a constant, or of a value computed from constants and sizes.
  double number(const NodeEntry& node, size_t i) const;
  /// The same; nullopt if the input isn't such a number.
  std::optional<double> known_number(const NodeEntry& node, size_t i) const;
  /// All elements of a constant, or of a value computed from constants and sizes.
  std::vector<double> numbers(const NodeEntry& node, size_t i) const;

  // Outputs of a node.
  void set(const NodeEntry& node, Tensor tensor, size_t output = 0);
  void set_image(const NodeEntry& node, Tensor tensor);
  /// In the order of axes of the node's first input.
  void set_like_input(const NodeEntry& node, Tensor tensor);
  /// The same, for a value that is random.
  void set_random(const NodeEntry& node, Tensor tensor);
  /// `source`: a tensor made by ops that broadcasts to them. Without it, a node that needs a tensor gets a constant.
  void set_ints(const NodeEntry& node, KnownInts ints, size_t output = 0, Tensor source = {});
  /// Sets a bool of the model; `truth` is 1 and 0.
  void set_truth(const NodeEntry& node, const Tensor& truth, bool is_image);
  void set_value(const NodeEntry& node, RunValue value, size_t output = 0);

  // Attributes of a node.
  const Attribute* find(const NodeEntry& node, std::string_view name) const;
  int64_t attribute(const NodeEntry& node, std::string_view name, int64_t otherwise) const;
  double attribute(const NodeEntry& node, std::string_view name, double otherwise) const;
  std::string attribute(const NodeEntry& node, std::string_view name, const char* otherwise) const;
  std::vector<int64_t> attribute(const NodeEntry& node, std::string_view name,
                                 std::vector<int64_t> otherwise) const;
  /// From input `i` if it exists, else from the attribute (as in earlier opsets).
  std::vector<int64_t> ints_or_attribute(const NodeEntry& node, size_t i, std::string_view name,
                                         std::vector<int64_t> otherwise) const;
  /// Converts an axis to one counted from the front. kUnsupported if it is out of range.
  int axis(const NodeEntry& node, int64_t axis, int rank) const;
  std::vector<int> axes(const NodeEntry& node, std::span<const int64_t> axes, int rank) const;
  /// The value of a Constant's tensor.
  const RunValue& constant(const NodeEntry& node, const TensorValue& tensor);

  template <class... Parts>
  [[noreturn]] void refuse(const NodeEntry& node, const Parts&... parts) const {
    throw Error(Status(ErrorCode::kUnsupported, dlpipe::concat(place_of(node), ": ", parts...)));
  }

 private:
  /// The node in errors, after the area: "[onnx] node 'conv1' (Conv)".
  std::string place_of(const NodeEntry& node) const;
  /// Returns whether the smaller batch had the same integers.
  bool find_growth(const std::string& name, KnownInts& ints) const;
  /// The outputs of a node with only constant inputs are constants, unless they are random.
  void mark_constants(const NodeEntry& node);

  const Model& model_;
  Constants& constants_;
  const ImportOptions& options_;
  const SmallerRun* smaller_;
  int64_t opset_;
  size_t made_ints_ = 0;  // of all nodes so far
  std::map<std::string, RunValue> values_;
};

/// 1 where it is 0, and 0 where it is 1.
Tensor negated(const Tensor& truth);
/// min(x, 0), with the gradient 1 at 0. relu's gradient at 0 is 0, so a function composed of both has the gradient of its negative side
/// at 0, as in PyTorch. Clips at 2^-100, because the gradient of clip at its bound is 0.
Tensor negative_part(const Tensor& x);
/// Converts integers to floats of `dtype`; f64 holds those below 2^53 exactly. Returns floats unchanged.
Tensor as_floats(const Tensor& x, DType dtype);

/// The first input of a node for images. A line [N,C,W] is an image with one row.
struct Frame {
  Tensor image;  // [N,H,W,C]
  bool is_line = false;
};
Frame frame_of(Run& run, const NodeEntry& node);
/// Sets the node's output, in the form of `frame`.
void set_frame(Run& run, const NodeEntry& node, const Frame& frame, const Tensor& y);

struct ImportedOp {
  const char* name;
  void (*call)(Run& run, const NodeEntry& node);
};
/// The row of a node's op; null if there is none.
const ImportedOp* find_op(const NodeEntry& node);
/// The opset of the ONNX domain.
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
/// The domain "dlpipe": ops that ONNX lacks, for models written by dlpipe.capture.
std::span<const ImportedOp> training_ops();

/// Dropout in training form.
Tensor live_dropout(const Tensor& x, double ratio);

/// Images as a plain tensor [N,C,H,W].
Tensor planes_of(const Tensor& image);
Tensor image_of(const Tensor& planes);
/// The maximum number of pieces that a node may cut its input into or copies it may make; a larger graph would be unreadable.
inline constexpr int64_t kMostPieces = 1 << 10;
/// Concatenates any number of tensors along an axis; more than concat() supports are joined in groups first.
Tensor concat_all(std::vector<Tensor> parts, int axis);
/// `x` padded along an axis with `before` and `behind` elements of `value`.
Tensor padded(const Tensor& x, int axis, int64_t before, int64_t behind, double value);

}  // namespace dlpipe::engine::onnx
