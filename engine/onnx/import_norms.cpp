// Imports norms of rows, groups and batches.
#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "engine/onnx/import_run.h"

namespace dlpipe::engine::onnx {

namespace {

void batch_normalization(Run& run, const NodeEntry& node) {
  // Before opset 14, a node is in training mode if it has more than one output.
  const bool makes_more =
      std::any_of(node.outputs.begin() + std::min<std::ptrdiff_t>(1, std::ssize(node.outputs)),
                  node.outputs.end(), [](const std::string& name) { return !name.empty(); });
  const bool was_live =
      run.attribute(node, "training_mode", int64_t{0}) != 0 || (run.opset() < 14 && makes_more);
  if (was_live && !run.options().training && !run.options().live_batch_norm)
    run.refuse(node, "it is in training mode; export the model in eval mode");
  BatchNormAttrs attrs = {.epsilon = run.attribute(node, "epsilon", 1e-5),
                          .training = was_live || run.options().live_batch_norm};
  // ONNX's momentum is the weight of the old statistics. It has no meaning in a model in inference form.
  if (was_live) attrs.momentum = 1.0 - run.attribute(node, "momentum", 0.9);
  const Shape shape = run.shape(node, 0);
  if (shape.rank() < 2 || shape.rank() > 4)
    run.refuse(node, "expected [N,C], [N,C,W] or [N,C,H,W], got ", shape.to_string());
  Tensor mean = run.tensor(node, 3), variance = run.tensor(node, 4);
  const auto norm = [&](const Tensor& x) {
    return batch_norm(x, run.tensor(node, 1), run.tensor(node, 2), mean, variance, attrs);
  };
  if (shape.rank() == 2) return run.set(node, norm(run.tensor(node, 0)));
  const Frame frame = frame_of(run, node);
  set_frame(run, node, frame, norm(frame.image));
}

// 1 / sqrt(mean(x^2) + epsilon)
Tensor inverse_deviation(const Tensor& x, const std::vector<int>& axes, double epsilon) {
  return div(Tensor::full({}, 1.0), sqrt(scale(mean(x * x, axes, true), 1.0, epsilon)));
}

// Normalises over all axes from `axis` on, which are joined to one axis for dlpipe's op.
void layer_normalization(Run& run, const NodeEntry& node) {
  const Tensor x = run.tensor(node, 0);
  const int axis = run.axis(node, run.attribute(node, "axis", int64_t{-1}), x.rank());
  const double epsilon = run.attribute(node, "epsilon", 1e-5);
  int64_t width = 1;
  Shape rows;
  for (int i = 0; i < axis; ++i) rows.push_back(x.size(i));
  for (int i = axis; i < x.rank(); ++i) width *= x.size(i);
  rows.push_back(width);
  const auto flat = [&](const Tensor& tensor) {
    return tensor.rank() == 1 ? tensor : reshape(tensor, {width});
  };
  const Tensor gamma = flat(run.tensor(node, 1));
  const Tensor beta = run.has(node, 2) ? flat(run.tensor(node, 2)) : Tensor::zeros({width});
  const bool is_last = axis == x.rank() - 1;
  const Tensor y = layer_norm(is_last ? x : reshape(x, rows), gamma, beta, epsilon);
  run.set(node, is_last ? y : reshape(y, x.shape()));
  if (node.outputs.size() < 2) return;
  std::vector<int> axes;
  for (int i = axis; i < x.rank(); ++i) axes.push_back(i);
  const Tensor center = mean(x, axes, true);
  const Tensor distance = x - center;
  run.set(node, center, 1);
  run.set(node, inverse_deviation(distance, axes, epsilon), 2);
}

// RMS norm (Zhang and Sennrich, 2019): layer norm without the mean.
void rms_normalization(Run& run, const NodeEntry& node) {
  const Tensor x = run.tensor(node, 0);
  std::vector<int> axes;
  for (int i = run.axis(node, run.attribute(node, "axis", int64_t{-1}), x.rank()); i < x.rank(); ++i)
    axes.push_back(i);
  const Tensor factor = inverse_deviation(x, axes, run.attribute(node, "epsilon", 1e-5));
  run.set(node, x * factor * run.tensor(node, 1));
}

// Group norm (Wu and He, 2018) of x [N,C,...], over each of `groups` groups of channels. gamma and beta are [C].
void normalize_groups(Run& run, const NodeEntry& node, int64_t groups, const Tensor& gamma,
                      const Tensor& beta) {
  const Shape shape = run.shape(node, 0);
  if (shape.rank() < 2 || groups < 1 || shape[1] % groups != 0)
    run.refuse(node, "expected channels of ", groups, " groups, got ", shape.to_string());
  const double epsilon = run.attribute(node, "epsilon", 1e-5);
  const auto normalized = [&](const Tensor& x, const Shape& rows, const std::vector<int>& axes) {
    const Tensor grouped = reshape(x, rows);
    const Tensor distance = grouped - mean(grouped, axes, true);
    return reshape(distance * inverse_deviation(distance, axes, epsilon), x.shape());
  };
  if (run.value(node, 0).is_image) {
    const Shape rows{shape[0], shape[2] * shape[3], groups, shape[1] / groups};
    return run.set_image(node, normalized(run.value(node, 0).tensor, rows, {1, 3}) * gamma + beta);
  }
  const int64_t rest = shape.elements() / (std::max<int64_t>(1, shape[0]) * groups);
  Shape channels{shape[1]};
  for (int axis = 2; axis < shape.rank(); ++axis) channels.push_back(1);
  const Tensor y = normalized(run.tensor(node, 0), {shape[0], groups, rest}, {2});
  run.set(node, y * reshape(gamma, channels) + reshape(beta, channels));
}

void instance_normalization(Run& run, const NodeEntry& node) {
  const Shape shape = run.shape(node, 0);
  normalize_groups(run, node, shape.rank() < 2 ? 0 : shape[1], run.tensor(node, 1), run.tensor(node, 2));
}

void group_normalization(Run& run, const NodeEntry& node) {
  const int64_t groups = run.attribute(node, "num_groups", int64_t{0});
  const Shape shape = run.shape(node, 0);
  // Before opset 21, scale and bias have one number per group.
  const auto per_channel = [&](size_t i) {
    Tensor given = run.tensor(node, i);
    if (run.opset() >= 21) return given;
    if (groups < 1 || shape.rank() < 2 || given.elements() != groups)
      run.refuse(node, "expected ", groups, " numbers as input ", i, ", got ", given.shape().to_string());
    return reshape(expand(reshape(given, {groups, 1}), {groups, shape[1] / groups}),
                   {shape[1] / groups * groups});
  };
  normalize_groups(run, node, groups, per_channel(1), per_channel(2));
}

// Krizhevsky et al., 2012: divides by a power of the sum of the squares of `size` neighbouring channels.
void local_response_normalization(Run& run, const NodeEntry& node) {
  const Frame frame = frame_of(run, node);
  const Tensor& x = frame.image;
  const int64_t size = run.attribute(node, "size", int64_t{0}), channels = x.size(3);
  if (size < 1 || size > kMostPieces)
    run.refuse(node, "expected a size of 1 to ", kMostPieces, ", got ", size);
  const Tensor squares = padded(x * x, 3, (size - 1) / 2, size / 2, 0);
  Tensor sums = slice(squares, 3, 0, channels);
  for (int64_t i = 1; i < size; ++i) sums = sums + slice(squares, 3, i, i + channels);
  const double share = run.attribute(node, "alpha", 1e-4) / static_cast<double>(size);
  const Tensor spread = scale(sums, share, run.attribute(node, "bias", 1.0));
  // The power as exp(log), because its base is positive.
  set_frame(run, node, frame, x * exp(scale(log(spread), -run.attribute(node, "beta", 0.75))));
}

constexpr std::array kNormOps = {
    ImportedOp{"BatchNormalization", batch_normalization},
    ImportedOp{"GroupNormalization", group_normalization},
    ImportedOp{"InstanceNormalization", instance_normalization},
    ImportedOp{"LRN", local_response_normalization},
    ImportedOp{"LayerNormalization", layer_normalization},
    ImportedOp{"RMSNormalization", rms_normalization},
};

}  // namespace

std::span<const ImportedOp> norm_ops() {
  return kNormOps;
}

}  // namespace dlpipe::engine::onnx
