// Imports the sources of known values (constants, sizes, ranges) and casts.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "engine/onnx/import_run.h"
#include "engine/onnx/known_elements.h"

namespace dlpipe::engine::onnx {

namespace {

void constant(Run& run, const NodeEntry& node) {
  if (const Attribute* const value = run.find(node, "value"); value != nullptr)
    return run.set_value(node, run.constant(node, value->t));
  if (const Attribute* const value = run.find(node, "value_int"); value != nullptr)
    return run.set_ints(node, {{}, {value->i}});
  if (const Attribute* const value = run.find(node, "value_ints"); value != nullptr)
    return run.set_ints(node, {{static_cast<int64_t>(value->ints.size())}, value->ints});
  TensorValue tensor;
  tensor.type = ElementType::kFloat;
  std::vector<float> floats;
  if (const Attribute* const value = run.find(node, "value_float"); value != nullptr) {
    floats = {value->f};
  } else if (const Attribute* const list = run.find(node, "value_floats"); list != nullptr) {
    floats = list->floats;
    tensor.dims = {static_cast<int64_t>(floats.size())};
  } else {
    run.refuse(node, "its value has a kind that dlpipe doesn't support");
  }
  tensor.bytes.assign(reinterpret_cast<const char*>(floats.data()), floats.size() * sizeof(float));
  run.set_value(node, run.constant(node, tensor));
}

void shape_op(Run& run, const NodeEntry& node) {
  const Shape shape = run.shape(node, 0);
  const auto place = [&](int64_t at) {
    return static_cast<int>(std::clamp<int64_t>(at < 0 ? at + shape.rank() : at, 0, shape.rank()));
  };
  const int begin = place(run.attribute(node, "start", int64_t{0}));
  const int end = place(run.attribute(node, "end", int64_t{shape.rank()}));
  KnownInts sizes;
  for (int axis = begin; axis < end; ++axis) sizes.values.push_back(shape[axis]);
  sizes.dims = {static_cast<int64_t>(sizes.values.size())};
  run.set_ints(node, std::move(sizes));
}

void size_op(Run& run, const NodeEntry& node) {
  run.set_ints(node, {{}, {run.shape(node, 0).elements()}});
}

void constant_of_shape(Run& run, const NodeEntry& node) {
  const KnownInts sizes = run.ints(node, 0);
  int64_t elements = 1;
  constexpr int64_t kMost = 1 << 24;
  for (const int64_t size : sizes.values) {
    if (size < 0 || (size > 0 && elements > kMost / size)) run.refuse(node, "impossible sizes");
    elements *= size;
  }
  const Attribute* const value = run.find(node, "value");
  const RunValue one = value == nullptr ? RunValue{Tensor::zeros({1})} : run.constant(node, value->t);
  if ((one.ints ? one.ints->values.size() : static_cast<size_t>(one.tensor.elements())) != 1)
    run.refuse(node, "its value is not one integer or float");
  if (one.ints) {
    const int64_t number = one.ints->values[0];
    return run.set_ints(node, {sizes.values, std::vector<int64_t>(static_cast<size_t>(elements), number)}, 0,
                        Tensor::from<int64_t>(std::array{number}, {}));
  }
  if (sizes.values.size() > static_cast<size_t>(Shape::kMaxRank)) run.refuse(node, "too many axes");
  const double number = one.tensor.item();
  run.set(node, Tensor::full(Shape(std::span<const int64_t>(sizes.values)), number));
}

// `value` cast to an integer type that may have fewer bits.
int64_t as_type(const Run& run, const NodeEntry& node, ElementType to, int64_t value) {
  if (to == ElementType::kInt64) return value;
  if (to == ElementType::kInt32) return static_cast<int32_t>(value);
  if (to == ElementType::kInt8) return static_cast<int8_t>(value);
  if (to == ElementType::kUint8) return static_cast<uint8_t>(value);
  constexpr int64_t kUint16 = 4, kInt16 = 5, kUint32 = 12,
                    kUint64 = 13;  // dlpipe has no tensors of these types
  const auto number = static_cast<int64_t>(to);
  const bool is_integer = number == kUint16 || number == kInt16 || number == kUint32 || number == kUint64;
  constexpr int64_t kLeast = 1 << 15;  // all these types hold the integers from 0 to below it
  if (!is_integer || value < 0 || value >= kLeast)
    run.refuse(node, "dlpipe doesn't cast ", value, " to ", element_type_name(to));
  return value;
}

void cast_known(Run& run, const NodeEntry& node, ElementType to) {
  const KnownInts& ints = run.ints(node, 0);
  if (to == ElementType::kInt64) return run.set_value(node, run.value(node, 0));
  if (to == ElementType::kBool) {
    const auto truth = [](int64_t one) { return int64_t{one != 0}; };
    return run.set_ints(node, known_elements(run, node, truth, ints));
  }
  if (to == ElementType::kInt32) {  // it holds the sizes of any batch, so linear growth needs no check
    KnownInts cut = ints;
    for (int64_t& one : cut.values) one = as_type(run, node, to, one);
    return run.set_ints(node, std::move(cut));
  }
  run.set_ints(node, known_elements(
                         run, node, [&](int64_t one) { return as_type(run, node, to, one); }, ints));
}

// The integers from a node's known floats, such as scaled sizes. nullopt if one isn't representable.
std::optional<KnownInts> known_of(const Run& run, const NodeEntry& node) {
  constexpr int64_t kMost = 1 << 24;
  if (!run.value(node, 0).is_constant || run.shape(node, 0).elements() > kMost) return std::nullopt;
  const Shape shape = run.shape(node, 0);
  KnownInts ints{{shape.begin(), shape.end()}, {}};
  constexpr double kTooLarge = 9007199254740992.0;  // 2^53
  for (const double number : run.numbers(node, 0)) {
    if (!(std::fabs(number) < kTooLarge)) return std::nullopt;
    ints.values.push_back(static_cast<int64_t>(number));
  }
  return ints;
}

void cast_op(Run& run, const NodeEntry& node) {
  const auto to = static_cast<ElementType>(run.attribute(node, "to", int64_t{0}));
  const bool is_float = to == ElementType::kFloat || to == ElementType::kDouble ||
                        to == ElementType::kFloat16 || to == ElementType::kBFloat16;
  const RunValue value = run.value(node, 0);
  if (value.ints && is_float) {
    const KnownInts& ints = *value.ints;
    if (ints.dims.size() > static_cast<size_t>(Shape::kMaxRank)) run.refuse(node, "too many axes");
    Tensor floats = Tensor::empty(Shape(std::span<const int64_t>(ints.dims)));
    std::copy(ints.values.begin(), ints.values.end(), floats.data<float>());
    return run.set(node, floats);
  }
  if (value.ints) return cast_known(run, node, to);
  const bool are_floats = is_floating(value.tensor.dtype());
  if (to == ElementType::kBool && !value.is_truth) {
    const Tensor numbers = as_floats(value.tensor, DType::kF64);
    return run.set_truth(node, negated(equal(numbers, Tensor::full({}, 0.0, numbers.dtype()))),
                         value.is_image);
  }
  if (is_float && !are_floats) return run.set_like_input(node, cast(value.tensor, DType::kF32));
  if (are_floats && (to == ElementType::kInt64 || to == ElementType::kInt32)) {  // rounds towards 0
    const Tensor cut = cast(value.tensor, DType::kI64);
    if (std::optional<KnownInts> ints = known_of(run, node)) return run.set_ints(node, *ints, 0, cut);
    return run.set_like_input(node, cut);
  }
  if (are_floats && !is_float && to != ElementType::kBool)
    run.refuse(node, "dlpipe casts floats to floats, bool, int64 and int32");
  // int32 ids can be treated as int64; fewer bits would change them.
  if (!are_floats && to != ElementType::kInt64 && to != ElementType::kInt32)
    run.refuse(node, "dlpipe casts integers that depend on the input to int64, int32, floats and bool");
  run.set_value(node, value);
}

constexpr int64_t kMostCounted = 1 << 24;

void range_of_floats(Run& run, const NodeEntry& node) {
  const auto begin = static_cast<float>(run.number(node, 0)), end = static_cast<float>(run.number(node, 1)),
             step = static_cast<float>(run.number(node, 2));
  const double count = std::max(0.0, std::ceil(static_cast<double>(end - begin) / static_cast<double>(step)));
  if (!(step > 0) || !(count <= static_cast<double>(kMostCounted)))
    run.refuse(node, "dlpipe only counts upwards, up to 2^24 numbers");
  std::vector<float> numbers;
  for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
    numbers.push_back(begin + static_cast<float>(i) * step);
  run.set(node, Tensor::from<float>(numbers, {static_cast<int64_t>(numbers.size())}));
}

void range_op(Run& run, const NodeEntry& node) {
  if (run.value(node, 0).is_constant && !run.is_known(node, 0)) return range_of_floats(run, node);
  const auto one = [&](size_t i) {
    const KnownInts& given = run.ints(node, i);
    if (given.values.size() != 1) run.refuse(node, "input ", i, " is not one integer");
    return known_one(given, 0);
  };
  const KnownInts first = one(0), behind = one(1), each = one(2);
  // Limits the step to one past the end of any range, because a longer one could overflow 64 bits.
  const int64_t begin = first.values[0], end = behind.values[0],
                step = std::min(each.values[0], 2 * kMostCounted);
  if (step < 1 || begin < -kMostCounted || end > kMostCounted)
    run.refuse(node, "dlpipe only counts upwards, up to 2^24");
  // Checks that the count grows linearly with the batch; else the list would be wrong for other batches.
  const auto count = [](int64_t from, int64_t to, int64_t by) {
    return by < 1 || to <= from ? 0 : (known_sub(to, from) - 1) / by + 1;
  };
  known_elements(run, node, count, first, behind, each);
  KnownInts numbers;
  for (int64_t i = begin; i < end; i += step) numbers.values.push_back(i);
  numbers.dims = {static_cast<int64_t>(numbers.values.size())};
  run.set_ints(node, std::move(numbers));
}

constexpr std::array kSizeOps = {
    ImportedOp{"Cast", cast_op},
    ImportedOp{"Constant", constant},
    ImportedOp{"ConstantOfShape", constant_of_shape},
    ImportedOp{"Range", range_op},
    ImportedOp{"Shape", shape_op},
    ImportedOp{"Size", size_op},
};

}  // namespace

std::span<const ImportedOp> size_ops() {
  return kSizeOps;
}

}  // namespace dlpipe::engine::onnx
