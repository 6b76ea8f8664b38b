// Integers that are known before a model runs, comparisons, and choices by either: as import_ops_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/onnx/one_node.h"

namespace dlpipe::engine::onnx {
namespace {

TEST(OnnxOps, TakesRestsAndCutsKnownIntegers) {
  const auto rest = [] { return OneNode("Mod").known({-7, 7, -8}).known({3, -3, 3}); };
  expect_gives(rest(), {3}, {2, -2, 1});  // of the divisor's sign, as Python's
  expect_gives(rest().with("fmod", 1), {3}, {-1, 1, -2});
  const auto cast = [](ElementType type) {
    return OneNode("Cast").known({300, -1}).with("to", static_cast<int64_t>(type));
  };
  expect_gives(cast(ElementType::kUint8), {2}, {44, 255});
  expect_gives(cast(ElementType::kInt8), {2}, {44, -1});
  expect_gives(cast(ElementType::kInt32), {2}, {300, -1});
  constexpr auto kUint16 = static_cast<ElementType>(4);  // dlpipe has no tensors of it
  expect_op_refused(cast(kUint16), "doesn't cast -1 to");
}

TEST(OnnxOps, ComputesWithIntegersThatDependOnTheInput) {
  const auto of = [](const char* op) { return OneNode(op).integers({4}, {-7, 2, 1 << 20, 5}); };
  expect_gives(of("Add").known({1}), {4}, {-6, 3, 1048577, 6});
  expect_gives(of("Sub").known({1}), {4}, {-8, 1, 1048575, 4});
  expect_gives(of("Mul").known({3}), {4}, {-21, 6, 3145728, 15});
  expect_gives(of("Div").known({2}), {4}, {-3, 1, 524288, 2});  // cut, not rounded down
  expect_gives(of("Neg"), {4}, {7, -2, -1048576, -5});
  expect_gives(of("Min").known({3}), {4}, {-7, 2, 3, 3});
  expect_gives(of("Max").known({3}), {4}, {3, 3, 1048576, 5});
  // Beyond f32's; what is exported casts to float64, which comes back as f32.
  constexpr int64_t kLarge = (int64_t{1} << 52) + 1;
  expect_tensor(OneNode("Add").integers({1}, {kLarge}).known({1}).run()[0], {1},
                {static_cast<double>(kLarge + 1)});
  expect_gives(OneNode("Where").known_of({2}, {1, 0}).integers({2}, {5, 6}).known({9, 9}), {2}, {5, 9});
  // Ids into a table, one further.
  expect_gives(of("Equal").known({2}).then("Where").known({1}).known({0}), {4}, {0, 1, 0, 0});
  const auto cast = [](std::vector<float> values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    return OneNode("Cast")
        .input(shape, std::move(values))
        .with("to", static_cast<int64_t>(ElementType::kInt64));
  };
  expect_gives(cast({1.9f, -1.9f, 0.5f}), {3}, {1, -1, 0});
}

TEST(OnnxOps, FindsPlacesOfExtremes) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto of = [](const char* op) { return OneNode(op).input({2, 3}, {1, 5, 5, 4, 4, 0}); };
  expect_gives(of("ArgMax"), {1, 3}, {1, 0, 0});
  expect_gives(of("ArgMax").with("axis", 1), {2, 1}, {1, 0});
  expect_gives(of("ArgMax").with("axis", -1).with("keepdims", 0), {2}, {1, 0});
  expect_gives(of("ArgMax").with("axis", 1).with("select_last_index", 1), {2, 1}, {2, 1});
  expect_gives(of("ArgMin").with("axis", 1), {2, 1}, {0, 2});
  expect_gives(OneNode("ArgMax").input({1, 3}, {1, kNan, 7}).with("axis", 1), {1, 1}, {1});
  // Of images: 2 channels of 1x2 pixels, 1 2 and 3 4.
  const auto pooled = [] { return OneNode("GlobalMaxPool").input({1, 3, 1, 1}, {1, 7, 2}).then("ArgMax"); };
  expect_gives(pooled().with("axis", 1), {1, 1, 1, 1}, {1});
  expect_gives(pooled().with("axis", 1).with("keepdims", 0), {1, 1, 1}, {1});
  const auto image = [] {
    return OneNode("MaxPool")
        .input({1, 2, 1, 2}, {1, 2, 4, 3})
        .with_ints("kernel_shape", {1, 1})
        .then("ArgMax");
  };
  expect_gives(image().with("axis", 1).with("keepdims", 0), {1, 1, 2}, {1, 1});
  expect_gives(image().with("axis", 3).with("keepdims", 0), {1, 2, 1}, {1, 0});
  expect_gives(image().with("axis", 3), {1, 2, 1, 1}, {1, 0});
  expect_op_refused(OneNode("ArgMax").input({2, 0}, {}).with("axis", 1),
                    "expected 1 to 2^24 elements along the axis, got 0");
}

TEST(OnnxOps, ChoosesByConditionsThatAreKnown) {
  const auto where = [](int64_t which) { return OneNode("Where").known_one(which); };
  expect_gives(where(1).input({2}, {1, 2}).input({2}, {3, 4}), {2}, {1, 2});
  expect_gives(where(0).input({2}, {1, 2}).input({2}, {3, 4}), {2}, {3, 4});
  // What is chosen gets the shape of all three.
  expect_gives(where(0).input({2, 2}).weights({}, {3}), {2, 2}, {3, 3, 3, 3});
  expect_gives(where(1).input({2, 1}).input({1, 2}), {2, 2}, {1, 1, 2, 2});
  expect_gives(OneNode("Where").known_of({1, 1, 1}, {1}).input({2}).input({2}), {1, 1, 2}, {1, 2});
  expect_op_refused(where(1).input({2}).input({3}), "its inputs don't broadcast");
  expect_gives(OneNode("Where").known({1, 0}).input({2}, {1, 2}).input({2}, {3, 4}), {2}, {1, 4});
  // Of integers that are known, element by element.
  expect_gives(OneNode("Where").known_of({2, 1}, {1, 0}).known_of({1, 2}, {1, 2}).known_of({1, 2}, {10, 20}),
               {2, 2}, {1, 2, 10, 20});
  expect_gives(OneNode("Where").known({1, 0, 2}).known_one(7).known({1, 2, 3}), {3}, {7, 2, 7});
  expect_op_refused(OneNode("Where").known({1, 0}).known({1, 2, 3}).known_one(0),
                    "its inputs don't broadcast");
}

// What is computed from sizes before the model runs.
TEST(OnnxOps, ComputesKnownIntegers) {
  const auto known = [](const char* op, std::vector<int64_t> a, std::vector<int64_t> b, const Shape& shape,
                        const std::vector<double>& wanted) {
    expect_gives(OneNode(op).known(std::move(a)).known(std::move(b)), shape, wanted);
  };
  known("Expand", {7}, {3}, {3}, {7, 7, 7});
  expect_gives(OneNode("ConstantOfShape").known({1, 2}).with_known("value", 7), {1, 2}, {7, 7});
  expect_gives(OneNode("ConstantOfShape").known({2, 1}), {2, 1}, {0, 0});
  expect_gives(OneNode("ConstantOfShape").known({2}).with_half("value", 0x3E00), {2}, {1.5, 1.5});
  known("Add", {1, 2, 3}, {10}, {3}, {11, 12, 13});
  known("Sub", {10}, {1, 2}, {2}, {9, 8});
  known("Mul", {2, 3}, {4, 5}, {2}, {8, 15});
  known("Div", {7, -7, 7}, {2, 2, -1}, {3}, {3, -3, -7});
  known("Mod", {7, -7, 7, 6}, {3, 3, -3, 3}, {4}, {1, 2, -2, 0});
  known("Equal", {1, 2}, {2}, {2}, {0, 1});
  known("Less", {1, 2, 3}, {2}, {3}, {1, 0, 0});
  known("LessOrEqual", {1, 2, 3}, {2}, {3}, {1, 1, 0});
  known("Greater", {1, 2, 3}, {2}, {3}, {0, 0, 1});
  known("GreaterOrEqual", {1, 2, 3}, {2}, {3}, {0, 1, 1});
  known("And", {0, 2, 3}, {1, 0, 1}, {3}, {0, 0, 1});
  known("Or", {0, 2, 0}, {1, 0, 0}, {3}, {1, 1, 0});
  known("Min", {1, 5}, {3}, {2}, {1, 3});
  known("Max", {1, 5}, {3}, {2}, {3, 5});
  expect_op_refused(OneNode("Mod").input({1}).input({1}), "dlpipe supports it for sizes only");
  expect_gives(OneNode("Shape").input({2, 3, 4}).with("start", 1), {2}, {3, 4});
  expect_gives(OneNode("Shape").input({2, 3, 4}).with("end", -1), {2}, {2, 3});
  expect_gives(OneNode("Size").input({2, 3}), {}, {6});
}

TEST(OnnxOps, TakesUnaryOpsAndReductionsOfKnownIntegers) {
  const auto of = [](const char* op) { return OneNode(op).known_of({2, 3}, {-4, 5, 6, 1, -2, 3}); };
  expect_gives(of("Abs"), {2, 3}, {4, 5, 6, 1, 2, 3});
  expect_gives(of("Clip").known_one(0).known_one(5), {2, 3}, {0, 5, 5, 1, 0, 3});
  expect_gives(of("Clip").left_out().known_one(2), {2, 3}, {-4, 2, 2, 1, -2, 2});
  expect_gives(of("Tile").known({1, 2}), {2, 6}, {-4, 5, 6, -4, 5, 6, 1, -2, 3, 1, -2, 3});
  expect_op_refused(of("Tile").known({1 << 10, 1 << 20}), "1 to 1024 times");
  expect_gives(of("ReduceSum").known({1}), {2, 1}, {7, 2});
  expect_gives(of("ReduceMax").with_ints("axes", {0}).with("keepdims", 0), {3}, {1, 5, 6});
  expect_gives(of("ReduceMin").with("keepdims", 0), {}, {-4});
  expect_op_refused(OneNode("ReduceMax").known_of({0}, {}), "axis 0 has nothing to reduce");
  expect_gives(of("ArgMax").with("axis", 1).with("keepdims", 0), {2}, {2, 2});
  const std::vector<Tensor> parts = OneNode("Split").known({1, 2, 3}).known({1, 2}).second_output().run();
  ASSERT_EQ(parts.size(), 2u);
  expect_tensor(parts[0], {1}, {1});
  expect_tensor(parts[1], {2}, {2, 3});
  expect_op_refused(OneNode("Split").known({1, 2}).known({3}), "its parts are larger than its input");
}

TEST(OnnxOps, TakesUnaryOpsAndReductionsOfIntegersThatDependOnTheInput) {
  const auto of = [](const char* op) { return OneNode(op).integers({2, 3}, {-4, 5, 6, 1, -2, 3}); };
  expect_gives(of("Abs"), {2, 3}, {4, 5, 6, 1, 2, 3});
  expect_gives(of("Clip").known_one(0).known_one(5), {2, 3}, {0, 5, 5, 1, 0, 3});
  expect_gives(of("ReduceSum").known({1}), {2, 1}, {7, 2});
  expect_gives(of("ReduceMax").with_ints("axes", {0}), {1, 3}, {1, 5, 6});
  expect_gives(of("ReduceMin").with_ints("axes", {1}).with("keepdims", 0), {2}, {-4, -2});
  expect_gives(of("ArgMax").with("axis", 1).with("keepdims", 0), {2}, {2, 2});
  expect_gives(of("ArgMin").with("axis", 0), {1, 3}, {0, 1, 1});
}

TEST(OnnxOps, CountsInRanges) {
  const auto range = [](int64_t begin, int64_t end, int64_t step) {
    return OneNode("Range").known_one(begin).known_one(end).known_one(step);
  };
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  expect_gives(range(-1, 4, 2), {3}, {-1, 1, 3});
  expect_gives(range(1, 2, kLargest), {1}, {1});  // 1 + step is past what 64 bits hold
  expect_gives(range(kLargest, -kLargest, 1).then("Size"), {}, {0});
  expect_op_refused(range(2, 1, -1), "dlpipe only counts upwards");
}

TEST(OnnxOps, CastsIntegersThatAreKnown) {
  const auto to = [](int64_t type) { return OneNode("Cast").known({5, 0, -3}).with("to", type); };
  expect_gives(to(1), {3}, {5, 0, -3});
  expect_gives(to(7), {3}, {5, 0, -3});
  expect_gives(to(9), {3}, {1, 0, 1});
  const auto small_to = [](int64_t type) { return OneNode("Cast").known({5, 0}).with("to", type); };
  for (const int64_t type : {4, 5, 12, 13}) expect_gives(small_to(type), {2}, {5, 0});
  for (const int64_t type : {0, 8, 14, 15, 99}) expect_op_refused(small_to(type), "doesn't cast 5 to");
  // A tensor's stay what they are, which truths aren't.
  const auto of_input = [](int64_t type) {
    return OneNode("Cast").integers({3}, {5, 0, -3}).with("to", type);
  };
  expect_gives(of_input(7), {3}, {5, 0, -3});
  expect_gives(of_input(1), {3}, {5, 0, -3});
  expect_gives(of_input(9), {3}, {1, 0, 1});
  expect_gives(OneNode("Cast").input({3}, {0.5, 0, -3}).with("to", 9), {3}, {1, 0, 1});
  expect_op_refused(OneNode("Cast").input({1}).with("to", 2),
                    "dlpipe casts floats to floats, bool, int64 and int32");
  // Truths as integers are divided as those; narrower ones would be other numbers.
  expect_gives(
      OneNode("Cast").input({2}, {5, 0}).with("to", 9).then("Cast").with("to", 7).then("Div").known({2}), {2},
      {0, 0});
  expect_op_refused(OneNode("Cast").integers({1}, {300}).with("to", 2), "to int64, int32, floats and bool");
}

TEST(OnnxOps, ComparesWhatDependsOnTheInput) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity(),
                  kNan = std::numeric_limits<float>::quiet_NaN();
  const auto of = [&](const char* op) {
    return OneNode(op).input({4}, {1, 2, kInfinity, kNan}).input({}, {2});
  };
  expect_gives(of("Greater"), {4}, {0, 0, 1, 0});
  expect_gives(of("GreaterOrEqual"), {4}, {0, 1, 1, 0});
  expect_gives(of("Less"), {4}, {1, 0, 0, 0});
  expect_gives(of("LessOrEqual"), {4}, {1, 1, 0, 0});
  expect_gives(of("Equal"), {4}, {0, 1, 0, 0});
  expect_gives(of("Equal").then("Not"), {4}, {1, 0, 1, 1});
  expect_gives(OneNode("IsNaN").input({2}, {1, kNan}), {2}, {0, 1});
  // Integers beyond what f32 holds whole; in ONNX they are compared as float64, which comes back as f32.
  const int64_t large = (1 << 24) + 1;
  expect_tensor(OneNode("Greater").integers({2}, {large, large - 1}).known_one(large - 1).run()[0], {2},
                {1, 0});
  const auto truths = [](const char* op) {
    return OneNode("Greater").input({3}, {-1, 0, 1}).weights({}, {0}).then(op).known({1, 0, 0});
  };
  expect_gives(truths("And"), {3}, {0, 0, 0});
  expect_gives(truths("Or"), {3}, {1, 0, 1});
  // Images as planes, beside a row.
  expect_gives(OneNode("MaxPool")
                   .input({1, 2, 1, 2})
                   .with_ints("kernel_shape", {1, 1})
                   .then("Greater")
                   .weights({2}, {1, 3}),
               {1, 2, 1, 2}, {0, 0, 1, 1});
}

TEST(OnnxOps, TakesTheLargerAndTheSmaller) {
  const auto of = [](const char* op) {
    return OneNode(op).input({3}, {1, 2, 3}).input({2, 1}, {2, 5}).weights({}, {1.5});
  };
  expect_gives(of("Max"), {2, 3}, {2, 2, 3, 5, 5, 5});
  expect_gives(of("Min"), {2, 3}, {1, 1.5, 1.5, 1, 1.5, 1.5});
  expect_gives(OneNode("Max").weights({}, {1.7F}).input({2}), {2}, {1.7, 2});
  expect_gives(OneNode("Max").integers({2}, {3, 7}).known_one(2).known_one(5), {2}, {5, 7});
  expect_gives(OneNode("Max").known({-1, 1}).known({0, 4}).known_one(2), {2}, {2, 4});
  expect_op_refused(OneNode("Sum"), "it has no inputs");
  expect_op_refused(OneNode("Mean"), "it has no inputs");
}

TEST(OnnxOps, ChoosesElementsByWhatDependsOnTheInput) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // What isn't chosen doesn't matter: infinity times 0 would be no number.
  expect_gives(OneNode("Greater")
                   .input({3}, {-1, 0, 1})
                   .weights({}, {0})
                   .then("Where")
                   .input({2, 1}, {2, 3})
                   .weights({}, {-kInfinity})
                   .then("Exp"),
               {2, 3}, {0, 0, std::exp(2.0), 0, 0, std::exp(3.0)});
  expect_gives(
      OneNode("Cast").integers({2}, {0, 4}).with("to", 9).then("Where").input({2}, {5, 6}).weights({}, {0}),
      {2}, {0, 6});
  expect_gives(
      OneNode("Cast").integers({2}, {0, 4}).with("to", 9).then("Where").weights({}, {0}).input({2}, {5, 6}),
      {2}, {5, 0});
  expect_gives(OneNode("Cast").integers({2}, {0, 4}).with("to", 9).then("Where").known({1, 2}).known({3, 4}),
               {2}, {3, 2});
  // A known 0 is chosen without being computed, and has its say in the shape.
  expect_gives(OneNode("Greater")
                   .input({2}, {-1, 1})
                   .weights({}, {0})
                   .then("Where")
                   .input({2}, {3, 4})
                   .weights({1, 1, 1}, {0}),
               {1, 1, 2}, {0, 4});
  expect_op_refused(OneNode("Where").input({2}), "expected three inputs, got 1");
  expect_op_refused(OneNode("Where").input({2}).input({2}), "expected three inputs, got 2");
}

TEST(OnnxOps, KeepsATriangle) {
  const auto of = [](int64_t upper) { return OneNode("Trilu").input({1, 2, 3}).with("upper", upper); };
  expect_gives(of(1), {1, 2, 3}, {1, 2, 3, 0, 5, 6});
  expect_gives(of(0), {1, 2, 3}, {1, 0, 0, 4, 5, 0});
  expect_gives(of(1).known_one(1), {1, 2, 3}, {0, 2, 3, 0, 0, 6});
  expect_gives(of(0).known_one(-1), {1, 2, 3}, {0, 0, 0, 4, 0, 0});
  expect_gives(OneNode("Trilu").known_of({2, 2}, {1, 2, 3, 4}), {2, 2}, {1, 2, 0, 4});
  expect_op_refused(OneNode("Trilu").input({3}), "expected at least two axes");
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  expect_gives(of(1).known_one(kLargest), {1, 2, 3}, {0, 0, 0, 0, 0, 0});
  expect_gives(of(0).known_one(-kLargest), {1, 2, 3}, {0, 0, 0, 0, 0, 0});
  expect_op_refused(of(1).known({1, 2}), "its k is 2 numbers");
}

}  // namespace
}  // namespace dlpipe::engine::onnx
