// Training on what isn't one class per image, from drawn images to predictions, in the four commands that a user needs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <span>
#include <sstream>

#include "base/text.h"
#include "dlpipe/codec.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "tests/base/test_file.h"
#include "tests/cli/program.h"

namespace dlpipe::test {

using formats::Json;

namespace {

Json json_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = Json::parse(outcome.out);
  return json.ok() ? *json : Json();
}

/// Scenes of 48 pixels, drawn and ingested as `synth` says.
class TaskCommands : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string task = GetParam(), list = folder_ / "drawn/list.csv";
    ASSERT_EQ(run_dlpipe({"synth", folder_ / "drawn", "--task", task, "--per-class", "24", "--size", "48"})
                  .exit_code,
              0);
    std::vector<std::string> ingest = {"ingest", folder_ / "drawn", folder_ / "data", "--manifest",
                                       list,     "--split",         "0.8,0.2"};
    const std::vector<std::string> fields =
        task == "multilabel" ? std::vector<std::string>{"--field", "tags:labels"}
                             : std::vector<std::string>{"--field",  "x:number", "--field",
                                                        "y:number", "--field",  "size:number"};
    ingest.insert(ingest.end(), fields.begin(), fields.end());
    const Outcome outcome = run_dlpipe(ingest);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  Outcome train(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train",     "--data",     folder_ / "data", "--model",   "lenet",
                                      "--augment", "",           "--batch",        "16",        "--epochs",
                                      "2",         "--lr",       "0.05",           "--threads", "2",
                                      "--out",     folder_ / out};
    if (std::string_view(GetParam()) == "regress")
      words.insert(words.end(), {"--task", "regress", "--target", "x,y"});
    words.insert(words.end(), more.begin(), more.end());
    return run_dlpipe(words);
  }
  Outcome predict(const std::string& image, const std::string& threshold) {
    return run_dlpipe({"predict", "--ckpt", folder_ / "run", image, "--json", "--threshold", threshold});
  }
  /// Thresholds by label, of the command line and of a file: of these every second label is reported.
  void check_thresholds(const std::vector<Json>& outputs, const std::string& image) {
    std::string words;
    Json file = Json::array();
    for (size_t k = 0; k < outputs.size(); ++k) {
      EXPECT_TRUE(outputs[k]["best threshold"].is_number());
      const std::string name = outputs[k]["name"].as_string();
      words += concat(k > 0 ? "," : "", name, "=", k % 2);
      file.push_back(Json::object({{"name", name}, {"best threshold", static_cast<int64_t>(k % 2)}}));
    }
    const Json report = Json::object({{"report", Json::object({{"outputs", std::move(file)}})}});
    ASSERT_TRUE(formats::write_file(folder_ / "report.json", report.dump()).ok());
    for (const std::string& threshold : {words, folder_ / "report.json"})
      EXPECT_EQ(json_of(predict(image, threshold))["labels"].items().size(), 5u) << threshold;
    for (const char* threshold : {"1.5", "disc=2", "disc", "cat=0.5", "disc=0.5,"})
      EXPECT_NE(predict(image, threshold).exit_code, 0) << threshold;
    const Outcome absent = predict(image, folder_ / "absent.json");
    EXPECT_NE(absent.err.find("absent.json is neither a number nor a file that exists"), std::string::npos)
        << absent.err;
  }
  ScratchDirectory folder_;
};

}  // namespace

TEST_P(TaskCommands, TrainEvalAndPredictAgree) {
  const bool are_labels = std::string_view(GetParam()) == "multilabel";
  const Outcome trained = train("run");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json eval = json_of(run_dlpipe({"eval", "--ckpt", folder_ / "run", folder_ / "data", "--report",
                                        "--json", "--predictions", folder_ / "lines.jsonl"}));
  EXPECT_EQ(eval["task"].as_string(), GetParam());
  EXPECT_TRUE(eval["metrics"][are_labels ? "map" : "mae"].is_number());
  EXPECT_EQ(eval["report"]["outputs"].items().size(), are_labels ? 10u : 2u);
  ASSERT_EQ(run_dlpipe({"compile", folder_ / "run", "-o", folder_ / "m.onnx"}).exit_code, 0);
  const Json compiled =
      json_of(run_dlpipe({"eval", "--ckpt", folder_ / "m.onnx", folder_ / "data", "--json"}));
  EXPECT_EQ(compiled["task"].as_string(), GetParam());
  const char* metric = are_labels ? "map" : "mae";
  EXPECT_NEAR(compiled["metrics"][metric].as_double(), eval["metrics"][metric].as_double(), 1e-3);
  const auto first = Json::parse(split(*formats::read_file(folder_ / "lines.jsonl"), '\n').front());
  ASSERT_TRUE(first.ok());
  // The same image through predict has the same answers.
  const std::string image = folder_ / concat("drawn/", (*first)["path"].as_string());
  std::vector<std::string> words = {"predict", "--ckpt", folder_ / "run", image, "--json", "--top", "10"};
  if (are_labels) words.insert(words.end(), {"--threshold", "0"});
  const Json one = json_of(run_dlpipe(words));
  const Outcome resized =
      run_dlpipe({"eval", "--ckpt", folder_ / "run", folder_ / "data", "--resized-masks"});
  EXPECT_EQ(resized.exit_code, 2);
  EXPECT_NE(resized.err.find("--resized-masks is for segmentation"), std::string::npos) << resized.err;
  if (are_labels) {
    ASSERT_EQ(one["labels"].items().size(), 10u);
    for (const Json& label : one["labels"].items())
      EXPECT_NEAR(label["probability"].as_double(),
                  (*first)["predicted"][label["class"].as_string()].as_double(), 1e-6);
    check_thresholds(eval["report"]["outputs"].items(), image);
  } else {
    const Outcome refused = predict(image, "0.5");
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("--threshold is for labels and boxes, and this model's task is regress"),
              std::string::npos)
        << refused.err;
    for (const char* name : {"x", "y"})
      EXPECT_NEAR(one["values"][name].as_double(), (*first)["predicted"][name].as_double(), 1e-4);
  }
}

TEST_P(TaskCommands, AResumedRunEndsWithTheSameBits) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("halves", {"--max-steps", "7", "--schedule", "constant"}).exit_code, 0);
  const Outcome longer = run_dlpipe({"train", "--resume", folder_ / "halves", "--max-steps", "14"});
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  ASSERT_EQ(train("other", {"--max-steps", "14", "--schedule", "constant", "--threads", "1"}).exit_code, 0);
  const auto chain = [&](const std::string& run) {
    return (*Json::parse(*formats::read_file(folder_ / (run + "/receipt.json"))))["parameters_chain"]
        .as_string();
  };
  EXPECT_EQ(chain("halves"), chain("other"));
  EXPECT_NE(chain("halves"), chain("whole"));
}

TEST_P(TaskCommands, ProcessesComputeTheRunOfOne) {
  const std::vector<std::string> grains = {"--grains", "4", "--max-steps", "6"};
  ASSERT_EQ(train("one", grains).exit_code, 0);
  std::vector<std::string> words = {"launch", "--np",           "2",         "--",       "train",
                                    "--data", folder_ / "data", "--model",   "lenet",    "--augment",
                                    "",       "--batch",        "16",        "--epochs", "2",
                                    "--lr",   "0.05",           "--threads", "1",        "--grains",
                                    "4",      "--max-steps",    "6",         "--out",    folder_ / "two"};
  if (std::string_view(GetParam()) == "regress")
    words.insert(words.end(), {"--task", "regress", "--target", "x,y"});
  const Outcome launched = run_dlpipe(words);
  ASSERT_EQ(launched.exit_code, 0) << launched.err;
  EXPECT_EQ(*formats::read_file(folder_ / "one/checkpoints/last/model.safetensors"),
            *formats::read_file(folder_ / "two/checkpoints/last/model.safetensors"));
}

TEST_P(TaskCommands, ClassesAreWeighedWhereThereAreSome) {
  const Outcome weighed =
      train("weighed", {"--class-weights", "balanced", "--sampler", "balanced", "--max-steps", "4"});
  if (std::string_view(GetParam()) == "multilabel") {
    EXPECT_EQ(weighed.exit_code, 0) << weighed.err;
  } else {
    EXPECT_EQ(weighed.exit_code, 2);
    EXPECT_NE(weighed.err.find("--class-weights"), std::string::npos) << weighed.err;
  }
}

TEST_P(TaskCommands, EvalComputesTheLossOfValidation) {
  const bool are_labels = std::string_view(GetParam()) == "multilabel";
  const std::vector<std::string> options =
      are_labels ? std::vector<std::string>{"--pos-weight", "5"}
                 : std::vector<std::string>{"--loss", "huber", "--loss-beta", "0.5"};
  std::vector<std::string> words = {"--json", "--max-steps", "4"};
  words.insert(words.end(), options.begin(), options.end());
  const Json trained = json_of(train("run", words));
  const auto loss = [&](const std::string& checkpoint) {
    return json_of(run_dlpipe({"eval", "--ckpt", checkpoint, folder_ / "data", "--json"}))["loss"]
        .as_double();
  };
  const double own = trained["validation"]["loss"].as_double();
  EXPECT_NEAR(loss(folder_ / "run"), own, 1e-6);
  ASSERT_EQ(run_dlpipe({"compile", folder_ / "run", "-o", folder_ / "m.dlg"}).exit_code, 0);
  EXPECT_NEAR(loss(folder_ / "m.dlg"), own, 1e-4);
  ASSERT_EQ(train("plain", {"--max-steps", "4"}).exit_code, 0);
  const std::string plain = *formats::read_file(folder_ / "plain/checkpoints/last/state.json");
  EXPECT_EQ(plain.find("loss_options"), std::string::npos) << plain;
}

TEST_P(TaskCommands, ByDefaultNothingMovesAnImageWhoseNumbersMayBePlaces) {
  const bool are_labels = std::string_view(GetParam()) == "multilabel";
  std::vector<std::string> words = {"train",          "--data", folder_ / "data", "--model", "lenet",
                                    "--max-steps",    "1",      "--batch",        "8",       "--out",
                                    folder_ / "moved"};
  if (!are_labels) words.insert(words.end(), {"--task", "regress", "--target", "x,y"});
  ASSERT_EQ(run_dlpipe(words).exit_code, 0);
  const std::string config = *formats::read_file(folder_ / "moved/config.toml");
  EXPECT_EQ(config.find("\naugment = \"pad_crop(48,6) hflip\"") != std::string::npos, are_labels) << config;
  EXPECT_EQ(config.find("\naugment = \"\"") != std::string::npos, !are_labels) << config;
  const Json eval = json_of(run_dlpipe({"eval", "--ckpt", folder_ / "moved", folder_ / "data", "--json"}));
  EXPECT_EQ(eval["val_augment"].as_string().find("center_crop") != std::string::npos, are_labels);
  EXPECT_EQ(eval["val_augment"].as_string().starts_with("resize(48x48) normalize"), !are_labels);
}

TEST_P(TaskCommands, MixupMixesTargets) {
  const Outcome mixed = train("mixed", {"--mixup", "0.4", "--max-steps", "4"});
  EXPECT_EQ(mixed.exit_code, 0) << mixed.err;
}

INSTANTIATE_TEST_SUITE_P(Each, TaskCommands, testing::Values("multilabel", "regress"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Segment, FromScenesToMasksOfTheRightSize) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--task", "segment", "--per-class", "6", "--size", "32"})
                .exit_code,
            0);
  const Outcome ingest = run_dlpipe({"ingest", folder / "drawn", folder / "data", "--split", "0.8,0.2"});
  ASSERT_EQ(ingest.exit_code, 0) << ingest.err;
  const Outcome trained = run_dlpipe({"train", "--data", folder / "data", "--model", "unet_small",
                                      "--augment", "rrc(32) hflip", "--batch", "8", "--max-steps", "5",
                                      "--lr", "0.05", "--threads", "2", "--out", folder / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json eval =
      json_of(run_dlpipe({"eval", "--ckpt", folder / "run", folder / "data", "--report", "--json"}));
  EXPECT_EQ(eval["task"].as_string(), "segment");
  EXPECT_GT(eval["metrics"]["pixel_accuracy"].as_double(), 0);
  EXPECT_GE(eval["report"]["outputs"].items().size(), 2u);
  // Shares are of the image, not of the padding that the model sees.
  const std::string normalize = eval["val_augment"].as_string();
  const Json padded = json_of(run_dlpipe(
      {"predict", "--ckpt", folder / "run", folder / "drawn/images/00003.jpg", "--json", "--val-augment",
       concat("resize(32x32) pad_to(64x64)", normalize.substr(normalize.find(" normalize")))}));
  double of_image = 0;
  for (const auto& [name, share] : padded["shares"].members()) {
    of_image += share.as_double();
    EXPECT_NEAR(share.as_double() * 32 * 32, std::round(share.as_double() * 32 * 32), 1e-9) << name;
  }
  EXPECT_NEAR(of_image, 1, 1e-9);
  // Masks are judged in their own size, or in that of the chain.
  for (const bool resized : {false, true}) {
    std::vector<std::string> words = {"eval",          "--ckpt",        folder / "run", folder / "data",
                                      "--val-augment", "resize(16x16)", "--report",     "--json"};
    if (resized) words.emplace_back("--resized-masks");
    const Json judged = json_of(run_dlpipe(words));
    EXPECT_EQ(judged["masks"].as_string(), resized ? "resized" : "original");
    double pixels = 0;
    for (const Json& row : judged["report"]["outputs"].items()) pixels += row["pixels"].as_double();
    EXPECT_EQ(pixels, judged["samples"].as_double() * (resized ? 16 * 16 : 32 * 32));
  }
  const Outcome bent = run_dlpipe(
      {"eval", "--ckpt", folder / "run", folder / "data", "--val-augment", "resize(32x32) perspective(0.3)"});
  EXPECT_EQ(bent.exit_code, 2);
  EXPECT_NE(bent.err.find("--resized-masks"), std::string::npos) << bent.err;
  const Json one = json_of(run_dlpipe({"predict", "--ckpt", folder / "run", folder / "drawn/images/00003.jpg",
                                       "--json", "--draw", folder / "masks"}));
  double shares = 0;
  for (const auto& [name, share] : one["shares"].members()) shares += share.as_double();
  EXPECT_NEAR(shares, 1, 1e-9);
  EXPECT_TRUE(std::filesystem::exists(folder / "masks/00003.png"));
  EXPECT_TRUE(std::filesystem::exists(folder / "masks/00003.mask.png"));
  // Images of one name, and one whose name is that of another's mask, have drawings of their own.
  std::filesystem::create_directories(folder / "again");
  std::vector<std::string> named = {"predict", "--ckpt", folder / "run", "--json", "--draw", folder / "many"};
  for (const char* name : {"again/00003.jpg", "again/00003.mask.jpg", "again/00003-2.jpg"}) {
    std::filesystem::copy_file(folder / "drawn/images/00003.jpg", folder / name);
    named.push_back(folder / name);
  }
  named.push_back(folder / "drawn/images/00003.jpg");
  std::set<std::string> drawings;
  const Outcome all = run_dlpipe(named);
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);)
    drawings.insert((*Json::parse(line))["drawing"].as_string());
  EXPECT_EQ(drawings.size(), 4u) << all.out << all.err;
  for (const std::string& path : drawings) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  const auto files = std::filesystem::directory_iterator(folder / "many");
  EXPECT_EQ(std::distance(begin(files), end(files)), 8);
  const std::string drawn = *formats::read_file(folder / "many/00003.png");
  const Json again = json_of(run_dlpipe({"predict", "--ckpt", folder / "run", "--json", "--draw",
                                         folder / "many", folder / "drawn/images/00003.jpg"}));
  EXPECT_FALSE(drawings.contains(again["drawing"].as_string())) << "a file of an earlier call";
  EXPECT_EQ(*formats::read_file(folder / "many/00003.png"), drawn);
  // Drawings of the same names would replace the images.
  const std::string before = *formats::read_file(folder / "masks/00003.png");
  EXPECT_EQ(run_dlpipe(
                {"predict", "--ckpt", folder / "run", folder / "masks/00003.png", "--draw", folder / "masks"})
                .exit_code,
            2);
  EXPECT_EQ(*formats::read_file(folder / "masks/00003.png"), before);
  ASSERT_EQ(run_dlpipe({"compile", folder / "run", "-o", folder / "m.onnx"}).exit_code, 0);
  const Json compiled = json_of(
      run_dlpipe({"predict", "--ckpt", folder / "m.onnx", folder / "drawn/images/00003.jpg", "--json"}));
  for (const auto& [name, share] : one["shares"].members())  // rounding may turn a pixel that is undecided
    EXPECT_NEAR(compiled["shares"][name].as_double(), share.as_double(), 0.02) << name;
  const Json alike = json_of(run_dlpipe({"eval", "--ckpt", folder / "m.onnx", folder / "data", "--json"}));
  EXPECT_EQ(alike["task"].as_string(), "segment");
  EXPECT_NEAR(alike["metrics"]["pixel_accuracy"].as_double(), eval["metrics"]["pixel_accuracy"].as_double(),
              0.02);
  for (const char* command : {"eval", "predict"}) {
    const Outcome flipped =
        run_dlpipe({command, "--ckpt", folder / "run", folder / (*command == 'e' ? "data" : "drawn/images"),
                    "--tta", "flip"});
    EXPECT_EQ(flipped.exit_code, 2) << command;
    EXPECT_NE(flipped.err.find("--tta flip"), std::string::npos) << flipped.err;
  }
  const Outcome wrong = run_dlpipe({"train", "--data", folder / "data", "--model", "lenet", "--batch", "8",
                                    "--max-steps", "1", "--out", folder / "no"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("unet"), std::string::npos) << wrong.err;
}

// Dice is of all pixels that it is given.
TEST(Segment, TheLossDoesNotDependOnHowImagesAreBatched) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--task", "segment", "--per-class", "2", "--size", "32"})
                .exit_code,
            0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "data"}).exit_code, 0);
  const Outcome trained =
      run_dlpipe({"train", "--data", folder / "data", "--model", "unet_small", "--augment", "rrc(32)",
                  "--loss", "dice", "--max-steps", "1", "--out", folder / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  std::vector<double> losses;
  for (const char* batch : {"1", "3", "64"})
    losses.push_back(json_of(run_dlpipe(
        {"eval", "--ckpt", folder / "run", folder / "data", "--batch", batch, "--json"}))["loss"]
                         .as_double());
  EXPECT_GT(losses[0], 0.01);
  EXPECT_NEAR(losses[1], losses[0], 1e-5);
  EXPECT_NEAR(losses[2], losses[0], 1e-5);
}

// A quarter of the pixels is of class 1: all / (classes x those of the class) is 2/3 and 2.
TEST(Segment, BalancedWeightsCountPixels) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--task", "segment", "--per-class", "2", "--size", "32"})
                .exit_code,
            0);
  std::vector<uint8_t> pixels(32 * 32);
  std::fill_n(pixels.begin(), 8 * 32, uint8_t{1});
  const auto png = value_or_throw(data::encode_png({pixels.data(), 32, 32, 1, 32}));
  for (const auto& entry : std::filesystem::directory_iterator(folder / "drawn/masks"))
    ASSERT_TRUE(
        formats::write_file(entry.path(), std::string(reinterpret_cast<const char*>(png.data()), png.size()))
            .ok());
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "data"}).exit_code, 0);
  const auto loss = [&](const std::string& name, const std::string& weights) {
    const Outcome trained = run_dlpipe({"train", "--data", folder / "data", "--model", "unet_small",
                                        "--augment", "resize(32x32)", "--batch", "8", "--max-steps", "1",
                                        "--class-weights", weights, "--out", folder / name, "--json"});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    return json_of(trained)["loss"].as_double();
  };
  const double balanced = loss("balanced", "balanced");
  EXPECT_NEAR(balanced, loss("given", "0=0.66666666666666663,1=2"), 1e-6);
  EXPECT_GT(std::abs(balanced - loss("alike", "0=1")), 1e-4);
}

/// Masks of scenes, with the pixels of the first line replaced by `value`: all of them where it is 0.
void draw_over_masks(const std::filesystem::path& folder, uint8_t value) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string bytes = *formats::read_file(entry.path());
    const auto png = std::as_bytes(std::span(bytes));
    const data::ImageInfo info = value_or_throw(data::probe_image(png));
    std::vector<uint8_t> pixels(static_cast<size_t>(info.width) * static_cast<size_t>(info.height));
    if (value > 0) {
      data::ImageDecoder decoder(data::DecodeLimits{});
      ASSERT_TRUE(decoder
                      .decode(png, {0, 0, info.width, info.height},
                              {pixels.data(), info.width, info.height, 1, ptrdiff_t{info.width}})
                      .ok());
      std::fill_n(pixels.begin(), info.width, value);
    }
    const auto drawn =
        value_or_throw(data::encode_png({pixels.data(), info.width, info.height, 1, ptrdiff_t{info.width}}));
    ASSERT_TRUE(formats::write_file(entry.path(),
                                    std::string(reinterpret_cast<const char*>(drawn.data()), drawn.size()))
                    .ok());
  }
}

TEST(Segment, OtherMasksAreJudgedByTheClassesOfTheModel) {
  ScratchDirectory folder;
  for (const char* name : {"drawn", "ground", "other"}) {
    ASSERT_EQ(run_dlpipe({"synth", folder / name, "--task", "segment", "--per-class", "3", "--size", "32"})
                  .exit_code,
              0);
    if (std::string_view(name) == "ground") draw_over_masks(folder / "ground/masks", 0);
    if (std::string_view(name) == "other") draw_over_masks(folder / "other/masks", 200);
    ASSERT_EQ(run_dlpipe({"ingest", folder / name, folder / concat("data/", name)}).exit_code, 0);
  }
  const Outcome trained =
      run_dlpipe({"train", "--data", folder / "data/drawn", "--model", "unet_small", "--augment", "rrc(32)",
                  "--batch", "8", "--max-steps", "1", "--out", folder / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json ground =
      json_of(run_dlpipe({"eval", "--ckpt", folder / "run", folder / "data/ground", "--json"}));
  EXPECT_TRUE(ground["metrics"]["pixel_accuracy"].is_number());
  const Outcome other = run_dlpipe({"eval", "--ckpt", folder / "run", folder / "data/other"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.err.find("class 200"), std::string::npos) << other.err;
}

TEST(Segment, DefaultCropsShowAQuarterOfTheImageOrMore) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--task", "segment", "--per-class", "1", "--size", "72"})
                .exit_code,
            0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "data"}).exit_code, 0);
  const Outcome trained = run_dlpipe({"train", "--data", folder / "data", "--model", "unet_small", "--epochs",
                                      "0", "--out", folder / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_NE(trained.err.find("augmentation: rrc(72,0.25..1) hflip"), std::string::npos) << trained.err;
}

// A mask's classes are the numbers of its palette, whatever colours these have.
TEST(Segment, MasksWithPalettesHaveTheClassesOfTheirNumbers) {
  ScratchDirectory folder;
  for (const char* part : {"images", "masks"}) {
    std::filesystem::create_directories(folder / concat("voc/", part));
    for (const char* name : {"a", "b"})
      std::filesystem::copy_file(test_file("io/data/codec/images/palette.png"),
                                 folder / concat("voc/", part, "/", name, ".png"));
  }
  ASSERT_EQ(run_dlpipe({"ingest", folder / "voc", folder / "data"}).exit_code, 0);
  const Outcome trained =
      run_dlpipe({"train", "--data", folder / "data", "--model", "unet_small", "--augment", "resize(32x32)",
                  "--batch", "2", "--epochs", "0", "--out", folder / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json info = json_of(run_dlpipe({"info", folder / "run", "--json"}));
  EXPECT_EQ(info["classes"].items().size(), 31u);  // of the 31 colours that it was saved with
}

/// Scenes of 48 pixels with boxes, ingested.
class Detect : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_dlpipe({"synth", folder_ / "drawn", "--task", "detect", "--per-class", "6", "--size", "48"})
                  .exit_code,
              0);
    const Outcome ingest = run_dlpipe({"ingest", folder_ / "drawn/annotations.json", folder_ / "data",
                                       "--images", folder_ / "drawn/images", "--split", "0.8,0.2"});
    ASSERT_EQ(ingest.exit_code, 0) << ingest.err;
  }
  std::vector<std::string> train(const std::string& out, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        "train",      "--data", folder_ / "data", "--model", "detector_small", "--batch", "8",
        "--lr",       "0.01",   "--max-steps",    "6",       "--threads",      "2",       "--out",
        folder_ / out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ScratchDirectory folder_;
};

TEST_F(Detect, FromScenesToBoxesInTheFilesPixels) {
  const Outcome trained = run_dlpipe(train("run"));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Json eval =
      json_of(run_dlpipe({"eval", "--ckpt", folder_ / "run", folder_ / "data", "--report", "--json"}));
  EXPECT_EQ(eval["task"].as_string(), "detect");
  for (const char* metric : {"map", "map50", "map75", "map_small"})
    EXPECT_TRUE(eval["metrics"][metric].is_number()) << metric;
  for (const char* metric : {"map_medium", "map_large"}) {  // of objects that there are none of
    EXPECT_TRUE(eval["metrics"].contains(metric));
    EXPECT_FALSE(eval["metrics"][metric].is_number()) << metric;
  }
  EXPECT_EQ(eval["report"]["outputs"].items().size(), 10u);
  ASSERT_EQ(run_dlpipe({"compile", folder_ / "run", "-o", folder_ / "m.onnx"}).exit_code, 0);
  const Json compiled =
      json_of(run_dlpipe({"eval", "--ckpt", folder_ / "m.onnx", folder_ / "data", "--json"}));
  EXPECT_EQ(compiled["task"].as_string(), "detect");
  EXPECT_NEAR(compiled["metrics"]["map"].as_double(), eval["metrics"]["map"].as_double(), 0.02);
  // Shown at twice the size, the boxes still are in the pixels of the file.
  const std::string image = folder_ / "drawn/images/00003.jpg";
  const std::string normal = eval["val_augment"].as_string();
  for (const char* size : {"48x48", "96x96"}) {
    const std::string chain = concat("resize(", size, ")", normal.substr(normal.find(" normalize")));
    const Json one = json_of(run_dlpipe({"predict", "--ckpt", folder_ / "run", image, "--json", "--threshold",
                                         "0.05", "--val-augment", chain, "--draw", folder_ / "boxes"}));
    for (const Json& found : one["boxes"].items()) {
      const auto box = found["box"].items();
      ASSERT_EQ(box.size(), 4u);
      EXPECT_LE(0, box[0].as_double());
      EXPECT_LE(box[0].as_double(), box[2].as_double());
      EXPECT_LE(box[2].as_double(), 48);
      EXPECT_LE(box[3].as_double(), 48);
      EXPECT_GT(found["score"].as_double(), 0.05);
    }
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ / "boxes/00003.png"));
}

TEST_F(Detect, PredictionsOfADatasetAreThoseOfItsFiles) {
  ASSERT_EQ(run_dlpipe(train("run")).exit_code, 0);
  const std::vector<std::string> eval = {"eval", "--ckpt", folder_ / "run", folder_ / "data",
                                         "--predictions"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Outcome outcome = run_dlpipe(with(eval, {folder_ / "lines.jsonl"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<std::string> lines = split(*formats::read_file(folder_ / "lines.jsonl"), '\n');
  ASSERT_GT(lines.size(), 2u);
  size_t found = 0;
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    const Json own = value_or_throw(Json::parse(line));
    const std::string file = folder_ / concat("drawn/images/", own["path"].as_string());
    const Json one =
        json_of(run_dlpipe({"predict", "--ckpt", folder_ / "run", file, "--json", "--threshold", "0"}));
    const auto boxes = own["boxes"].items(), others = one["boxes"].items();
    ASSERT_EQ(boxes.size(), others.size()) << line;
    found += boxes.size();
    for (size_t i = 0; i < boxes.size(); ++i) {
      EXPECT_EQ(boxes[i]["class"].as_string(), others[i]["class"].as_string());
      EXPECT_NEAR(boxes[i]["score"].as_double(), others[i]["score"].as_double(), 1e-4);
      for (size_t side = 0; side < 4; ++side)
        EXPECT_NEAR(boxes[i]["box"].items()[side].as_double(), others[i]["box"].items()[side].as_double(),
                    0.01);
    }
  }
  EXPECT_GT(found, 0u);
  const Outcome drawn = run_dlpipe(with(eval, {"-", "--val-augment", "rrc(48) normalize"}));
  EXPECT_EQ(drawn.exit_code, 2);
  EXPECT_NE(drawn.err.find("need a --val-augment without random ops"), std::string::npos) << drawn.err;
}

TEST_F(Detect, AResumedRunAndOneOfTwoProcessesHaveTheSameBits) {
  const std::vector<std::string> grains = {"--grains", "4", "--schedule", "constant"};
  ASSERT_EQ(run_dlpipe(train("whole", grains)).exit_code, 0);
  std::vector<std::string> half = grains;
  half.insert(half.end(), {"--max-steps", "3"});
  std::vector<std::string> words = train("halves", half);
  words.erase(std::find(words.begin(), words.end(), "--max-steps"),
              std::find(words.begin(), words.end(), "--max-steps") + 2);
  ASSERT_EQ(run_dlpipe(words).exit_code, 0);
  const Outcome longer = run_dlpipe({"train", "--resume", folder_ / "halves", "--max-steps", "6"});
  ASSERT_EQ(longer.exit_code, 0) << longer.err;
  std::vector<std::string> launched = {"launch", "--np", "2", "--"};
  const std::vector<std::string> two = train("two", grains);
  launched.insert(launched.end(), two.begin(), two.end());
  const Outcome outcome = run_dlpipe(launched);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto weights = [&](const char* run) {
    return *formats::read_file(folder_ / concat(run, "/checkpoints/last/model.safetensors"));
  };
  EXPECT_EQ(weights("halves"), weights("whole"));
  EXPECT_EQ(weights("two"), weights("whole"));
}

// Of images without objects, too, whose loss is a part of that of all objects.
TEST_F(Detect, TheLossDoesNotDependOnHowImagesAreBatched) {
  ASSERT_EQ(run_dlpipe(train("run")).exit_code, 0);
  Json all = *Json::parse(*formats::read_file(folder_ / "drawn/annotations.json"));
  const int64_t some = all["annotations"].items()[0]["image_id"].as_int();
  Json kept = Json::array();
  for (const Json& one : all["annotations"].items())
    if (one["image_id"].as_int() % 3 != some % 3) kept.push_back(one);
  all.set("annotations", std::move(kept));
  ASSERT_TRUE(formats::write_file(folder_ / "some.json", all.dump()).ok());
  ASSERT_EQ(
      run_dlpipe({"ingest", folder_ / "some.json", folder_ / "some", "--images", folder_ / "drawn/images"})
          .exit_code,
      0);
  std::vector<double> losses;
  for (const char* batch : {"1", "4", "64"})
    losses.push_back(json_of(run_dlpipe(
        {"eval", "--ckpt", folder_ / "run", folder_ / "some", "--batch", batch, "--json"}))["loss"]
                         .as_double());
  EXPECT_GT(losses[0], 0.01);
  EXPECT_NEAR(losses[1], losses[0], 1e-5 * losses[0]);
  EXPECT_NEAR(losses[2], losses[0], 1e-5 * losses[0]);
}

TEST_F(Detect, ClassesAreWeighed) {
  const auto loss = [&](const char* weights) {
    return json_of(run_dlpipe(train(concat("run-", weights), {"--class-weights", weights, "--json"})))["loss"]
        .as_double();
  };
  const double alike = loss("ring=1");
  EXPECT_NE(loss("balanced"), alike);
  EXPECT_GT(loss("ring=9,disc=9,bar=9,star=9,plus=9"), alike);
}

TEST_F(Detect, WhatDoesNotGoWithBoxesIsRefused) {
  const auto refusal = [&](const std::vector<std::string>& more) {
    const Outcome outcome = run_dlpipe(train("no", more));
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_NE(refusal({"--mixup", "0.2"}).find("boxes"), std::string::npos);
  EXPECT_NE(refusal({"--tta", "flip"}).find("--tta"), std::string::npos);
  EXPECT_NE(refusal({"--task", "segment"}).find("segment"), std::string::npos);
  const Outcome other =
      run_dlpipe({"train", "--data", folder_ / "data", "--model", "lenet", "--out", folder_ / "no"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("detector_small"), std::string::npos) << other.err;
}

TEST_F(Detect, TheDefaultsOfATaskAlsoApplyToTheModelOfAFile) {
  ASSERT_EQ(run_dlpipe(train("run", {"--augment", "resize(48x48)"})).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"compile", folder_ / "run", "-o", folder_ / "m.onnx"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"compile", folder_ / "run", "-o", folder_ / "m.dlg"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"export-weights", folder_ / "run", "-o", folder_ / "m.safetensors"}).exit_code, 0);
  ASSERT_TRUE(formats::write_file(folder_ / "c.toml", concat("init = \"", folder_ / "run", "\"\n")).ok());
  const std::vector<std::pair<std::string, std::string>> sources = {
      {"--init", "run"},           {"--init", "run/checkpoints/last"},
      {"--init", "m.safetensors"}, {"--config", "c.toml"},
      {"--init", "m.dlg"},         {"--init", "m.onnx"},
      {"--model", "m.dlg"},        {"--model", "m.onnx"}};
  for (const auto& [option, file] : sources) {
    const std::string out =
        folder_ / concat("from", option, "-", std::filesystem::path(file).filename().string());
    const Outcome outcome =
        run_dlpipe({"train", "--data", folder_ / "data", option, folder_ / file, "--augment", "resize(48x48)",
                    "--max-steps", "2", "--schedule", "constant", "--out", out});
    ASSERT_EQ(outcome.exit_code, 0) << option << " " << file << ": " << outcome.err;
    const std::string config = *formats::read_file(out + "/config.toml");
    for (const char* line : {"batch = 8\n", "optimizer = \"adamw\"\n", "lr = 0.002\n", "task = \"detect\"\n"})
      EXPECT_NE(config.find(line), std::string::npos) << option << " " << file << ": " << line << config;
  }
  // A run that began with a graph is resumed and evaluated like others.
  const std::string of_graph = folder_ / "from--init-m.onnx";
  const Outcome resumed = run_dlpipe({"train", "--resume", of_graph, "--max-steps", "4"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(json_of(run_dlpipe({"eval", "--ckpt", of_graph, folder_ / "data", "--json"}))["task"].as_string(),
            "detect");
}

/// Images with numbers from `number`, ingested as the fields `y` of the dataset data.
void ingest_numbers(const ScratchDirectory& folder, const std::string& data, const std::string& kind,
                    const std::function<std::string(int)>& number) {
  if (!std::filesystem::exists(folder / "drawn")) {
    ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--task", "regress", "--per-class", "6"}).exit_code, 0);
  }
  const std::vector<std::string> lines = split(*formats::read_file(folder / "drawn/list.csv"), '\n');
  std::string list = "path,y\n";
  for (size_t i = 1; i < lines.size() && !lines[i].empty(); ++i)
    list += concat(split(lines[i], ',').front(), ",", number(static_cast<int>(i)), "\n");
  const std::string file = folder / concat("drawn/", data, ".csv");
  ASSERT_TRUE(formats::write_file(file, list).ok());
  const Outcome outcome = run_dlpipe({"ingest", folder / "drawn", folder / data, "--manifest", file,
                                      "--field", concat("y:", kind), "--split", "0.7,0.3"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
}

std::vector<std::string> regress(const ScratchDirectory& folder, const std::string& data,
                                 const std::string& out, const std::vector<std::string>& more) {
  std::vector<std::string> words = {"train",     "--data",    folder / data, "--task", "regress",
                                    "--augment", "",          "--batch",     "4",      "--lr",
                                    "0.01",      "--threads", "1",           "--out",  folder / out};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// What `eval --predictions` writes for the samples of `data`.
std::vector<std::pair<double, double>> predicted_and_targets(const ScratchDirectory& folder,
                                                             const std::string& run,
                                                             const std::string& data) {
  const std::string file = folder / "predictions.jsonl";
  std::filesystem::remove(file);
  const Outcome outcome = run_dlpipe({"eval", "--ckpt", folder / run, folder / data, "--predictions", file});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  std::vector<std::pair<double, double>> rows;
  for (const std::string& line : split(*formats::read_file(file), '\n')) {
    if (line.empty()) continue;
    const Json row = value_or_throw(Json::parse(line));
    rows.emplace_back(row["predicted"]["y"].as_double(), row["target"]["y"].as_double());
  }
  return rows;
}

TEST(Regress, AKeptHeadKeepsTheUnitsOfItsNumbers) {
  ScratchDirectory folder;
  ingest_numbers(folder, "first", "number", [](int i) { return std::to_string(i); });
  ingest_numbers(folder, "second", "number", [](int i) { return std::to_string(1000 + 50 * i); });
  const Outcome first = run_dlpipe(regress(folder, "first", "a", {"--model", "lenet", "--epochs", "2"}));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string init = folder / "a";
  const Outcome kept = run_dlpipe(regress(folder, "second", "kept", {"--init", init, "--epochs", "0"}));
  ASSERT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_NE(kept.err.find("--reset-head uses this data's"), std::string::npos) << kept.err;
  const auto own = predicted_and_targets(folder, "a", "first"),
             of_kept = predicted_and_targets(folder, "kept", "first");
  ASSERT_FALSE(own.empty());
  EXPECT_EQ(own, of_kept);
  const Outcome fresh =
      run_dlpipe(regress(folder, "second", "fresh", {"--init", init, "--epochs", "0", "--reset-head"}));
  ASSERT_EQ(fresh.exit_code, 0) << fresh.err;
  EXPECT_EQ(fresh.err.find("--reset-head uses"), std::string::npos) << fresh.err;
  for (const auto& [predicted, target] : predicted_and_targets(folder, "fresh", "second"))
    EXPECT_GT(predicted, 500) << "the mean of the second data is above 1000";
  // A resumed run has no --init to read, and a whole run's bits.
  const std::vector<std::string> constant = {"--init", init,     "--schedule", "constant",   "--ema",
                                             "0.9",    "--clip", "1",          "--max-steps"};
  const auto steps = [&](const char* count) {
    std::vector<std::string> words = constant;
    words.emplace_back(count);
    return words;
  };
  ASSERT_EQ(run_dlpipe(regress(folder, "second", "whole", steps("6"))).exit_code, 0);
  ASSERT_EQ(run_dlpipe(regress(folder, "second", "halves", steps("3"))).exit_code, 0);
  const Outcome resumed = run_dlpipe({"train", "--resume", folder / "halves", "--max-steps", "6"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(predicted_and_targets(folder, "halves", "second"),
            predicted_and_targets(folder, "whole", "second"));
}

// 2^24 + 1 cannot be represented in f32.
TEST(Regress, NumbersOfOtherTypesAreLearned) {
  for (const char* kind : {"number:i64", "number:f64", "number:i32", "numbers:i64"}) {
    ScratchDirectory folder;
    const bool are_two = std::string_view(kind) == "numbers:i64";
    ingest_numbers(folder, "data", kind, [&](int i) {
      return are_two ? concat("\"", i, " ", 16777217 + i, "\"") : std::to_string(16777217 + i);
    });
    const Outcome trained =
        run_dlpipe(regress(folder, "data", "run", {"--model", "lenet", "--max-steps", "3"}));
    ASSERT_EQ(trained.exit_code, 0) << kind << ": " << trained.err;
    const Json eval = json_of(run_dlpipe({"eval", "--ckpt", folder / "run", folder / "data", "--json"}));
    EXPECT_LT(eval["metrics"]["mae"].as_double(), 100) << kind;
    if (are_two) continue;
    for (const auto& [predicted, target] : predicted_and_targets(folder, "run", "data")) {
      EXPECT_EQ(target, std::round(target)) << kind;
      EXPECT_GT(target, 16777216) << kind;
      EXPECT_NEAR(predicted, target, 200) << kind;
    }
  }
}

TEST(Regress, PredictionsHaveTheStoredTargets) {
  ScratchDirectory folder;
  const auto number = [](int i) { return std::to_string(1000000 + i); };
  ingest_numbers(folder, "data", "number", number);
  const Outcome trained = run_dlpipe(regress(folder, "data", "run", {"--model", "lenet", "--epochs", "0"}));
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const auto rows = predicted_and_targets(folder, "run", "data");
  double error = 0;
  for (const auto& [predicted, target] : rows) {
    EXPECT_EQ(target, std::round(target));
    error += std::abs(predicted - target) / static_cast<double>(rows.size());
  }
  const Json eval = json_of(run_dlpipe({"eval", "--ckpt", folder / "run", folder / "data", "--json"}));
  EXPECT_NEAR(eval["metrics"]["mae"].as_double(), error, 1e-5 * error);
}

TEST(TaskQuestions, EvalRecommendsNoOptionOfTrain) {
  ScratchDirectory folder;
  ingest_numbers(folder, "numbers", "number", [](int i) { return std::to_string(i); });
  ASSERT_EQ(run_dlpipe({"synth", folder / "classes", "--per-class", "2"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "classes", folder / "data"}).exit_code, 0);
  const Outcome trained = run_dlpipe({"train", "--data", folder / "data", "--model", "lenet", "--epochs", "0",
                                      "--batch", "4", "--out", folder / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  ASSERT_EQ(
      run_dlpipe(regress(folder, "numbers", "of-numbers", {"--model", "lenet", "--epochs", "0"})).exit_code,
      0);
  for (const auto& [run, data] : {std::pair("run", "numbers"), {"of-numbers", "data"}}) {
    const Outcome outcome = run_dlpipe({"eval", "--ckpt", folder / run, folder / data});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(outcome.err.find("--task"), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("this model predicts"), std::string::npos) << outcome.err;
  }
}

TEST(TaskQuestions, BalancingTwiceIsWarnedAbout) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--per-class", "2"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "data"}).exit_code, 0);
  const auto warns = [&](const std::string& sampler) {
    const Outcome outcome =
        run_dlpipe({"train", "--data", folder / "data", "--model", "lenet", "--epochs", "0", "--batch", "4",
                    "--class-weights", "balanced", "--sampler", sampler, "--out", folder / sampler});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.err.find("both compensate for rare classes") != std::string::npos;
  };
  EXPECT_TRUE(warns("balanced"));
  EXPECT_FALSE(warns("uniform"));
}

TEST(TaskQuestions, SeveralFieldsOfNumbersAreAskedFor) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--task", "regress", "--per-class", "2"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "data", "--manifest", folder / "drawn/list.csv",
                        "--field", "x:number", "--field", "y:number"})
                .exit_code,
            0);
  for (const char* task : {"regress", "auto"}) {
    const Outcome outcome = run_dlpipe({"train", "--data", folder / "data", "--model", "lenet", "--task",
                                        task, "--augment", "", "--batch", "4", "--out", folder / "run"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find("x, y; give --target"), std::string::npos) << outcome.err;
  }
  EXPECT_FALSE(std::filesystem::exists(folder / "run/config.toml"));
}

TEST(ModelFiles, OneThatIsNotThereIsNoNameOfAModel) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--per-class", "2"}).exit_code, 0);
  const auto refusal = [&](const std::string& model) {
    const Outcome outcome =
        run_dlpipe({"train", "--data", folder / "drawn", "--model", model, "--out", folder / "run"});
    EXPECT_EQ(outcome.exit_code, 2);
    return outcome.err;
  };
  EXPECT_NE(refusal(folder / "missing.dlm").find("no such file"), std::string::npos);
  ASSERT_TRUE(formats::write_file(folder / "text.onnx", "no model").ok());
  EXPECT_NE(refusal(folder / "text.onnx").find("is not a captured, compiled or ONNX model"),
            std::string::npos);
}

}  // namespace dlpipe::test
