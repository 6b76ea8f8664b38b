// A model of one of ONNX's ops, or of a few in a row, and what is expected of it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/graph.h"
#include "dlpipe/onnx.h"

namespace dlpipe::engine::onnx {

inline std::vector<float> ramp(int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

inline std::vector<double> all_of(const std::vector<float>& values) {
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
  /// The first axis of the last input is the batch.
  OneNode&& any_batch() && {
    model_.inputs.back().dims[0] = {-1, "N"};
    return std::move(*this);
  }
  /// What the last node reads already is its next input, too.
  OneNode&& read_again() && {
    model_.nodes.back().inputs.push_back(model_.nodes.back().inputs.back());
    return std::move(*this);
  }
  /// By their names, in place of what the last node reads: x, w or k and how many were given before; m of so many nodes.
  OneNode&& reading(std::vector<std::string> names) && {
    model_.nodes.back().inputs = std::move(names);
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
  /// As the last node's first input, before those that it has.
  OneNode&& known_first(const std::vector<int64_t>& values) && {
    OneNode&& same = std::move(*this).known(values);
    std::vector<std::string>& inputs = same.model_.nodes.back().inputs;
    std::rotate(inputs.begin(), inputs.end() - 1, inputs.end());
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
  /// Of half precision, by its bits.
  OneNode&& with_half(const std::string& name, uint16_t bits) && {
    attribute(name, Attribute::kTensor).t = {
        "", ElementType::kFloat16, {1}, {reinterpret_cast<const char*>(&bits), sizeof bits}};
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

inline void expect_tensor(const Tensor& got, const Shape& shape, const std::vector<double>& wanted) {
  EXPECT_EQ(got.shape().to_string(), shape.to_string());
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 2e-5) << "element " << i;
}

inline void expect_gives(const OneNode& node, const Shape& shape, const std::vector<double>& wanted) {
  SCOPED_TRACE(node.model().nodes.back().op);
  const std::vector<Tensor> outputs = node.run();
  ASSERT_EQ(outputs.size(), 1u);
  expect_tensor(outputs[0], shape, wanted);
  SCOPED_TRACE("there and back");
  const std::string bytes = serialize(export_graph(import_model(node.model())));
  const graph::Runner again(import_model(value_or_throw(parse_model(bytes, ""))));
  expect_tensor(again.run(node.given())[0], shape, wanted);
}

inline void expect_op_refused(const OneNode& node, const std::string& words) {
  SCOPED_TRACE(node.model().nodes.back().op);
  try {
    import_model(node.model());
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported) << error.what();
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

}  // namespace dlpipe::engine::onnx
