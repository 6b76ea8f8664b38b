#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/text.h"
#include "dlpipe/dataset.h"
#include "io/formats/json.h"
#include "run/record/receipt.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace fs = std::filesystem;

// A dataset of `lines` about the images of `folder`, trained on as it is.
static Outcome train_on_list(const ScratchDirectory& folder, const std::string& name,
                             const std::string& lines, const std::vector<std::string>& fields) {
  std::ofstream(folder / ("images/" + name)) << lines;
  std::vector<std::string> ingest = {"ingest", folder / ("images/" + name), folder / (name + ".data")};
  for (const std::string& field : fields) ingest.insert(ingest.end(), {"--field", field});
  const Outcome ingested = run_dlpipe(ingest);
  EXPECT_EQ(ingested.exit_code, 0) << ingested.err;
  return run_dlpipe({"train", "--data", folder / (name + ".data"), "--model", "lenet", "--batch", "2",
                     "--max-steps", "1", "--out", folder / (name + ".run")});
}

TEST(Train, ARunsConfigMeansThatRunFromEveryFolder) {
  const Outcome again = run_dlpipe({"train", "--config", trained_run().run + "/config.toml"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find(trained_run().run), std::string::npos) << again.err;
  const std::string config = file_text(trained_run().run + "/config.toml");
  EXPECT_NE(config.find("\nout = \"/"), std::string::npos) << config;
}

TEST(Train, TheFieldsDecideTheTaskAndOthersAreNamed) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "2"}).exit_code, 0);
  const auto has = [](const Outcome& outcome, int exit_code, std::initializer_list<const char*> parts) {
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.err;
    for (const char* part : parts)
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in " << outcome.err;
  };
  has(train_on_list(folder, "boxes.jsonl", R"({"path": "bar/00000.jpg", "box": [[1, 2, 9, 9]], "kind": ["a"]}
{"path": "bar/00001.jpg", "box": [], "kind": []}
)",
                    {"box:boxes", "kind:labels:box"}),
      2, {"detect", "detector_small"});  // which lenet isn't
  has(train_on_list(folder, "tags.csv", "path,tags\nbar/00000.jpg,a|b\nbar/00001.jpg,b\n", {"tags:labels"}),
      0, {"task: multilabel, of tags"});
  has(train_on_list(folder, "age.csv", "path,age\nbar/00000.jpg,3.5\nbar/00001.jpg,4\n", {"age:number"}), 0,
      {"task: regress, of age"});
  has(train_on_list(folder, "several.csv",
                    "path,tags,age,size\nbar/00000.jpg,a|b,3.5,1\nbar/00001.jpg,b,4,2\n",
                    {"tags:labels", "age:number", "size:number"}),
      2, {"in several ways; give --task multilabel or --task regress"});
  // Fields of a dataset with classes are ignored, and the notes say so.
  has(train_on_list(folder, "both.csv", "path,label,age\nbar/00000.jpg,a,3\nbar/00001.jpg,b,4\n",
                    {"age:number"}),
      0, {"lenet does not use age (tensor)"});
  has(run_dlpipe({"train", "--data", folder / "both.csv.data", "--model", "lenet", "--batch", "2",
                  "--max-steps", "1", "--class-weights", "a=0,b=0", "--out", folder / "weights"}),
      2, {"--class-weights a=0,b=0 leaves no class that counts"});
  // Validation and eval learn of no class: classes a and b, which no image has itself.
  const std::initializer_list<const char*> without = {"2 of 2 samples of ", " have no class; ",
                                                      "tags (labels)", "--label COLUMN"};
  has(run_dlpipe({"train", "--data", folder / "both.csv.data", "--val", folder / "tags.csv.data", "--model",
                  "lenet", "--batch", "2", "--max-steps", "1", "--out", folder / "val"}),
      2, without);
  has(run_dlpipe({"eval", "--ckpt", folder / "both.csv.run", folder / "tags.csv.data"}), 2, without);
}

TEST(Train, TheWrittenConfigRunsTheSameAgain) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(
      {"train", "--config", trained_run().run + "/config.toml", "--out", folder / "again", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_same_run(trained_run().run, folder / "again");
  const auto json = formats::Json::parse(outcome.out);
  ASSERT_TRUE(json.ok()) << outcome.out;
  EXPECT_EQ((*json)["steps"].as_int(), 40);
}

TEST(Train, EndsWithTablesThatAddUp) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(train_arguments(folder / "run"));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* word : {"samples/s alone", "the whole run", "start ", "unaccounted: "})
    EXPECT_NE(outcome.out.find(word), std::string::npos) << word << "\n" << outcome.out;
  for (const char* word : {"memory plan", "validation after epoch", "samples/s  data"})
    EXPECT_NE(outcome.err.find(word), std::string::npos) << word << "\n" << outcome.err;
  const auto ledger = formats::read_json(folder / "run/ledger.json");
  ASSERT_TRUE(ledger.ok());
  double seconds = (*ledger)["unaccounted_seconds"].as_double();
  for (const auto& [name, span] : (*ledger)["spans"].members()) seconds += span["seconds"].as_double();
  EXPECT_NEAR(seconds, (*ledger)["wall_seconds"].as_double(), 1e-6);
  // One judgement, also where it is that the run is too short for one.
  const std::string advice = (*ledger)["advice"].as_string();
  EXPECT_EQ(advice.empty(), outcome.out.find("Speed up") == std::string::npos) << advice << "\n"
                                                                               << outcome.out;
}

#if !defined(__SANITIZE_ADDRESS__)  // whose search for leaks at exit is none of the program's time
static double seconds_of(const std::vector<std::string>& arguments) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run_dlpipe(arguments).exit_code, 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Two readings of the same run, one from outside. What the ledger can't hold is the process's exit, and being
// made and waited for: as long as the slowest of some runs that do nothing takes. On a busy machine a run may lose
// more there by chance; time that the ledger leaves out is left out of each.
TEST(Train, TheLedgerHoldsTheProcessesWholeWallTime) {
  constexpr int kRuns = 5;
  constexpr double kTick = 0.02;  // in which the kernel says when a process began
  double nothing = 0;
  for (int i = 0; i < 3; ++i) nothing = std::max(nothing, seconds_of({"--version"}));
  std::string differences;
  for (int run = 0; run < kRuns; ++run) {
    ScratchDirectory folder;
    const double wall = seconds_of(train_arguments(
        folder / "run", {"--epochs", "60", "--val-every", "20epochs", "--checkpoint-every", "20epochs"}));
    const auto ledger = formats::read_json(folder / "run/ledger.json");
    ASSERT_TRUE(ledger.ok());
    for (const char* span : {"start", "validation", "checkpoint", "forward"})
      EXPECT_GT((*ledger)["spans"][span]["seconds"].as_double(), 0) << span;
    const double told = (*ledger)["wall_seconds"].as_double();
    if (std::abs(told - wall) <= 0.01 * wall + nothing + kTick) return;
    differences += concat(" ", told, " of ", wall);
  }
  ADD_FAILURE() << "seconds in the ledger and outside:" << differences;
}
#endif

TEST(Train, SmallLearningRatesKeepTheirDigits) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(
      train_arguments(folder / "run", {"--lr", "3e-5", "--schedule", "constant", "--epochs", "1"}));
  EXPECT_NE(outcome.err.find("lr 3.0e-05 "), std::string::npos) << outcome.err;
}

// As of every other option the last one counts: commands are recalled and added to.
TEST(Train, OfASwitchAndItsOppositeTheLastCounts) {
  for (const auto& [first, last, line] : std::vector<std::array<std::string, 3>>{
           {"--nesterov", "--no-nesterov", "nesterov = false"},
           {"--no-nesterov", "--nesterov", "nesterov = true"},
           {"--no-decay-vectors", "--decay-vectors", "decay-vectors = true"},
           {"--decay-vectors", "--no-decay-vectors", "decay-vectors = false"}}) {
    ScratchDirectory folder;
    const Outcome outcome = run_dlpipe(
        train_arguments(folder / "run", {"--weight-decay", "0.1", "--max-steps", "1", first, last}));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const std::string config = file_text(folder / "run/config.toml");
    EXPECT_NE(config.find("\n" + line + "\n"), std::string::npos) << first << " " << last;
    EXPECT_NE(outcome.err.find(" are both given; the last one, " + last + ", counts"), std::string::npos)
        << outcome.err;
  }
}

TEST(Train, DefaultsAreTheChosenOptimizersAndStandInTheConfig) {
  ScratchDirectory folder;
  const std::vector<std::string> arguments = {"train",       "--data",   trained_run().data.split,
                                              "--model",     "lenet",    "--optimizer",
                                              "adamw",       "--epochs", "0.1",
                                              "--batch",     "16",       "--out",
                                              folder / "run"};
  const Outcome outcome = run_dlpipe(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string config = file_text(folder / "run/config.toml");
  EXPECT_NE(config.find("\nlr = 0.001\n"), std::string::npos) << config;
  EXPECT_NE(config.find("\nweight-decay = 0.01\n"), std::string::npos) << config;
  EXPECT_EQ(config.find("\nmomentum = "), std::string::npos) << config;
  const Outcome help = run_dlpipe({"train", "--help", "optimizers"});
  EXPECT_NE(help.out.find("--lr 0.001  --beta1 0.9"), std::string::npos) << help.out;
  EXPECT_NE(run_dlpipe({"train", "--help", "schedules"}).out.find("--gamma 0.1"), std::string::npos);
}

TEST(Train, WhatAConfigFileSaysForAnotherChoiceIsLeftOutAndTold) {
  ScratchDirectory folder;
  std::ofstream(folder / "c.toml") << "optimizer = \"sgd\"\nlr = 0.02\nmomentum = 0.8\nmodel = \"lenet\"\n";
  std::vector<std::string> arguments = {
      "train",       "--config", folder / "c.toml", "--data", trained_run().data.split,
      "--optimizer", "adam",     "--epochs",        "0.1",    "--batch",
      "16",          "--out",    folder / "run"};
  const Outcome refused = run_dlpipe(arguments);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("lr = 0.02"), std::string::npos) << refused.err;
  arguments.insert(arguments.end(), {"--lr", "0.002"});
  const Outcome outcome = run_dlpipe(arguments);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("--momentum has no effect with --optimizer adam; it is ignored"),
            std::string::npos)
      << outcome.err;
}

TEST(Train, ARunWithoutAStepSaysWhy) {
  const auto expect = [](const std::vector<std::string>& more, const std::string& part) {
    ScratchDirectory folder;
    const Outcome outcome = run_dlpipe(train_arguments(folder / "run", more));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
  };
  expect({"--epochs", "1", "--accumulate", "50"}, "a step needs 50 (--accumulate)");
  expect({"--freeze", "*"}, "--freeze leaves nothing to train");
}

TEST(Train, SaysWhatIsLeftOutAndWhatOptionsDoNothing) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.train, folder / "alone", fs::copy_options::recursive);
  const Outcome outcome = run_dlpipe(train_arguments(
      folder / "run", {"--data", folder / "alone", "--batch", "48", "--epochs", "0.2", "--tta", "flip",
                       "--bucket-mb", "1", "--peer-timeout", "3", "--decode", "host"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("--bucket-mb and --peer-timeout have no effect in one process"),
            std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("each epoch leaves out 32"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("--tta is stored for eval and predict"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("--decode host has no effect on cpu"), std::string::npos) << outcome.err;
  const Outcome one = run_dlpipe(train_arguments(
      folder / "other", {"--overfit-batch", "1", "--label-smoothing", "0.1", "--mixup", "0.2"}));
  EXPECT_NE(one.err.find("it ignores --mixup, --label-smoothing, --out"), std::string::npos) << one.err;
}

// What the user may have to act on is neither progress nor a note.
TEST(Train, WarningsStayWithQuietAndAreInTheJson) {
  const ScratchDirectory folder;
  fs::copy(trained_run().data.train, folder / "alone", fs::copy_options::recursive);
  const Outcome outcome =
      run_dlpipe(train_arguments(folder / "run", {"--data", folder / "alone", "--max-steps", "2",
                                                  "--peer-timeout", "3", "--tf32", "--quiet", "--json"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = value_or_throw(formats::Json::parse(outcome.out));
  std::string listed;
  for (const formats::Json& warning : json["warnings"].items()) listed += "\n" + warning.as_string();
  for (const std::string part :
       {"no validation set: --val is not given", "--peer-timeout has no effect in one process",
        "--tf32 has no effect on cpu"}) {
    EXPECT_NE(outcome.err.find("warning: " + part), std::string::npos) << outcome.err;
    EXPECT_NE(listed.find("\n" + part), std::string::npos) << listed;
  }
  EXPECT_EQ(outcome.err.find("training samples"), std::string::npos) << "a note: " << outcome.err;
}

// What is read before the loaders, which replace such samples: the first images are compared with those of the validation set.
TEST(Train, AMissingLinkedImageIsReplacedWhicheverItIs) {
  const ScratchDirectory folder;
  const std::string run = folder / "run";
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--per-class", "4"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "data", "--store", "link", "--split", "0.5,0.5"})
                .exit_code,
            0);
  std::vector<std::string> removed;
  for (const char* split : {"train", "val"}) {
    const auto dataset = value_or_throw(data::Dataset::open(folder / "data", split));
    ASSERT_EQ(dataset->size(), 20);
    removed.push_back(value_or_throw(value_or_throw(dataset->reader())->linked_file(0)));
    ASSERT_TRUE(fs::remove(removed.back()));
  }
  const Outcome outcome =
      run_dlpipe({"train", folder / "data", "--model", "lenet", "--batch", "8", "--epochs", "1", "--lr",
                  "0.01", "--schedule", "constant", "--out", run});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string quarantine = file_text(run + "/quarantine.txt");
  EXPECT_NE(quarantine.find(fs::path(removed[0]).filename().string()), std::string::npos) << quarantine;
  const Outcome resumed = run_dlpipe({"train", "--resume", run, "--epochs", "2"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
}

// Values and folds are stored in the dataset, so that no image is read for them.
TEST(Train, TargetsAndFoldsOfMissingLinkedImagesAreKnown) {
  const ScratchDirectory folder;
  const fs::path drawn = folder / "drawn";
  ASSERT_EQ(run_dlpipe({"synth", drawn.string(), "--per-class", "1"}).exit_code, 0);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(drawn))
    if (entry.is_regular_file()) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 10u);
  for (size_t i = 0; i < files.size(); ++i)
    std::ofstream(drawn / "list.jsonl", std::ios::app)
        << R"({"path": ")" << fs::relative(files[i], drawn).string() << R"(", "age": )" << i << "}\n";
  ASSERT_EQ(run_dlpipe({"ingest", (drawn / "list.jsonl").string(), folder / "data", "--store", "link",
                        "--field", "age:number", "--folds", "2"})
                .exit_code,
            0);
  ASSERT_TRUE(fs::remove(files[3]));
  const Outcome outcome =
      run_dlpipe({"train", folder / "data", "--task", "regress", "--model", "lenet", "--batch", "2",
                  "--epochs", "1", "--lr", "0.01", "--fold", "1", "--out", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(Train, ValidationOnTheTrainingSetIsWarnedOf) {
  const ScratchDirectory folder;
  const SampleData& data = trained_run().data;
  std::filesystem::copy(data.split + "/train", folder / "copy", std::filesystem::copy_options::recursive);
  const auto said = [&](const std::string& out, const std::string& val) {
    return run_dlpipe(train_arguments(folder / out, {"--val", val, "--max-steps", "1"})).err;
  };
  const std::string text = "the validation set is the training set";
  EXPECT_NE(said("a", data.split + "/train").find("warning: " + text), std::string::npos);
  EXPECT_NE(said("b", folder / "copy").find(text), std::string::npos) << "under another path";
  EXPECT_EQ(said("c", data.val).find(text), std::string::npos);
  // Other images of the same names, as where a published dataset numbers the images of each split from 1.
  const fs::path numbered = folder / "numbered";
  for (const char* split : {"train", "test"}) fs::create_directories(numbered / split / "c");
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(data.jpegs))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::ranges::sort(files);
  for (size_t i = 0; i < 32; ++i)
    fs::copy_file(files[i], numbered / (i < 16 ? "train" : "test") / "c" / concat(i % 16, ".jpg"));
  ASSERT_EQ(run_dlpipe({"ingest", numbered.string(), folder / "two"}).exit_code, 0);
  const Outcome other = run_dlpipe({"train", folder / "two", "--val", folder / "two/test", "--model", "lenet",
                                    "--batch", "8", "--max-steps", "1", "--out", folder / "e"});
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.err.find(text), std::string::npos) << other.err;
  // Of the folder that a dataset was made of the ids differ.
  ASSERT_EQ(run_dlpipe({"ingest", data.jpegs, folder / "all"}).exit_code, 0);
  const Outcome as_folder = run_dlpipe({"train", folder / "all", "--val", data.jpegs, "--model", "lenet",
                                        "--batch", "16", "--max-steps", "1", "--out", folder / "d"});
  EXPECT_NE(as_folder.err.find(text + " (" + data.jpegs + ")"), std::string::npos) << as_folder.err;
  EXPECT_NE(as_folder.err.find("augmentation: pad_crop(32,4) hflip, the default"), std::string::npos)
      << as_folder.err;
}

// Enlarged to what models of photographs are made for, they would cost fifty times as much.
TEST(Train, SmallImagesOfSeveralSizesGetASmallCrop) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "jpegs", "--per-class", "3", "--size", "28..40"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "jpegs", folder / "data"}).exit_code, 0);
  const auto said = [&](const std::string& model) {
    return run_dlpipe({"train", folder / "data", "--model", model, "--batch", "4", "--max-steps", "1",
                       "--out", folder / model})
        .err;
  };
  EXPECT_NE(said("resnet18").find("augmentation: rrc(40) hflip, the default"), std::string::npos);
  EXPECT_NE(said("vit_small_cifar").find("augmentation: rrc(32) hflip, the default"), std::string::npos)
      << "the model's own size is small";
}

TEST(Train, ValidationOnAPartOfTheTrainingSetIsWarnedOf) {
  const ScratchDirectory folder;
  const SampleData& data = trained_run().data;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(data.jpegs))
    if (entry.is_regular_file()) files.push_back(fs::relative(entry.path(), data.jpegs));
  std::ranges::sort(files);
  size_t classes = 0;
  for (const auto& entry : fs::directory_iterator(data.jpegs)) classes += entry.is_directory() ? 1 : 0;
  const size_t of_class = files.size() / classes;
  // Of each class the images from `begin` to `end`.
  const auto copy = [&](const std::string& name, size_t begin, size_t end) {
    for (size_t c = 0; c < classes; ++c) {
      for (size_t i = begin; i < end; ++i) {
        const fs::path& file = files[c * of_class + i];
        fs::create_directories((folder / name) / file.parent_path());
        fs::copy_file(data.jpegs / file, (folder / name) / file);
      }
    }
    ASSERT_EQ(run_dlpipe({"ingest", folder / name, folder / (name + ".data")}).exit_code, 0);
  };
  copy("train", 0, 8);
  copy("part", 6, 10);
  copy("other", 8, 12);
  const auto said = [&](const std::string& val) {
    return run_dlpipe({"train", folder / "train.data", "--val", folder / val, "--model", "lenet", "--batch",
                       "8", "--max-steps", "1", "--out", folder / (val + ".run")})
        .err;
  };
  const std::string err = said("part.data");
  EXPECT_NE(err.find(concat(2 * classes, " of the ", 4 * classes, " samples of ")), std::string::npos) << err;
  EXPECT_NE(err.find("are also in the training set"), std::string::npos) << err;
  const std::string none = said("other.data");
  EXPECT_EQ(none.find("are also in the training set"), std::string::npos) << none;
}

// Published with a train and a test alone.
TEST(Train, WithoutAValTheOtherSplitIsOfferedToValidateOn) {
  ScratchDirectory folder;
  fs::create_directories(folder / "splits");
  fs::copy(trained_run().data.train, folder / "splits/train", fs::copy_options::recursive);
  fs::copy(trained_run().data.val, folder / "splits/test", fs::copy_options::recursive);
  const auto train_on = [&](const std::string& out, const std::string& val) {
    std::vector<std::string> more = {"--data", folder / "splits", "--max-steps", "1"};
    if (!val.empty()) more.insert(more.end(), {"--val", val});
    return run_dlpipe(train_arguments(folder / out, more));
  };
  const Outcome without = train_on("without", "");
  ASSERT_EQ(without.exit_code, 0) << without.err;
  const std::string test = folder / "splits/test";
  EXPECT_NE(without.err.find("splits has no split val; --val " + test + " uses test"), std::string::npos)
      << without.err;
  const Outcome with = train_on("with", test);
  EXPECT_NE(with.err.find("validation after"), std::string::npos) << with.err;
}

TEST(Train, ADatasetIsNoRunDirectory) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.split, folder / "data", fs::copy_options::recursive);
  for (const char* out : {"data", "data/train"}) {
    const Outcome outcome =
        run_dlpipe(train_arguments(folder / out, {"--data", folder / "data", "--max-steps", "1"}));
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.err.find(" is a dataset; give another folder"), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(folder / out + "/checkpoints"));
  }
}

// Of "..., 61,706 parameters, ..." in what a run tells.
static int64_t parameters_of(const Outcome& outcome) {
  const size_t end = outcome.err.find(" parameters,");
  std::string digits;
  for (size_t i = end; end != std::string::npos && i-- > 0 && outcome.err[i] != ' ';)
    if (outcome.err[i] != ',') digits.insert(digits.begin(), outcome.err[i]);
  return digits.empty() ? -1 : std::stoll(digits);
}

TEST(Train, WeightsOfImagesWithOtherChannelsAreSaidToBe) {
  ScratchDirectory folder;
  for (const char* name : {"a", "b"}) {
    fs::create_directories(folder / "grey/" + name);
    for (int i = 0; i < 2; ++i)
      std::ofstream(folder / "grey/" + name + "/" + std::to_string(i) + ".pgm")
          << "P5\n32 32\n255\n"
          << std::string(1024, static_cast<char>('a' + i));
  }
  ASSERT_EQ(run_dlpipe({"ingest", folder / "grey", folder / "data"}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"train", "--data", folder / "data", "--init", trained_run().run,
                                      "--reset-head", "--batch", "2", "--out", folder / "run"});
  EXPECT_NE(outcome.err.find("was trained on images of 3 channels, but these have 1"), std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.err.find("does not record the normalisation of its weights"), std::string::npos)
      << outcome.err;
  const Outcome colour =
      run_dlpipe({"train", "--data", folder / "data", "--init", trained_run().run, "--reset-head", "--batch",
                  "2", "--channels", "3", "--max-steps", "1", "--out", folder / "three"});
  EXPECT_EQ(colour.exit_code, 0) << colour.err;
  const Outcome judged = run_dlpipe({"eval", "--ckpt", folder / "three", folder / "data", "--json"});
  EXPECT_NE(judged.out.find("\"samples\":4"), std::string::npos) << judged.out << judged.err;
  const Outcome grey =
      run_dlpipe({"train", "--data", trained_run().data.split, "--model", "lenet", "--channels", "1",
                  "--max-steps", "1", "--batch", "2", "--out", folder / "one", "--json"});
  EXPECT_EQ(grey.exit_code, 0) << grey.err;
  // lenet's first convolution has 6 x 25 weights for each channel
  const Outcome usual = run_dlpipe({"train", "--data", trained_run().data.split, "--model", "lenet",
                                    "--max-steps", "1", "--batch", "2", "--out", folder / "usual", "--json"});
  EXPECT_EQ(parameters_of(usual) - parameters_of(grey), 2 * 6 * 25);
}

TEST(Train, ALimitedRunTakesASubsetOfTheWholeDataset) {
  ScratchDirectory folder;
  const Outcome outcome = run_dlpipe(train_arguments(folder / "run", {"--limit", "64", "--epochs", "1"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("64 of 320 samples, by seed 3"), std::string::npos) << outcome.err;
  EXPECT_NE(file_text(folder / "run/receipt.json").find("64 of 320 samples, by seed 3"), std::string::npos);
}

TEST(Train, SaysAtItsEndHowManySamplesWereReplaced) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.train, folder / "data", fs::copy_options::recursive);
  std::string bytes = file_text(folder / "data/data.mdb");
  int64_t damaged = 0;
  for (int i = 0; i < 3; ++i) {  // those that the split put there
    const size_t at = bytes.find("star/0000" + std::to_string(i) + ".jpg");
    if (at == std::string::npos) continue;
    bytes[at] = 'S';  // a record's checksum is of its path, too
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  std::ofstream(folder / "data/data.mdb", std::ios::binary) << bytes;
  const Outcome outcome = run_dlpipe(train_arguments(folder / "run", {"--data", folder / "data"}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string told = std::to_string(damaged) +
                           (damaged == 1 ? " bad sample was" : " bad samples were") +
                           " replaced by others: " + folder / "run/quarantine.txt";
  EXPECT_NE(outcome.out.find(told), std::string::npos) << outcome.out;
}

TEST(Train, ADatasetCutShortUnderItIsExplained) {
  ScratchDirectory folder;
  fs::copy(trained_run().data.train, folder / "data", fs::copy_options::recursive);
  RunningProgram program(train_arguments(
      folder / "run", {"--data", folder / "data", "--epochs", "100000", "--checkpoint-every", "never"}));
  ASSERT_TRUE(wait_for_step(program, folder / "run", 3));
  fs::resize_file(folder / "data/data.mdb", 4096);
  const Outcome outcome = program.wait();
  EXPECT_NE(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("dlpipe verify"), std::string::npos) << outcome.err;
}

// A terminal of 40 columns: a line that wraps can't be overwritten, and each update would leave its rest.
TEST(Train, TheProgressLineFitsTheTerminal) {
  Terminal terminal(40);
  ScratchDirectory folder;
  std::string shown;
  {
    RunningProgram program(train_arguments(folder / "run"), {.err = terminal.device()});
    shown = terminal.wait_for_end();
    EXPECT_EQ(program.wait().exit_code, 0) << shown;
  }
  const size_t begin = shown.find("\repoch ");
  ASSERT_NE(begin, std::string::npos) << shown;
  const size_t end = shown.find("\x1b[K", begin);
  EXPECT_EQ(end - begin - 1, 39u) << shown.substr(begin, 200);
}

TEST(Train, EightyColumnsShowHowLongItTakesAndWhatLimits) {
  Terminal terminal(80);
  ScratchDirectory folder;
  std::string shown;
  {
    RunningProgram program(train_arguments(folder / "run", {"--epochs", "4000", "--val-every", "never"}),
                           {.err = terminal.device()});
    while (shown.find("  limit ") == std::string::npos && !program.ended()) {  // known after two seconds
      shown += terminal.take_shown();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    program.send(SIGINT);
    shown += terminal.wait_for_end();
    EXPECT_EQ(program.wait().exit_code, 3) << shown;
  }
  int lines = 0, with_limit = 0;
  for (size_t begin = shown.find("\repoch "); begin != std::string::npos;
       begin = shown.find("\repoch ", begin + 1)) {
    const std::string line = shown.substr(begin + 1, shown.find("\x1b[K", begin) - begin - 1);
    EXPECT_LT(line.size(), 80u) << line;
    const bool has_limit = line.find("  limit ") != std::string::npos;
    for (const char* part : {"  loss ", has_limit ? "/s  " : "/s  data ", "  eta "})
      EXPECT_NE(line.find(part), std::string::npos) << line;
    EXPECT_EQ(line.find('?'), std::string::npos) << "what isn't known yet is left out: " << line;
    ++lines;
    with_limit += has_limit ? 1 : 0;
  }
  EXPECT_GT(lines, with_limit) << shown;
  EXPECT_GT(with_limit, 0) << shown;
}

// Of whatever width it is shown, a mean says that it is one.
TEST(Train, ANarrowProgressLineSaysThatTheLossIsAMean) {
  Terminal terminal(62);
  ScratchDirectory folder;
  RunningProgram program(train_arguments(folder / "run"), {.err = terminal.device()});
  const std::string shown = terminal.wait_for_end();
  EXPECT_EQ(program.wait().exit_code, 0) << shown;
  EXPECT_NE(shown.find(" mean  "), std::string::npos) << shown;
}

TEST(Train, HelpShowsEveryOptionWithItsDefaultAndTheTopics) {
  const Outcome help = run_dlpipe({"train", "--help-all"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* text :
       {"default 128", "--batch N", "--schedule", "one_cycle", "--no-decay-vectors", "--help ops"}) {
    EXPECT_NE(help.out.find(text), std::string::npos) << text;
  }
  const Outcome ops = run_dlpipe({"train", "--help", "ops"});
  EXPECT_EQ(ops.exit_code, 0);
  for (const char* text : {"rrc(", "hflip(", "pad_crop(", "default"}) {
    EXPECT_NE(ops.out.find(text), std::string::npos) << text;
  }
  const Outcome models = run_dlpipe({"train", "--help", "models"});
  EXPECT_NE(models.out.find("resnet18"), std::string::npos) << models.out;
}

TEST(Train, OverfitBatchIsASmokeTest) {
  const Outcome good = run_dlpipe({"train", "--data", trained_run().data.train, "--model", "lenet", "--batch",
                                   "16", "--lr", "0.01", "--schedule", "constant", "--overfit-batch", "100"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  const Outcome bad = run_dlpipe({"train", "--data", trained_run().data.train, "--model", "lenet", "--batch",
                                  "16", "--lr", "0", "--overfit-batch", "3"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.err.find("did not memorise the batch"), std::string::npos) << bad.err;
}

// lenet takes one size of images alone, and resnet18 any.
TEST(Train, ImagesOfValidationThatTheModelDoesNotTakeAreRefusedBeforeAnEpoch) {
  ScratchDirectory folder;
  const Outcome crops = run_dlpipe(train_arguments(folder / "a", {"--tta", "five_crop"}));
  EXPECT_EQ(crops.exit_code, 2) << crops.err;
  EXPECT_NE(crops.err.find("would give lenet images of 28x28, but it only accepts its training size, 32x32"),
            std::string::npos)
      << crops.err;
  EXPECT_NE(crops.err.find("give --val-augment \"resize(37) center_crop(37)\""), std::string::npos)
      << crops.err;
  const Outcome larger =
      run_dlpipe(train_arguments(folder / "b", {"--val-augment", "resize(40) center_crop(40)"}));
  EXPECT_EQ(larger.exit_code, 2) << larger.err;
  EXPECT_NE(larger.err.find("would give lenet images of 40x40"), std::string::npos) << larger.err;
  EXPECT_FALSE(fs::exists(folder / "b"));
  const Outcome any = run_dlpipe(train_arguments(
      folder / "c", {"--model", "resnet18", "--tta", "five_crop", "--limit", "16", "--max-steps", "1"}));
  EXPECT_EQ(any.exit_code, 0) << any.err;
}

TEST(Train, ANonfiniteLossStopsAndNamesTheLayer) {
  ScratchDirectory folder;
  const Outcome outcome =
      run_dlpipe(train_arguments(folder / "run", {"--lr", "1e6", "--schedule", "constant"}));
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("is not finite; the first is in "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("--on-nonfinite skip"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("no checkpoint was saved yet"), std::string::npos) << outcome.err;
}

// As on a machine that has no more.
TEST(Train, AnInstructionSetCanBePinned) {
  ScratchDirectory folder;
  const Outcome pinned = run_dlpipe(
      train_arguments(folder / "pinned", {"--isa", "sse41", "--kernels", "rules", "--max-steps", "3"}));
  ASSERT_EQ(pinned.exit_code, 0) << pinned.err;
  ::setenv("DNNL_MAX_CPU_ISA", "SSE41", 1);
  const Outcome lesser =
      run_dlpipe(train_arguments(folder / "lesser", {"--kernels", "rules", "--max-steps", "3"}));
  const Outcome refused = run_dlpipe(train_arguments(folder / "refused", {"--isa", "amx"}));
  ::unsetenv("DNNL_MAX_CPU_ISA");
  ASSERT_EQ(lesser.exit_code, 0) << lesser.err;
  const auto difference = run::compare_runs(folder / "pinned", folder / "lesser");
  ASSERT_TRUE(difference.ok()) << difference.status().message();
  EXPECT_TRUE(difference->receipt.empty());
  const auto receipt = run::read_receipt(folder / "pinned");
  ASSERT_TRUE(receipt.ok());
  EXPECT_EQ(receipt->isa, "sse41");
  // What the machine lacks; the option counts more than the variable where it has it.
  if (run_dlpipe({"info"}).out.find("engine: amx") == std::string::npos) {
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.err.find("less than amx; use "), std::string::npos) << refused.err;
  }
}

}  // namespace dlpipe::test
