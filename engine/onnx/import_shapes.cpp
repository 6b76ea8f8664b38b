// Imports ops that move elements or leave them unchanged, also for known integers.
#include <algorithm>
#include <array>
#include <numeric>

#include "engine/onnx/import_run.h"
#include "engine/onnx/known_elements.h"

namespace dlpipe::engine::onnx {

namespace {

// The index of the model's axis in dlpipe's tensor.
int own_axis(const Run& run, const NodeEntry& node, int axis) {
  return run.value(node, 0).is_image ? kImageAxis[static_cast<size_t>(axis)] : axis;
}

void identity(Run& run, const NodeEntry& node) {
  run.set_value(node, run.value(node, 0));
}

void dropout_op(Run& run, const NodeEntry& node) {
  if (node.outputs.size() > 1 && !node.outputs[1].empty()) run.refuse(node, "dlpipe returns no mask");
  const bool is_live = run.has(node, 2) && run.number(node, 2) != 0;
  if (!is_live) return identity(run, node);
  if (!run.options().training) run.refuse(node, "it is in training mode; export the model in eval mode");
  const double ratio = run.has(node, 1) ? run.number(node, 1) : 0.5;
  run.set_random(node, live_dropout(run.value(node, 0).tensor, ratio));
}

// Sizes as defined by Reshape: 0 is the input's size, -1 the remaining one. They have as many elements as the input.
std::vector<int64_t> resolved(const Run& run, const NodeEntry& node, std::vector<int64_t> sizes,
                              const Shape& from) {
  const bool zero_is_zero = run.attribute(node, "allowzero", int64_t{0}) != 0;
  int64_t known = 1;
  int64_t open = -1;
  constexpr int64_t kMost = int64_t{1} << 40;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && !zero_is_zero) {
      if (i >= static_cast<size_t>(from.rank()))
        run.refuse(node, "a size of 0 refers to an axis that doesn't exist");
      sizes[i] = from[static_cast<int>(i)];
    }
    if (sizes[i] == -1 && open < 0) {
      open = static_cast<int64_t>(i);
    } else if (sizes[i] < 0 || (sizes[i] > 0 && known > kMost / sizes[i])) {
      run.refuse(node, "impossible sizes");
    } else {
      known *= sizes[i];
    }
  }
  if (open >= 0) {
    if (known == 0 || from.elements() % known != 0)
      run.refuse(node, "its sizes don't divide the elements of ", from.to_string());
    sizes[static_cast<size_t>(open)] = from.elements() / known;
  } else if (known != from.elements()) {
    run.refuse(node, "its sizes have ", known, " elements, but its input is ", from.to_string());
  }
  return sizes;
}

void reshape_op(Run& run, const NodeEntry& node) {
  const Shape from = run.shape(node, 0);
  const std::vector<int64_t> sizes = resolved(run, node, run.ints_or_attribute(node, 1, "shape", {}), from);
  if (run.is_known(node, 0)) {
    KnownInts ints = run.ints(node, 0);
    ints.dims = sizes;
    return run.set_ints(node, std::move(ints));
  }
  if (sizes.size() > static_cast<size_t>(Shape::kMaxRank))
    run.refuse(node, "more than ", Shape::kMaxRank, " axes");
  const Shape to{std::span<const int64_t>(sizes)};
  if (to == from) return identity(run, node);
  const bool is_flat = run.value(node, 0).is_image && to.rank() == 2 && to[0] == from[0];
  run.set(node, is_flat ? flatten(run.value(node, 0).tensor) : reshape(run.tensor(node, 0), to));
}

void flatten_op(Run& run, const NodeEntry& node) {
  const Shape from = run.shape(node, 0);
  const int64_t given = run.attribute(node, "axis", int64_t{1});
  const int axis = given == from.rank() ? from.rank() : run.axis(node, given, from.rank());
  if (axis == 1 && from.rank() > 0) {
    const RunValue& value = run.value(node, 0);
    if (value.is_image) return run.set(node, flatten(value.tensor));
  }
  int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= from[i];
  int64_t columns = 1;
  for (int i = axis; i < from.rank(); ++i) columns *= from[i];
  run.set(node, reshape(run.tensor(node, 0), {rows, columns}));
}

void transpose_op(Run& run, const NodeEntry& node) {
  const int rank = run.shape(node, 0).rank();
  std::vector<int64_t> reversed(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) reversed[static_cast<size_t>(i)] = rank - 1 - i;
  const std::vector<int64_t> order = run.attribute(node, "perm", reversed);
  const std::vector<int> axes = run.axes(node, order, rank);
  std::vector<int> sorted = axes, all(static_cast<size_t>(rank));
  std::sort(sorted.begin(), sorted.end());
  std::iota(all.begin(), all.end(), 0);
  if (sorted != all) run.refuse(node, "its perm isn't each of the ", rank, " axes once");
  if (run.is_known(node, 0)) return run.set_ints(node, known_transposed(run.ints(node, 0), axes));
  // The model's [N,H,W,C] from its [N,C,H,W] and back: no copy is needed.
  const RunValue& value = run.value(node, 0);
  if (value.is_image && axes == std::vector<int>{0, 2, 3, 1}) return run.set(node, value.tensor);
  if (!value.is_image && axes == std::vector<int>{0, 3, 1, 2}) return run.set_image(node, value.tensor);
  run.set(node, transpose(run.tensor(node, 0), axes));
}

void concat_op(Run& run, const NodeEntry& node) {
  bool all_known = true, any_image = false;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    all_known = all_known && run.is_known(node, i);
    any_image = any_image || run.value(node, i).is_image;
  }
  const int axis =
      run.axis(node, run.attribute(node, "axis", int64_t{1}), std::max(1, run.shape(node, 0).rank()));
  if (all_known) {
    KnownInts joined = run.ints(node, 0);
    for (size_t i = 1; i < node.inputs.size(); ++i)
      joined = known_joined(run, node, joined, run.ints(node, i), axis);
    return run.set_ints(node, std::move(joined));
  }
  std::vector<Tensor> parts;
  for (size_t i = 0; i < node.inputs.size(); ++i)
    parts.push_back(any_image ? run.image(node, i) : run.tensor(node, i));
  if (any_image) return run.set_image(node, concat_all(parts, kImageAxis[static_cast<size_t>(axis)]));
  run.set(node, concat_all(parts, axis));
}

void split_op(Run& run, const NodeEntry& node) {
  const Shape from = run.shape(node, 0);
  const int axis = run.axis(node, run.attribute(node, "axis", int64_t{0}), from.rank());
  std::vector<int64_t> sizes = run.ints_or_attribute(node, 1, "split", {});
  const auto count = static_cast<int64_t>(node.outputs.size());
  if (count == 0) run.refuse(node, "it has no outputs");
  if (sizes.empty()) {
    const int64_t each = (from[axis] + count - 1) / count;
    for (int64_t i = 0; i < count; ++i) sizes.push_back(std::min(each, from[axis] - i * each));
  }
  if (static_cast<int64_t>(sizes.size()) != count)
    run.refuse(node, "its split sizes don't match its outputs");
  const RunValue value = run.value(node, 0);
  if (value.ints) {
    if (run.has(node, 1)) refuse_growing(run, node, run.ints(node, 1), "where it splits a list");
    refuse_growing(run, node, known_one(run.sizes(node, 0), static_cast<size_t>(axis)),
                   "the length of the list that it splits");
  }
  const int own = own_axis(run, node, axis);
  int64_t begin = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > from[axis] - begin)
      run.refuse(node, "its parts are larger than its input");
    if (value.ints) {
      std::vector<int64_t> places(static_cast<size_t>(sizes[i]));
      std::iota(places.begin(), places.end(), begin);
      run.set_ints(node, known_at(*value.ints, axis, places), i);
    } else {
      run.set_value(node, {slice(value.tensor, own, begin, begin + sizes[i]), value.is_image}, i);
    }
    begin += sizes[i];
  }
  if (begin != from[axis])
    run.refuse(node, "its parts cover ", begin, " of ", from[axis], " elements of axis ", axis,
               "; export the model again");
}

// Looks up `places` of an axis, which is replaced by the axes `dims`. Treats x as a table with a row for each place of the axis.
Tensor looked_up(const Run& run, const NodeEntry& node, const Tensor& x, int axis,
                 const std::vector<int64_t>& dims, const std::vector<int64_t>& places) {
  if (!is_floating(x.dtype())) run.refuse(node, "dlpipe looks up floats only");
  if (dims.size() + static_cast<size_t>(x.rank()) - 1 > static_cast<size_t>(Shape::kMaxRank))
    run.refuse(node, "it makes more than ", Shape::kMaxRank, " axes");
  std::vector<int> to_front = {axis}, back;
  Shape looked{std::span<const int64_t>(dims)};
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis) continue;
    to_front.push_back(i);
    looked.push_back(x.size(i));
  }
  const int more = static_cast<int>(dims.size());
  for (int i = 0; i < axis; ++i) back.push_back(more + i);
  for (int i = 0; i < more; ++i) back.push_back(i);
  for (int i = axis + 1; i < x.rank(); ++i) back.push_back(more + i - 1);
  const Tensor rows = axis == 0 ? x : transpose(x, to_front);
  const int64_t width = x.size(axis) == 0 ? 0 : x.elements() / x.size(axis);
  const Tensor ids = Tensor::from<int64_t>(places, {static_cast<int64_t>(places.size())});
  const Tensor y = reshape(embedding(reshape(rows, {x.size(axis), width}), ids), looked);
  return axis == 0 ? y : transpose(y, back);
}

// `count` places of an axis from `begin` on; backwards if `step` is negative.
struct Range {
  int axis;
  int64_t begin, count, step;
};

Range range_of(int axis, int64_t size, int64_t start, int64_t end, int64_t step) {
  const int64_t longest = std::max<int64_t>(size, 1);
  step = std::clamp(step, -longest, longest);
  const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? size - 1 : size;
  const auto place = [&](int64_t at, int64_t lowest) {
    return std::clamp(at < 0 ? std::max(at, -1 - size) + size : at, lowest, std::max(lowest, most));
  };
  const int64_t begin = place(start, 0), behind = place(end, least);
  const int64_t way = step < 0 ? begin - behind : behind - begin, stride = std::abs(step);
  return {axis, begin, way <= 0 || size == 0 ? 0 : (way + stride - 1) / stride, step};
}

// Bounds are clamped to the axis, so if a bound or the axis grows with the batch, the range may grow differently.
std::vector<Range> ranges_of(const Run& run, const NodeEntry& node) {
  const KnownInts sizes = run.sizes(node, 0);
  const auto given = [&](size_t i, const char* name, std::vector<int64_t> otherwise) {
    return run.has(node, i) ? run.ints(node, i)
                            : KnownInts{{}, run.attribute(node, name, std::move(otherwise))};
  };
  const KnownInts starts = given(1, "starts", {}), ends = given(2, "ends", {});
  const size_t count = starts.values.size();
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  const KnownInts axes = given(3, "axes", all), steps = given(4, "steps", std::vector<int64_t>(count, 1));
  if (ends.values.size() != count || axes.values.size() != count || steps.values.size() != count)
    run.refuse(node, "its starts, ends, axes and steps differ in number");
  std::vector<Range> ranges;
  for (size_t i = 0; i < count; ++i) {
    const int axis = run.axis(node, axes.values[i], static_cast<int>(sizes.values.size()));
    if (steps.values[i] == 0) run.refuse(node, "its step is 0");
    const auto part = [&](int64_t Range::*which) {
      const auto of = [&](int64_t size, int64_t start, int64_t end, int64_t step) {
        return step == 0 ? -1 : range_of(axis, size, start, end, step).*which;
      };
      return known_elements(run, node, of, known_one(sizes, static_cast<size_t>(axis)), known_one(starts, i),
                            known_one(ends, i), known_one(steps, i));
    };
    const KnownInts begin = part(&Range::begin), length = part(&Range::count);
    if (run.is_known(node, 0)) refuse_growing(run, node, begin, "the start of its slice of a list");
    ranges.push_back({axis, begin.values[0], length.values[0], part(&Range::step).values[0]});
  }
  return ranges;
}

void slice_op(Run& run, const NodeEntry& node) {
  const std::vector<Range> ranges = ranges_of(run, node);
  const auto places_of = [](const Range& range) {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < range.count; ++i) places.push_back(range.begin + i * range.step);
    return places;
  };
  if (run.is_known(node, 0)) {
    KnownInts ints = run.ints(node, 0);
    for (const Range& range : ranges) ints = known_at(ints, range.axis, places_of(range));
    return run.set_ints(node, std::move(ints));
  }
  Tensor y = run.value(node, 0).tensor;
  for (const Range& range : ranges) {
    const int axis = own_axis(run, node, range.axis);
    if (range.begin == 0 && range.count == y.size(axis) && range.step == 1) continue;
    if (range.step < 0) {
      y = looked_up(run, node, y, axis, {range.count}, places_of(range));
    } else {
      const int64_t end = range.count == 0 ? range.begin : range.begin + (range.count - 1) * range.step + 1;
      y = slice(y, axis, range.begin, end, range.step);
    }
  }
  run.set_like_input(node, y);
}

Shape with_axes(const Run& run, const NodeEntry& node, const Shape& from, const std::vector<int64_t>& axes) {
  const int rank = from.rank() + static_cast<int>(axes.size());
  if (rank > Shape::kMaxRank) run.refuse(node, "more than ", Shape::kMaxRank, " axes");
  std::vector<bool> is_new(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes) is_new[static_cast<size_t>(run.axis(node, axis, rank))] = true;
  Shape to;
  int next = 0;
  for (int i = 0; i < rank; ++i) {
    if (!is_new[static_cast<size_t>(i)] && next == from.rank()) run.refuse(node, "an axis is given twice");
    to.push_back(is_new[static_cast<size_t>(i)] ? 1 : from[next++]);
  }
  return to;
}

Shape without_axes(const Run& run, const NodeEntry& node, const Shape& from,
                   const std::vector<int64_t>& axes) {
  std::vector<bool> goes(static_cast<size_t>(from.rank()), false);
  for (const int64_t axis : axes) goes[static_cast<size_t>(run.axis(node, axis, from.rank()))] = true;
  Shape to;
  for (int i = 0; i < from.rank(); ++i) {
    const bool leaves = axes.empty() ? from[i] == 1 : goes[static_cast<size_t>(i)];
    if (leaves && from[i] != 1)
      run.refuse(node, "axis ", i, " of ", from.to_string(), " can't be squeezed: its size isn't 1");
    if (!leaves) to.push_back(from[i]);
  }
  return to;
}

template <Shape (*kShape)(const Run&, const NodeEntry&, const Shape&, const std::vector<int64_t>&)>
void change_axes(Run& run, const NodeEntry& node) {
  const Shape to = kShape(run, node, run.shape(node, 0), run.ints_or_attribute(node, 1, "axes", {}));
  if (run.is_known(node, 0)) {
    KnownInts ints = run.ints(node, 0);
    ints.dims.assign(to.begin(), to.end());
    return run.set_ints(node, std::move(ints));
  }
  const RunValue& value = run.value(node, 0);
  const bool is_flat =
      value.is_image && to.rank() == 2 && to[0] == value.tensor.size(0) && to[1] == value.tensor.size(3);
  run.set(node, is_flat ? flatten(value.tensor) : reshape(run.tensor(node, 0), to));
}

bool is_counting(const std::vector<int64_t>& places) {
  for (size_t i = 0; i < places.size(); ++i) {
    if (places[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

void gather(Run& run, const NodeEntry& node) {
  const Shape from = run.shape(node, 0);
  const int axis = run.axis(node, run.attribute(node, "axis", int64_t{0}), from.rank());
  if (!run.is_known(node, 1)) {
    if (axis != 0 || from.rank() != 2 || run.is_known(node, 0))
      run.refuse(node, "with indices that depend on the input, dlpipe only gathers rows of a table");
    return run.set(node, embedding(run.tensor(node, 0), run.tensor(node, 1)));
  }
  const KnownInts& which = run.ints(node, 1);
  refuse_growing(run, node, which, "an index");
  // Known ids that an op broadcasts to the batch, such as token types, are read from that op, whose result grows with the batch.
  const bool from_front =
      std::all_of(which.values.begin(), which.values.end(), [](int64_t id) { return id >= 0; });
  if (run.value(node, 1).source.defined() && axis == 0 && from.rank() == 2 && !run.is_known(node, 0) &&
      from_front)
    return run.set(node, embedding(run.tensor(node, 0), run.tensor(node, 1)));
  std::vector<int64_t> places;
  for (const int64_t one : which.values) {
    if (one < -from[axis] || one >= from[axis])
      run.refuse(node, "index ", one, " is outside axis ", axis, " of ", from.to_string(),
                 "; export the model again");
    places.push_back(one < 0 ? one + from[axis] : one);
  }
  if (run.is_known(node, 0)) {
    if (from.rank() != 1) run.refuse(node, "dlpipe only gathers from lists of known integers");
    KnownInts chosen{which.dims, {}};
    for (const int64_t place : places)
      chosen.values.push_back(run.ints(node, 0).values[static_cast<size_t>(place)]);
    return run.set_ints(node, std::move(chosen));
  }
  if (is_counting(places) && from.rank() == 1 && static_cast<int64_t>(places.size()) == from[0] &&
      which.dims.size() <=
          static_cast<size_t>(Shape::kMaxRank))  // all of it, in order: PyTorch exports a reshape like this
    return run.set(node, reshape(run.tensor(node, 0), Shape(std::span<const int64_t>(which.dims))));
  const Tensor x = run.tensor(node, 0);
  constexpr size_t kMostSlices = 16;  // more use a look-up in a table
  if (places.empty() || places.size() > kMostSlices || which.dims.size() > 1)
    return run.set(node, looked_up(run, node, x, axis, which.dims, places));
  std::vector<Tensor> pieces;
  pieces.reserve(places.size());
  for (const int64_t place : places) pieces.push_back(slice(x, axis, place, place + 1));
  const Tensor joined = concat_all(pieces, axis);
  run.set(node,
          which.dims.empty() ? reshape(joined, without_axes(run, node, joined.shape(), {axis})) : joined);
}

constexpr std::array kShapeOps = {
    ImportedOp{"Concat", concat_op},
    ImportedOp{"Dropout", dropout_op},
    ImportedOp{"Flatten", flatten_op},
    ImportedOp{"Gather", gather},
    ImportedOp{"Identity", identity},
    ImportedOp{"Reshape", reshape_op},
    ImportedOp{"Slice", slice_op},
    ImportedOp{"Split", split_op},
    ImportedOp{"Squeeze", change_axes<without_axes>},
    ImportedOp{"Transpose", transpose_op},
    ImportedOp{"Unsqueeze", change_axes<with_axes>},
};

}  // namespace

std::span<const ImportedOp> shape_ops() {
  return kShapeOps;
}

}  // namespace dlpipe::engine::onnx
