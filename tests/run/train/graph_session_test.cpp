// Trainings that begin with a captured graph, in a compiled model or an ONNX file: no code builds these models.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "dlpipe/graph.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "dlpipe/predictor.h"
#include "engine/graph/capture.h"
#include "engine/models/graph_module.h"
#include "run/record/receipt.h"
#include "run/use/graph_model.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using test::ScratchFolder;
using test::StopAfter;

class NotesOfGraphs final : public TrainObserver {
 public:
  void on_note(std::string_view text) override { notes += concat(text, "\n"); }
  std::string notes;
};

class GraphSessionTest : public test::SessionTest {
 protected:
  /// The ONNX file of a lenet with drawn weights for images of 32 x 32.
  std::string lenet_onnx(int64_t classes) {
    const engine::ModelArguments arguments{.classes = classes, .seed = 5};
    const auto model = value_or_throw(engine::ModelRegistry::builtin().find("lenet"))->build(arguments);
    const engine::graph::Graph graph = engine::capture_model(*model, arguments, "lenet");
    std::string path = runs_ / concat("lenet", classes, ".onnx");
    throw_if_error(engine::onnx::write_model(path, engine::onnx::export_graph(graph)));
    return path;
  }

  TrainConfig begun_with(const std::string& init, const std::string& run) {
    TrainConfig c = config(runs_ / run);
    c.model = "";
    c.init = init;
    return c;
  }

  static std::string error_of(const TrainConfig& config) {
    try {
      Session session(config);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  /// Writes the model as a compiled file and as an ONNX file; answers their paths.
  std::vector<std::string> write_both(const engine::graph::Graph& graph, const std::string& name) {
    std::vector<std::string> files = {runs_ / name + ".dlg", runs_ / name + ".onnx"};
    throw_if_error(engine::graph::write_graph(files[0], graph));
    throw_if_error(engine::onnx::write_model(files[1], engine::onnx::export_graph(graph)));
    return files;
  }

  /// `graph` with its classes as `change` leaves them.
  static engine::graph::Graph with_classes(engine::graph::Graph graph,
                                           const std::function<void(std::vector<std::string>&)>& change) {
    ModelState state = *state_in(graph, "the test's graph");
    change(state.classes);
    graph.metadata[kModelKey] = to_json(state).dump();
    return graph;
  }

  ScratchFolder runs_;
};

TEST_F(GraphSessionTest, TrainsAsTheModelThatItWasCapturedFrom) {
  TrainConfig first = config(runs_ / "first");
  first.max_steps = 5;
  Session(first).train();
  TrainConfig by_name = config(runs_ / "by_name");
  by_name.init = runs_ / "first/checkpoints/last";
  const TrainOutcome expected = Session(by_name).train();
  const CompiledModel compiled = compile_model({.weights = by_name.init}, PassChoice::kNone);
  throw_if_error(engine::graph::write_graph(runs_ / "m.dlg", compiled.graph));
  throw_if_error(engine::onnx::write_model(runs_ / "m.onnx", engine::onnx::export_graph(compiled.graph)));
  for (const char* file : {"m.dlg", "m.onnx"}) {
    const TrainOutcome outcome = Session(begun_with(runs_ / file, std::string("run-") + file)).train();
    EXPECT_EQ(outcome.steps, expected.steps);
    EXPECT_NEAR(outcome.first_loss, expected.first_loss, 1e-6) << file;
    EXPECT_NEAR(outcome.loss, expected.loss, 1e-5) << file;
  }
}

TEST_F(GraphSessionTest, TheClassesThatCompileWroteAreCompared) {
  TrainConfig first = config(runs_ / "first");
  first.max_steps = 1;
  Session(first).train();
  const CompiledModel compiled = compile_model({.weights = runs_ / "first"}, PassChoice::kNone);
  const auto turned =
      with_classes(compiled.graph, [](std::vector<std::string>& classes) { std::ranges::reverse(classes); });
  for (const std::string& file : write_both(turned, "turned")) {
    const std::string run = "run-" + fs::path(file).filename().string();
    TrainConfig c = begun_with(file, run);
    const std::string error = error_of(c);
    EXPECT_NE(error.find(concat("[classes] ", file, " and the training data have different classes")),
              std::string::npos)
        << error;
    EXPECT_NE(error.find("add --reset-head"), std::string::npos) << error;
    c.out += "-reset";
    c.reset_head = true;
    EXPECT_EQ(error_of(c), "");
  }
  // Numbers are what compile writes of a model whose classes nobody named.
  const auto unnamed = with_classes(compiled.graph, [](std::vector<std::string>& classes) {
    for (size_t i = 0; i < classes.size(); ++i) classes[i] = std::to_string(i);
  });
  for (const std::string& file : write_both(unnamed, "unnamed"))
    EXPECT_EQ(error_of(begun_with(file, "run-" + fs::path(file).filename().string())), "");
}

TEST_F(GraphSessionTest, TheNormalisationThatCompileWroteIsTaken) {
  TrainConfig first = config(runs_ / "first");
  first.augment += " normalize(mean=0.25:0.5:0.75,std=0.5:0.25:0.125)";
  first.max_steps = 1;
  Session(first).train();
  const CompiledModel compiled = compile_model({.weights = runs_ / "first"}, PassChoice::kNone);
  for (const std::string& file : write_both(compiled.graph, "m")) {
    NotesOfGraphs observer;
    const Session session(begun_with(file, "run-" + fs::path(file).filename().string()), {}, &observer);
    EXPECT_EQ(session.validation_augment(), state_in(compiled.graph, file)->val_augment);
    EXPECT_NE(observer.notes.find(concat("as recorded in ", file)), std::string::npos) << observer.notes;
  }
}

TEST_F(GraphSessionTest, GoesOnAndIsJudgedWithoutTheFileItBeganWith) {
  const std::string onnx = lenet_onnx(10);
  const TrainOutcome outcome = Session(begun_with(onnx, "whole")).train();
  {
    StopAfter observer(7);
    Session session(begun_with(onnx, "parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  fs::remove(onnx);
  EXPECT_FALSE(Session::resume(runs_ / "parts", {{"threads", "1"}})->train().stopped);
  const auto difference = compare_runs(runs_ / "whole", runs_ / "parts");
  ASSERT_TRUE(difference.ok()) << difference.status().message();
  EXPECT_TRUE(difference->same());
  const Evaluation evaluation = evaluate_dataset(
      {.model = {.weights = runs_ / "parts/checkpoints/last"}, .data = data_.split, .batch = 16});
  ASSERT_TRUE(outcome.last_validation);
  EXPECT_NEAR(evaluation.report.loss, outcome.last_validation->result.loss, 1e-6);
  // It compiles again, and the compiled model answers the same.
  const CompiledModel compiled =
      compile_model({.weights = runs_ / "parts/checkpoints/last"}, PassChoice::kSameBits);
  throw_if_error(engine::graph::write_graph(runs_ / "again.dlg", compiled.graph));
  const Evaluation again =
      evaluate_dataset({.model = {.weights = runs_ / "again.dlg"}, .data = data_.split, .batch = 16});
  EXPECT_EQ(again.report.loss, evaluation.report.loss);
  // Another run begins with its weights, and with its model; or with a model of the table and its weights.
  const TrainOutcome more = Session(begun_with(runs_ / "parts", "more")).train();
  EXPECT_LT(more.first_loss, outcome.first_loss);
  TrainConfig named = begun_with(runs_ / "parts", "named");
  named.model = "lenet";
  EXPECT_NEAR(Session(named).train().first_loss, more.first_loss, 1e-5);
}

TEST_F(GraphSessionTest, OtherClassesNeedANewHead) {
  TrainConfig c = begun_with(lenet_onnx(7), "a");
  const std::string error = error_of(c);
  EXPECT_NE(error.find("add --reset-head"), std::string::npos) << error;
  EXPECT_NE(error.find("[7,84] for [10,84]"), std::string::npos) << error;
  c.out = runs_ / "b";
  c.reset_head = true;
  Session(c).train();
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] :
       value_or_throw(load_checkpoint(runs_ / "b/checkpoints/last")).tensors.model)
    shapes[name] = tensor.shape();
  EXPECT_EQ(shapes["fc3.weight"], (Shape{10, 84}));
}

// As PyTorch exports with a softmax at the end: channels first, and probabilities.
TEST_F(GraphSessionTest, AnOnnxFileOfProbabilitiesWithChannelsFirstIsJudgedByItsLogits) {
  const engine::ModelArguments arguments{.classes = 10, .seed = 5};
  const auto model = value_or_throw(engine::ModelRegistry::builtin().find("lenet"))->build(arguments);
  model->eval();
  std::vector<std::pair<std::string, engine::Tensor>> weights;
  for (const engine::NamedTensor& tensor : model->state_dict())
    weights.emplace_back(tensor.name, tensor.tensor);
  const engine::graph::CaptureInput input = {"x", engine::Tensor::zeros({1, 3, 32, 32}).spec(), 1};
  const engine::graph::Graph graph =
      engine::graph::capture("lenet", {&input, 1}, weights, [&](const std::vector<engine::Tensor>& inputs) {
        return std::vector{engine::softmax((*model)(engine::transpose(inputs[0], {0, 2, 3, 1})))};
      });
  throw_if_error(engine::onnx::write_model(runs_ / "p.onnx", engine::onnx::export_graph(graph)));
  const LoadedModel loaded =
      load_model({.weights = runs_ / "p.onnx",
                  .val_augment = "resize(32x32) normalize(mean=0.5:0.5:0.5,std=0.2:0.2:0.2)"});
  EXPECT_EQ(loaded.state.arguments.classes, 10);
  EXPECT_EQ(loaded.state.classes.size(), 10u);
  std::vector<float> pixels(size_t{2} * 32 * 32 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 17) * 0.1f;
  engine::Tensor x = engine::Tensor::empty({2, 32, 32, 3});
  x.copy_from_host(pixels.data(), pixels.size() * sizeof(float));
  const engine::NoGrad no_grad;
  const std::vector<double> logits = (*loaded.model)(x).to_doubles(), wanted = (*model)(x).to_doubles();
  ASSERT_EQ(logits.size(), wanted.size());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_NEAR(logits[i], wanted[i], 1e-4) << i;
}

// As PyTorch's segmentation models have them: channels first in images and logits.
TEST(GraphOfPixels, HasItsClassesLastAsOtherModelsHave) {
  const engine::ModelArguments arguments{.classes = 3, .height = 16, .width = 16, .seed = 5};
  const auto model = value_or_throw(engine::ModelRegistry::builtin().find("unet_small"))->build(arguments);
  model->eval();
  std::vector<std::pair<std::string, engine::Tensor>> weights;
  for (const engine::NamedTensor& tensor : model->state_dict())
    weights.emplace_back(tensor.name, tensor.tensor);
  const engine::graph::CaptureInput input = {"x", engine::Tensor::zeros({1, 3, 16, 16}).spec(), 1};
  const engine::graph::Graph graph =
      engine::graph::capture("unet", {&input, 1}, weights, [&](const std::vector<engine::Tensor>& inputs) {
        const engine::Tensor logits = (*model)(engine::transpose(inputs[0], {0, 2, 3, 1}));
        return std::vector{engine::transpose(logits, {0, 3, 1, 2})};
      });
  EXPECT_EQ(engine::trainable_graph(graph).record->output, engine::ModelOutput::kPixels);
  engine::GraphModule module(graph);
  module.eval();
  std::vector<float> pixels(size_t{2} * 16 * 16 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 17) * 0.1f;
  const engine::Tensor x = engine::Tensor::from(std::span<const float>(pixels), {2, 16, 16, 3});
  const engine::NoGrad no_grad;
  const engine::Tensor logits = module(x);
  ASSERT_EQ(logits.shape(), (Shape{2, 16, 16, 3}));
  const std::vector<double> found = logits.to_doubles(), wanted = (*model)(x).to_doubles();
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], wanted[i], 1e-4) << i;
}

TEST_F(GraphSessionTest, WhatDoesNotFitIsNamed) {
  TrainConfig c = begun_with(lenet_onnx(10), "a");
  c.model = "lenet";
  EXPECT_NE(error_of(c).find("is itself a model; leave --model lenet out"), std::string::npos) << error_of(c);
  c = begun_with(c.init, "b");
  c.augment = "rrc(24)";
  EXPECT_NE(error_of(c).find("takes images of 32x32x3, got 24x24x3"), std::string::npos) << error_of(c);
}

// Frozen layers, the average of weights and several grains look at parameters by name, as in every model.
TEST_F(GraphSessionTest, TakesOptionsThatLookAtParameters) {
  TrainConfig c = begun_with(lenet_onnx(10), "a");
  c.freeze = {"conv1.*"};
  c.ema = 0.9;
  c.grains = 2;
  c.epochs = 1;
  Session(c).train();
  c.out = runs_ / "b";
  c.threads = 1;
  Session(c).train();
  EXPECT_TRUE(compare_runs(runs_ / "a", runs_ / "b")->same());
}

}  // namespace dlpipe::run
