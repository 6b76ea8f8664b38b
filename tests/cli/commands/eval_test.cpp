#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/text.h"
#include "io/formats/json.h"
#include "tests/base/test_file.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

TEST(Eval, NeedsNothingButTheCheckpointAndTheData) {
  const Outcome outcome =
      run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", trained_run().data.val, "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = formats::Json::parse(outcome.out);
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_EQ((*json)["samples"].as_int(), 80);
  EXPECT_GT((*json)["loss"].as_double(), 0.0);
  EXPECT_GE((*json)["metrics"]["top5"].as_double(), (*json)["metrics"]["top1"].as_double());
}

TEST(Eval, DoesNotDependOnThreadsOrBatchSize) {
  double loss[2] = {};
  int i = 0;
  for (const char* batch : {"16", "33"}) {
    const Outcome outcome = run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", trained_run().data.val,
                                        "--json", "--batch", batch, "--threads", i == 0 ? "1" : "3"});
    loss[i++] = (*formats::Json::parse(outcome.out))["loss"].as_double();
  }
  EXPECT_NEAR(loss[0], loss[1], 1e-5);
}

TEST(Eval, ABatchIsNoLargerThanTheData) {  // rows without a sample would be computed, too: minutes and 12 GB
  const Outcome outcome = run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", trained_run().data.val,
                                      "--json", "--batch", "1000000", "--limit", "20"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ((*formats::Json::parse(outcome.out))["samples"].as_int(), 20);
}

using formats::Json;

static std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

static std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(*Json::parse(line));
  }
  return lines;
}

static Json state_of(const std::string& run) {
  return (*Json::parse(read(run + "/checkpoints/last/state.json")))["model"];
}

/// The run's last weights, without anything beside them.
static std::string bare_weights(const ScratchDirectory& folder) {
  const std::string to = folder / "bare.safetensors";
  std::filesystem::copy_file(trained_run().run + "/checkpoints/last/model.safetensors", to);
  return to;
}

TEST(Eval, TakesABareSafetensorsFileWithItsModelsName) {
  const ScratchDirectory folder;
  const std::string weights = bare_weights(folder);
  const std::string chain = state_of(trained_run().run)["val_augment"].as_string();
  const Outcome whole = run_dlpipe(
      {"eval", "--ckpt", trained_run().run + "/checkpoints/last", trained_run().data.val, "--json"});
  for (const char* option : {"--ckpt", "--init"}) {
    const Outcome bare = run_dlpipe({"eval", option, weights, "--model", "lenet", "--val-augment", chain,
                                     trained_run().data.val, "--json"});
    ASSERT_EQ(bare.exit_code, 0) << bare.err;
    EXPECT_EQ((*Json::parse(bare.out))["loss"].as_double(), (*Json::parse(whole.out))["loss"].as_double());
    const Json answer = *Json::parse(bare.out);
    EXPECT_TRUE(answer.contains("step") && answer["step"].is_null()) << bare.out;
  }
  const Outcome guessed = run_dlpipe({"eval", "--ckpt", weights, "--model", "lenet", trained_run().data.val});
  EXPECT_EQ(guessed.exit_code, 0) << guessed.err;
  EXPECT_NE(guessed.err.find("the normalisation is the dataset's"), std::string::npos) << guessed.err;
}

TEST(Eval, ALossThatIsNotFiniteIsSaidAloud) {
  const ScratchDirectory folder;
  const std::string weights = bare_weights(folder);
  {
    std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-4, std::ios::end);  // a weight of the last tensor
    file.write("\0\0\xc0\x7f", 4);  // NaN
  }
  const Outcome outcome =
      run_dlpipe({"eval", "--ckpt", weights, "--model", "lenet", "--val-augment",
                  state_of(trained_run().run)["val_augment"].as_string(), trained_run().data.val, "--quiet"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("the loss is not finite"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find("top1"), std::string::npos) << "the figures are printed all the same";
}

TEST(Eval, OtherWeightsInACheckpointsFolderTakeWhatItSays) {
  const ScratchDirectory folder;
  std::filesystem::copy(trained_run().run + "/checkpoints/last", folder / "ckpt");
  std::filesystem::copy_file(folder / "ckpt/model.safetensors", folder / "ckpt/averaged.safetensors");
  double loss[2] = {};
  for (const bool other : {false, true}) {
    const std::string path = folder / (other ? "ckpt/averaged.safetensors" : "ckpt");
    const Outcome outcome = run_dlpipe({"eval", "--ckpt", path, trained_run().data.val, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    loss[other ? 1 : 0] = (*Json::parse(outcome.out))["loss"].as_double();
  }
  EXPECT_EQ(loss[0], loss[1]);
}

TEST(Eval, ChainViewsAndDtypeMayDifferFromTheCheckpoints) {
  const std::vector<std::string> common = {"eval", "--ckpt", trained_run().run, trained_run().data.val,
                                           "--json"};
  const auto loss = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = common;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run_dlpipe(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return (*Json::parse(outcome.out))["loss"].as_double();
  };
  const double plain = loss({});
  EXPECT_EQ(loss({"--val-augment", "resize(32) center_crop(32)"}), plain);  // the checkpoint's normalisation
  EXPECT_NE(loss({"--val-augment", "resize(40) center_crop(32)"}), plain);
  EXPECT_NE(loss({"--tta", "flip"}), plain);
  EXPECT_NE(loss({"--dtype", "bf16"}), plain);
  EXPECT_NEAR(loss({"--dtype", "bf16"}), plain, 0.05);  // 8 bits of mantissa
}

TEST(Eval, ARandomChainIsWarnedOfOnce) {
  const auto said = [](const std::vector<std::string>& command, const std::string& chain) {
    std::vector<std::string> words = {command[0], "--ckpt", trained_run().run, command[1]};
    if (!chain.empty()) words.insert(words.end(), {"--val-augment", chain});
    return run_dlpipe(words).err;
  };
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"eval", trained_run().data.val},
        {"predict", trained_run().data.jpegs + "/ring/00000.jpg"}}) {
    const std::string random = said(command, "rrc(32)");
    const size_t first = random.find("rrc is random");
    EXPECT_NE(first, std::string::npos) << random;
    EXPECT_EQ(random.find("is random", first + 10), std::string::npos) << random;
    EXPECT_EQ(said(command, "resize(40) center_crop(32)").find("is random"), std::string::npos);
    EXPECT_EQ(said(command, "").find("is random"), std::string::npos);
  }
  const ScratchDirectory folder;
  const Outcome trained =
      run_dlpipe(train_arguments(folder / "run", {"--val", trained_run().data.val, "--val-augment",
                                                  "resize(32) center_crop(32) hflip", "--max-steps", "2"}));
  EXPECT_NE(trained.err.find("hflip is random"), std::string::npos) << trained.err;
}

// Of a model for any size.
TEST(Eval, ImagesOfAnotherSizeThanTrainingsAreNoted) {
  const ScratchDirectory folder;
  const std::string run = folder / "run", val = trained_run().data.val;
  ASSERT_EQ(run_dlpipe(train_arguments(run, {"--model", "cifarnet", "--max-steps", "2"})).exit_code, 0);
  const Outcome larger =
      run_dlpipe({"eval", "--ckpt", run, val, "--val-augment", "resize(40) center_crop(40)"});
  EXPECT_EQ(larger.exit_code, 0) << larger.err;
  EXPECT_NE(larger.err.find("40x40, but the model was trained with 32x32"), std::string::npos) << larger.err;
  const Outcome same =
      run_dlpipe({"eval", "--ckpt", run, val, "--val-augment", "resize(32) center_crop(32)"});
  EXPECT_EQ(same.err.find("the model was trained with"), std::string::npos) << same.err;
}

// lenet takes images of the size that it was trained with alone.
TEST(Eval, CropsThatDoNotFitTheModelAreAnsweredWithTheChainThatMakesThemFit) {
  std::vector<std::string> words = {"eval",  "--ckpt",   trained_run().run, trained_run().data.val,
                                    "--tta", "five_crop"};
  const Outcome small = run_dlpipe(words);
  EXPECT_EQ(small.exit_code, 2);
  EXPECT_NE(small.err.find("; --tta five_crop passes crops of 28x28 from images of 32x32 to the model"),
            std::string::npos)
      << small.err;
  const size_t begin = small.err.find("--val-augment \"");
  ASSERT_NE(begin, std::string::npos) << small.err;
  const std::vector<std::string> parts = split(small.err.substr(begin), '"');
  ASSERT_GE(parts.size(), 2u) << small.err;
  words.insert(words.end(), {"--val-augment", parts[1]});
  const Outcome large = run_dlpipe(words);
  EXPECT_EQ(large.exit_code, 0) << large.err;
  words[0] = "predict";
  words[3] = trained_run().data.jpegs + "/disc/00000.jpg";
  const Outcome predicted = run_dlpipe(words);
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
}

// Such a run validates, and is judged and used by what its checkpoint says alone.
TEST(Eval, ARunThatValidatesOnCropsIsJudgedAndUsedAsItValidates) {
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  const Outcome trained = run_dlpipe(
      train_arguments(run, {"--val", trained_run().data.val, "--tta", "ten_crop", "--val-augment",
                            "resize(37) center_crop(37)", "--max-steps", "2", "--schedule", "constant"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Outcome judged = run_dlpipe({"eval", "--ckpt", run, trained_run().data.val});
  EXPECT_EQ(judged.exit_code, 0) << judged.err;
  const Outcome predicted =
      run_dlpipe({"predict", "--ckpt", run, trained_run().data.jpegs + "/disc/00000.jpg"});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;
}

TEST(Eval, OfAFolderOfSplitsTakesValAndSaysSo) {
  const Outcome outcome = run_dlpipe({"eval", "--ckpt", trained_run().run, trained_run().data.split});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("holds train, val: val is used"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.out.find(trained_run().data.val), std::string::npos) << outcome.out;
  const Outcome train = run_dlpipe(
      {"eval", "--ckpt", trained_run().run, trained_run().data.split, "--split", "train", "--json"});
  EXPECT_EQ((*Json::parse(train.out))["samples"].as_int(), 320);
  const Outcome other =
      run_dlpipe({"eval", "--ckpt", trained_run().run, trained_run().data.split, "--split", "test"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("holds train, val but no 'test'"), std::string::npos) << other.err;
}

TEST(Eval, ALimitIsASubsetThatIsNamed) {
  const Outcome outcome =
      run_dlpipe({"eval", "--ckpt", trained_run().run, trained_run().data.val, "--limit", "20"});
  EXPECT_NE(outcome.out.find("20 samples (20 of 80 samples"), std::string::npos) << outcome.out;
}

// The lines of --predictions say the same as --report and the metrics; parity/report_test.cpp holds the
// report's arithmetic to scikit-learn's.
TEST(Eval, ReportAndPredictionsAgreeWithTheMetrics) {
  const ScratchDirectory folder;
  const std::vector<std::string> arguments = {"eval", "--ckpt", trained_run().run, trained_run().data.val,
                                              "--report"};
  std::vector<std::string> with_json = arguments;
  with_json.insert(with_json.end(), {"--json", "--predictions", folder / "p.jsonl", "--top", "10"});
  const Outcome outcome = run_dlpipe(with_json);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const Json json = *Json::parse(outcome.out);
  const std::vector<Json> lines = json_lines(read(folder / "p.jsonl"));
  ASSERT_EQ(lines.size(), 80u);
  double loss = 0;
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (size_t i = 0; i < lines.size(); ++i) {
    const Json& line = lines[i];
    EXPECT_EQ(line["id"].as_int(), static_cast<int64_t>(i));
    EXPECT_EQ(line["path"].as_string().substr(0, line["label"].as_string().size()),
              line["label"].as_string());
    EXPECT_EQ(line["top"].items().size(), 10u);
    EXPECT_EQ(line["top"].items()[0]["class"].as_string(), line["predicted"].as_string());
    EXPECT_EQ(line["top"].items()[0]["probability"].as_double(), line["probability"].as_double());
    double sum = 0;
    for (const Json& one : line["top"].items()) {
      sum += one["probability"].as_double();
      if (one["class"].as_string() == line["label"].as_string()) {
        EXPECT_NEAR(-std::log(one["probability"].as_double()), line["loss"].as_double(), 1e-9);
      }
    }
    EXPECT_NEAR(sum, 1, 1e-12);
    loss += line["loss"].as_double();
    ++counts[{line["label"].as_string(), line["predicted"].as_string()}];
  }
  EXPECT_NEAR(loss / 80, json["loss"].as_double(), 1e-6);
  const Json& report = json["report"];
  int64_t right = 0;
  const Json::Array& classes = report["classes"].items();
  ASSERT_EQ(classes.size(), 10u);
  for (size_t a = 0; a < 10; ++a) {
    for (size_t b = 0; b < 10; ++b) {
      const int64_t wanted = counts[{classes[a]["class"].as_string(), classes[b]["class"].as_string()}];
      EXPECT_EQ(report["confusion_matrix"].items()[a].items()[b].as_int(), wanted);
      if (a == b) right += wanted;
    }
    EXPECT_EQ(classes[a]["support"].as_int(), 8);
  }
  EXPECT_DOUBLE_EQ(json["metrics"]["top1"].as_double(), static_cast<double>(right) / 80);
  EXPECT_NEAR(report["weighted"]["recall"].as_double(), json["metrics"]["top1"].as_double(), 1e-12);
  const Outcome text = run_dlpipe(arguments);
  for (const char* word : {"precision", "recall", "F1", "ring", "mean of classes", "predicted"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
}

TEST(Eval, AReportSaysOfHowManyClassesItsMeansAre) {
  const ScratchDirectory folder;
  std::filesystem::create_directories(folder / "some");
  for (const char* name : {"plus", "ring"})
    std::filesystem::copy(trained_run().data.jpegs + "/" + name, folder / "some/" + name);
  const Outcome ingest =
      run_dlpipe({"ingest", folder / "some", folder / "data", "--classes-from", trained_run().data.val});
  ASSERT_EQ(ingest.exit_code, 0) << ingest.err;
  const Outcome outcome = run_dlpipe({"eval", "--ckpt", trained_run().run, folder / "data", "--report"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("mean of the 2 classes with samples"), std::string::npos) << outcome.out;
}

// What would act on a terminal is escaped, as JSON has it: the names stay the same.
TEST(Eval, PredictionsReplaceNoFile) {
  const ScratchDirectory folder;
  std::filesystem::copy(trained_run().run, folder / "run", std::filesystem::copy_options::recursive);
  for (const char* file : {"checkpoints/last/state.json", "receipt.json", "metrics.jsonl"}) {
    const std::string path = folder / concat("run/", file), before = file_text(path);
    ASSERT_NE(before, "") << path;
    const Outcome outcome =
        run_dlpipe({"eval", "--ckpt", folder / "run", trained_run().data.val, "--predictions", path});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find("exists already; remove it or choose another"), std::string::npos)
        << outcome.err;
    EXPECT_EQ(file_text(path), before);
  }
}

TEST(Eval, PredictionsAreSafeToPrint) {
  const ScratchDirectory folder;
  const std::string name =
      "\xc2\x9b"
      "31m\xe2\x80\xae"
      "gpj.jpg";
  for (const auto& one : std::filesystem::directory_iterator(trained_run().data.jpegs)) {
    const std::string to = folder / "jpegs/" + one.path().filename().string();
    std::filesystem::create_directories(to);
    std::filesystem::copy_file(one.path() / "00000.jpg", to + "/" + name);
  }
  ASSERT_EQ(run_dlpipe({"ingest", folder / "jpegs", folder / "data"}).exit_code, 0);
  const Outcome outcome =
      run_dlpipe({"eval", "--ckpt", trained_run().run, folder / "data", "--predictions", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("\xc2\x9b"), std::string::npos);
  EXPECT_EQ(outcome.out.find("\xe2\x80\xae"), std::string::npos);
  EXPECT_TRUE(json_lines(outcome.out).at(0)["path"].as_string().ends_with(name));
}

TEST(Eval, PredictionsOnStdoutLeaveItToThemselves) {
  const Outcome outcome =
      run_dlpipe({"eval", "--ckpt", trained_run().run, trained_run().data.val, "--predictions", "-"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(json_lines(outcome.out).size(), 80u);
  EXPECT_NE(outcome.err.find("top1"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
