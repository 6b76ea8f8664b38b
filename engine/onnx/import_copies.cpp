// Imports ops that pad or repeat a tensor, replace some of its rows, or exchange channels for pixels.
#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/op.h"
#include "engine/onnx/import_run.h"
#include "engine/onnx/known_elements.h"

namespace dlpipe::engine::onnx {

namespace {

Shape with_size(const Tensor& x, int axis, int64_t size) {
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) shape.push_back(i == axis ? size : x.size(i));
  return shape;
}

// Pads one axis, in the modes other than constant. `before` and `behind` are at least 0.
Tensor padded_by(const Run& run, const NodeEntry& node, const std::string& mode, const Tensor& x, int axis,
                 int64_t before, int64_t behind) {
  const int64_t size = x.size(axis);
  const auto row = [&](int64_t at) { return slice(x, axis, at, at + 1); };
  std::vector<Tensor> pieces;
  if (size == 0) run.refuse(node, "nothing to repeat along axis ", axis);
  if (mode == "edge") {
    if (before > 0) pieces.push_back(expand(row(0), with_size(x, axis, before)));
    pieces.push_back(x);
    if (behind > 0) pieces.push_back(expand(row(size - 1), with_size(x, axis, behind)));
  } else if (mode == "reflect") {
    if (before >= size || behind >= size || before + behind > kMostPieces)
      run.refuse(node, "dlpipe's reflect pads each side by less than the axis's size, at most ", kMostPieces,
                 " in all");
    for (int64_t i = before; i > 0; --i) pieces.push_back(row(i));
    pieces.push_back(x);
    for (int64_t i = 1; i <= behind; ++i) pieces.push_back(row(size - 1 - i));
  } else if (mode == "wrap") {
    if (before > size || behind > size) run.refuse(node, "dlpipe wraps around an axis only once");
    if (before > 0) pieces.push_back(slice(x, axis, size - before, size));
    pieces.push_back(x);
    if (behind > 0) pieces.push_back(slice(x, axis, 0, behind));
  } else {
    run.refuse(node, "its mode is '", mode, "'; dlpipe supports constant, edge, reflect and wrap");
  }
  return concat_all(pieces, axis);
}

void pad_op(Run& run, const NodeEntry& node) {
  const std::vector<int64_t> pads = run.ints_or_attribute(node, 1, "pads", {});
  if (std::all_of(pads.begin(), pads.end(), [](int64_t one) { return one == 0; }))
    return run.set_value(node, run.value(node, 0));
  const RunValue value = run.value(node, 0);
  if (value.ints) run.refuse(node, "dlpipe pads floats only");
  const int rank = run.shape(node, 0).rank();
  std::vector<int64_t> all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> axes = run.axes(node, run.has(node, 3) ? run.ints(node, 3).values : all, rank);
  if (pads.size() != 2 * axes.size())
    run.refuse(node, "it has ", pads.size(), " pads for ", axes.size(), " axes");
  const std::string mode = run.attribute(node, "mode", "constant");
  const double number = run.has(node, 2) ? run.number(node, 2) : run.attribute(node, "value", 0.0);
  Tensor y = value.tensor;
  constexpr int64_t kMost = 1 << 24;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = value.is_image ? kImageAxis[static_cast<size_t>(axes[i])] : axes[i];
    const int64_t before = pads[i], behind = pads[i + axes.size()], size = y.size(axis);
    if (std::max(before, behind) > kMost || std::min(before, behind) < -size ||
        std::min<int64_t>(before, 0) + std::min<int64_t>(behind, 0) < -size)
      run.refuse(node, "impossible pads of axis ", axes[i]);
    if (before < 0 || behind < 0)  // negative pads remove elements
      y = slice(y, axis, std::max<int64_t>(0, -before), size - std::max<int64_t>(0, -behind));
    const int64_t more = std::max<int64_t>(before, 0), last = std::max<int64_t>(behind, 0);
    if (more + last == 0) continue;
    y = mode == "constant" ? padded(y, axis, more, last, number)
                           : padded_by(run, node, mode, y, axis, more, last);
  }
  run.set_like_input(node, y);
}

// `count` copies of known integers, concatenated along an axis.
KnownInts known_repeated(const Run& run, const NodeEntry& node, const KnownInts& ints, int axis,
                         int64_t count) {
  const int64_t size = ints.dims[static_cast<size_t>(axis)];
  constexpr int64_t kMost = 1 << 24;
  if (std::max(size, static_cast<int64_t>(ints.values.size())) > kMost / count)
    run.refuse(node, "it makes more than 2^24 integers");
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count * size; ++i) places.push_back(i % size);
  return known_at(ints, axis, places);
}

void tile(Run& run, const NodeEntry& node) {
  const std::vector<int64_t> repeats = run.ints(node, 1).values;
  const RunValue value = run.value(node, 0);
  if (repeats.size() != static_cast<size_t>(run.shape(node, 0).rank()))
    run.refuse(node, "expected a number per axis, got ", repeats.size());
  Tensor y = value.tensor;
  KnownInts ints = value.ints.value_or(KnownInts{});
  for (size_t i = 0; i < repeats.size(); ++i) {
    if (repeats[i] < 1 || repeats[i] > kMostPieces)
      run.refuse(node, "dlpipe repeats an axis 1 to ", kMostPieces, " times, got ", repeats[i]);
    const int axis = value.is_image ? kImageAxis[i] : static_cast<int>(i);
    if (value.ints) {
      ints = known_repeated(run, node, ints, axis, repeats[i]);
    } else {
      y = concat_all(std::vector<Tensor>(static_cast<size_t>(repeats[i]), y), axis);
    }
  }
  if (value.ints) return run.set_ints(node, std::move(ints));
  run.set_like_input(node, y);
}

void expand_op(Run& run, const NodeEntry& node) {
  const KnownInts& sizes = run.ints(node, 1);
  const Shape from = run.shape(node, 0);
  const size_t rank = std::max(sizes.values.size(), static_cast<size_t>(from.rank()));
  if (rank > static_cast<size_t>(Shape::kMaxRank)) run.refuse(node, "more than ", Shape::kMaxRank, " axes");
  Shape to;
  int64_t elements = 1;
  constexpr int64_t kMostElements = int64_t{1} << 40;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t own = i + static_cast<size_t>(from.rank()) < rank
                            ? 1
                            : from[static_cast<int>(i + static_cast<size_t>(from.rank()) - rank)];
    const int64_t wanted = i + sizes.values.size() < rank ? 1 : sizes.values[i + sizes.values.size() - rank];
    const int64_t size = own == 1 ? wanted : own;
    if (wanted < 1 || (size > 0 && elements > kMostElements / size)) run.refuse(node, "impossible sizes");
    if (wanted != own && wanted != 1 && own != 1)
      run.refuse(node, "its sizes don't broadcast with ", from.to_string(), "; export the model again");
    elements *= size;
    to.push_back(size);
  }
  if (to == from) return run.set_value(node, run.value(node, 0));
  if (run.is_known(node, 0)) {
    const KnownInts& ints = run.ints(node, 0);
    constexpr int64_t kMost = 1 << 24;
    if (to.elements() > kMost) run.refuse(node, "it makes more than 2^24 integers");
    KnownInts wide{{to.begin(), to.end()}, {}};
    for (int64_t i = 0; i < to.elements(); ++i)
      wide.values.push_back(ints.values[broadcast_place(i, to, ints.dims)]);
    return run.set_ints(node, std::move(wide), 0, run.tensor(node, 0));
  }
  run.set(node, expand(run.tensor(node, 0), to));
}

int64_t block_size(const Run& run, const NodeEntry& node) {
  const int64_t block = run.attribute(node, "blocksize", int64_t{0});
  constexpr int64_t kMost = 1 << 10;
  if (block < 1 || block > kMost) run.refuse(node, "its blocksize is ", block, "; expected 1 to ", kMost);
  return block;
}

// The order of a block's channels: (channel, row, column) in mode CRD, else (row, column, channel).
bool is_channel_first(const Run& run, const NodeEntry& node) {
  const std::string mode = run.attribute(node, "mode", "DCR");
  if (mode != "DCR" && mode != "CRD") run.refuse(node, "its mode is '", mode, "'; expected DCR or CRD");
  return mode == "CRD";
}

void depth_to_space(Run& run, const NodeEntry& node) {
  const int64_t block = block_size(run, node);
  const Tensor x = run.image(node, 0);
  const int64_t n = x.size(0), h = x.size(1), w = x.size(2), channels = x.size(3) / (block * block);
  if (channels * block * block != x.size(3))
    run.refuse(node, "expected channels that ", block, " x ", block, " divides, got ", x.size(3));
  const Tensor blocks = is_channel_first(run, node)
                            ? transpose(reshape(x, {n, h, w, channels, block, block}), {0, 1, 4, 2, 5, 3})
                            : transpose(reshape(x, {n, h, w, block, block, channels}), {0, 1, 3, 2, 4, 5});
  run.set_image(node, reshape(blocks, {n, h * block, w * block, channels}));
}

void space_to_depth(Run& run, const NodeEntry& node) {
  const int64_t block = block_size(run, node);
  const Tensor x = run.image(node, 0);
  const int64_t n = x.size(0), h = x.size(1) / block, w = x.size(2) / block, channels = x.size(3);
  if (h * block != x.size(1) || w * block != x.size(2))
    run.refuse(node, "expected a height and width that ", block, " divides, got ", x.size(1), "x", x.size(2));
  const Tensor blocks =
      transpose(reshape(x, {n, h, block, w, block, channels}),
                is_channel_first(run, node) ? std::vector{0, 1, 3, 5, 2, 4} : std::vector{0, 1, 3, 2, 4, 5});
  run.set_image(node, reshape(blocks, {n, h, w, block * block * channels}));
}

// The row of [data; updates] that becomes each row of the result. `data` has `rows` rows; `updates` replace those at `indices`.
// An index has `depth` numbers, for the first axes of `shape`.
std::vector<int64_t> scattered_rows(const Run& run, const NodeEntry& node, const Shape& shape,
                                    const KnownInts& indices, int64_t depth, int64_t rows) {
  std::vector<int64_t> from(static_cast<size_t>(rows));
  std::iota(from.begin(), from.end(), 0);
  for (size_t i = 0; i < indices.values.size(); i += static_cast<size_t>(depth)) {
    int64_t row = 0;
    for (int64_t axis = 0; axis < depth; ++axis) {
      const int64_t size = shape[static_cast<int>(axis)],
                    given = indices.values[i + static_cast<size_t>(axis)];
      if (given < -size || given >= size)
        run.refuse(node, "index ", given, " is outside axis ", axis, " of ", shape.to_string(),
                   "; export the model again");
      row = row * size + (given < 0 ? given + size : given);
    }
    from[static_cast<size_t>(row)] = rows + static_cast<int64_t>(i) / depth;
  }
  return from;
}

// PyTorch's x[..., a:b] = y, with known indices.
void scatter_nd(Run& run, const NodeEntry& node) {
  if (run.attribute(node, "reduction", "none") != std::string("none"))
    run.refuse(node, "its reduction is '", run.attribute(node, "reduction", "none"),
               "'; dlpipe supports none");
  const KnownInts& indices = run.ints(node, 1);
  const Tensor data = run.tensor(node, 0), updates = run.tensor(node, 2);
  const Shape& shape = data.shape();
  const int64_t depth = indices.dims.empty() ? 0 : indices.dims.back();
  if (depth < 1 || depth > shape.rank()) run.refuse(node, "its indices don't fit ", shape.to_string());
  int64_t rows = 1;
  for (int axis = 0; axis < depth; ++axis) rows *= shape[axis];
  constexpr int64_t kMost = 1 << 24;
  const int64_t count = static_cast<int64_t>(indices.values.size()) / depth;
  if (rows < 1 || rows > kMost) run.refuse(node, "expected 1 to 2^24 rows, got ", rows);
  const int64_t width = shape.elements() / rows;
  if (updates.elements() != count * width)
    run.refuse(node, "expected ", count, " x ", width, " new values, got ", updates.shape().to_string());
  const std::vector<int64_t> from = scattered_rows(run, node, shape, indices, depth, rows);
  if (!is_floating(data.dtype()) || !is_floating(updates.dtype()))
    run.refuse(node, "dlpipe replaces floats only");
  const Tensor both = engine::concat({reshape(data, {rows, width}), reshape(updates, {count, width})}, 0);
  run.set(node, reshape(embedding(both, Tensor::from<int64_t>(from, {rows})), shape));
}

constexpr std::array kCopyOps = {
    ImportedOp{"DepthToSpace", depth_to_space},
    ImportedOp{"Expand", expand_op},
    ImportedOp{"Pad", pad_op},
    ImportedOp{"ScatterND", scatter_nd},
    ImportedOp{"SpaceToDepth", space_to_depth},
    ImportedOp{"Tile", tile},
};

}  // namespace

Tensor concat_all(std::vector<Tensor> parts, int axis) {
  constexpr size_t kMost = OpRecord::kMostInputs;
  while (parts.size() > 1) {
    std::vector<Tensor> joined;
    for (size_t begin = 0; begin < parts.size(); begin += kMost) {
      const auto group = std::span(parts).subspan(begin, std::min(kMost, parts.size() - begin));
      joined.push_back(group.size() == 1 ? group[0]
                                         : engine::concat(std::vector(group.begin(), group.end()), axis));
    }
    parts = std::move(joined);
  }
  return parts.at(0);
}

Tensor padded(const Tensor& x, int axis, int64_t before, int64_t behind, double value) {
  if (before == 0 && behind == 0) return x;
  const auto block = [&](int64_t size) { return expand(Tensor::full({}, value), with_size(x, axis, size)); };
  std::vector<Tensor> pieces;
  if (before > 0) pieces.push_back(block(before));
  pieces.push_back(x);
  if (behind > 0) pieces.push_back(block(behind));
  return engine::concat(pieces, axis);
}

std::span<const ImportedOp> copy_ops() {
  return kCopyOps;
}

}  // namespace dlpipe::engine::onnx
