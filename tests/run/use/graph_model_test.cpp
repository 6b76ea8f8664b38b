// Models that no code builds, where images go through them: ONNX files as PyTorch writes them, channels first.
#include "run/use/graph_model.h"

#include <gtest/gtest.h>

#include "dlpipe/graph.h"
#include "dlpipe/models.h"
#include "dlpipe/onnx.h"
#include "dlpipe/ops.h"
#include "engine/graph/capture.h"
#include "io/formats/json.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

namespace {

constexpr const char* kChain = "resize(32x32) normalize(mean=0.5:0.5:0.5,std=0.2:0.2:0.2)";

class GraphModelTest : public testing::Test {
 protected:
  GraphModelTest()
      : lenet_(value_or_throw(engine::ModelRegistry::builtin().find("lenet"))
                   ->build({.classes = 7, .seed = 5})) {
    lenet_->eval();
  }

  enum class End : uint8_t { kLogits, kSoftmax, kSigmoid };
  /// An ONNX file of lenet for images [N,C,H,W], or of a batch of `batch` alone.
  std::string channels_first_onnx(End end, int64_t batch = 0) {
    const engine::graph::CaptureInput input = {
        "x", engine::Tensor::zeros({batch == 0 ? 1 : batch, 3, 32, 32}).spec(),
        batch == 0 ? engine::bit(0) : 0};
    const engine::graph::Graph graph =
        engine::graph::capture("lenet", {&input, 1}, {}, [&](const std::vector<engine::Tensor>& inputs) {
          const engine::Tensor logits = (*lenet_)(engine::transpose(inputs[0], {0, 2, 3, 1}));
          return std::vector{end == End::kSoftmax   ? engine::softmax(logits, 1)
                             : end == End::kSigmoid ? engine::sigmoid(logits)
                                                    : logits};
        });
    throw_if_error(engine::onnx::write_model(folder_ / "m.onnx", engine::onnx::export_graph(graph)));
    return folder_ / "m.onnx";
  }

  test::ScratchFolder folder_;
  std::shared_ptr<engine::Module> lenet_;
};

TEST_F(GraphModelTest, ImagesGoIntoAnOnnxModelWhoseChannelsStandFirst) {
  const engine::Tensor x = engine::Tensor::full({2, 32, 32, 3}, 0.25);
  const engine::Tensor expected = (*lenet_)(x);
  for (const auto& [softmax, batch] :
       {std::pair(false, 0), std::pair(true, 0), std::pair(false, 1), std::pair(true, 3)}) {
    const std::string file = channels_first_onnx(softmax ? End::kSoftmax : End::kLogits, batch);
    const CompiledModel compiled = compile_model({.weights = file, .val_augment = kChain}, PassChoice::kAll);
    const size_t of_batch = batch == 0 ? 0 : 1;
    ASSERT_GT(compiled.notes.size(), of_batch);
    EXPECT_NE(compiled.notes[of_batch].find("classes are numbers"), std::string::npos)
        << compiled.notes[of_batch];
    EXPECT_EQ(compiled.notes[0].find("it computes the same in batches of any size") != std::string::npos,
              batch != 0);
    throw_if_error(engine::graph::write_graph(folder_ / "m.dlg", compiled.graph));
    const LoadedModel loaded = load_graph_model({.weights = folder_ / "m.dlg"}, {});
    EXPECT_EQ(loaded.state.classes, (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6"}));
    EXPECT_EQ(loaded.state.val_augment, kChain);
    EXPECT_EQ(loaded.state.arguments.height, 32);
    const engine::Tensor logits = (*loaded.model)(x);
    ASSERT_EQ(logits.shape(), expected.shape());
    for (int64_t i = 0; i < 14; ++i)
      EXPECT_NEAR(logits.data<float>()[i], expected.data<float>()[i], 1e-5) << i << " softmax " << softmax;
  }
}

TEST_F(GraphModelTest, WithoutItsPreparationAnOnnxModelIsNoModelOfImages) {
  const CompiledModel compiled =
      compile_model({.weights = channels_first_onnx(End::kLogits)}, PassChoice::kAll);
  throw_if_error(engine::graph::write_graph(folder_ / "m.dlg", compiled.graph));
  try {
    load_graph_model({.weights = folder_ / "m.dlg"}, {});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--val-augment"), std::string::npos) << error.what();
  }
}

// Other programs write metadata by this name, too.
TEST_F(GraphModelTest, AModelsNameInMetadataIsNoPreparation) {
  const std::string file = channels_first_onnx(End::kLogits);
  for (const char* const text : {"resnet50", "{\"name\": \"resnet50\"}", "[1]", ""}) {
    SCOPED_TRACE(text);
    engine::onnx::Model model = value_or_throw(engine::onnx::read_model(file));
    model.metadata = {{kModelKey, text}, {"graph", text}};
    throw_if_error(engine::onnx::write_model(file, model));
    const CompiledModel compiled = compile_model({.weights = file}, PassChoice::kAll);
    throw_if_error(engine::graph::write_graph(folder_ / "m.dlg", compiled.graph));
    EXPECT_NO_THROW(compile_model({.weights = folder_ / "m.dlg"}, PassChoice::kAll));
    try {
      load_graph_model({.weights = folder_ / "m.dlg"}, {});
      FAIL() << "taken";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("does not record what its inputs and outputs mean"),
                std::string::npos)
          << error.what();
    }
  }
}

TEST_F(GraphModelTest, ClassesAreOneTextForEachOutputOrNumbers) {
  CompiledModel compiled =
      compile_model({.weights = channels_first_onnx(End::kLogits), .val_augment = kChain}, PassChoice::kAll);
  const formats::Json good = value_or_throw(formats::Json::parse(compiled.graph.metadata[kModelKey]));
  const auto load_with = [&](const std::vector<std::pair<const char*, formats::Json>>& changes) {
    formats::Json state = good;
    for (const auto& [key, value] : changes) state.set(key, value);
    compiled.graph.metadata[kModelKey] = state.dump();
    throw_if_error(engine::graph::write_graph(folder_ / "m.dlg", compiled.graph));
    return load_graph_model({.weights = folder_ / "m.dlg"}, {});
  };
  using formats::Json;
  const std::vector<std::string> numbers = {"0", "1", "2", "3", "4", "5", "6"};
  EXPECT_EQ(load_with({{"classes", Json::array()}}).state.classes, numbers);
  const std::pair<const char*, Json> wrong[] = {{"classes", Json(Json::Array{1, 2, 3, 4, 5, 6, 7})},
                                                {"classes", Json(Json::Array{"a"})},
                                                {"classes", Json("abcdefg")},
                                                {"metrics", Json(Json::Array{Json()})}};
  for (const auto& change : wrong) EXPECT_THROW(load_with({change}), Error) << change.second.dump();
  EXPECT_THROW(load_with({{"classes", Json::array()}, {"class_count", 5}}), Error) << "7 outputs";
}

TEST_F(GraphModelTest, AnOnnxModelsOutputKeepsItsName) {
  const std::string file = channels_first_onnx(End::kLogits);
  engine::onnx::Model model = value_or_throw(engine::onnx::read_model(file));
  model.nodes.back().outputs = {"logits"};
  model.outputs[0].name = "logits";
  throw_if_error(engine::onnx::write_model(file, model));
  for (const char* const chain : {"", kChain}) {
    const engine::graph::Graph graph =
        compile_model({.weights = file, .val_augment = chain}, PassChoice::kAll).graph;
    EXPECT_EQ(graph.value(graph.outputs[0]).name, "logits") << chain;
  }
}

TEST_F(GraphModelTest, LabelsThatDoNotExcludeOneAnotherAreNoClasses) {
  try {
    compile_model({.weights = channels_first_onnx(End::kSigmoid), .val_augment = kChain}, PassChoice::kAll);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("ends in a sigmoid"), std::string::npos) << error.what();
  }
  EXPECT_NO_THROW(compile_model({.weights = channels_first_onnx(End::kSigmoid)}, PassChoice::kAll));
}

TEST_F(GraphModelTest, ShapesThatNobodyCouldMeanAreRefused) {
  const auto error_of = [&](const std::string& shape) -> std::string {
    try {
      compile_model({.weights = channels_first_onnx(End::kLogits), .input_shapes = {shape}},
                    PassChoice::kAll);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_of("N,3,32,32"), "");
  EXPECT_EQ(error_of("x=5,3,32,32"), "");
  EXPECT_NE(error_of("x=N,3,N,32").find("--input-shape x=N,3,N,32: 'N' is not a size"), std::string::npos);
  EXPECT_NE(error_of("3,x").find("'x' is not a size"), std::string::npos);
  EXPECT_NE(error_of("x=N,4,32,32"), "") << "the file fixes 3 channels";
}

}  // namespace

}  // namespace dlpipe::run
