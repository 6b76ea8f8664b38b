// dlpipe train on images that no ingest has seen: they are linked first.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

namespace fs = std::filesystem;

TEST(Train, ImagesAreTrainedOnWithoutAnIngest) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "8"}).exit_code, 0);
  const std::string run = folder / "run";
  const Outcome outcome =
      run_dlpipe({"train", "--data", folder / "images", "--model", "lenet", "--batch", "16", "--schedule",
                  "constant", "--max-steps", "3", "--checkpoint-every", "never", "--out", run});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("linked 80 images"), std::string::npos) << outcome.err;
  EXPECT_EQ(run_dlpipe({"verify", run + "/linked"}).exit_code, 0);
  // Goes on with the links that it has; an image that changed in between is replaced, and named.
  const std::string one = folder / "images/disc/00003.jpg";
  ASSERT_TRUE(fs::exists(one));
  fs::remove(one);
  const Outcome more = run_dlpipe({"train", "--resume", run, "--max-steps", "20", "--epochs", "4"});
  ASSERT_EQ(more.exit_code, 0) << more.err;
  EXPECT_EQ(more.err.find("linked 80 images"), std::string::npos) << more.err;
  EXPECT_NE(file_text(run + "/quarantine.txt").find("disc/00003.jpg"), std::string::npos);
  const Outcome verified = run_dlpipe({"verify", run + "/linked"});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_NE((verified.out + verified.err).find("disc/00003.jpg"), std::string::npos) << verified.out;
}

TEST(Train, ARunOnImagesGoesOnFromAnywhereAndAfterItWasMoved) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "4"}).exit_code, 0);
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());  // all paths are given from here
  const Outcome began =
      run_dlpipe({"train", "--data", "images", "--val", "images", "--model", "lenet", "--batch", "16",
                  "--schedule", "constant", "--max-steps", "2", "--out", "run"});
  fs::current_path(before);
  ASSERT_EQ(began.exit_code, 0) << began.err;
  const Outcome elsewhere =
      run_dlpipe({"train", "--resume", folder / "run", "--max-steps", "3", "--epochs", "9"});
  EXPECT_EQ(elsewhere.exit_code, 0) << elsewhere.err;
  fs::rename(folder / "run", folder / "moved");
  const Outcome moved = run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "4"});
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
  EXPECT_EQ(moved.err.find("not a dataset"), std::string::npos) << "nothing is linked again: " << moved.err;
  // Images may be named again, too, and where they are now: the same ones.
  const Outcome named =
      run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "5", "--data", folder / "images"});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  fs::rename(folder / "images", folder / "elsewhere");
  const Outcome gone = run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "6"});
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_NE(gone.err.find("the run's images are not at " + folder / "images" +
                          " any more; give their current place with --data"),
            std::string::npos)
      << gone.err;
  const Outcome elsewhere_now = run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "6",
                                            "--data", folder / "elsewhere", "--val", folder / "elsewhere"});
  EXPECT_EQ(elsewhere_now.exit_code, 0) << elsewhere_now.err;
  EXPECT_FALSE(fs::exists(folder / "moved/quarantine.txt"));
  // Others are refused, and the links stay.
  ASSERT_EQ(run_dlpipe({"synth", folder / "others", "--per-class", "4", "--seed", "9"}).exit_code, 0);
  std::ofstream(folder / "others.tgz") << "no archive";
  EXPECT_NE(run_dlpipe({"train", "--resume", folder / "moved", "--data", folder / "others.tgz"}).exit_code,
            0);
  EXPECT_EQ(run_dlpipe({"verify", folder / "moved/linked"}).exit_code, 0);
  const Outcome others = run_dlpipe({"train", "--resume", folder / "moved", "--data", folder / "others"});
  EXPECT_NE(others.err.find("but the run began with"), std::string::npos) << others.err;
  EXPECT_FALSE(fs::exists(folder / "moved/linked.new"));
  const Outcome goes_on = run_dlpipe({"train", "--resume", folder / "moved", "--max-steps", "7"});
  EXPECT_EQ(goes_on.exit_code, 0) << goes_on.err;
  EXPECT_FALSE(fs::exists(folder / "moved/quarantine.txt"));
}

TEST(Train, ImagesOfATarAreTrainedAndValidatedOn) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "4"}).exit_code, 0);
  ASSERT_EQ(std::system(("tar -C " + folder / "images" + " -cf " + folder / "a.tar" + " .").c_str()), 0);
  const Outcome outcome =
      run_dlpipe({"train", "--data", folder / "a.tar", "--val", folder / "a.tar", "--model", "lenet",
                  "--batch", "16", "--schedule", "constant", "--epochs", "1", "--out", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("(40 samples, "), std::string::npos) << outcome.err;
  const Outcome more =
      run_dlpipe({"train", "--resume", folder / "run", "--data", folder / "?.tar", "--epochs", "2"});
  EXPECT_EQ(more.exit_code, 0) << more.err;
}

TEST(Train, ImagesInterruptedInTheFirstEpochResumeBitForBit) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "40", "--size", "32"}).exit_code, 0);
  const auto words = [&](const std::string& out) {
    return std::vector<std::string>{"train",
                                    "--data",
                                    folder / "images",
                                    "--val",
                                    folder / "images",
                                    "--model",
                                    "lenet",
                                    "--batch",
                                    "4",
                                    "--epochs",
                                    "1",
                                    "--augment",
                                    "pad_crop(32,4) hflip",
                                    "--checkpoint-every",
                                    "never",
                                    "--val-every",
                                    "never",
                                    "--out",
                                    out};
  };
  ASSERT_EQ(run_dlpipe(words(folder / "whole")).exit_code, 0);
  const std::string run = folder / "run";
  RunningProgram program(words(run));
  ASSERT_TRUE(wait_for_step(program, run, 2));
  program.send(SIGINT);
  const Outcome stopped = program.wait();
  EXPECT_EQ(stopped.exit_code, 3) << stopped.err;
  const Outcome resumed = run_dlpipe({"train", "--resume", run});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_EQ(resumed.err.find("not a dataset"), std::string::npos) << resumed.err;
  expect_same_run(folder / "whole", run);
}

// What a wrong word costs: no reading of all files.
TEST(Train, WhatIsWrongWhateverTheImagesAreIsSaidBeforeTheyAreLinked) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "2"}).exit_code, 0);
  const std::string none = folder / "none";
  const struct {
    std::vector<std::string> options;
    std::string words;
    int exit_code = 2;
  } cases[] = {
      {{"--augment", "hflp"}, "did you mean 'hflip'?"},
      {{"--val-augment", "hflp"}, "did you mean 'hflip'?"},
      {{"--augment", "mosaic(32)"}, "one class per image"},
      {{"--val", none}, "no dataset " + none, 1},
      {{"--val", trained_run().run}, "is a run, not a dataset"},
      {{"--early-stop", "3"}, "there is no validation set; give --val"},
      {{"--schedule", "step", "--milestones", "soon"}, "--milestones holds 'soon'"},
      {{"--model", "gpt_char"}, "gpt_char takes sequences of tokens, but " + (folder / "images")},
  };
  for (const auto& c : cases) {
    std::vector<std::string> words = {"train",   "--data", folder / "images", "--model",     "lenet",
                                      "--batch", "4",      "--out",           folder / "run"};
    words.insert(words.end(), c.options.begin(), c.options.end());
    if (c.options.front() == "--model") words.erase(words.begin() + 3, words.begin() + 5);
    const Outcome outcome = run_dlpipe(words);
    EXPECT_EQ(outcome.exit_code, c.exit_code) << outcome.err;
    EXPECT_NE(outcome.err.find(c.words), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("linked"), std::string::npos) << outcome.err;
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
}

// Its own folders are the validation set, also where only words of their names say so.
TEST(Train, EarlyStoppingCountsValidationsOnASplitOfTheImages) {
  ScratchDirectory folder;
  for (const char* split : {"a_train", "a_test"})
    ASSERT_EQ(run_dlpipe({"synth", folder / ("images/" + std::string(split)), "--per-class", "2"}).exit_code,
              0);
  fs::rename(folder / "images/a_test", folder / "images/a_val");
  const Outcome outcome =
      run_dlpipe({"train", "--data", folder / "images", "--model", "lenet", "--batch", "4", "--early-stop",
                  "3", "--schedule", "constant", "--max-steps", "1", "--out", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST(Train, ImagesWithATestAndNoValAreToldHowToValidate) {
  ScratchDirectory folder;
  const std::string images = folder / "my images";
  for (const char* split : {"train", "testing"})
    ASSERT_EQ(
        run_dlpipe({"synth", images + "/" + split, "--per-class", "1", "--seed", std::to_string(split[1])})
            .exit_code,
        0);
  const auto train = [&](const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train",   "--data", images,       "--model",  "lenet",
                                      "--batch", "4",      "--schedule", "constant", "--max-steps",
                                      "1",       "--out",  out};
    words.insert(words.end(), more.begin(), more.end());
    return run_dlpipe(words);
  };
  const Outcome without = train(folder / "a", {"--quiet"});
  ASSERT_EQ(without.exit_code, 0) << without.err;
  EXPECT_NE(without.err.find("warning: no validation set: --val is not given, and " + images +
                             " has no split val; --val '" + images + "/testing' uses test"),
            std::string::npos)
      << without.err;
  const Outcome with = train(folder / "b", {"--val", images + "/testing"});
  EXPECT_EQ(with.exit_code, 0) << with.err;
  EXPECT_NE(with.err.find("validation after"), std::string::npos) << with.err;
}

// What ingest would refuse, too.
TEST(Train, ImagesThatAreNoDatasetEitherWayAreNotSentToIngest) {
  ScratchDirectory folder;
  for (const char* split : {"train", "val"})
    ASSERT_EQ(run_dlpipe({"synth", folder / split, "--per-class", "1"}).exit_code, 0);
  fs::create_directories(folder / "images");
  fs::rename(folder / "train", folder / "images/train");
  fs::create_directories(folder / "images/val");
  fs::copy(folder / "val/disc", folder / "images/val/other");
  const Outcome outcome =
      run_dlpipe({"train", "--data", folder / "images", "--model", "lenet", "--out", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_EQ(outcome.err.find("that can be trained on"), std::string::npos) << outcome.err;
}

/// As Ctrl-C or a kill in the middle of linking leaves it: a run that holds no config yet.
TEST(Train, ARunThatWasStoppedWhileItLinkedSaysHowToGoOn) {
  ScratchDirectory folder;
  fs::create_directories(folder / "run/checkpoints");
  fs::create_directories(folder / "run/linked.partial");
  const Outcome outcome = run_dlpipe({"train", "--resume", folder / "run"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("stopped before its first step; repeat the command that started it"),
            std::string::npos)
      << outcome.err;
}

TEST(Train, ControlCWhileItLinksLosesNothing) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "400", "--size", "24"}).exit_code, 0);
  const std::string run = folder / "run";
  const std::vector<std::string> words = {
      "train",   "--data",      folder / "images", "--model",  "lenet",
      "--batch", "16",          "--schedule",      "constant", "--max-steps",
      "2",       "--val-every", "never",           "--out",    run};
  bool was_interrupted = false;
  for (int i = 0; i < 50 && !was_interrupted; ++i) {
    fs::remove_all(run);
    RunningProgram program(words);
    while (!program.ended() && !fs::exists(run + "/linked.partial/ingest.list"))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    program.send(SIGINT);
    program.wait();
    was_interrupted = fs::exists(run + "/linked.partial");
  }
  ASSERT_TRUE(was_interrupted);
  const Outcome again = run_dlpipe(words);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("linked 4,000 images"), std::string::npos) << again.err;
  EXPECT_EQ(run_dlpipe({"verify", run + "/linked"}).exit_code, 0);
}

TEST(Train, ImagesThatCantBeLinkedAreNamed) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "2"}).exit_code, 0);
  const auto train = [&](const std::string& data, const std::string& out) {
    const Outcome outcome =
        run_dlpipe({"train", "--data", data, "--model", "lenet", "--batch", "16", "--out", out});
    EXPECT_NE(outcome.exit_code, 0);
    EXPECT_FALSE(fs::exists(out)) << out;
    return outcome.err;
  };
  EXPECT_NE(train(folder / "images", folder / "images/run").find("choose another --out"), std::string::npos);
  fs::create_directory(folder / "empty");
  EXPECT_NE(train(folder / "empty", folder / "run").find("not a dataset"), std::string::npos);
  EXPECT_NE(train(folder / "none", folder / "run").find("no dataset"), std::string::npos);
  std::ofstream(folder / "a.txt") << std::string(4000, 'a');
  const std::string text = train(folder / "a.txt", folder / "run");
  EXPECT_NE(
      text.find("is in neither; `dlpipe ingest " + (folder / "a.txt") + " DST` makes a dataset from it"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("--store"), std::string::npos) << "nobody gave it: " << text;
  ASSERT_EQ(std::system(("tar -C " + folder / "images" + " -czf " + folder / "a.tgz" + " .").c_str()), 0);
  const std::string packed = train(folder / "a.tgz", folder / "run");
  EXPECT_NE(packed.find("unpack it to this disk; `dlpipe ingest " + (folder / "a.tgz") +
                        " DST` makes a dataset from it"),
            std::string::npos)
      << packed;
}

static int64_t files_in(const std::string& folder) {
  std::error_code error;
  int64_t files = 0;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); ++it)
    ++files;
  return files;
}

// Killed while records are made, and resumed with what is there: the run is the one without a cache.
TEST(Train, WithACoefficientCacheARunOnImagesIsTheSameThroughKills) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "8"}).exit_code, 0);
  const auto arguments = [&](const std::string& run, std::vector<std::string> more) {
    std::vector<std::string> all = {"train",
                                    "--data",
                                    folder / "images",
                                    "--model",
                                    "lenet",
                                    "--batch",
                                    "16",
                                    "--epochs",
                                    "12",
                                    "--threads",
                                    "2",
                                    "--receipt",
                                    "pixels",
                                    "--checkpoint-every",
                                    "3steps",
                                    "--out",
                                    run};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::string plain = folder / "plain";
  const std::string cached = folder / "cached";
  ASSERT_EQ(run_dlpipe(arguments(plain, {})).exit_code, 0);
  std::vector<std::string> next = arguments(cached, {"--cache", "coefficients"});
  for (int64_t step = 7; step <= 47; step += 20) {
    RunningProgram program(next);
    if (wait_for_step(program, cached, step)) program.send(SIGKILL);
    const Outcome outcome = program.wait();
    ASSERT_TRUE(outcome.signal == SIGKILL || outcome.exit_code == 0) << outcome.err;
    next = {"train", "--resume", cached};
  }
  const Outcome ended = run_dlpipe(next);
  ASSERT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(files_in(cached + "/cache"), 2);
  EXPECT_NE(ended.out.find("came from the coefficient cache, which holds "), std::string::npos) << ended.out;
  expect_same_run(plain, cached);
  const std::string ledger = file_text(cached + "/ledger.json");
  for (const char* key :
       {"taken", "records", "samples", "bytes", "unfit", "withdrawn", "busy_seconds", "full"})
    EXPECT_NE(ledger.find(std::string("\"") + key + "\""), std::string::npos) << ledger;
  const Outcome doctor = run_dlpipe({"doctor", cached});
  EXPECT_NE(doctor.out.find("came from the coefficient cache"), std::string::npos) << doctor.out;
}

TEST(Train, ACoefficientCacheIsOfLinkedImagesAndOfARun) {
  ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "images", "--per-class", "4"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "images", folder / "stored"}).exit_code, 0);
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> all = {"train", "--model", "lenet", "--batch", "16", "--max-steps", "1"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome outcome = run_dlpipe(all);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    return outcome.err;
  };
  const std::string stored =
      refused({"--data", folder / "stored", "--cache", "coefficients", "--out", folder / "a"});
  EXPECT_NE(stored.find("stores its records"), std::string::npos) << stored;
  const std::string size =
      refused({"--data", folder / "images", "--cache-size", "1GiB", "--out", folder / "b"});
  EXPECT_NE(size.find("give --cache coefficients"), std::string::npos) << size;
}

}  // namespace dlpipe::test
