// Models of every kind go to ONNX and come back, and then answer what they answered. (The whole table is judged
// by ONNX Runtime, tests/interop/read_onnx.py.)
#include <gtest/gtest.h>

#include "dlpipe/graph.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/graph/capture.h"
#include "engine/graph/passes.h"
#include "engine/models/graph_module.h"
#include "tests/engine/distance.h"

namespace dlpipe::engine {
namespace {

Tensor drawn(const ModelArguments& arguments, int64_t batch) {
  Tensor x = blank_input(arguments, batch);
  RandomStream random(7, 1);
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (x.dtype() == DType::kI64) {
      x.data<int64_t>()[i] = random.below(static_cast<uint32_t>(arguments.classes));
    } else {
      x.data<float>()[i] = static_cast<float>(random.normal());
    }
  }
  return x;
}

class OnnxModel : public testing::TestWithParam<const char*> {};

TEST_P(OnnxModel, GoesThereAndBack) {
  const ModelRecord* const record = value_or_throw(ModelRegistry::builtin().find(GetParam()));
  ModelArguments arguments = {.classes = 7, .channels = 3, .height = 32, .width = 32, .seed = 3};
  if (record->input == ModelInput::kTokens) arguments.length = 9;
  const auto model = record->build(arguments);
  const graph::Graph captured = capture_model(*model, arguments, record->name);
  const std::string bytes = onnx::serialize(onnx::export_graph(captured));
  const graph::Graph back = onnx::import_model(value_or_throw(onnx::parse_model(bytes, "")));
  EXPECT_EQ(back.value(back.inputs[0]).name, "x");
  EXPECT_EQ(back.value(back.inputs[0]).type_text(), captured.value(captured.inputs[0]).type_text());
  const Tensor x = drawn(arguments, 2);
  const Tensor wanted = graph::Runner(captured).run({&x, 1})[0], got = graph::Runner(back).run({&x, 1})[0];
  ASSERT_EQ(got.shape(), wanted.shape());
  // Attention and gelu come back as the ops that they are made of.
  EXPECT_LT(test::distance(got, wanted), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, OnnxModel,
                         testing::Values("airbench", "gpt_char_tiny", "lenet", "resnet18_cifar",
                                         "vit_small_cifar"),
                         [](const auto& info) { return std::string(info.param); });

Tensor noise(const Shape& shape, uint64_t key) {
  RandomStream random(20261125, key);
  Tensor tensor = Tensor::empty(shape);
  for (int64_t i = 0; i < tensor.elements(); ++i)
    tensor.data<float>()[i] = static_cast<float>(random.normal() * 0.3);
  return tensor;
}

TEST(OnnxModels, ChainsOfElementwiseOpsGoOutAsTheirOps) {
  const Tensor filters = noise({8, 3, 3, 3}, 1), shift = noise({8}, 2);
  const graph::CaptureInput input = {"x", {{1, 9, 8, 3}}, bit(0)};
  const std::vector<std::pair<std::string, Tensor>> weights = {{"filters", filters}, {"shift", shift}};
  graph::Graph chained = graph::capture("gates", {&input, 1}, weights, [&](const std::vector<Tensor>& in) {
    const Tensor x = conv2d(in[0], filters, Tensor());
    return std::vector<Tensor>{x * clip(scale(x + shift, 0.5, 0.5), 0, 1)};
  });
  const graph::Graph captured = chained;
  EXPECT_EQ(graph::fuse_elementwise_chains.run(chained), 3);
  graph::remove_dead_nodes.run(chained);
  const graph::Graph back =
      onnx::import_model(value_or_throw(onnx::parse_model(onnx::serialize(onnx::export_graph(chained)), "")));
  const Tensor x = noise({2, 9, 8, 3}, 6);
  const std::vector<double> wanted = graph::Runner(captured).run({&x, 1})[0].to_doubles();
  const std::vector<double> got = graph::Runner(back).run({&x, 1})[0].to_doubles();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-6) << i;
}

// What passes make of a network with depthwise convolutions goes out as the ops that it was.
TEST(OnnxModels, UnitsOfConvolutionsGoOutAsTheirParts) {
  const Tensor stem = noise({8, 3, 3, 3}, 1), wide = noise({24, 8, 1, 1}, 2), bias = noise({24}, 3);
  const Tensor filter = noise({24, 1, 3, 3}, 4), narrow = noise({8, 24, 1, 1}, 5);
  const std::vector<std::pair<std::string, Tensor>> weights = {
      {"stem", stem}, {"wide", wide}, {"bias", bias}, {"filter", filter}, {"narrow", narrow}};
  const graph::CaptureInput input = {"x", {{1, 9, 8, 3}}, bit(0)};
  graph::Graph optimized =
      graph::capture("bottleneck", {&input, 1}, weights, [&](const std::vector<Tensor>& in) {
        const Tensor x = relu(conv2d(in[0], stem, Tensor(), {.stride = {2, 2}, .padding = {1, 1}}));
        const Tensor y = silu(
            conv2d(clip(conv2d(x, wide, bias), -0.5, 6), filter, bias, {.padding = {1, 1}, .groups = 24}));
        return std::vector<Tensor>{conv2d(y, narrow, Tensor()) + x};
      });
  const graph::Graph captured = optimized;
  graph::optimize(optimized);
  const std::string text = graph::to_text(optimized);
  EXPECT_NE(text.find("conv_pair("), std::string::npos) << text;
  EXPECT_NE(text.find("conv_unit("), std::string::npos) << text;
  const std::string bytes = onnx::serialize(onnx::export_graph(optimized));
  const graph::Graph back = onnx::import_model(value_or_throw(onnx::parse_model(bytes, "")));
  const Tensor x = noise({2, 9, 8, 3}, 6);
  const std::vector<double> wanted = graph::Runner(captured).run({&x, 1})[0].to_doubles();
  const std::vector<double> got = graph::Runner(back).run({&x, 1})[0].to_doubles();
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-5) << i;
}

}  // namespace
}  // namespace dlpipe::engine
