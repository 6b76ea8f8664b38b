// Convolutions, pools and batch norms: what wants [N,H,W,C].
#include <algorithm>
#include <array>
#include <limits>

#include "dlpipe/engine/onnx/import_run.h"

namespace dlpipe::engine::onnx {

namespace {

std::array<int, 2> two(const Run& run, const NodeEntry& node, const std::vector<int64_t>& values,
                       const char* what) {
  const auto is_small = [](int64_t value) {
    return value >= 0 && value <= std::numeric_limits<int16_t>::max();
  };
  if (values.size() != 2 || !is_small(values[0]) || !is_small(values[1]))
    run.refuse(node, "dlpipe takes images, with two ", what, " of at most 32767");
  return {static_cast<int>(values[0]), static_cast<int>(values[1])};
}

// The padding, which has to be alike on both sides.
std::array<int, 2> padding(const Run& run, const NodeEntry& node) {
  const std::string automatic = run.attribute(node, "auto_pad", "NOTSET");
  if (automatic == "VALID") return {0, 0};
  if (automatic != "NOTSET") run.refuse(node, "auto_pad ", automatic, "; export it with explicit pads");
  const std::vector<int64_t> pads = run.attribute(node, "pads", std::vector<int64_t>{0, 0, 0, 0});
  if (pads.size() != 4) run.refuse(node, "dlpipe takes images, with four pads");
  if (pads[0] != pads[2] || pads[1] != pads[3])
    run.refuse(node, "pads differ from side to side, which dlpipe's ops don't know");
  return two(run, node, {pads[0], pads[1]}, "pads");
}

void conv(Run& run, const NodeEntry& node) {
  Conv2dAttrs attrs;
  attrs.stride = two(run, node, run.attribute(node, "strides", std::vector<int64_t>{1, 1}), "strides");
  attrs.dilation = two(run, node, run.attribute(node, "dilations", std::vector<int64_t>{1, 1}), "dilations");
  attrs.padding = padding(run, node);
  const int64_t groups = run.attribute(node, "group", int64_t{1});
  if (groups < 1 || groups > std::numeric_limits<int>::max()) run.refuse(node, "group ", groups);
  attrs.groups = static_cast<int>(groups);
  const Tensor x = run.image(node, 0);
  run.set_image(node, conv2d(x, run.tensor(node, 1), run.optional_tensor(node, 2), attrs));
}

Pool2dAttrs pool_attrs(const Run& run, const NodeEntry& node) {
  Pool2dAttrs attrs;
  attrs.kernel = two(run, node, run.attribute(node, "kernel_shape", std::vector<int64_t>{}), "kernel sizes");
  attrs.stride = two(run, node, run.attribute(node, "strides", std::vector<int64_t>{1, 1}), "strides");
  attrs.padding = padding(run, node);
  attrs.ceil_mode = run.attribute(node, "ceil_mode", int64_t{0}) != 0;
  const std::vector<int64_t> dilations = run.attribute(node, "dilations", std::vector<int64_t>{1, 1});
  if (std::any_of(dilations.begin(), dilations.end(), [](int64_t one) { return one != 1; }))
    run.refuse(node, "dlpipe's pools have no dilation");
  return attrs;
}

void max_pool(Run& run, const NodeEntry& node) {
  if (node.outputs.size() > 1) run.refuse(node, "dlpipe gives no indices of the largest values");
  const Tensor x = run.image(node, 0);
  run.set_image(node, max_pool2d(x, pool_attrs(run, node)));
}

void average_pool(Run& run, const NodeEntry& node) {
  Pool2dAttrs attrs = pool_attrs(run, node);
  attrs.count_include_pad = run.attribute(node, "count_include_pad", int64_t{0}) != 0;
  const Tensor x = run.image(node, 0);
  run.set_image(node, avg_pool2d(x, attrs));
}

void global_average_pool(Run& run, const NodeEntry& node) {
  const Tensor x = run.image(node, 0);
  run.set_image(node, reshape(global_avg_pool(x), {x.size(0), 1, 1, x.size(3)}));
}

void global_max_pool(Run& run, const NodeEntry& node) {
  const Tensor x = run.image(node, 0);
  run.set_image(node, max(max(x, 1, true), 2, true));
}

void batch_normalization(Run& run, const NodeEntry& node) {
  if (run.attribute(node, "training_mode", int64_t{0}) != 0)
    run.refuse(node, "it is in training mode; export the model in eval mode");
  const BatchNormAttrs attrs = {.epsilon = run.attribute(node, "epsilon", 1e-5), .training = false};
  const bool is_image = run.shape(node, 0).rank() == 4;
  const Tensor x = is_image ? run.image(node, 0) : run.tensor(node, 0);
  if (!is_image && x.rank() != 2)
    run.refuse(node, "expected [N,C] or [N,C,H,W], got ", x.shape().to_string());
  Tensor mean = run.tensor(node, 3), variance = run.tensor(node, 4);
  const Tensor y = batch_norm(x, run.tensor(node, 1), run.tensor(node, 2), mean, variance, attrs);
  if (is_image) {
    run.set_image(node, y);
  } else {
    run.set(node, y);
  }
}

constexpr std::array kImageOps = {
    ImportedOp{"AveragePool", average_pool},
    ImportedOp{"BatchNormalization", batch_normalization},
    ImportedOp{"Conv", conv},
    ImportedOp{"GlobalAveragePool", global_average_pool},
    ImportedOp{"GlobalMaxPool", global_max_pool},
    ImportedOp{"MaxPool", max_pool},
};

}  // namespace

std::span<const ImportedOp> image_ops() {
  return kImageOps;
}

}  // namespace dlpipe::engine::onnx
