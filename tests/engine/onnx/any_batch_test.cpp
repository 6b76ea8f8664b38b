#include "engine/onnx/any_batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dlpipe/graph.h"

namespace dlpipe::engine::onnx {
namespace {

NodeEntry node(const std::string& op, std::vector<std::string> inputs, const std::string& output,
               std::vector<Attribute> attributes = {}) {
  return {op, "", output, std::move(inputs), {output}, std::move(attributes)};
}

// x f32 [2,4], exported for batches of two alone.
Model of_two(std::vector<NodeEntry> nodes) {
  Model model;
  model.opsets[""] = 17;
  model.graph_name = "g";
  model.inputs = {{"x", ElementType::kFloat, {{2}, {4}}}};
  model.outputs = {{"y", ElementType::kFloat, {{2}, {4}}}};
  model.nodes = std::move(nodes);
  return model;
}

bool takes_any(const Model& model) {
  const graph::Graph fixed = import_model(model);
  const auto any = with_any_batch(model, fixed);
  return any && any->value(any->inputs[0]).type_text() == "f32 [N,4]" && answer_alike(fixed, *any);
}

TEST(AnyBatch, IsOfAModelThatAnswersEachSampleByItself) {
  EXPECT_TRUE(takes_any(of_two({node("Relu", {"x"}, "a"), node("Softmax", {"a"}, "y")})));
}

TEST(AnyBatch, IsOfNoModelWhoseNodesHoldTheSize) {
  Model model = of_two({node("Relu", {"x"}, "a"), node("Reshape", {"a", "size"}, "y")});
  const int64_t size[] = {2, 4};
  model.initializers = {{"size", ElementType::kInt64, {2}, {reinterpret_cast<const char*>(size), 16}}};
  EXPECT_FALSE(takes_any(model));
}

TEST(AnyBatch, IsOfNoModelWhoseSamplesChangeEachOther) {
  Attribute axes{.name = "axes", .type = Attribute::kInts};
  axes.ints = {0};
  EXPECT_FALSE(
      takes_any(of_two({node("ReduceMean", {"x"}, "mean", {axes}), node("Sub", {"x", "mean"}, "y")})));
}

// The numbers drawn are below 1: of x - 5 the logarithm is no number, and relu 0. Neither says how samples change each other.
TEST(AnyBatch, IsOfNoModelWhoseAnswersSayNothing) {
  Attribute axes{.name = "axes", .type = Attribute::kInts};
  axes.ints = {0};
  for (const char* const op : {"Log", "Relu"}) {
    Model model = of_two({node("Sub", {"x", "five"}, "a"), node(op, {"a"}, "b"),
                          node("ReduceMean", {"b"}, "mean", {axes}), node("Sub", {"b", "mean"}, "y")});
    const float five = 5;
    model.initializers = {{"five", ElementType::kFloat, {}, {reinterpret_cast<const char*>(&five), 4}}};
    EXPECT_FALSE(takes_any(model)) << op;
  }
}

TEST(ImportOptions, GiveTheSizesThatAFileLeavesOpen) {
  Model model = of_two({node("Relu", {"x"}, "y")});
  model.inputs[0].dims = {{-1, "batch"}, {-1, "width"}};
  const auto type_of = [&](const std::vector<int64_t>& sizes) {
    const graph::Graph graph = import_model(model, {{{"x", sizes}}});
    return graph.value(graph.inputs[0]).type_text();
  };
  const auto error_of = [&](const ImportOptions& options) -> std::string {
    try {
      import_model(model, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(error_of({}).find("axis 1 of input 'x' has no size ('width')"), std::string::npos)
      << error_of({});
  EXPECT_NE(error_of({}).find("--input-shape x=N,128"), std::string::npos) << error_of({});
  EXPECT_EQ(type_of({kAnyBatch, 7}), "f32 [N,7]");
  EXPECT_EQ(type_of({3, 7}), "f32 [3,7]");
  const std::string rank = error_of({{{"x", {kAnyBatch, 7, 1}}}});
  EXPECT_NE(rank.find("input 'x' has the shape [batch,width], which the given sizes don't match"),
            std::string::npos)
      << rank;
  const std::string name = error_of({{{"z", {1}}}});
  const std::string own = error_of({{{"x", {2, 7, 1}}}});  // the file's shape, and none of what was given
  EXPECT_NE(own.find("has the shape [batch,width]"), std::string::npos) << own;
  EXPECT_NE(name.find("there is no input 'z' to give a shape; the model has x"), std::string::npos) << name;
  model.inputs[0].has_shape = false;
  model.inputs[0].dims.clear();
  EXPECT_NE(error_of({}).find("input 'x' has no shape; give it"), std::string::npos) << error_of({});
  EXPECT_EQ(type_of({kAnyBatch, 7}), "f32 [N,7]");
}

TEST(ImportOptions, ElementsThatDlpipeLacksAreCalledByName) {
  Model model = of_two({node("Relu", {"x"}, "y")});
  model.inputs[0].type = ElementType::kUint8;
  try {
    import_model(model);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("input 'x' has elements of type uint8"), std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace dlpipe::engine::onnx
