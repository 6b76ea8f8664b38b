#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "dlpipe/onnx.h"
#include "io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

using formats::Json;

TEST(Compile, MakesAFileThatEvalAndPredictTake) {
  ScratchDirectory folder;
  const std::string file = folder / "m.dlg";
  const Outcome compiled =
      run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", file, "--passes", "same-bits", "--json"});
  ASSERT_EQ(compiled.exit_code, 0) << compiled.err;
  const Json report = *Json::parse(compiled.out);
  EXPECT_GT(report["captured_nodes"].as_int(), 1);
  EXPECT_EQ(report["file"].as_string(), file);
  const SampleData& data = trained_run().data;
  for (const std::string command : {"eval", "predict"}) {
    const auto answer = [&](const std::string& weights) {
      const Outcome outcome = command == "eval"
                                  ? run_dlpipe({"eval", "--ckpt", weights, "--data", data.val, "--json"})
                                  : run_dlpipe({"predict", "--ckpt", weights, data.jpegs});
      EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
      return outcome.out;
    };
    const std::string of_graph = answer(file), of_run = answer(trained_run().run);
    if (command == "predict") {
      EXPECT_EQ(of_graph, of_run);
      continue;
    }
    const Json graph_json = *Json::parse(of_graph), run_json = *Json::parse(of_run);
    EXPECT_EQ(graph_json["loss"], run_json["loss"]);
    EXPECT_EQ(graph_json["metrics"], run_json["metrics"]);
  }
}

/// As another program would have written the file.
void forget_metadata(const std::string& onnx) {
  engine::onnx::Model model = value_or_throw(engine::onnx::read_model(onnx));
  model.metadata.clear();
  throw_if_error(engine::onnx::write_model(onnx, model));
}

TEST(Compile, ItsOnnxFileSaysHowImagesArePreparedAndWhatTheClassesAre) {
  ScratchDirectory folder;
  const std::string onnx = folder / "m.onnx", run = trained_run().run;
  const SampleData& data = trained_run().data;
  ASSERT_EQ(run_dlpipe({"compile", "--ckpt", run, "-o", onnx, "--passes", "same-bits"}).exit_code, 0);
  const auto json = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return *Json::parse(outcome.out);
  };
  const std::string image = data.jpegs + "/ring/00000.jpg";
  const Outcome predicted = run_dlpipe({"predict", "--ckpt", onnx, image, "--json"});
  EXPECT_EQ(predicted.err.find("class names"), std::string::npos) << predicted.err;
  const Json one = json(predicted), whole = json(run_dlpipe({"predict", "--ckpt", run, image, "--json"}));
  EXPECT_EQ(one["class"], whole["class"]);
  EXPECT_NEAR(one["probability"].as_double(), whole["probability"].as_double(), 1e-5);
  const auto metrics = [&](const std::string& model) {
    return json(run_dlpipe({"eval", "--ckpt", model, data.val, "--json"}))["metrics"];
  };
  EXPECT_EQ(metrics(onnx), metrics(run));
}

TEST(Compile, ReplacesNoFile) {
  ScratchDirectory folder;
  for (const char* name : {"own.onnx", "own.dlg"}) {
    std::ofstream(std::filesystem::path(folder / name)) << "mine";
    const Outcome outcome = run_dlpipe({"compile", trained_run().run, "-o", folder / name});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("exists already; remove it or choose another"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(file_text(folder / name), "mine");
  }
}

TEST(Compile, AnOnnxFileIsAModelForPredictAndEvalOnceItsPreparationIsGiven) {
  ScratchDirectory folder;
  const std::string onnx = folder / "m.onnx", run = trained_run().run;
  const SampleData& data = trained_run().data;
  ASSERT_EQ(run_dlpipe({"compile", "--ckpt", run, "-o", onnx, "--passes", "same-bits"}).exit_code, 0);
  forget_metadata(onnx);
  const std::string image = data.jpegs + "/ring/00000.jpg";
  // It says neither classes nor how images are normalised: what to give is named.
  const Outcome refused = run_dlpipe({"predict", "--ckpt", onnx, image});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("give --val-augment \"resize(32) center_crop(32) normalize(mean="),
            std::string::npos)
      << refused.err;
  const Json checkpoint = *Json::parse(run_dlpipe({"info", run, "--json"}).out);
  const std::string chain = checkpoint["val_augment"].as_string();
  const auto json = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return *Json::parse(outcome.out);
  };
  const Json whole = json(run_dlpipe({"predict", "--ckpt", run, image, "--json"}));
  const Json one = json(run_dlpipe(
      {"predict", "--ckpt", onnx, "--val-augment", chain, "--classes", data.val, image, "--json"}));
  EXPECT_EQ(one["class"], whole["class"]);
  EXPECT_NEAR(one["probability"].as_double(), whole["probability"].as_double(), 1e-5);
  const Json judged = json(run_dlpipe({"eval", "--ckpt", onnx, "--val-augment", chain, data.val, "--json"}));
  EXPECT_EQ(judged["metrics"], json(run_dlpipe({"eval", "--ckpt", run, data.val, "--json"}))["metrics"]);
  for (const auto& [more, part] :
       {std::pair<std::vector<std::string>, std::string>{{"--model", "lenet"}, "leave --model"},
        {{"--val-augment", "resize(8x8) normalize(mean=0.5,std=0.5)"}, "makes 8x8"}}) {
    std::vector<std::string> words = {"predict", "--ckpt", onnx, image};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome wrong = run_dlpipe(words);
    EXPECT_EQ(wrong.exit_code, 2);
    EXPECT_NE(wrong.err.find(part), std::string::npos) << wrong.err;
  }
  // Once prepared, it compiles to a file that says it itself.
  ASSERT_EQ(run_dlpipe({"compile", "--ckpt", onnx, "--val-augment", chain, "--classes", data.val, "-o",
                        folder / "p.dlg"})
                .exit_code,
            0);
  EXPECT_EQ(json(run_dlpipe({"predict", "--ckpt", folder / "p.dlg", image, "--json"}))["class"],
            whole["class"]);
}

TEST(Compile, SaysWhatEachPassDid) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe({"compile", "--ckpt", trained_run().run, "--out", folder / "m.dlg"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("capture"), std::string::npos) << outcome.out;
}

TEST(Compile, OnnxGoesOutAndComesBack) {
  ScratchDirectory folder;
  const std::string onnx = folder / "m.onnx", file = folder / "m.dlg", again = folder / "again.dlg";
  ASSERT_EQ(run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", file}).exit_code, 0);
  const Outcome out = run_dlpipe({"compile", "--ckpt", file, "-o", onnx});
  ASSERT_EQ(out.exit_code, 0) << out.err;
  const Outcome back = run_dlpipe({"compile", "--onnx", onnx, "-o", again, "--json"});
  ASSERT_EQ(back.exit_code, 0) << back.err;
  EXPECT_NE(run_dlpipe({"compile", "--list-onnx-ops"}).out.find("Conv\n"), std::string::npos);
  std::filesystem::resize_file(onnx, 100);
  std::filesystem::remove(again);
  const Outcome damaged = run_dlpipe({"compile", "--onnx", onnx, "-o", again});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_NE(damaged.err.find("m.onnx"), std::string::npos) << damaged.err;
  EXPECT_EQ(run_dlpipe({"compile", "--onnx", onnx, "--ckpt", file, "-o", again}).exit_code, 2);
  const Outcome foreign = run_dlpipe({"compile", "--ckpt", file, "-o", folder / "m.pt"});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_NE(foreign.err.find("--out (-o): '"), std::string::npos) << foreign.err;
  EXPECT_NE(foreign.err.find("m.pt' has an ending that doesn't match the file's format; use .dlg or .onnx"),
            std::string::npos)
      << foreign.err;
}

TEST(Compile, WritesToStdoutAndSaysTheRestOnStderr) {
  ScratchDirectory folder;
  const std::string file = folder / "m.dlg", streamed = folder / "streamed";
  ASSERT_EQ(run_dlpipe({"compile", trained_run().run, "-o", file}).exit_code, 0);
  for (const char* out : {"-", "/dev/stdout"}) {
    std::ofstream(streamed) << "";
    const Outcome outcome = run_dlpipe({"compile", trained_run().run, "-o", out}, {.out = streamed});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(file_text(streamed), file_text(file)) << out;
    EXPECT_NE(outcome.err.find("capture"), std::string::npos) << outcome.err;
  }
  const Outcome both = run_dlpipe({"compile", trained_run().run, "-o", "-", "--json"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_NE(both.err.find("--out - and --json both write to stdout"), std::string::npos) << both.err;
}

TEST(Compile, AnOnnxModelWithItsPreparationPredictsAndIsJudged) {
  ScratchDirectory folder;
  const std::string onnx = folder / "m.onnx", file = folder / "m.dlg";
  const std::string val = trained_run().data.val;
  ASSERT_EQ(run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", onnx}).exit_code, 0);
  forget_metadata(onnx);
  const auto state = formats::read_json(trained_run().run + "/checkpoints/best/state.json");
  ASSERT_TRUE(state.ok());
  const std::string chain = (*state)["model"]["val_augment"].as_string();
  const auto compile = [&](std::vector<std::string> more) {
    std::filesystem::remove(file);
    std::vector<std::string> words = {"compile", "--onnx", onnx, "-o", file};
    words.insert(words.end(), more.begin(), more.end());
    return run_dlpipe(words);
  };
  const Outcome done = compile({"--val-augment", chain, "--classes", val});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  const auto top1 = [&](const std::string& model) {
    const auto said = Json::parse(run_dlpipe({"eval", "--ckpt", model, val, "--json", "--quiet"}).out);
    return (*said)["metrics"]["top1"].as_double(-1);
  };
  EXPECT_NEAR(top1(file), top1(trained_run().run), 1e-9);
  const Outcome shown = run_dlpipe({"info", file});
  EXPECT_NE(shown.out.find("classes     10: 'bar'"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("normalize(mean="), std::string::npos) << shown.out;
  const auto info = Json::parse(run_dlpipe({"info", file, "--json"}).out);
  EXPECT_EQ((*info)["val_augment"].as_string(), chain);
  EXPECT_EQ((*info)["class_count"].as_int(), 10);
  EXPECT_EQ((*info)["classes"].items().size(), 10u);
  EXPECT_TRUE((*Json::parse(run_dlpipe({"info", onnx, "--json"}).out))["val_augment"].is_null());

  const Outcome numbered = compile({"--val-augment", chain});
  EXPECT_EQ(numbered.exit_code, 0);
  EXPECT_NE(numbered.err.find("classes are numbers"), std::string::npos) << numbered.err;
  const Outcome half = compile({"--classes", val});
  EXPECT_NE(half.exit_code, 0);
  EXPECT_NE(half.err.find("--val-augment"), std::string::npos) << half.err;
  const Outcome not_normalised = compile({"--val-augment", "resize(32x32)"});
  EXPECT_NE(not_normalised.err.find("normalize(mean"), std::string::npos) << not_normalised.err;
  const Outcome other_size =
      compile({"--val-augment", "resize(40x40) normalize(mean=0.5:0.5:0.5,std=0.5:0.5:0.5)"});
  EXPECT_NE(other_size.exit_code, 0);
  EXPECT_NE(other_size.err.find("40x40"), std::string::npos) << other_size.err;
}

// A graph of no images: what is compiled is for dlpipe run alone.
TEST(Compile, APlainGraphIsCompiledAgainButNotOntoItself) {
  ScratchDirectory folder;
  const std::string onnx = folder / "m.onnx", file = folder / "m.dlg", back = folder / "back.onnx";
  ASSERT_EQ(run_dlpipe({"compile", trained_run().run, "-o", onnx}).exit_code, 0);
  forget_metadata(onnx);
  ASSERT_EQ(run_dlpipe({"compile", onnx, "-o", file}).exit_code, 0);
  const Outcome again = run_dlpipe({"compile", file, "-o", back});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  const auto size = std::filesystem::file_size(back);
  for (const std::string& same : {back, folder / "./back.onnx"}) {
    const Outcome refused = run_dlpipe({"compile", back, "-o", same});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("is the file to compile, which would be overwritten"), std::string::npos)
        << refused.err;
  }
  EXPECT_EQ(std::filesystem::file_size(back), size);
}

TEST(Compile, AFileThatIsOnlyNamedOnnxIsCalledSo) {
  ScratchDirectory folder;
  const std::string onnx = folder / "x.onnx";
  for (const std::string& bytes : {std::string(), std::string("hello"), std::string(500, '\x93')}) {
    std::ofstream(onnx, std::ios::binary) << bytes;
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"compile", onnx, "-o", folder / "m.dlg"},
          {"info", onnx},
          {"predict", "--ckpt", onnx, onnx},
          {"run", onnx, "--input", "x.npy", "-o", "y.npy"}}) {
      const Outcome outcome = run_dlpipe(command);
      EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
      EXPECT_NE(outcome.err.find("x.onnx is named like an ONNX model, but it is not one; get it again"),
                std::string::npos)
          << outcome.err;
    }
  }
}

}  // namespace dlpipe::test
