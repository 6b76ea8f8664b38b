// Exports casts and the ops that move elements.
#include "engine/onnx/export_run.h"
#include "engine/ops/conversions.h"
#include "engine/ops/shape_ops.h"

namespace dlpipe::engine::onnx {

void Exporter::cast_to(const Node& node) {
  emit("Cast", {plain(node.inputs[0])}, new_plain(node.outputs[0]),
       {integer("to", static_cast<int64_t>(type_of(node.attrs.as<CastAttrs>().dtype)))});
}

void Exporter::reshape(const Node& node) {
  const Shape& shape = node.attrs.as<ReshapeAttrs>().shape;
  std::vector<int64_t> sizes(shape.begin(), shape.end());
  int growing = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (!(node.batch_sizes & bit(static_cast<int>(i)))) continue;
    sizes[i] = -1;
    ++growing;
  }
  if (growing > 1) refuse(node, "two of its sizes grow with the batch");
  const std::string x = plain(node.inputs[0]);
  emit("Reshape", {x, integers(sizes)}, new_plain(node.outputs[0]));
}

void Exporter::expand(const Node& node) {
  const Shape& shape = node.attrs.as<ExpandAttrs>().shape;
  if (node.batch_sizes == 0) {
    const std::string x = plain(node.inputs[0]);
    emit("Expand", {x, integers({shape.begin(), shape.end()})}, new_plain(node.outputs[0]));
    return;
  }
  // The batch comes from the Shape of an input.
  std::vector<std::string> sizes;
  sizes.reserve(static_cast<size_t>(shape.rank()));
  const std::string out = new_plain(node.outputs[0]);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    sizes.push_back(node.batch_sizes & bit(axis) ? batch_size(node, shape[axis], out)
                                                 : integers({shape[axis]}));
  }
  const std::string x = plain(node.inputs[0]);
  emit("Expand", {x, emit("Concat", sizes, temporary(out), {integer("axis", 0)})}, out);
}

std::string Exporter::batch_size(const Node& node, int64_t each, const std::string& out) {
  for (const ValueId id : graph_.inputs) {
    for (int axis = 0; axis < value(id).shape.rank(); ++axis) {
      if (!(value(id).batch_axes & bit(axis)) || value(id).shape[axis] != 1) continue;
      const std::string shape = emit("Shape", {plain(id)}, temporary(out));
      const std::string batch =
          emit("Gather", {shape, integers({axis})}, temporary(out), {integer("axis", 0)});
      return each == 1 ? batch : emit("Mul", {batch, integers({each})}, temporary(out));
    }
  }
  refuse(node, "no input of the graph has the batch as an axis");
}

void Exporter::transpose(const Node& node) {
  const std::vector<int>& order = node.attrs.as<TransposeAttrs>().permutation;
  const std::string x = plain(node.inputs[0]);
  emit("Transpose", {x}, new_plain(node.outputs[0]), {ints("perm", {order.begin(), order.end()})});
}

void Exporter::slice(const Node& node) {
  const auto& attrs = node.attrs.as<SliceAttrs>();
  const std::string x = plain(node.inputs[0]);
  emit("Slice",
       {x, integers({attrs.begin}), integers({attrs.end}), integers({attrs.axis}), integers({attrs.step})},
       new_plain(node.outputs[0]));
}

void Exporter::concatenate(const Node& node) {
  std::vector<std::string> inputs;
  for (const ValueId id : node.inputs) inputs.push_back(plain(id));
  emit("Concat", std::move(inputs), new_plain(node.outputs[0]),
       {integer("axis", node.attrs.as<ConcatAttrs>().axis)});
}

void Exporter::gather(const Node& node) {
  const std::string table = plain(node.inputs[0]), ids = plain(node.inputs[1]);
  emit("Gather", {table, ids}, new_plain(node.outputs[0]), {integer("axis", 0)});
}

}  // namespace dlpipe::engine::onnx
