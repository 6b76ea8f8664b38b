// Runs that stop and go on, and runs on corrupt records: the same run bit for bit.
#include "dlpipe/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "engine/core/kernel_table.h"
#include "run/record/checkpoint.h"
#include "run/record/receipt.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using test::SampleData;
using test::ScratchFolder;
using test::SessionTest;
using test::StopAfter;
using test::text_of;

static std::string resume_error(const std::string& run) {
  try {
    Session::resume(run);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_F(SessionTest, AStoppedRunResumesBitForBitWithOtherThreadCounts) {
  ScratchFolder runs;
  Session(config(runs / "whole")).train();
  {
    StopAfter observer(7);
    Session session(config(runs / "parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  {
    StopAfter observer(20);  // an epoch's end: its validation is still to come
    const auto session = Session::resume(runs / "parts", {{"threads", "1"}}, {}, &observer);
    EXPECT_TRUE(session->train(&observer.stop).stopped);
  }
  const auto session = Session::resume(runs / "parts", {{"threads", "3"}, {"slots", "4"}});
  EXPECT_FALSE(session->train().stopped);
  const auto difference = compare_runs(runs / "whole", runs / "parts");
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->same()) << difference->first_step << difference->first_line
                                  << difference->second_line;
  EXPECT_EQ(text_of(runs / "whole/checkpoints/last/optimizer.safetensors"),
            text_of(runs / "parts/checkpoints/last/optimizer.safetensors"));
}

// A run begun with another release of oneDNN: its choices may name kernels that this one lacks.
TEST_F(SessionTest, ARunOfAnotherOneDnnResumesWithKernelsChosenAnew) {
  ScratchFolder runs;
  {
    StopAfter observer(7);
    Session session(config(runs / "a"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  const std::string here = engine::kernel_library();
  const formats::Json written = value_or_throw(formats::read_json(runs / "a/kernels.json"));
  ASSERT_EQ(written["library"].as_string(), here);
  formats::Json other = formats::Json::object();
  for (const auto& [key, value] : written.members()) {
    if (key != "checksum") other.set(key, key == "library" ? formats::Json("oneDNN 1.2.3") : value);
  }
  formats::Json edited = other;
  edited.set("checksum", written["checksum"]);
  throw_if_error(formats::write_json(runs / "a/kernels.json", edited));
  EXPECT_EQ(resume_error(runs / "a")
                .find("[checkpoint] " + (runs / "a/kernels.json") + " has changed or is corrupt"),
            0u);
  for (const char* broken : {"", "{\"version\": 1", "\xff\xfe", "null"}) {  // truncated or overwritten
    throw_if_error(formats::write_file(runs / "a/kernels.json", broken));
    const std::string error = resume_error(runs / "a");
    EXPECT_NE(error.find(runs / "a/kernels.json"), std::string::npos) << error;
    EXPECT_NE(error.find("; remove it"), std::string::npos) << error;
  }
  throw_if_error(formats::write_json(runs / "a/kernels.json", with_checksum(other)));
  EXPECT_FALSE(Session::resume(runs / "a")->train().stopped);
  EXPECT_NE(text_of(runs / "a/kernels.json").find(here), std::string::npos);
}

TEST_F(SessionTest, MixedBatchesResumeBitForBitToo) {
  const auto mixed = [](const std::string& out) {
    TrainConfig c = config(out);
    c.mixup = 0.3;
    c.cutmix = 1;
    c.label_smoothing = 0.1;
    return c;
  };
  ScratchFolder runs;
  const TrainOutcome plain = Session(config(runs / "plain")).train();
  const TrainOutcome whole = Session(mixed(runs / "whole")).train();
  EXPECT_NE(whole.batches_chain, plain.batches_chain);
  {
    StopAfter observer(7);
    Session session(mixed(runs / "parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  EXPECT_FALSE(Session::resume(runs / "parts", {{"threads", "1"}, {"slots", "5"}})->train().stopped);
  const auto difference = compare_runs(runs / "whole", runs / "parts");
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->same()) << difference->first_step << difference->first_line;
  EXPECT_EQ(text_of(runs / "whole/checkpoints/last/model.safetensors"),
            text_of(runs / "parts/checkpoints/last/model.safetensors"));
}

TEST_F(SessionTest, ALimitedRunSaysWhichSamplesAndKeepsThemOnResume) {
  const auto limited = [](const std::string& out) {
    TrainConfig c = config(out);
    c.limit = 100;
    return c;
  };
  ScratchFolder runs;
  Session(limited(runs / "whole")).train();
  {
    StopAfter observer(7);
    Session session(limited(runs / "parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  EXPECT_FALSE(Session::resume(runs / "parts")->train().stopped);
  EXPECT_TRUE(value_or_throw(compare_runs(runs / "whole", runs / "parts")).same());
  EXPECT_EQ(value_or_throw(read_receipt(runs / "parts")).subset, "100 of 320 samples, by seed 3");
}

TEST_F(SessionTest, ATextResumesBitForBitToo) {
  ScratchFolder folder;
  const std::string data = test::make_verse_data(folder.path(), 100, {0.9, 0.1});
  const auto config_of = [&](const std::string& out) {
    TrainConfig c = config(folder / out);
    c.data = data;
    c.model = "gpt_char_tiny";
    c.augment = "";
    c.optimizer = "adafactor";
    return c;
  };
  Session(config_of("whole")).train();
  {
    StopAfter observer(7);
    Session session(config_of("parts"), {}, &observer);
    EXPECT_TRUE(session.train(&observer.stop).stopped);
  }
  EXPECT_FALSE(Session::resume(folder / "parts", {{"threads", "1"}})->train().stopped);
  const auto difference = compare_runs(folder / "whole", folder / "parts");
  ASSERT_TRUE(difference.ok());
  EXPECT_TRUE(difference->same()) << difference->first_step << difference->first_line;
  TrainConfig images = config_of("images");
  images.model = "lenet";
  EXPECT_THROW(Session{images}, Error);
  TrainConfig views = config_of("views");
  views.tta = "flip";
  EXPECT_THROW(Session{views}, Error);
  TrainConfig mixed = config_of("mixed");
  mixed.mixup = 0.2;
  try {
    Session session(mixed);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--mixup and --cutmix are only for images"), std::string::npos)
        << error.what();
  }
}

TEST_F(SessionTest, ResumeWithoutACheckpointBeginsAgain) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  const std::string receipt = text_of(runs / "a/receipt.json");
  fs::remove_all(runs / "a/checkpoints");
  fs::create_directories(runs / "a/checkpoints");
  Session::resume(runs / "a")->train();
  EXPECT_EQ(text_of(runs / "a/receipt.json"), receipt);
}

TEST_F(SessionTest, ResumeWithItsCheckpointsElsewhereKeepsItsLogs) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  const std::string metrics = text_of(runs / "a/metrics.jsonl");
  fs::rename(runs / "a/checkpoints", runs / "moved");
  const std::string error = resume_error(runs / "a");
  EXPECT_NE(error.find("cannot list " + (runs / "a/checkpoints")), std::string::npos) << error;
  EXPECT_EQ(text_of(runs / "a/metrics.jsonl"), metrics);
  fs::create_directory_symlink(runs / "moved", runs / "a/checkpoints");
  EXPECT_EQ(resume_error(runs / "a"), "");
  EXPECT_EQ(text_of(runs / "a/metrics.jsonl"), metrics);
}

TEST_F(SessionTest, ResumeDoesNotGoOnWithoutTheRunsValidationSet) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.data = runs / "data";
  c.epochs = 0.5;
  fs::copy(data_.split, c.data, fs::copy_options::recursive);
  Session(c).train();
  fs::remove_all(runs / "data/val");
  const std::string error = resume_error(runs / "a");
  EXPECT_NE(error.find("give its current place with --val"), std::string::npos) << error;
  EXPECT_EQ(Session::resume(runs / "a", {{"val", data_.val}})->config().val, data_.val);
}

TEST_F(SessionTest, AnEmptyPathOnResumeIsAsNoneGiven) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.val = data_.val;
  c.epochs = 0.5;
  Session(c).train();
  EXPECT_EQ(Session::resume(runs / "a", {{"val", ""}})->config().val, "") << "the data have the same val";
  try {
    Session::resume(runs / "a", {{"data", ""}});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("no dataset; give --data"), std::string::npos) << error.what();
  }
}

TEST_F(SessionTest, ResumeTakesTheLatestWholeCheckpoint) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.checkpoint_every = "5steps";
  c.val_every = "never";
  c.keep = 3;
  Session(c).train();
  const std::string receipt = text_of(runs / "a/receipt.json");
  const std::string last = list_checkpoints(runs / "a/checkpoints")->front();
  std::ofstream(last + "/model.safetensors", std::ios::app) << "x";
  Session::resume(runs / "a")->train();
  EXPECT_EQ(text_of(runs / "a/receipt.json"), receipt);
}

TEST_F(SessionTest, WhatWouldChangeTheRunCannotChangeOnResume) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  try {
    Session::resume(runs / "a", {{"lr", "1"}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
    EXPECT_NE(std::string(error.what()).find("--lr can't be changed on --resume"), std::string::npos);
  }
}

TEST_F(SessionTest, AnEditedOrTruncatedConfigIsNotResumedAndSaysWhatChanged) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  const std::string file = runs / "a/config.toml";
  const std::string good = text_of(file);
  const auto write = [&](const std::string& text) { std::ofstream(file, std::ios::trunc) << text; };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    return text.replace(text.find(from), from.size(), to);
  };
  write(replaced("\nepochs = 0.5\n", "\nepochs = 7\n"));
  std::string error = resume_error(runs / "a");
  EXPECT_NE(error.find("epochs is '7', was '0.5'; to continue, restore it: cp "), std::string::npos) << error;
  EXPECT_NE(error.find("--threads"), std::string::npos) << error;
  write(good.substr(0, good.find("\nepochs = ") + 1));
  error = resume_error(runs / "a");
  EXPECT_NE(error.find("was changed since dlpipe wrote it: "), std::string::npos) << error;
  write(replaced("\ndata-id = \"", "\ndata-id = \"0"));
  error = resume_error(runs / "a");
  EXPECT_NE(error.find("data-id is '0"), std::string::npos) << error;
  write(replaced("\ndata-id = \"", "\ndata-id = \"0"));
  error = resume_error(runs / "a");
  EXPECT_NE(error.find("data-id is '0"), std::string::npos) << error;
  // --config takes an edited file, and none that was cut short.
  TrainConfig again;
  EXPECT_TRUE(read_config(file, again).ok());
  for (const size_t size : {good.find("\nepochs = ") + 1, good.rfind("# checksum")}) {
    write(good.substr(0, size));
    const Status cut = read_config(file, again);
    EXPECT_NE(cut.message().find("a/config.toml is truncated: "), std::string::npos) << cut.message();
  }
  write("lr = [");
  error = resume_error(runs / "a");
  EXPECT_NE(error.find("restore it: cp "), std::string::npos) << error;
  write("");
  EXPECT_NE(resume_error(runs / "a"), "");
  // What may change on resume may be edited, and comments too.
  write(replaced("\nkeep = 2\n", "\n# by hand\nkeep = 3\n"));
  EXPECT_EQ(Session::resume(runs / "a")->config().keep, 3);
  EXPECT_NE(text_of(file), good);
  write(good);
  EXPECT_EQ(resume_error(runs / "a"), "");
}

TEST_F(SessionTest, DamagedRecordsAreSubstitutedAndQuarantinedOnceAlsoOverAResume) {
  ScratchFolder runs;
  const SampleData damaged = test::make_sample_data(runs / "corrupt", 40);
  int64_t in_train = 0;
  int64_t in_val = 0;
  for (const char* name :
       {"ring/00001.jpg", "disc/00002.jpg", "star/00003.jpg", "plus/00004.jpg", "bar/00005.jpg"}) {
    in_train += test::damage_record(damaged.train, damaged.jpegs + "/" + name) ? 1 : 0;
    in_val += test::damage_record(damaged.val, damaged.jpegs + "/" + name) ? 1 : 0;
  }
  ASSERT_EQ(in_train + in_val, 5);
  ASSERT_GT(in_train, 0);
  TrainConfig c = config(runs / "whole");
  c.data = damaged.split;
  const TrainOutcome outcome = Session(c).train();
  const std::string quarantine = text_of(runs / "whole/quarantine.txt");
  EXPECT_EQ(std::count(quarantine.begin(), quarantine.end(), '\n'), 1 + in_train)
      << quarantine;  // a head and one line each
  EXPECT_EQ(outcome.stats.substituted, in_train);
  EXPECT_EQ(outcome.last_validation->result.dropped, in_val);
  EXPECT_EQ(outcome.last_validation->result.samples, 80 - in_val);

  c.out = runs / "parts";
  for (const int64_t stop : {9, 25}) {
    StopAfter observer(stop);
    const auto session = stop == 9 ? std::make_unique<Session>(c, Registries{}, &observer)
                                   : Session::resume(runs / "parts", {{"threads", "3"}}, {}, &observer);
    ASSERT_TRUE(session->train(&observer.stop).stopped);
  }
  std::ofstream(runs / "parts/quarantine.txt", std::ios::app) << "a line of a killed process\n";
  Session::resume(runs / "parts")->train();
  EXPECT_EQ(text_of(runs / "parts/quarantine.txt"), quarantine);
  EXPECT_TRUE(compare_runs(runs / "whole", runs / "parts")->same());
}

TEST_F(SessionTest, TooManyDamagedRecordsEndTheRun) {
  ScratchFolder runs;
  const SampleData damaged = test::make_sample_data(runs / "corrupt", 10);
  for (const char* name : {"ring", "disc", "star", "plus", "bar"}) {
    for (int i = 0; i < 10; ++i) {
      test::damage_record(damaged.train, damaged.jpegs + "/" + name + "/0000" + std::to_string(i) + ".jpg");
    }
  }
  TrainConfig c = config(runs / "a");
  c.data = damaged.split;
  c.max_bad = 3;
  Session session(c);
  EXPECT_THROW(session.train(), Error);
}

}  // namespace dlpipe::run
