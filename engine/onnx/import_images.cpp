// Imports convolutions and pools, whose dlpipe ops need images [N,H,W,C].
#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>

#include "engine/onnx/import_run.h"
#include "engine/ops/conv2d.h"

namespace dlpipe::engine::onnx {

namespace {

std::array<int, 2> two(const Run& run, const NodeEntry& node, const std::vector<int64_t>& values,
                       const char* what) {
  const auto is_small = [](int64_t value) {
    return value >= 0 && value <= std::numeric_limits<int16_t>::max();
  };
  if (values.size() != 2 || !is_small(values[0]) || !is_small(values[1]))
    run.refuse(node, "dlpipe supports images, with two ", what, " of at most 32767");
  return {static_cast<int>(values[0]), static_cast<int>(values[1])};
}

}  // namespace

Frame frame_of(Run& run, const NodeEntry& node) {
  if (run.shape(node, 0).rank() != 3) return {run.image(node, 0)};
  const Tensor line = run.tensor(node, 0);
  return {image_of(reshape(line, {line.size(0), line.size(1), 1, line.size(2)})), true};
}

void set_frame(Run& run, const NodeEntry& node, const Frame& frame, const Tensor& y) {
  if (!frame.is_line) return run.set_image(node, y);
  run.set(node, transpose(reshape(y, {y.size(0), y.size(2), y.size(3)}), {0, 2, 1}));
}

namespace {

// Two numbers from an attribute. For a line the attribute has one number; the one for the height is `down`.
std::array<int, 2> two_of(const Run& run, const NodeEntry& node, const Frame& frame, std::string_view name,
                          int64_t otherwise, int64_t down = 1) {
  std::vector<int64_t> values =
      run.attribute(node, name, std::vector<int64_t>(frame.is_line ? 1 : 2, otherwise));
  if (frame.is_line) values.insert(values.begin(), down);
  return two(run, node, values, std::string(name).c_str());
}

struct Window {
  std::array<int, 2> kernel, stride, dilation;
};

// The pads before and after the image, for the height and for the width.
std::array<std::array<int, 2>, 2> window_pads(const Run& run, const NodeEntry& node, const Frame& frame,
                                              const Window& window) {
  const std::string automatic = run.attribute(node, "auto_pad", "NOTSET");
  if (automatic == "VALID") return {};
  if (automatic == "NOTSET") {
    std::vector<int64_t> pads = run.attribute(node, "pads", std::vector<int64_t>(frame.is_line ? 2 : 4, 0));
    if (frame.is_line && pads.size() == 2) pads = {0, pads[0], 0, pads[1]};
    if (pads.size() != 4) run.refuse(node, "dlpipe supports images, with four pads");
    const std::array<int, 2> before = two(run, node, {pads[0], pads[1]}, "pads"),
                             behind = two(run, node, {pads[2], pads[3]}, "pads");
    return {{{before[0], behind[0]}, {before[1], behind[1]}}};
  }
  if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
    run.refuse(node, "its auto_pad is '", automatic, "'; expected NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  // The output's size is the input's divided by the stride, rounded up. An odd pad goes after (UPPER) or before (LOWER).
  std::array<std::array<int, 2>, 2> pads{};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = frame.image.size(static_cast<int>(i) + 1), stride = std::max(1, window.stride[i]);
    const int64_t reach = int64_t{window.kernel[i] - 1} * window.dilation[i] + 1;
    const int64_t all = std::max<int64_t>(0, ((size + stride - 1) / stride - 1) * stride + reach - size);
    const int64_t less = all / 2, more = all - less;
    const bool is_upper = automatic == "SAME_UPPER";
    pads[i] = two(run, node, {is_upper ? less : more, is_upper ? more : less}, "pads");
  }
  return pads;
}

Tensor padded_frame(const Tensor& image, const std::array<std::array<int, 2>, 2>& pads, double value) {
  return padded(padded(image, 1, pads[0][0], pads[0][1], value), 2, pads[1][0], pads[1][1], value);
}

bool are_even(const std::array<std::array<int, 2>, 2>& pads) {
  return pads[0][0] == pads[0][1] && pads[1][0] == pads[1][1];
}

// The weights of a convolution with four axes; a line's get a height of 1.
Tensor filters_of(Run& run, const NodeEntry& node, const Frame& frame) {
  Tensor weight = run.tensor(node, 1);
  if (frame.is_line && weight.rank() == 3)
    weight = reshape(weight, {weight.size(0), weight.size(1), 1, weight.size(2)});
  if (weight.rank() != 4) run.refuse(node, "expected weights [O,C,H,W], got ", weight.shape().to_string());
  return weight;
}

int groups_of(const Run& run, const NodeEntry& node) {
  const int64_t groups = run.attribute(node, "group", int64_t{1});
  if (groups < 1 || groups > std::numeric_limits<int>::max())
    run.refuse(node, "its group is ", groups, "; expected 1 or more");
  return static_cast<int>(groups);
}

// conv2d pads both sides equally. Unequal pads are added to the image before.
void conv(Run& run, const NodeEntry& node) {
  Frame frame = frame_of(run, node);
  const Tensor weight = filters_of(run, node, frame);
  Conv2dAttrs attrs;
  attrs.stride = two_of(run, node, frame, "strides", 1);
  attrs.dilation = two_of(run, node, frame, "dilations", 1);
  attrs.groups = groups_of(run, node);
  const std::array<int, 2> kernel = two(run, node, {weight.size(2), weight.size(3)}, "kernel sizes");
  const auto pads = window_pads(run, node, frame, {kernel, attrs.stride, attrs.dilation});
  if (are_even(pads)) {
    attrs.padding = {pads[0][0], pads[1][0]};
  } else {
    frame.image = padded_frame(frame.image, pads, 0);
  }
  set_frame(run, node, frame, conv2d(frame.image, weight, run.optional_tensor(node, 2), attrs));
}

// How much to cut from the beginning and the end of the result of a transposed convolution without pads, for the height and for the
// width. A negative number for the end means that zeros are added there.
std::array<std::array<int64_t, 2>, 2> cut_edges(const Run& run, const NodeEntry& node, const Frame& frame,
                                                const ConvTranspose2dAttrs& attrs, const Shape& weight) {
  const std::array<int, 2> more = two_of(run, node, frame, "output_padding", 0, 0);
  const std::string automatic = run.attribute(node, "auto_pad", "NOTSET");
  std::vector<int64_t> sizes = run.attribute(node, "output_shape", std::vector<int64_t>());
  if (frame.is_line && sizes.size() == 1) sizes.insert(sizes.begin(), 1);
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  if (sizes.empty() && !is_same) {
    const auto pads = window_pads(run, node, frame, {});  // NOTSET: the node's pads; VALID: none
    return {{{pads[0][0], pads[0][1] - more[0]}, {pads[1][0], pads[1][1] - more[1]}}};
  }
  if (!sizes.empty() && sizes.size() != 2)
    run.refuse(node, "dlpipe supports images, with two sizes in output_shape");
  std::array<std::array<int64_t, 2>, 2> edges{};
  for (size_t i = 0; i < 2; ++i) {
    const int axis = static_cast<int>(i);
    const int64_t in = frame.image.size(axis + 1), kernel = weight[axis + 2];
    const int64_t size = sizes.empty() ? in * attrs.stride[i] : sizes[i];
    const int64_t all = (in - 1) * attrs.stride[i] + more[i] + (kernel - 1) * attrs.dilation[i] + 1 - size;
    if (size < 1 || all <= -attrs.stride[i])
      run.refuse(node, "it can turn ", in, " pixels into at most ", all + size + attrs.stride[i] - 1,
                 ", not ", size);
    // An odd pixel is cut at the end for SAME_UPPER, else at the beginning. Missing pixels are added at the end.
    const int64_t before = all < 0 ? 0 : automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
    edges[i] = {before, all - before - more[i]};
  }
  return edges;
}

Tensor cut(const Run& run, const NodeEntry& node, const Tensor& image, int axis,
           const std::array<int64_t, 2>& edges) {
  const int64_t end = image.size(axis) - std::max<int64_t>(0, edges[1]);
  if (edges[0] >= end)
    run.refuse(node, "its pads, ", edges[0], " and ", edges[1], ", remove all ", image.size(axis), " pixels");
  const Tensor y = edges[0] == 0 && end == image.size(axis) ? image : slice(image, axis, edges[0], end);
  return edges[1] < 0 ? padded(y, axis, 0, -edges[1], 0) : y;
}

void conv_transpose(Run& run, const NodeEntry& node) {
  const Frame frame = frame_of(run, node);
  const Tensor weight = filters_of(run, node, frame);
  ConvTranspose2dAttrs attrs;
  attrs.stride = two_of(run, node, frame, "strides", 1);
  attrs.dilation = two_of(run, node, frame, "dilations", 1);
  attrs.groups = groups_of(run, node);
  two(run, node, {weight.size(2), weight.size(3)}, "kernel sizes");
  auto edges = cut_edges(run, node, frame, attrs, weight.shape());
  // The op itself can cut both sides equally (padding), and less at the end, by less than a stride (output_padding).
  for (size_t i = 0; i < 2; ++i) {
    const int64_t more = edges[i][0] - edges[i][1];
    if (more < 0 || more >= attrs.stride[i]) continue;
    attrs.padding[i] = static_cast<int>(edges[i][0]);
    attrs.output_padding[i] = static_cast<int>(more);
    edges[i] = {0, 0};
  }
  const Tensor whole = conv_transpose2d(frame.image, weight, {}, attrs);
  const Tensor image = cut(run, node, cut(run, node, whole, 1, edges[0]), 2, edges[1]);
  const Tensor bias = run.optional_tensor(node, 2);
  if (bias.defined() && bias.shape() != Shape{image.size(3)})
    run.refuse(node, "expected a bias [", image.size(3), "], got ", bias.shape().to_string());
  set_frame(run, node, frame, bias.defined() ? image + bias : image);
}

struct Pool {
  Frame frame;
  Pool2dAttrs attrs;
  std::array<std::array<int, 2>, 2> outside{};  // pads that are added to the image before the op
  bool is_padded_before = false;
};

Pool pool_of(Run& run, const NodeEntry& node) {
  Pool pool{frame_of(run, node), {}};
  Pool2dAttrs& attrs = pool.attrs;
  attrs.kernel = two_of(run, node, pool.frame, "kernel_shape", 0);
  attrs.stride = two_of(run, node, pool.frame, "strides", 1);
  attrs.ceil_mode = run.attribute(node, "ceil_mode", int64_t{0}) != 0;
  if (two_of(run, node, pool.frame, "dilations", 1) != std::array{1, 1})
    run.refuse(node, "dlpipe's pools have no dilation");
  const auto pads = window_pads(run, node, pool.frame, {attrs.kernel, attrs.stride, {1, 1}});
  pool.is_padded_before =
      !are_even(pads) || pads[0][0] > attrs.kernel[0] / 2 || pads[1][0] > attrs.kernel[1] / 2;
  if (!pool.is_padded_before) {
    attrs.padding = {pads[0][0], pads[1][0]};
    return pool;
  }
  if (attrs.ceil_mode) run.refuse(node, "dlpipe doesn't support ceil_mode with such pads");
  pool.outside = pads;
  return pool;
}

void max_pool(Run& run, const NodeEntry& node) {
  if (node.outputs.size() > 1) run.refuse(node, "dlpipe doesn't return the indices of the largest values");
  const Pool pool = pool_of(run, node);
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  const Tensor x =
      pool.is_padded_before ? padded_frame(pool.frame.image, pool.outside, kLowest) : pool.frame.image;
  set_frame(run, node, pool.frame, max_pool2d(x, pool.attrs));
}

void average_pool(Run& run, const NodeEntry& node) {
  Pool pool = pool_of(run, node);
  const Tensor& image = pool.frame.image;
  pool.attrs.count_include_pad = run.attribute(node, "count_include_pad", int64_t{0}) != 0;
  if (!pool.is_padded_before) return set_frame(run, node, pool.frame, avg_pool2d(image, pool.attrs));
  Tensor y = avg_pool2d(padded_frame(image, pool.outside, 0), pool.attrs);
  if (!pool.attrs.count_include_pad) {  // divides by the fraction of each window that isn't padding
    const Tensor ones = Tensor::full({1, image.size(1), image.size(2), 1}, 1.0);
    y = y / avg_pool2d(padded_frame(ones, pool.outside, 0), pool.attrs);
  }
  set_frame(run, node, pool.frame, y);
}

void global_average_pool(Run& run, const NodeEntry& node) {
  const Frame frame = frame_of(run, node);
  const Tensor& x = frame.image;
  set_frame(run, node, frame, reshape(global_avg_pool(x), {x.size(0), 1, 1, x.size(3)}));
}

void global_max_pool(Run& run, const NodeEntry& node) {
  const Frame frame = frame_of(run, node);
  set_frame(run, node, frame, max(max(frame.image, 1, true), 2, true));
}

constexpr std::array kImageOps = {
    ImportedOp{"AveragePool", average_pool},      ImportedOp{"Conv", conv},
    ImportedOp{"ConvTranspose", conv_transpose},  ImportedOp{"GlobalAveragePool", global_average_pool},
    ImportedOp{"GlobalMaxPool", global_max_pool}, ImportedOp{"MaxPool", max_pool},
};

}  // namespace

std::span<const ImportedOp> image_ops() {
  return kImageOps;
}

}  // namespace dlpipe::engine::onnx
