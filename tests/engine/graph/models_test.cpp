// Every model of the table: its graph answers the same bits as the model, and the optimized graph nearly so.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "dlpipe/graph.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "dlpipe/tensor.h"
#include "engine/graph/capture.h"
#include "engine/graph/passes.h"
#include "engine/graph/run.h"
#include "engine/models/graph_module.h"
#include "tests/engine/distance.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::engine {
namespace {

// The smallest that every model takes.
ModelArguments small_arguments(const ModelRecord& record) {
  ModelArguments arguments;
  arguments.classes = 7;
  arguments.height = arguments.width = 32;
  arguments.seed = 3;
  if (record.input == ModelInput::kTokens) arguments.length = 9;
  return arguments;
}

Tensor drawn_input(const ModelArguments& arguments, int64_t batch) {
  Tensor x = blank_input(arguments, batch);
  RandomStream random(11, static_cast<uint64_t>(batch));
  for (int64_t i = 0; i < x.elements(); ++i) {
    if (x.dtype() == DType::kI64) {
      x.data<int64_t>()[i] = random.below(static_cast<uint32_t>(arguments.classes));
    } else {
      x.data<float>()[i] = static_cast<float>(random.normal());
    }
  }
  return x;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), a.size_bytes()) == 0;
}

// How many values a run copies into another layout. Networks that flatten images or make tokens of them need plain ones there;
// a convolution of a number of channels that is no whole number of blocks takes and gives plain ones.
int64_t most_copies(std::string_view model) {
  if (model == "airbench" || model == "detector_small" || model.starts_with("unet")) return 2;
  return model == "cifarnet" || model == "vit_small_cifar" || model.starts_with("vgg") ? 1 : 0;
}

class GraphOfModel : public testing::TestWithParam<const ModelRecord*> {};

TEST_P(GraphOfModel, AnswersItsBits) {
  const ModelRecord& record = *GetParam();
  const ModelArguments arguments = small_arguments(record);
  const auto model = record.build(arguments);
  const graph::Graph captured = capture_model(*model, arguments, record.name);
  EXPECT_TRUE(model->is_training());
  model->eval();
  const graph::Runner runner(captured);
  graph::Graph fast = captured;
  const auto reports = graph::optimize(fast);
  EXPECT_LE(fast.nodes.size(), captured.nodes.size());
  const graph::Runner fast_runner(fast);
  for (const int64_t batch : {1, 3}) {
    const InferenceMode mode;
    const Tensor x = drawn_input(arguments, batch);
    const Tensor eager = (*model)(x);
    EXPECT_TRUE(same_bits(runner.run({&x, 1})[0], eager)) << "batch " << batch;
    // Batch norms in the weights: another order of rounding in up to 200 layers.
    EXPECT_LT(test::distance(fast_runner.run({&x, 1})[0], eager), 1e-3) << "batch " << batch;
  }
}

// Of each sample, the bits of a batch are those of the sample alone: kernels are chosen for one sample.
TEST_P(GraphOfModel, AnswersASampleWithTheSameBitsInAnyBatch) {
  const ModelRecord& record = *GetParam();
  const ModelArguments arguments = small_arguments(record);
  const auto model = record.build(arguments);
  graph::Graph fast = capture_model(*model, arguments, record.name);
  model->eval();
  graph::optimize(fast);
  const graph::Runner runner(fast);
  constexpr int64_t kMost = 9;
  const Tensor all = drawn_input(arguments, kMost);
  const auto first = [](const Tensor& x, int64_t count) { return slice(x, 0, 0, count).contiguous_copy(); };
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const InferenceMode mode;
    const UseAutocast autocast(dtype);
    const auto answers = [&](int64_t batch) {
      const Tensor x = first(all, batch);
      std::vector<Tensor> both = runner.run({&x, 1});
      both.push_back((*model)(x));
      return both;
    };
    const std::vector<Tensor> wanted = answers(kMost);
    for (const int64_t batch : {1, 2, 4, 5}) {
      const std::vector<Tensor> got = answers(batch);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i].contiguous_copy(), first(wanted[i], got[i].size(0))))
            << dtype_name(dtype) << ", batch " << batch << (i + 1 == got.size() ? ", eager" : ", compiled");
      }
    }
  }
}

TEST_P(GraphOfModel, CopiesNothingIntoAnotherLayoutWithoutNeed) {
  const ModelRecord& record = *GetParam();
  const ModelArguments arguments = small_arguments(record);
  graph::Graph fast = capture_model(*record.build(arguments), arguments, record.name);
  graph::optimize(fast);
  const graph::Runner runner(fast);
  for (const int64_t batch : {1, 2}) {
    const Tensor x = drawn_input(arguments, batch);
    const std::vector<graph::LayoutCopies> copies = graph::layout_copies(runner, {&x, 1});
    int64_t count = 0;
    std::string before;
    for (size_t i = 0; i < copies.size(); ++i) {
      count += copies[i].count();
      if (copies[i].count() > 0)
        before += concat(" ", i < fast.nodes.size() ? fast.nodes[i].op->name() : "outputs");
    }
    EXPECT_LE(count, most_copies(record.name)) << "batch " << batch << ", before" << before;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GraphOfModel, testing::ValuesIn(model_table()),
                         [](const auto& info) { return std::string(info.param->name); });

// A chain has no gradient of its own: who trains takes it apart.
TEST(Graphs, WithChainsAreTrainedAsThoseWithout) {
  const Tensor filters = Tensor::full({6, 3, 3, 3}, 0.1), head = Tensor::full({5, 6}, 0.3);
  const graph::CaptureInput input = {"x", {{1, 8, 8, 3}}, bit(0)};
  const std::vector<std::pair<std::string, Tensor>> weights = {{"filters", filters}, {"head.weight", head}};
  const graph::Graph apart =
      graph::capture("gates", {&input, 1}, weights, [&](const std::vector<Tensor>& in) {
        const Tensor x = conv2d(in[0], filters, Tensor());
        return std::vector<Tensor>{
            linear(global_avg_pool(x * clip(scale(x, 1.0 / 6, 0.5), 0, 1)), head, Tensor())};
      });
  graph::Graph chained = apart;
  EXPECT_EQ(graph::fuse_elementwise_chains.run(chained), 2);
  graph::remove_dead_nodes.run(chained);
  const auto gradient_of_filters = [](const graph::Graph& graph) {
    const ModelArguments arguments = {.classes = 5, .channels = 3, .height = 8, .width = 8, .seed = 1};
    const auto module = trainable_graph(graph).record->build(arguments);
    Tensor x = Tensor::full({2, 8, 8, 3}, 0.5);
    sum(module->forward(x)).backward();
    for (const NamedTensor& parameter : module->parameters()) {
      if (parameter.name == "filters") return parameter.tensor.grad();
    }
    return Tensor();
  };
  const Tensor expected = gradient_of_filters(apart), got = gradient_of_filters(chained);
  ASSERT_TRUE(expected.defined() && got.defined());
  EXPECT_TRUE(same_bits(got, expected));
}

TEST(Graphs, AWeightOfOneElementIsTrainedAndANumberIsNot) {
  const Tensor filter = Tensor::full({1, 3, 3, 3}, 0.1), bias = Tensor::full({1}, 0.2);
  const Tensor number = Tensor::full({1}, 0.5), head = Tensor::full({5, 1}, 0.3);
  const graph::CaptureInput input = {"x", {{1, 8, 8, 3}}, bit(0)};
  const std::vector<std::pair<std::string, Tensor>> weights = {
      {"filter", filter}, {"bias", bias}, {"number", number}, {"head.weight", head}};
  const graph::Graph graph = graph::capture("thin", {&input, 1}, weights, [&](const std::vector<Tensor>& in) {
    const Tensor x = conv2d(in[0] - number, filter, bias);
    return std::vector<Tensor>{linear(global_avg_pool(x * number), head, Tensor())};
  });
  const ModelArguments arguments = {.classes = 5, .channels = 3, .height = 8, .width = 8, .seed = 1};
  const auto module = trainable_graph(graph).record->build(arguments);
  sum(module->forward(Tensor::full({2, 8, 8, 3}, 0.5))).backward();
  std::vector<std::string> trained;
  for (const NamedTensor& parameter : module->parameters()) {
    trained.push_back(parameter.name);
    EXPECT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
  }
  std::ranges::sort(trained);
  EXPECT_EQ(trained, (std::vector<std::string>{"bias", "filter", "head.weight"}));
}

// Whose head is reset keeps all else.
TEST(Graphs, AHeadsPrefixIsNobodyElses) {
  const Tensor scales = Tensor::full({3}, 2.0), matrix = Tensor::full({5, 3}, 0.3), bias = Tensor::zeros({5});
  const graph::CaptureInput input = {"x", {{1, 8, 8, 3}}, bit(0)};
  const std::vector<std::pair<std::string, Tensor>> weights = {
      {"head.norm.weight", scales}, {"head.weight", matrix}, {"head.bias", bias}};
  const graph::Graph graph =
      graph::capture("gates", {&input, 1}, weights, [&](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{linear(global_avg_pool(in[0] * scales), matrix, bias)};
      });
  const TrainableGraph trainable = trainable_graph(graph);
  std::vector<std::string> of_the_head;
  for (const NamedTensor& weight : trainable.weights) {
    if (weight.name.starts_with(trainable.record->head)) of_the_head.push_back(weight.name);
  }
  EXPECT_EQ(of_the_head.size(), 2u);
  EXPECT_EQ(trainable.weights.size(), 3u);
}

TEST(Graphs, GoToAFileAndBack) {
  const ModelRecord& record = *value_or_throw(ModelRegistry::builtin().find("resnet18_cifar"));
  const ModelArguments arguments = small_arguments(record);
  const auto model = record.build(arguments);
  graph::Graph captured = capture_model(*model, arguments, record.name);
  captured.metadata["about"] = "a test";
  const test::ScratchFolder folder;
  const std::string path = folder / "m.dlg";
  throw_if_error(graph::write_graph(path, captured));
  EXPECT_TRUE(graph::is_graph_file(path));
  const graph::Graph read = value_or_throw(graph::read_graph(path));
  EXPECT_EQ(graph::to_text(read), graph::to_text(captured));
  EXPECT_EQ(read.metadata, captured.metadata);
  model->eval();
  const InferenceMode mode;
  const Tensor x = drawn_input(arguments, 2);
  EXPECT_TRUE(same_bits(graph::Runner(read).run({&x, 1})[0], (*model)(x)));
}

}  // namespace
}  // namespace dlpipe::engine
