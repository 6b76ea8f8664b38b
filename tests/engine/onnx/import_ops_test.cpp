// Ops of ONNX one by one, on numbers that can be followed by hand. (ONNX's own tests of each op judge the importer in
// tests/interop/onnx_nodes.py; they take a minute and a half.)
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/engine/graph/run.h"
#include "dlpipe/engine/onnx/export.h"
#include "dlpipe/engine/onnx/import.h"

namespace dlpipe::engine::onnx {
namespace {

std::vector<float> ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::vector<double> all_of(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// A model of a node, or of several of which each reads what the one before it made.
class OneNode {
 public:
  explicit OneNode(const std::string& op, int64_t opset = 17) {
    model_.opsets[""] = opset;
    model_.graph_name = "g";
    model_.nodes = {{op, "", "only", {}, {"y"}, {}}};
    model_.outputs = {{"y", ElementType::kFloat, {}}};
  }
  /// Given when the model runs; without values 1, 2, 3, ...
  OneNode&& input(const Shape& shape, std::vector<float> values = {}) && {
    if (values.empty()) values = ramp(shape.elements());
    ValueInfo info{read("x"), ElementType::kFloat, {}};
    for (const int64_t size : shape) info.dims.push_back({size, ""});
    model_.inputs.push_back(info);
    given_.push_back(Tensor::from<float>(values, shape));
    return std::move(*this);
  }
  /// `count` of them, of one number each: `first`, and so on.
  OneNode&& counted_inputs(const Shape& shape, int first, int64_t count) && {
    for (int64_t i = 0; i < count; ++i) std::move(*this).input(shape, {static_cast<float>(first + i)});
    return std::move(*this);
  }
  OneNode&& integers(const Shape& shape, const std::vector<int64_t>& values) && {
    OneNode&& same = std::move(*this).input(shape);
    same.model_.inputs.back().type = ElementType::kInt64;
    same.given_.back() = Tensor::from<int64_t>(values, shape);
    return std::move(same);
  }
  OneNode&& weights(const Shape& shape, std::vector<float> values = {}) && {
    if (values.empty()) values = ramp(shape.elements());
    model_.initializers.push_back({read("w"),
                                   ElementType::kFloat,
                                   {shape.begin(), shape.end()},
                                   {reinterpret_cast<const char*>(values.data()), values.size() * 4}});
    return std::move(*this);
  }
  /// Integers that are known before the model runs.
  OneNode&& known(const std::vector<int64_t>& values) && {
    model_.initializers.push_back({read("k"),
                                   ElementType::kInt64,
                                   {static_cast<int64_t>(values.size())},
                                   {reinterpret_cast<const char*>(values.data()), values.size() * 8}});
    return std::move(*this);
  }
  OneNode&& known_of(std::vector<int64_t> dims, const std::vector<int64_t>& values) && {
    OneNode&& same = std::move(*this).known(values);
    same.model_.initializers.back().dims = std::move(dims);
    return std::move(same);
  }
  OneNode&& known_one(int64_t value) && { return std::move(*this).known_of({}, {value}); }
  OneNode&& left_out() && {
    model_.nodes.back().inputs.emplace_back();
    return std::move(*this);
  }
  OneNode&& with(const std::string& name, int64_t value) && {
    attribute(name, Attribute::kInt).i = value;
    return std::move(*this);
  }
  OneNode&& with_ints(const std::string& name, std::vector<int64_t> values) && {
    attribute(name, Attribute::kInts).ints = std::move(values);
    return std::move(*this);
  }
  OneNode&& with_floats(const std::string& name, std::vector<float> values) && {
    attribute(name, Attribute::kFloats).floats = std::move(values);
    return std::move(*this);
  }
  OneNode&& with_float(const std::string& name, float value) && {
    attribute(name, Attribute::kFloat).f = value;
    return std::move(*this);
  }
  OneNode&& with_known(const std::string& name, int64_t value) && {
    attribute(name, Attribute::kTensor).t = {
        "", ElementType::kInt64, {1}, {reinterpret_cast<const char*>(&value), sizeof value}};
    return std::move(*this);
  }
  OneNode&& with_text(const std::string& name, const char* value) && {
    attribute(name, Attribute::kString).s = value;
    return std::move(*this);
  }
  /// A second output, which becomes the model's, too.
  OneNode&& second_output() && {
    model_.nodes.back().outputs.emplace_back("second");
    model_.outputs.push_back({"second", ElementType::kFloat, {}});
    return std::move(*this);
  }
  OneNode&& then(const std::string& op) && {
    const std::string made = "m" + std::to_string(model_.nodes.size());
    model_.nodes.back().outputs = {made};
    model_.nodes.push_back({op, "", "only", {made}, {"y"}, {}});
    return std::move(*this);
  }

  std::vector<Tensor> run() const { return graph::Runner(import_model(model_)).run(given_); }
  const Model& model() const { return model_; }
  const std::vector<Tensor>& given() const { return given_; }

 private:
  std::string read(const std::string& kind) {
    std::string name = kind + std::to_string(names_++);
    model_.nodes.back().inputs.push_back(name);
    return name;
  }
  Attribute& attribute(const std::string& name, Attribute::Type type) {
    model_.nodes.back().attributes.push_back({.name = name, .type = type});
    return model_.nodes.back().attributes.back();
  }
  Model model_;
  std::vector<Tensor> given_;
  int names_ = 0;
};

void expect_tensor(const Tensor& got, const Shape& shape, const std::vector<double>& wanted) {
  EXPECT_EQ(got.shape().to_string(), shape.to_string());
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 2e-5) << "element " << i;
}

void expect_gives(const OneNode& node, const Shape& shape, const std::vector<double>& wanted) {
  SCOPED_TRACE(node.model().nodes.back().op);
  const std::vector<Tensor> outputs = node.run();
  ASSERT_EQ(outputs.size(), 1u);
  expect_tensor(outputs[0], shape, wanted);
  SCOPED_TRACE("there and back");
  const std::string bytes = serialize(export_graph(import_model(node.model())));
  const graph::Runner again(import_model(value_or_throw(parse_model(bytes, ""))));
  expect_tensor(again.run(node.given())[0], shape, wanted);
}

void expect_refused(const OneNode& node, const std::string& words) {
  SCOPED_TRACE(node.model().nodes.back().op);
  try {
    import_model(node.model());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST(OnnxOps, PadsByEveryMode) {
  const auto padded = [](const char* mode, int64_t before, int64_t behind) {
    return OneNode("Pad").input({1, 3}).with_ints("pads", {0, before, 0, behind}).with_text("mode", mode);
  };
  expect_gives(padded("constant", 1, 2).with_float("value", 9), {1, 6}, {9, 1, 2, 3, 9, 9});
  expect_gives(padded("edge", 1, 2), {1, 6}, {1, 1, 2, 3, 3, 3});
  expect_gives(padded("reflect", 1, 2), {1, 6}, {2, 1, 2, 3, 2, 1});
  expect_gives(padded("wrap", 1, 2), {1, 6}, {3, 1, 2, 3, 1, 2});
  expect_gives(padded("wrap", 0, 1), {1, 4}, {1, 2, 3, 1});
  expect_gives(padded("wrap", 3, 0), {1, 6}, {1, 2, 3, 1, 2, 3});
  expect_gives(padded("constant", -1, 1), {1, 3}, {2, 3, 0});
  expect_gives(padded("constant", 1, -2), {1, 2}, {0, 1});
  expect_gives(OneNode("Pad", 18).input({1, 3}).known({2, 0}).left_out().known({-1}), {1, 5},
               {0, 0, 1, 2, 3});
  expect_refused(padded("reflect", 3, 0), "reflects less than the axis");
  expect_refused(padded("wrap", 0, 4), "wraps an axis once");
  expect_refused(padded("mirror", 1, 1), "its mode is 'mirror'");
}

TEST(OnnxOps, RepeatsAndTradesChannelsForPixels) {
  expect_gives(OneNode("Tile").input({1, 2}).known({2, 3}), {2, 6}, {1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2});
  expect_refused(OneNode("Tile").input({1, 2}).known({2}), "expected a number per axis");
  // Eight channels of one pixel: two of 2x2. DCR: channel (row * 2 + column) * 2 + c; CRD: c * 4 + row * 2 + column.
  const auto to_space = [](const char* mode) {
    return OneNode("DepthToSpace").input({1, 8, 1, 1}).with("blocksize", 2).with_text("mode", mode);
  };
  expect_gives(to_space("DCR"), {1, 2, 2, 2}, {1, 3, 5, 7, 2, 4, 6, 8});
  expect_gives(to_space("CRD"), {1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  // Of pictures that aren't square: 1x2 pixels of four channels are 2x4 of one.
  expect_gives(OneNode("DepthToSpace").input({1, 4, 1, 2}).with("blocksize", 2), {1, 1, 2, 4},
               {1, 3, 2, 4, 5, 7, 6, 8});
  expect_gives(OneNode("SpaceToDepth").input({1, 1, 2, 4}).with("blocksize", 2), {1, 4, 1, 2},
               {1, 3, 2, 4, 5, 7, 6, 8});
  expect_refused(OneNode("DepthToSpace").input({1, 6, 1, 1}).with("blocksize", 2), "2 x 2 divides");
  expect_refused(OneNode("SpaceToDepth").input({1, 1, 2, 3}).with("blocksize", 2), "got 2x3");
}

// More than one concat of dlpipe's takes: those are joined in turn.
TEST(OnnxOps, JoinsAnyNumberOfPieces) {
  constexpr int64_t kCount = 2 * OpRecord::kMostInputs + 1;
  const std::vector<double> counted = all_of(ramp(kCount));
  expect_gives(OneNode("Concat").counted_inputs({1, 1}, 1, kCount), {1, kCount}, counted);
  // Pictures, as DenseNet's blocks join them.
  expect_gives(
      OneNode("GlobalMaxPool").input({1, 1, 1, 1}).then("Concat").counted_inputs({1, 1, 1, 1}, 2, kCount - 1),
      {1, kCount, 1, 1}, counted);
  const std::vector<double> ones(kCount, 1.0);
  expect_gives(OneNode("Tile").input({1, 1}).known({kCount, 1}), {kCount, 1}, ones);
  std::vector<int64_t> places(kCount);
  std::iota(places.rbegin(), places.rend(), 0);
  expect_gives(OneNode("Gather").input({kCount}).known(places), {kCount}, {counted.rbegin(), counted.rend()});
  std::vector<double> reflected(counted.rbegin(), counted.rend());
  reflected.insert(reflected.end(), counted.begin() + 1, counted.end());
  reflected.insert(reflected.end(), counted.rbegin() + 1, counted.rend());
  expect_gives(
      OneNode("Pad").input({kCount}).with_ints("pads", {kCount - 1, kCount - 1}).with_text("mode", "reflect"),
      {3 * kCount - 2}, reflected);
  expect_refused(OneNode("Tile").input({1}).known({1 << 20}), "1 to 1024 times, got 1048576");
}

TEST(OnnxOps, MultipliesMatricesAndVectors) {
  expect_gives(OneNode("MatMul").input({2, 3}).input({3, 1}), {2, 1}, {14, 32});
  expect_gives(OneNode("MatMul").input({3}).input({3, 2}), {2}, {22, 28});
  expect_gives(OneNode("MatMul").input({2, 3}).input({3}), {2}, {14, 32});
  expect_gives(OneNode("MatMul").input({3}).input({3}), {}, {14});
  expect_gives(OneNode("MatMul").input({2, 2, 2}).input({2}), {2, 2}, {5, 11, 17, 23});
  expect_gives(OneNode("MatMul").input({2}).input({2, 2, 2}), {2, 2}, {7, 10, 19, 22});
  expect_gives(OneNode("MatMul").input({2, 1, 2}).input({2, 3}), {2, 1, 3}, {9, 12, 15, 19, 26, 33});
  const auto gemm = [] { return OneNode("Gemm").input({1, 2}); };
  expect_gives(gemm().weights({2, 2}), {1, 2}, {7, 10});
  expect_gives(gemm().weights({2, 2}).weights({2}).with("transB", 1), {1, 2}, {6, 13});
  expect_gives(gemm().weights({2, 2}).weights({1}).with_float("alpha", 2).with_float("beta", 3), {1, 2},
               {17, 23});
  expect_gives(OneNode("Gemm").input({2, 1}).weights({2, 2}).with("transA", 1), {1, 2}, {7, 10});
}

TEST(OnnxOps, ReducesAlongAxes) {
  expect_gives(OneNode("ReduceSum", 13).input({2, 3}).known({1}), {2, 1}, {6, 15});
  expect_gives(OneNode("ReduceSum", 13).input({2, 3}).known({-2}).with("keepdims", 0), {3}, {5, 7, 9});
  expect_gives(OneNode("ReduceMean").input({2, 3}).with("keepdims", 0), {}, {3.5});
  expect_gives(OneNode("ReduceMax").input({2, 3}).with("keepdims", 0), {}, {6});
  expect_gives(OneNode("ReduceMin").input({2, 3}).with_ints("axes", {0}), {1, 3}, {1, 2, 3});
  expect_gives(OneNode("ReduceL2").input({1, 2}, {3, -4}).with_ints("axes", {1}), {1, 1}, {5});
  expect_gives(OneNode("ReduceL1").input({1, 2}, {3, -4}).with_ints("axes", {1}), {1, 1}, {7});
  expect_gives(OneNode("ReduceLogSumExp").input({1, 2}, {100, 100}).with_ints("axes", {1}), {1, 1},
               {100.6931472});
  // Of what has no finite largest element: log(0), and infinity.
  const float infinity = std::numeric_limits<float>::infinity();
  const OneNode of_infinities = OneNode("ReduceLogSumExp")
                                    .input({3, 2}, {-infinity, -infinity, infinity, 1, -infinity, 1})
                                    .with_ints("axes", {1})
                                    .with("keepdims", 0);
  EXPECT_EQ(of_infinities.run()[0].to_doubles(), (std::vector<double>{-infinity, infinity, 1}));
  // Nothing to reduce, where that is said; else no axes are all.
  expect_gives(OneNode("ReduceSum", 13).input({2}).with("noop_with_empty_axes", 1), {2}, {1, 2});
  expect_refused(OneNode("ReduceL1", 18).input({2}).with("noop_with_empty_axes", 1), "noop_with_empty_axes");
  // Of pictures, which lie in another order here: 2 channels of 1x2 pixels.
  const auto of_picture = [] { return OneNode("GlobalMaxPool").input({1, 2, 1, 2}); };
  expect_gives(of_picture(), {1, 2, 1, 1}, {2, 4});
  expect_gives(of_picture().then("ReduceSum").known({1}), {1, 1, 1, 1}, {6});
  expect_gives(of_picture().then("ReduceSum").known({2, 3}).with("keepdims", 0), {1, 2}, {2, 4});
  expect_gives(of_picture().then("ReduceSum").known({1}).with("keepdims", 0), {1, 1, 1}, {6});
}

TEST(OnnxOps, NormalizesRowsAndGroups) {
  // Of two numbers d apart, the normalized ones are -1 and 1 (epsilon is small beside them).
  const auto layer = [](int64_t axis) {
    return OneNode("LayerNormalization").input({2, 2, 2}).with("axis", axis);
  };
  expect_gives(layer(-1).weights({2}, {100, 1}).weights({2}, {10, 20}), {2, 2, 2},
               {-89.998, 20.99998, -89.998, 20.99998, -89.998, 20.99998, -89.998, 20.99998});
  const double outer = 1.3416354, inner = 0.4472118;  // of 1, 2, 3, 4
  expect_gives(layer(1).weights({2, 2}, {1, 1, 1, 1}), {2, 2, 2},
               {-outer, -inner, inner, outer, -outer, -inner, inner, outer});
  const std::vector<Tensor> both =
      OneNode("LayerNormalization").input({2, 2}).weights({2}, {1, 1}).second_output().run();
  ASSERT_EQ(both.size(), 2u);
  expect_tensor(both[1], {2, 1}, {1.5, 3.5});
  // 3 and 4 over the root of the mean of their squares.
  expect_gives(OneNode("RMSNormalization", 23).input({1, 2}, {3, 4}).weights({2}, {1, 10}), {1, 2},
               {0.8485278, 11.3137069});
  expect_gives(OneNode("RMSNormalization", 23)
                   .input({1, 2, 2}, {3, 4, 4, 3})
                   .weights({2, 2}, {1, 1, 1, 2})
                   .with("axis", 1),
               {1, 2, 2}, {0.8485278, 1.1313707, 1.1313707, 1.6970556});
  // Four channels in two groups. Before opset 21 scale and bias are of groups, then of channels.
  const auto groups = [](int64_t opset, int64_t count) {
    return OneNode("GroupNormalization", opset).input({1, 4, 1}, {1, 3, 10, 20}).with("num_groups", count);
  };
  const double first = 0.999995, second = 1.0;  // epsilon beside variances of 1 and 25
  expect_gives(groups(18, 2).weights({2}, {1, 2}).weights({2}, {0, 5}), {1, 4, 1},
               {-first, first, 5 - 2 * second, 5 + 2 * second});
  expect_gives(groups(21, 2).weights({4}, {1, 2, 3, 4}).weights({4}, {0, 0, 5, 6}), {1, 4, 1},
               {-first, 2 * first, 5 - 3 * second, 6 + 4 * second});
  expect_refused(groups(18, 2).weights({4}).weights({4}), "expected 2 numbers as input");
  expect_refused(groups(18, 0).weights({0}).weights({0}), "expected 0 numbers as input");
  expect_refused(groups(21, 3).weights({4}).weights({4}), "expected channels of 3 groups");
  expect_gives(OneNode("InstanceNormalization").input({1, 2, 2}, {1, 3, 10, 20}).weights({2}).weights({2}),
               {1, 2, 2}, {1 - first, 1 + first, 2 - 2 * second, 2 + 2 * second});
}

TEST(OnnxOps, MovesAndChoosesElements) {
  expect_gives(OneNode("Transpose").input({2, 3}), {3, 2}, {1, 4, 2, 5, 3, 6});
  expect_gives(OneNode("Slice").input({2, 4}).known({-3, 0}).known({9, 1}).known({1, 0}).known({2, 1}),
               {1, 2}, {2, 4});
  expect_gives(OneNode("Gather").input({2, 3}).known({2, -3}).with("axis", 1), {2, 2}, {3, 1, 6, 4});
  expect_gives(OneNode("Gather").input({2, 3}).known_one(-1), {3}, {4, 5, 6});
  expect_refused(OneNode("Gather").input({2, 3}).known({2}), "index 2 is outside axis 0");
  expect_refused(OneNode("Gather").input({2, 3}).known({-3}), "index -3 is outside axis 0");
  expect_gives(OneNode("Concat").input({1, 2}).input({1, 1}).with("axis", -1), {1, 3}, {1, 2, 1});
  expect_gives(OneNode("Expand").input({2, 1}).known({3, 1, 2}), {3, 2, 2},
               {1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2});
  expect_gives(OneNode("Reshape").input({2, 6}).known({0, -1, 2}), {2, 3, 2},
               {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  expect_refused(OneNode("Reshape").input({2, 3}).known({4, -1}), "its sizes don't divide");
  expect_gives(OneNode("Flatten").input({1, 2, 1, 2}).with("axis", 2), {2, 2}, {1, 2, 3, 4});
  expect_gives(OneNode("Squeeze").input({1, 2, 1}), {2}, {1, 2});
  expect_gives(OneNode("Squeeze").input({1, 2, 1}).known({-1}), {1, 2}, {1, 2});
  expect_gives(OneNode("Unsqueeze").input({2}).known({0, -1}), {1, 2, 1}, {1, 2});
  const std::vector<Tensor> parts = OneNode("Split").input({1, 5}).with("axis", 1).second_output().run();
  ASSERT_EQ(parts.size(), 2u);
  expect_tensor(parts[0], {1, 3}, {1, 2, 3});
  expect_tensor(parts[1], {1, 2}, {4, 5});
}

TEST(OnnxOps, ReshapesToAsManyElements) {
  const auto reshaped = [](const std::vector<int64_t>& sizes) {
    return OneNode("Reshape").input({2, 3}).known(sizes);
  };
  expect_gives(reshaped({0, 1, -1}), {2, 1, 3}, {1, 2, 3, 4, 5, 6});
  expect_refused(reshaped({0, 7}), "its sizes are not those of [2,3]");
  expect_refused(reshaped({4, -1}), "its sizes don't divide [2,3]");
  const auto of_picture = [](const std::vector<int64_t>& sizes) {
    return OneNode("MaxPool")
        .input({2, 3, 2, 2})
        .with_ints("kernel_shape", {2, 2})
        .then("Reshape")
        .known(sizes);
  };
  expect_gives(of_picture({0, 3}), {2, 3}, {4, 8, 12, 16, 20, 24});
  expect_refused(of_picture({0, 7}), "its sizes are not those of [2,3,1,1]");
  expect_refused(OneNode("Reshape").known({1, 2, 3}).known({2, 2}), "its sizes are not those of [3]");
}

TEST(OnnxOps, ChoosesByConditionsThatAreKnown) {
  const auto where = [](int64_t which) { return OneNode("Where").known_one(which); };
  expect_gives(where(1).input({2}, {1, 2}).input({2}, {3, 4}), {2}, {1, 2});
  expect_gives(where(0).input({2}, {1, 2}).input({2}, {3, 4}), {2}, {3, 4});
  // What is chosen gets the shape of all three.
  expect_gives(where(0).input({2, 2}).weights({}, {3}), {2, 2}, {3, 3, 3, 3});
  expect_gives(where(1).input({2, 1}).input({1, 2}), {2, 2}, {1, 1, 2, 2});
  expect_gives(OneNode("Where").known_of({1, 1, 1}, {1}).input({2}).input({2}), {1, 1, 2}, {1, 2});
  expect_refused(where(1).input({2}).input({3}), "its inputs don't broadcast");
  expect_gives(OneNode("Where").known({1, 0}).input({2}, {1, 2}).input({2}, {3, 4}), {2}, {1, 4});
  // Of integers that are known, element by element.
  expect_gives(OneNode("Where").known_of({2, 1}, {1, 0}).known_of({1, 2}, {1, 2}).known_of({1, 2}, {10, 20}),
               {2, 2}, {1, 2, 10, 20});
  expect_gives(OneNode("Where").known({1, 0, 2}).known_one(7).known({1, 2, 3}), {3}, {7, 2, 7});
  expect_refused(OneNode("Where").known({1, 0}).known({1, 2, 3}).known_one(0), "its inputs don't broadcast");
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
  expect_refused(OneNode("Mod").input({1}).input({1}), "dlpipe computes it of sizes alone");
  expect_gives(OneNode("Shape").input({2, 3, 4}).with("start", 1), {2}, {3, 4});
  expect_gives(OneNode("Shape").input({2, 3, 4}).with("end", -1), {2}, {2, 3});
  expect_gives(OneNode("Size").input({2, 3}), {}, {6});
}

TEST(OnnxOps, CountsInRanges) {
  const auto range = [](int64_t begin, int64_t end, int64_t step) {
    return OneNode("Range").known_one(begin).known_one(end).known_one(step);
  };
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  expect_gives(range(-1, 4, 2), {3}, {-1, 1, 3});
  expect_gives(range(1, 2, kLargest), {1}, {1});  // 1 + step is past what 64 bits hold
  expect_gives(range(kLargest, -kLargest, 1).then("Size"), {}, {0});
  expect_refused(range(2, 1, -1), "dlpipe counts upwards");
}

TEST(OnnxOps, CastsIntegersThatAreKnown) {
  const auto to = [](int64_t type) { return OneNode("Cast").known({5, 0, -3}).with("to", type); };
  expect_gives(to(1), {3}, {5, 0, -3});
  expect_gives(to(7), {3}, {5, 0, -3});
  expect_gives(to(9), {3}, {1, 0, 1});
  // A tensor's stay what they are, which truths aren't.
  const auto of_input = [](int64_t type) {
    return OneNode("Cast").integers({3}, {5, 0, -3}).with("to", type);
  };
  expect_gives(of_input(7), {3}, {5, 0, -3});
  expect_gives(of_input(1), {3}, {5, 0, -3});
  expect_gives(of_input(9), {3}, {1, 0, 1});
  expect_gives(OneNode("Cast").input({3}, {0.5, 0, -3}).with("to", 9), {3}, {1, 0, 1});
  expect_refused(OneNode("Cast").input({1}).with("to", 7),
                 "dlpipe casts floats and truths to floats and truths");
  // Of truths integers would be divided as floats, and narrower ones would be other numbers.
  expect_refused(OneNode("Cast").input({1}).with("to", 9).then("Cast").with("to", 7), "not to integers");
  expect_refused(OneNode("Cast").integers({1}, {300}).with("to", 2), "to int64, int32, floats and truths");
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

TEST(OnnxOps, TakesLinesAsImagesOfOneRow) {
  const auto pooled = [](const char* op) { return OneNode(op).input({1, 2, 3}, {1, 2, 6, -1, -2, 0}); };
  expect_gives(pooled("GlobalAveragePool"), {1, 2, 1}, {3, -1});
  expect_gives(pooled("GlobalMaxPool"), {1, 2, 1}, {6, 0});
  expect_gives(OneNode("BatchNormalization")
                   .input({1, 2, 2})
                   .weights({2}, {2, 1})
                   .weights({2}, {0, 5})
                   .weights({2}, {1, 3})
                   .weights({2}, {1, 1})
                   .with_float("epsilon", 0),
               {1, 2, 2}, {0, 2, 5, 6});
}

TEST(OnnxOps, TakesTheLargerAndTheSmaller) {
  const auto of = [](const char* op) {
    return OneNode(op).input({3}, {1, 2, 3}).input({2, 1}, {2, 5}).weights({}, {1.5});
  };
  expect_gives(of("Max"), {2, 3}, {2, 2, 3, 5, 5, 5});
  expect_gives(of("Min"), {2, 3}, {1, 1.5, 1.5, 1, 1.5, 1.5});
  expect_gives(OneNode("Max").weights({}, {1.7F}).input({2}), {2}, {1.7, 2});
  expect_refused(OneNode("Max").integers({1}, {3}).known_one(2), "not integers that depend on the input");
  expect_refused(OneNode("Sum"), "it has no inputs");
  expect_refused(OneNode("Mean"), "it has no inputs");
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
  expect_refused(
      OneNode("Cast").integers({2}, {0, 4}).with("to", 9).then("Where").known({1, 2}).known({3, 4}),
      "not between integers");
  // A known 0 is chosen without being computed, and has its say in the shape.
  expect_gives(OneNode("Greater")
                   .input({2}, {-1, 1})
                   .weights({}, {0})
                   .then("Where")
                   .input({2}, {3, 4})
                   .weights({1, 1, 1}, {0}),
               {1, 1, 2}, {0, 4});
  expect_refused(OneNode("Where").input({2}), "expected three inputs, got 1");
  expect_refused(OneNode("Where").input({2}).input({2}), "expected three inputs, got 2");
}

TEST(OnnxOps, KeepsATriangle) {
  const auto of = [](int64_t upper) { return OneNode("Trilu").input({1, 2, 3}).with("upper", upper); };
  expect_gives(of(1), {1, 2, 3}, {1, 2, 3, 0, 5, 6});
  expect_gives(of(0), {1, 2, 3}, {1, 0, 0, 4, 5, 0});
  expect_gives(of(1).known_one(1), {1, 2, 3}, {0, 2, 3, 0, 0, 6});
  expect_gives(of(0).known_one(-1), {1, 2, 3}, {0, 0, 0, 4, 0, 0});
  expect_gives(OneNode("Trilu").known_of({2, 2}, {1, 2, 3, 4}), {2, 2}, {1, 2, 0, 4});
  expect_refused(OneNode("Trilu").input({3}), "expected two axes at least");
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  expect_gives(of(1).known_one(kLargest), {1, 2, 3}, {0, 0, 0, 0, 0, 0});
  expect_gives(of(0).known_one(-kLargest), {1, 2, 3}, {0, 0, 0, 0, 0, 0});
  expect_refused(of(1).known({1, 2}), "its k is 2 numbers");
}

TEST(OnnxOps, ConvolvesAndPools) {
  const std::vector<float> sum = {1, 1, 1, 1};
  const auto conv = [&] { return OneNode("Conv").input({1, 1, 2, 3}).weights({1, 1, 2, 2}, sum); };
  expect_gives(conv(), {1, 1, 1, 2}, {12, 16});
  expect_gives(conv().with_text("auto_pad", "SAME_UPPER"), {1, 1, 2, 3}, {12, 16, 9, 9, 11, 6});
  expect_gives(conv().with_text("auto_pad", "SAME_LOWER"), {1, 1, 2, 3}, {1, 3, 5, 5, 12, 16});
  expect_gives(conv().with_ints("pads", {1, 0, 0, 1}), {1, 1, 2, 3}, {3, 5, 3, 12, 16, 9});
  expect_gives(conv().weights({1}, {100}).with_ints("strides", {1, 2}), {1, 1, 1, 1}, {112});
  // A line [N,C,W], its two channels in groups of their own.
  expect_gives(OneNode("Conv")
                   .input({1, 2, 3})
                   .weights({2, 1, 2}, {1, 1, 1, 2})
                   .with("group", 2)
                   .with_ints("pads", {1, 0}),
               {1, 2, 3}, {1, 3, 5, 8, 14, 17});
  const auto pool = [](const char* op) {
    return OneNode(op).input({1, 1, 2, 3}).with_ints("kernel_shape", {2, 2});
  };
  expect_gives(pool("MaxPool"), {1, 1, 1, 2}, {5, 6});
  expect_gives(pool("MaxPool").with_ints("pads", {0, 0, 1, 1}), {1, 1, 2, 3}, {5, 6, 6, 5, 6, 6});
  expect_gives(pool("AveragePool").with_ints("pads", {0, 0, 1, 1}), {1, 1, 2, 3}, {3, 4, 4.5, 4.5, 5.5, 6});
  expect_gives(pool("AveragePool").with_ints("pads", {0, 0, 1, 1}).with("count_include_pad", 1), {1, 1, 2, 3},
               {3, 4, 2.25, 2.25, 2.75, 1.5});
  expect_gives(OneNode("GlobalAveragePool").input({1, 2, 1, 2}), {1, 2, 1, 1}, {1.5, 3.5});
  expect_gives(OneNode("BatchNormalization")
                   .input({1, 2, 1, 1}, {3, 5})
                   .weights({2}, {1, 2})
                   .weights({2}, {0, 1})
                   .weights({2}, {1, 1})
                   .weights({2}, {4, 4})
                   .with_float("epsilon", 0),
               {1, 2, 1, 1}, {1, 5});
}

// Numbers of the ONNX project's own tests, most of them; PyTorch's are in tests/engine/ops/resize_test.cpp.
TEST(OnnxOps, ResizesByScalesAndSizes) {
  const auto by_scales = [](const Shape& shape, float height, float width) {
    return OneNode("Resize").input(shape).left_out().weights({4}, {1, 1, height, width});
  };
  const std::vector<double> wide = {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4};
  expect_gives(by_scales({1, 1, 2, 2}, 2, 3), {1, 1, 4, 6}, wide);
  expect_gives(by_scales({1, 1, 2, 2}, 2, 2).with_text("mode", "linear"), {1, 1, 4, 4},
               {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  // By 0.6, 2x4 pixels are 1x2; places are those of 0.6.
  const auto less = [&] { return by_scales({1, 1, 2, 4}, 0.6f, 0.6f).with_text("mode", "linear"); };
  expect_gives(less(), {1, 1, 1, 2}, {2.6666665, 4.3333331});
  const char* const coordinates = "coordinate_transformation_mode";
  expect_refused(less().with_text(coordinates, "align_corners"), "its scale 0.6 makes no whole pixels of 2");
  expect_refused(by_scales({1, 1, 1, 4}, 1, 0.4f).with_text(coordinates, "pytorch_half_pixel"),
                 "its scale 0.4 makes no whole pixels of 4, where pytorch_half_pixel means");
  const auto by_sizes = [](const Shape& shape, int64_t height, int64_t width, int64_t opset = 17) {
    return OneNode("Resize", opset).input(shape).left_out().left_out().known({1, 1, height, width});
  };
  expect_gives(
      by_sizes({1, 1, 4, 4}, 3, 1).with_text("mode", "linear").with_text(coordinates, "pytorch_half_pixel"),
      {1, 1, 3, 1}, {1.6666666, 7, 12.333333});
  // Two thirds, in f32, of six pixels: the third is the fourth of those, at 3 and not at 2.9999999.
  expect_gives(by_scales({1, 1, 1, 6}, 1, 2.0f / 3)
                   .with_text(coordinates, "asymmetric")
                   .with_text("nearest_mode", "floor"),
               {1, 1, 1, 4}, {1, 2, 4, 5});
  expect_gives(by_sizes({1, 1, 1, 3}, 1, 3).then("Relu"), {1, 1, 1, 3}, {1, 2, 3});
  const auto by_axes = [](std::vector<int64_t> sizes, const char* policy) {
    return OneNode("Resize", 18)
        .input({1, 1, 2, 2})
        .left_out()
        .left_out()
        .known(sizes)
        .with_ints("axes", {3, -2})
        .with_text("keep_aspect_ratio_policy", policy);
  };
  expect_gives(by_axes({6, 4}, "stretch"), {1, 1, 4, 6}, wide);
  expect_gives(by_axes({3, 4}, "not_larger"), {1, 1, 3, 3}, {1, 1, 2, 1, 1, 2, 3, 3, 4});
  expect_gives(by_axes({2, 3}, "not_smaller"), {1, 1, 3, 3}, {1, 1, 2, 1, 1, 2, 3, 3, 4});
  expect_gives(OneNode("Upsample", 9).input({1, 1, 2, 2}).weights({4}, {1, 1, 2, 3}), {1, 1, 4, 6}, wide);
  expect_gives(OneNode("Upsample", 7).input({1, 1, 2, 2}).with_floats("scales", {1, 1, 2, 3}), {1, 1, 4, 6},
               wide);
  expect_gives(
      OneNode("Resize", 10).input({1, 1, 1, 2}).weights({4}, {1, 1, 1, 2}).with_text("mode", "linear"),
      {1, 1, 1, 4}, {1, 1.5, 2, 2});
  // The pixel behind 5/3 and 10/3.
  expect_gives(OneNode("Resize", 10).input({1, 1, 1, 5}).weights({4}, {1, 1, 1, 0.6f}), {1, 1, 1, 3},
               {1, 3, 5});
  const std::vector<Tensor> middle =
      less().with_text(coordinates, "half_pixel_symmetric").run();  // of opset 19: export writes 17
  expect_tensor(middle[0], {1, 1, 1, 2}, {3.6666667, 5.3333333});

  const auto resized = [] { return OneNode("Resize").input({1, 2, 4, 4}).left_out(); };
  const auto doubled = [&] { return resized().weights({4}, {1, 1, 2, 2}); };
  expect_refused(doubled().with_text("mode", "cubic"), "its mode is 'cubic'; dlpipe takes nearest, linear");
  expect_refused(doubled().with("antialias", 1), "no antialias");
  expect_refused(doubled().with("exclude_outside", 1), "no exclude_outside");
  expect_refused(doubled().with_text(coordinates, "tf_crop_and_resize"), "'tf_crop_and_resize'");
  expect_refused(resized().weights({4}, {1, 2, 2, 2}), "it changes the batch or the channels");
  expect_refused(resized().weights({4}, {2, 1, 2, 2}), "it changes the batch or the channels");
  expect_refused(resized().weights({4}, {1, 1, 0, 2}), "impossible sizes");
  expect_refused(resized().weights({4}, {1, 1, 0.1f, 2}), "impossible sizes");
  expect_refused(resized().weights({2}, {2, 2}), "expected 4 scales, got 2");
  expect_refused(resized().input({4}), "input 2 is not known before the model runs");
  expect_refused(resized(), "expected scales or sizes");
  expect_refused(doubled().known({1, 2, 8, 8}), "expected scales or sizes");
  expect_refused(by_sizes({1, 1, 4, 4}, -3, 1), "impossible sizes");
  expect_refused(by_sizes({1, 1, 4, 4}, int64_t{1} << 30, int64_t{1} << 30), "impossible sizes");
  expect_refused(OneNode("Resize").input({1, 2, 4}).left_out().weights({3}), "expected images [N,C,H,W]");
  expect_refused(by_axes({3, 4}, "larger"), "its keep_aspect_ratio_policy is 'larger'");
  expect_refused(OneNode("Upsample", 9).input({1, 1, 2, 2}).weights({4}, {1, 1, 2, 0.5f}),
                 "one side longer and the other shorter");
}

TEST(OnnxOps, OfAnOpsetThatIsNotKnownAreRefused) {
  // Up to opset 6 Mul's attribute `axis` said where the second operand lies.
  expect_refused(OneNode("Mul", 6).input({1, 3, 3}).weights({3}).with("broadcast", 1).with("axis", 1),
                 "opset 6");
  expect_refused(OneNode("Relu", 29).input({2}), "opset 29; dlpipe takes 7 to 28");
}

}  // namespace
}  // namespace dlpipe::engine::onnx
