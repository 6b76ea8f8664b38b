#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "base/bytes.h"
#include "dlpipe/onnx.h"
#include "io/formats/json.h"
#include "tests/base/test_file.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

TEST(Info, TellsBuildIsaThreadsMemoryAndLibraries) {
  const Outcome outcome = run_dlpipe({"info"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* word : {"build", "isa", "threads", "memory", "gpu", "ranks", "oneTBB", "LMDB", "oneDNN"}) {
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word;
  }
  EXPECT_EQ(outcome.err, "");
}

TEST(Info, JsonGoesToStdoutAlone) {
  const Outcome outcome = run_dlpipe({"info", "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  const auto json = formats::Json::parse(outcome.out);
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_GE((*json)["threads"].as_int(), 1);
  for (const auto& [name, version] : (*json)["libraries"].members())
    EXPECT_NE(version.as_string(), "") << name;
}

TEST(Info, ShowsWhatACheckpointARunAndABareFileHold) {
  const std::string run = trained_run().run;
  for (const std::string& path : {run, run + "/checkpoints/last"}) {
    const Outcome text = run_dlpipe({"info", path});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    for (const char* word : {"tensors     10: 10 F32", "parameters  ", "lenet, step", "classes     10: 'bar'",
                             "32x32x3", "normalize(mean="})
      EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
    const auto json = formats::Json::parse(run_dlpipe({"info", path, "--json"}).out);
    ASSERT_TRUE(json.ok());
    EXPECT_EQ((*json)["kind"].as_string(), "checkpoint");
    EXPECT_EQ((*json)["tensors"].as_int(), 10);
    EXPECT_EQ((*json)["dtypes"]["F32"].as_int(), 10);
    EXPECT_EQ((*json)["class_count"].as_int(), 10);
  }
  const Outcome bare = run_dlpipe({"info", test_file("io/formats/golden/reference.safetensors")});
  EXPECT_EQ(bare.exit_code, 0) << bare.err;
  EXPECT_NE(bare.out.find("tensors     3: 1 F16, 1 F32, 1 I64"), std::string::npos) << bare.out;
  EXPECT_NE(bare.out.find("no model of dlpipe's"), std::string::npos) << bare.out;
  const Outcome pickle = run_dlpipe({"info", test_file("io/formats/golden/torch_averaged.pth"), "--json"});
  EXPECT_EQ(pickle.exit_code, 0) << pickle.err;
  const auto json = formats::Json::parse(pickle.out);
  EXPECT_EQ((*json)["kind"].as_string(), "pytorch");
  EXPECT_EQ((*json)["tensors"].as_int(), 2);
  const Outcome script = run_dlpipe({"info", test_file("io/formats/golden/script.pt")});
  EXPECT_EQ(script.exit_code, 1);
  EXPECT_NE(script.err.find("torch.jit.load"), std::string::npos) << script.err;
}

TEST(Info, KeepsTheBytesOfAPathThatIsNoUtf8) {
  const ScratchDirectory folder;
  const std::string weights = folder / "w\xe9.safetensors", graph = folder / "m\xe9.dlg";
  std::filesystem::copy(test_file("io/formats/golden/reference.safetensors"), weights);
  ASSERT_EQ(run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", graph}).exit_code, 0);
  for (const std::string& path : {weights, graph}) {
    const auto json = formats::Json::parse(run_dlpipe({"info", path, "--json"}).out);
    ASSERT_TRUE(json.ok());
    EXPECT_EQ(from_base64((*json)["path_bytes"].as_string()), path);
  }
}

TEST(Info, AMisspeltModelIsAnsweredWithTheNearest) {
  const Outcome outcome = run_dlpipe({"info", "resnt18"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("did you mean 'resnet18'?"), std::string::npos) << outcome.err;
  EXPECT_EQ(run_dlpipe({"info", "/nonexistent/run"}).exit_code, 1);
}

TEST(Info, ShowsACompiledModelAndAnOnnxFile) {
  ScratchDirectory folder;
  for (const std::string& file : {folder / "m.dlg", folder / "m.onnx"})
    ASSERT_EQ(run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", file}).exit_code, 0);
  const Outcome text = run_dlpipe({"info", folder / "m.dlg"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* word : {"lenet, compiled", "f32 [N,32,32,3]", "f32 [N,10]", "conv2d", "--profile"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
  const Outcome onnx = run_dlpipe({"info", folder / "m.onnx"});
  EXPECT_EQ(onnx.exit_code, 0) << onnx.err;
  for (const std::string& word :
       {std::string(", ONNX"), std::string("f32 [N,32,32,3]"), std::string("f32 [N,10]"),
        std::string("conv2d"), "`dlpipe compile " + (folder / "m.onnx") + " -o model.dlg`"})
    EXPECT_NE(onnx.out.find(word), std::string::npos) << onnx.out;
  const auto json = formats::Json::parse(run_dlpipe({"info", folder / "m.onnx", "--json"}).out);
  ASSERT_TRUE(json.ok());
  EXPECT_EQ((*json)["kind"].as_string(), "onnx");
  const Outcome nodes = run_dlpipe({"info", folder / "m.onnx", "--graph"});
  EXPECT_NE(nodes.out.find("conv2d"), std::string::npos) << nodes.out << nodes.err;
  const Outcome dot = run_dlpipe({"info", folder / "m.onnx", "--dot", "--json"});
  EXPECT_EQ(dot.exit_code, 2) << dot.out;
  EXPECT_NE(dot.err.find("--dot prints text for Graphviz"), std::string::npos) << dot.err;
  const Outcome none = run_dlpipe({"info", test_file("io/formats/golden/reference.safetensors"), "--graph"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("is a file of weights, not a compiled model; `dlpipe compile "), std::string::npos)
      << none.err;
  std::filesystem::resize_file(folder / "m.dlg", std::filesystem::file_size(folder / "m.dlg") - 1);
  const Outcome cut = run_dlpipe({"info", folder / "m.dlg", "--graph"});
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_NE(cut.err.find("outside the file's"), std::string::npos) << cut.err;
  const Outcome eval = run_dlpipe({"eval", "--ckpt", folder / "m.onnx", trained_run().data.val});
  EXPECT_EQ(eval.exit_code, 0) << eval.err;
}

TEST(Info, SaysWhatAnOnnxFileHoldsThatItDoesNotTake) {
  const ScratchDirectory folder;
  engine::onnx::Model model;
  model.opsets[""] = 17;
  model.graph_name = "net";
  model.producer = "somebody";
  model.inputs = {{"x", engine::onnx::ElementType::kFloat16, {{-1, "batch"}, {4}}}};
  model.outputs = {{"y", engine::onnx::ElementType::kFloat, {{-1, "batch"}, {4}}}};
  model.nodes = {{"Sine", "", "one", {"x"}, {"a"}},
                 {"Sine", "", "two", {"a"}, {"b"}},
                 {"Relu", "", "three", {"b"}, {"y"}}};
  throw_if_error(engine::onnx::write_model(folder / "m.onnx", model));
  const Outcome outcome = run_dlpipe({"info", folder / "m.onnx"});
  EXPECT_EQ(outcome.exit_code, 1);
  for (const char* part : {"net, ONNX opset 17 of somebody", "x float16 [batch,4]", "3: 1 Relu, 2 Sine"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("dlpipe has no such op: Sine (2 nodes"), std::string::npos) << outcome.err;
}

TEST(Info, ShortensAndEscapesTheNamesOfAFile) {
  const ScratchDirectory folder;
  const std::string name = "a\nb\x1b[2J" + std::string(1'000'000, 'n');
  engine::onnx::Model model;
  model.opsets[""] = 17;
  model.graph_name = name + "graph";
  model.producer = name;
  model.inputs = {{name, engine::onnx::ElementType::kFloat, {{-1, name}, {4}}}};
  model.outputs = {{name + "y", engine::onnx::ElementType::kFloat, {{-1, name}, {4}}}};
  const auto expect_short = [&](const std::vector<std::string>& arguments, int exit_code, size_t lines) {
    SCOPED_TRACE(arguments.back());
    const Outcome outcome = run_dlpipe(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err.substr(0, 1000);
    EXPECT_LT(outcome.out.size() + outcome.err.size(), 5000u);
    EXPECT_EQ(static_cast<size_t>(std::count(outcome.out.begin(), outcome.out.end(), '\n')), lines);
    EXPECT_EQ((outcome.out + outcome.err).find('\x1b'), std::string::npos);
  };
  const std::string file = folder / "m.onnx";
  model.nodes = {{"Relu", "", name + "node", {name}, {name + "y"}}};
  throw_if_error(engine::onnx::write_model(file, model));
  expect_short({"info", file}, 0, 7);
  expect_short({"info", file, "--graph"}, 0, 3);
  expect_short({"info", file, "--dot"}, 0, 8);
  model.nodes[0].op = name + "op";
  throw_if_error(engine::onnx::write_model(file, model));
  expect_short({"info", file}, 1, 5);
}

TEST(Info, TakesTheNameOfAModelAsItsPath) {
  const Outcome named = run_dlpipe({"info", "lenet", "--size", "28"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_EQ(named.out, run_dlpipe({"info", "--model", "lenet", "--size", "28"}).out);
}

TEST(Info, ShowsAModelsLayers) {
  const Outcome outcome = run_dlpipe({"info", "--model", "lenet", "--size", "28", "--channels", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"Conv2d", "conv1", "[1,28,28,6]", "61,706", "trainable parameters"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
  const Outcome json = run_dlpipe({"info", "--model", "lenet", "--size", "28", "--channels", "1", "--json"});
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_EQ((*formats::Json::parse(json.out))["layers"].items()[0]["kind"].as_string(), "Conv2d") << json.out;
}

}  // namespace dlpipe::test
