#include "engine/onnx/import_run.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/messages.h"
#include "engine/core/attr_form.h"
#include "engine/core/observers.h"
#include "engine/graph/capture.h"
#include "engine/onnx/tensor_message.h"

namespace dlpipe::engine::onnx {

namespace {

bool is_integer(ElementType type) {
  return type == ElementType::kInt64 || type == ElementType::kInt32 || type == ElementType::kBool ||
         type == ElementType::kUint8 || type == ElementType::kInt8;
}

template <class T>
T element(const std::string& bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

int64_t integer_at(const TensorValue& tensor, size_t i) {
  switch (tensor.type) {
    case ElementType::kInt64:
      return element<int64_t>(tensor.bytes, i);
    case ElementType::kInt32:
      return element<int32_t>(tensor.bytes, i);
    case ElementType::kInt8:
      return element<int8_t>(tensor.bytes, i);
    default:
      return element<uint8_t>(tensor.bytes, i);
  }
}

float float_at(const TensorValue& tensor, size_t i) {
  switch (tensor.type) {
    case ElementType::kFloat:
      return element<float>(tensor.bytes, i);
    case ElementType::kDouble:
      return static_cast<float>(element<double>(tensor.bytes, i));
    case ElementType::kFloat16:
      return static_cast<float>(element<Float16>(tensor.bytes, i));
    default:
      return static_cast<float>(element<BFloat16>(tensor.bytes, i));
  }
}

// `name` is the tensor's name in errors: a tensor inside a node has no name.
RunValue value_of(const std::string& name, const TensorValue& tensor) {
  if (tensor.dims.size() > static_cast<size_t>(Shape::kMaxRank)) {
    throw Error(Status(ErrorCode::kUnsupported,
                       dlpipe::concat("[onnx] tensor ", in_quotes(name), " has ", tensor.dims.size(),
                                      " axes; dlpipe supports ", Shape::kMaxRank)));
  }
  throw_if_error(check_bytes(name, tensor));
  RunValue value;
  value.is_constant = true;
  const auto count = static_cast<size_t>(tensor.elements());
  if (is_integer(tensor.type)) {
    KnownInts ints{tensor.dims, {}};
    ints.values.reserve(count);
    for (size_t i = 0; i < count; ++i) ints.values.push_back(integer_at(tensor, i));
    value.ints = std::move(ints);
    return value;
  }
  value.tensor = Tensor::empty(Shape(std::span<const int64_t>(tensor.dims)));
  for (size_t i = 0; i < count; ++i) value.tensor.data<float>()[i] = float_at(tensor, i);
  return value;
}

// The shape in the model's order of axes.
Shape shape_of(const RunValue& value) {
  if (value.ints) return Shape(std::span<const int64_t>(value.ints->dims));
  const Shape& own = value.tensor.shape();
  return value.is_image ? Shape{own[0], own[3], own[1], own[2]} : own;
}

}  // namespace

Tensor tensor_of(const KnownInts& ints) {
  Tensor tensor = Tensor::empty(Shape(std::span<const int64_t>(ints.dims)), DType::kI64);
  tensor.copy_from_host(ints.values.data(), ints.values.size() * sizeof(int64_t));
  return tensor;
}

Tensor planes_of(const Tensor& image) {
  return transpose(image, {0, 3, 1, 2});
}
Tensor image_of(const Tensor& planes) {
  return transpose(planes, {0, 2, 3, 1});
}

Constants::Constants(const Model& model) {
  for (const TensorValue& tensor : model.initializers)
    values_.emplace(tensor.name, value_of(tensor.name, tensor));
}

std::vector<std::pair<std::string, Tensor>> Constants::named_tensors() const {
  std::vector<std::pair<std::string, Tensor>> named;
  for (const auto& [name, value] : values_) {
    if (value.tensor.defined()) named.emplace_back(name, value.tensor);
  }
  return named;
}

const RunValue& Constants::of(const std::string& name, const TensorValue& tensor) {
  const auto known = values_.find(name);
  return known != values_.end() ? known->second : values_.emplace(name, value_of(name, tensor)).first->second;
}

int64_t KnownInts::at(size_t i, int64_t samples) const {
  if (growth.empty()) return values[i];
  // Wraps like the model's integers.
  const auto more = static_cast<uint64_t>(samples) - static_cast<uint64_t>(graph::kCapturedBatches.back());
  return static_cast<int64_t>(static_cast<uint64_t>(values[i]) + more * static_cast<uint64_t>(growth[i]));
}

Run::Run(const Model& model, Constants& constants, std::span<const Tensor> inputs,
         const ImportOptions& options, const SmallerRun* smaller)
    : model_(model),
      constants_(constants),
      options_(options),
      smaller_(smaller),
      opset_(opset_of(model)),
      values_(constants.values()) {
  size_t next = 0;
  for (const ValueInfo& info : model.inputs) {
    if (values_.contains(info.name)) continue;
    values_[info.name].tensor = inputs[next++];
  }
  for (const auto& [name, is_trained] : options.state) {
    const auto found = values_.find(name);
    if (is_trained && found != values_.end()) found->second.is_constant = false;
  }
}

std::string Run::place_of(const NodeEntry& node) const {
  // dlpipe.capture names nodes by PyTorch's call and module.
  if (options_.training && !node.name.empty()) return dlpipe::concat("[capture] ", node.name);
  return dlpipe::concat("[onnx] ", node_text(node));
}

std::vector<Tensor> Run::run() {
  for (const NodeEntry& node : model_.nodes) {
    try {
      find_op(node)->call(*this, node);
      mark_constants(node);
    } catch (const Error& error) {  // kMisuse of an op isn't misuse by the user: the file is unsupported
      if (error.code() != ErrorCode::kMisuse) throw;
      refuse(node, without_area(error.status().message()));
    }
  }
  std::vector<Tensor> outputs;
  for (const ValueInfo& info : model_.outputs) {
    const auto found = values_.find(info.name);
    if (found == values_.end())
      throw Error(
          Status(ErrorCode::kCorrupt, dlpipe::concat("[onnx] no node computes the output ",
                                                     in_quotes(info.name), "; export the model again")));
    const RunValue& value = found->second;
    outputs.push_back(value.ints       ? tensor_of(*value.ints)
                      : value.is_image ? planes_of(value.tensor)
                                       : value.tensor);
  }
  return outputs;
}

SmallerRun Run::made() const {
  SmallerRun made;
  for (const NodeEntry& node : model_.nodes) {
    for (const std::string& name : node.outputs) {
      const auto value = values_.find(name);
      if (value != values_.end() && value->second.ints) made.ints.emplace(name, *value->second.ints);
    }
  }
  for (const auto& [name, value] : values_) made.shapes.emplace(name, shape_of(value));
  return made;
}

const RunValue& Run::value(const NodeEntry& node, size_t i) const {
  if (!has(node, i))
    throw Error(Status(ErrorCode::kCorrupt,
                       dlpipe::concat("[onnx] ", node_text(node), " has ", node.inputs.size(),
                                      " inputs, but needs input ", i, "; export the model again")));
  const auto found = values_.find(node.inputs[i]);
  if (found == values_.end())  // it passed check_names, so it is an output that dlpipe doesn't compute
    refuse(node, "reads ", in_quotes(node.inputs[i]), ", an output that dlpipe doesn't compute");
  return found->second;
}

Tensor Run::tensor(const NodeEntry& node, size_t i) {
  const RunValue& given = value(node, i);
  if (!given.ints) return given.is_image ? planes_of(given.tensor) : given.tensor;
  RunValue& kept = values_.at(node.inputs[i]);
  if (!kept.tensor.defined() && kept.source.defined()) {
    const Shape own = shape_of(kept);
    kept.tensor = kept.source.shape() == own ? kept.source : expand(kept.source, own);
  }
  if (!kept.tensor.defined()) kept.tensor = tensor_of(*given.ints);
  return kept.tensor;
}

Tensor Run::image(const NodeEntry& node, size_t i) {
  const RunValue& given = value(node, i);
  if (given.is_image) return given.tensor;
  if (shape(node, i).rank() != 4)
    refuse(node, "expected images [N,C,H,W] as input ", i, ", got ", shape(node, i).to_string());
  return image_of(tensor(node, i));
}

const KnownInts& Run::ints(const NodeEntry& node, size_t i) const {
  const RunValue& given = value(node, i);
  if (!given.ints) refuse(node, "input ", i, " depends on the values of the model's input; only sizes may");
  return *given.ints;
}

Shape Run::shape(const NodeEntry& node, size_t i) const {
  return shape_of(value(node, i));
}

KnownInts Run::sizes(const NodeEntry& node, size_t i) const {
  const Shape own = shape(node, i);
  KnownInts sizes{{own.rank()}, {own.begin(), own.end()}};
  if (smaller_ == nullptr) return sizes;
  const auto before = smaller_->shapes.find(node.inputs[i]);
  if (before == smaller_->shapes.end() || before->second.rank() != own.rank() || before->second == own)
    return sizes;
  for (int axis = 0; axis < own.rank(); ++axis) sizes.growth.push_back(own[axis] - before->second[axis]);
  return sizes;
}

double Run::number(const NodeEntry& node, size_t i) const {
  const std::optional<double> known = known_number(node, i);
  if (!known) refuse(node, "input ", i, " is not one number that is known before the model runs");
  return *known;
}
std::optional<double> Run::known_number(const NodeEntry& node, size_t i) const {
  const RunValue& given = value(node, i);
  if (given.ints && given.ints->values.size() == 1) return static_cast<double>(given.ints->values[0]);
  if (given.ints || !given.is_constant || given.tensor.elements() != 1) return std::nullopt;
  const UseCallObserver unseen(nullptr);  // a capture would refuse this read if ops computed the constant
  return given.tensor.item();
}

std::vector<double> Run::numbers(const NodeEntry& node, size_t i) const {
  const RunValue& given = value(node, i);
  if (given.ints) return {given.ints->values.begin(), given.ints->values.end()};
  if (!given.is_constant) refuse(node, "input ", i, " is not known before the model runs");
  const UseCallObserver unseen(nullptr);
  return given.tensor.to_doubles();
}

void Run::set_value(const NodeEntry& node, RunValue value, size_t output) {
  if (output >= node.outputs.size()) return;
  values_[node.outputs[output]] = std::move(value);
}
void Run::set(const NodeEntry& node, Tensor tensor, size_t output) {
  set_value(node, {std::move(tensor)}, output);
}
void Run::set_image(const NodeEntry& node, Tensor tensor) {
  set_value(node, {std::move(tensor), true});
}
void Run::set_like_input(const NodeEntry& node, Tensor tensor) {
  set_value(node, {std::move(tensor), value(node, 0).is_image});
}
void Run::set_random(const NodeEntry& node, Tensor tensor) {
  set_value(node, {.tensor = std::move(tensor), .is_image = value(node, 0).is_image, .is_random = true});
}
void Run::set_ints(const NodeEntry& node, KnownInts ints, size_t output, Tensor source) {
  constexpr size_t kMost = 1 << 24;
  if (ints.values.size() > kMost) refuse(node, "it makes more than ", kMost, " integers");
  made_ints_ += ints.values.size();
  if (made_ints_ > 2 * kMost) refuse(node, "the nodes up to it make more than ", 2 * kMost, " integers");
  if (ints.dims.size() > static_cast<size_t>(Shape::kMaxRank))
    refuse(node, "it makes integers of ", ints.dims.size(), " axes; dlpipe supports ", Shape::kMaxRank);
  size_t elements = 1;
  for (const int64_t size : ints.dims) {
    if (size < 0 || (size > 0 && elements > kMost / static_cast<size_t>(size)))
      refuse(node, "impossible sizes");
    elements *= static_cast<size_t>(size);
  }
  if (elements != ints.values.size())
    refuse(node, "it makes ", ints.values.size(), " integers, but its shape needs ", elements);
  if (output >= node.outputs.size()) return;
  const bool is_constant = find_growth(node.outputs[output], ints);
  set_value(node, {.ints = std::move(ints), .is_constant = is_constant, .source = std::move(source)}, output);
}

void Run::mark_constants(const NodeEntry& node) {
  const bool of_constants = std::all_of(node.inputs.begin(), node.inputs.end(), [&](const std::string& name) {
    const auto found = values_.find(name);
    return name.empty() || (found != values_.end() && found->second.is_constant);
  });
  for (const std::string& name : node.outputs) {
    const auto made = values_.find(name);
    if (made != values_.end() && !made->second.ints)
      made->second.is_constant = of_constants && !made->second.is_image && !made->second.is_random;
  }
}

bool Run::find_growth(const std::string& name, KnownInts& ints) const {
  ints.growth.clear();
  if (smaller_ == nullptr) return true;
  const auto before = smaller_->ints.find(name);
  if (before == smaller_->ints.end() || before->second.dims != ints.dims) return false;
  if (before->second.values == ints.values) return true;
  for (size_t i = 0; i < ints.values.size(); ++i)
    ints.growth.push_back(static_cast<int64_t>(static_cast<uint64_t>(ints.values[i]) -
                                               static_cast<uint64_t>(before->second.values[i])));
  return false;
}

void Run::set_truth(const NodeEntry& node, const Tensor& truth, bool is_image) {
  set_value(node, {.tensor = cast(truth, DType::kF32), .is_image = is_image, .is_truth = true});
}

Tensor negated(const Tensor& truth) {
  return scale(truth, -1.0, 1.0);
}
Tensor negative_part(const Tensor& x) {
  return clip(x, -std::numeric_limits<double>::infinity(), 0x1p-100);
}
Tensor as_floats(const Tensor& x, DType dtype) {
  return is_floating(x.dtype()) ? x : cast(x, dtype);
}

const Attribute* Run::find(const NodeEntry& node, std::string_view name) const {
  const auto found = std::find_if(node.attributes.begin(), node.attributes.end(),
                                  [&](const Attribute& attribute) { return attribute.name == name; });
  return found == node.attributes.end() ? nullptr : &*found;
}
int64_t Run::attribute(const NodeEntry& node, std::string_view name, int64_t otherwise) const {
  const Attribute* const found = find(node, name);
  return found == nullptr ? otherwise : found->i;
}
double Run::attribute(const NodeEntry& node, std::string_view name, double otherwise) const {
  const Attribute* const found = find(node, name);
  return found == nullptr ? otherwise : static_cast<double>(found->f);
}
std::string Run::attribute(const NodeEntry& node, std::string_view name, const char* otherwise) const {
  const Attribute* const found = find(node, name);
  return found == nullptr ? otherwise : found->s;
}
std::vector<int64_t> Run::attribute(const NodeEntry& node, std::string_view name,
                                    std::vector<int64_t> otherwise) const {
  const Attribute* const found = find(node, name);
  if (found == nullptr) return otherwise;
  return found->ints;
}
std::vector<int64_t> Run::ints_or_attribute(const NodeEntry& node, size_t i, std::string_view name,
                                            std::vector<int64_t> otherwise) const {
  return has(node, i) ? ints(node, i).values : attribute(node, name, std::move(otherwise));
}

int Run::axis(const NodeEntry& node, int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank)
    refuse(node, "axis ", axis, " of a tensor with ", rank, " axes; export the model again");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}
std::vector<int> Run::axes(const NodeEntry& node, std::span<const int64_t> axes, int rank) const {
  std::vector<int> from_front;
  from_front.reserve(axes.size());
  for (const int64_t one : axes) from_front.push_back(axis(node, one, rank));
  return from_front;
}

const RunValue& Run::constant(const NodeEntry& node, const TensorValue& tensor) {
  return constants_.of(node.outputs.empty() ? "" : node.outputs[0], tensor);
}

}  // namespace dlpipe::engine::onnx
