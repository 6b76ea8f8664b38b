// That each bench runs and prints what it promises; no test here holds a time.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "base/text.h"
#include "dlpipe/op.h"
#include "engine/core/kernel_table.h"
#include "io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

using formats::Json;

static Json bench_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "bench");
  arguments.insert(arguments.end(), {"--seconds", "0.2", "--json"});
  const Outcome outcome = run_dlpipe(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = Json::parse(outcome.out);
  EXPECT_TRUE(json.ok()) << outcome.out;
  return json.ok() ? *json : Json();
}

TEST(Bench, PipelineGivesRateThreadsAndStages) {
  const Json json = bench_json({"pipeline", "--data", trained_run().data.split, "--augment", "rrc(24) hflip",
                                "--batch", "16", "--threads", "2"});
  EXPECT_GT(json["samples_per_s"].as_double(), 0);
  EXPECT_EQ(json["threads"].as_int(), 2);
  bool has_decoder = false;
  for (const Json& stage : json["stages"].items()) {
    if (stage["name"].as_string() != "decoder") continue;
    has_decoder = true;
    EXPECT_GT(stage["samples_per_s_alone"].as_double(), 0);
  }
  EXPECT_TRUE(has_decoder);
}

TEST(Bench, RunGivesTheRateOfACompiledModel) {
  const ScratchDirectory folder;
  const std::string file = folder / "m.dlg";
  ASSERT_EQ(run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", file}).exit_code, 0);
  const Json json = bench_json({"run", file, "--batch", "3", "--threads", "1", "--kernels", "rules"});
  EXPECT_GT(json["samples_per_s"].as_double(), 0);
  EXPECT_EQ(json["batch"].as_int(), 3);
  EXPECT_EQ(json["threads"].as_int(), 1);
  EXPECT_EQ(json["dtype"].as_string(), "f32");
  EXPECT_GT(json["peak_bytes"].as_int(), 0);
  EXPECT_EQ(bench_json({"run", file, "--kernels", "rules"})["batch"].as_int(), 1);
  const Outcome profile = run_dlpipe({"info", file, "--profile", "--batch", "2"});
  EXPECT_EQ(profile.exit_code, 0) << profile.err;
  EXPECT_NE(profile.out.find("of roofline"), std::string::npos) << profile.out;
  EXPECT_NE(profile.out.find(" into or out of blocks of channels and "), std::string::npos) << profile.out;
  const Outcome half = run_dlpipe({"info", file, "--profile", "--dtype", "bf16", "--threads", "1"});
  EXPECT_EQ(half.exit_code, 0) << half.err;
  EXPECT_NE(half.out.find("ms for a batch of 1 with 1 thread;"), std::string::npos) << half.out;
  const Outcome idle = run_dlpipe({"info", file, "--dtype", "bf16"});
  EXPECT_EQ(idle.exit_code, 2);
  EXPECT_NE(idle.err.find("give it, too"), std::string::npos) << idle.err;
  const Outcome dot = run_dlpipe({"info", file, "--dot"});
  EXPECT_TRUE(dot.out.starts_with("digraph")) << dot.out;
}

// A batch needs as many samples as the limit leaves.
TEST(Bench, PipelineTakesALimit) {
  std::vector<std::string> arguments = {
      "pipeline", trained_run().data.split, "--augment", "rrc(24)", "--batch", "8"};
  arguments.insert(arguments.end(), {"--limit", "8"});
  EXPECT_GT(bench_json(arguments)["samples_per_s"].as_double(), 0);
  arguments.insert(arguments.begin(), "bench");
  arguments.back() = "7";
  const Outcome outcome = run_dlpipe(arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("7"), std::string::npos) << outcome.err;
}

TEST(Bench, TrainGivesRateAndThePartsOfAStep) {
  const Json json =
      bench_json({"train", "--model", "lenet", "--batch", "8", "--size", "28", "--threads", "1"});
  for (const char* key : {"samples_per_s", "forward_ms", "backward_ms", "optimizer_ms", "forward_gflop"}) {
    EXPECT_GT(json[key].as_double(), 0) << key;
  }
  EXPECT_EQ(json["threads"].as_int(), 1);
}

TEST(Bench, StorageAndDecodeGiveRates) {
  EXPECT_GT(bench_json({"storage", "--data", trained_run().data.split})["samples_per_s"].as_double(), 0);
  const Json decode =
      bench_json({"decode", "--data", trained_run().data.split, "--augment", "rrc(24)", "--batch", "16"});
  EXPECT_GT(decode["full"]["samples_per_s"].as_double(), 0);
  EXPECT_GT(decode["region"]["samples_per_s"].as_double(), 0);
}

TEST(Bench, OpsGiveEachOpsRatesAndItsShareOfTheRoofline) {
  const Json json = bench_json({"ops", "--quick", "--threads", "1", "--kernels", "rules"});
  EXPECT_GT(json["roofline_flops_per_s"].as_double(), 0);
  EXPECT_EQ(json["roofline_dtype"].as_string(), "f32");
  EXPECT_GT(json["roofline_bytes_per_s"].as_double(), 0);
  std::map<std::string, int> forward, backward;
  double share = 0;
  for (const Json& op : json["ops"].items()) {
    if (op["note"].as_string() != "") continue;
    ++(op["backward"].as_bool() ? backward : forward)[op["op"].as_string()];
    EXPECT_GT(op["ns"].as_int(), 0) << op.dump();
    share += op["roofline_share"].as_double();
  }
  EXPECT_GT(share, 0);
  for (const engine::OpRow& row : engine::op_table()) {
    const std::string name = row.record->name;
    if (row.record->view != nullptr) continue;  // may compute nothing
    EXPECT_GT(forward[name], 0) << name;
    const bool learns = row.record->differentiable != 0 && row.kernels[0]->backward != nullptr;
    EXPECT_GE(backward[name], learns ? 1 : 0) << name;
  }
}

TEST(Bench, OpsTakeAGlobAndSayWhenNoneMatches) {
  const Outcome outcome =
      run_dlpipe({"bench", "ops", "--quick", "--ops", "soft*", "--seconds", "0.1", "--threads", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("softmax backward"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("linear"), std::string::npos) << outcome.out;
  const Outcome half = run_dlpipe(
      {"bench", "ops", "--quick", "--ops", "soft*", "--seconds", "0.1", "--threads", "1", "--dtype", "bf16"});
  const bool has_bf16 = engine::kernel_isa() >= engine::KernelIsa::kAvx512Bf16;
  const std::string measured = concat("GFLOP/s of ", has_bf16 ? "bf16" : "f32", " and");
  EXPECT_NE(half.out.find(measured), std::string::npos) << "what was measured: " << half.out;
  const Outcome none = run_dlpipe({"bench", "ops", "--ops", "sofd*"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.err.find("sofd*"), std::string::npos) << none.err;
}

TEST(Bench, WithoutJsonATableIsForPeople) {
  const Outcome outcome =
      run_dlpipe({"bench", "train", "--model", "mlp", "--batch", "4", "--size", "8", "--seconds", "0.1"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_NE(outcome.out.find("backward"), std::string::npos) << outcome.out;
}

TEST(Bench, TrainsAModelFromAFile) {
  ScratchDirectory folder;
  const std::string onnx = folder / "m.onnx";
  ASSERT_EQ(
      run_dlpipe({"compile", "--ckpt", trained_run().run, "-o", onnx, "--passes", "same-bits"}).exit_code, 0);
  const Outcome outcome =
      run_dlpipe({"bench", "train", "--model", onnx, "--batch", "4", "--seconds", "0.1", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = value_or_throw(formats::Json::parse(outcome.out));
  EXPECT_GT(json["samples_per_s"].as_double(), 0);
  const auto by_name =
      value_or_throw(formats::Json::parse(run_dlpipe({"bench", "train", "--model", "lenet", "--size", "32",
                                                      "--batch", "4", "--seconds", "0.1", "--json"})
                                              .out));
  EXPECT_NEAR(json["forward_gflop"].as_double() / by_name["forward_gflop"].as_double(), 1, 0.05);
  const auto refusal = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"bench", "train", "--batch", "4", "--seconds", "0.1"});
    const Outcome outcome = run_dlpipe(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  EXPECT_NE(refusal({"--model", onnx, "--size", "7"}).find("leave --size and --classes out"),
            std::string::npos);
  EXPECT_NE(refusal({"--model", folder / "no.dlm"}).find("there is no such file"), std::string::npos);
  std::ofstream(std::filesystem::path(folder / "bad.onnx")) << "not a model";
  EXPECT_NE(refusal({"--model", folder / "bad.onnx"}).find("is not a captured, compiled or ONNX model"),
            std::string::npos);
}

TEST(Bench, ThreadsHaveARange) {
  for (const char* part : {"train", "ops"}) {
    for (const char* threads : {"--threads=-5", "--threads=1025"}) {
      const Outcome outcome = run_dlpipe({"bench", part, "--seconds", "0.1", threads});
      EXPECT_EQ(outcome.exit_code, 2) << part << " " << threads;
      EXPECT_NE(outcome.err.find("is not a whole number from 0 to 1,024"), std::string::npos) << outcome.err;
    }
  }
}

}  // namespace dlpipe::test
