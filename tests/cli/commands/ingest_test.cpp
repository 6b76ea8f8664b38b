#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"
#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(IngestCommand, MakesSplitsAndSaysSo) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "20", "--size", "24"}).exit_code, 0);
  std::filesystem::resize_file(dir / "jpegs/bar/00003.jpg", 200);
  const Outcome outcome = run_dlpipe(
      {"ingest", dir / "jpegs", dir / "data", "--split", "0.8,0.2", "--seed", "1", "--threads", "2"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  for (const char* part : {"200/200", "samples/s", "limit ", "1 file skipped", "bar/00003.jpg: "})
    EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " in\n" << outcome.err;
  for (const char* part : {"data/train", "data/val", "threads were busy with"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << " in\n" << outcome.out;
  EXPECT_EQ(outcome.err.find("data/train "), std::string::npos)
      << "the datasets made are the answer, no note";
  EXPECT_EQ(outcome.err.find('\r'), std::string::npos) << "plain lines when stderr is no terminal";
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "data/val"))->size(), 40);
  const Outcome again =
      run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.8,0.2", "--seed", "1"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("the dataset already exists"), std::string::npos) << again.out;
}

// An id is no number, whichever of its digits comes first: of these seeds' some begin with a digit, some with a letter.
TEST(IngestCommand, IdsStandUnderTheirHead) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "5", "--size", "24"}).exit_code, 0);
  for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
    const Outcome outcome =
        run_dlpipe({"ingest", dir / "jpegs", dir / seed, "--split", "0.8,0.2", "--seed", seed});
    const std::vector<std::string> lines = split(outcome.out, '\n');
    ASSERT_GE(lines.size(), 4u) << outcome.out;
    const size_t id = lines[0].rfind("id");
    for (const size_t row : {2, 3}) {
      EXPECT_EQ(lines[row].rfind(' ') + 1, id) << outcome.out;
      EXPECT_EQ(lines[row].size(), id + 16) << outcome.out;
    }
  }
}

// A line without a label is as bad as one without a file.
TEST(IngestCommand, ALineWithoutALabelIsSkippedOrStopsAsOneWithoutAFile) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "5", "--size", "24"}).exit_code, 0);
  std::ofstream list(dir / "jpegs/list.csv");
  list << "path;label\ndisc/00000.jpg;a\ndisc/00001.jpg;\nring/none.jpg;b\nring/00001.jpg;b\n";
  list.close();
  const Outcome skipped = run_dlpipe({"ingest", dir / "jpegs/list.csv", dir / "data"});
  EXPECT_EQ(skipped.exit_code, 0) << skipped.err;
  EXPECT_NE(skipped.err.find("2 files skipped"), std::string::npos) << skipped.err;
  EXPECT_NE(skipped.err.find("line 3: its label is empty"), std::string::npos) << skipped.err;
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "data"))->size(), 2);
  const Outcome stopped = run_dlpipe({"ingest", dir / "jpegs/list.csv", dir / "other", "--on-error", "stop"});
  EXPECT_EQ(stopped.exit_code, 1);
  EXPECT_NE(stopped.err.find("line 3: its label is empty"), std::string::npos) << stopped.err;
}

TEST(IngestCommand, SplitsWithoutAValSayHowToValidateAlsoWithQuiet) {
  const ScratchDirectory dir;
  for (const char* split : {"train", "test"})
    ASSERT_EQ(run_dlpipe({"synth", dir / "src/" + split, "--per-class", "1", "--size", "24", "--seed",
                          std::to_string(split[1])})
                  .exit_code,
              0);
  const std::string data = dir / "my data";
  const Outcome outcome = run_dlpipe({"ingest", dir / "src", data, "--quiet"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("without 'val'; to validate on 'test', add --val '" + data + "/test' to"),
            std::string::npos)
      << outcome.err;
}

TEST(IngestCommand, TakesSeveralSourcesAndAList) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "one", "--per-class", "3", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"synth", dir / "two", "--per-class", "2", "--size", "24", "--seed", "7"}).exit_code,
            0);
  Outcome outcome = run_dlpipe({"ingest", dir / "{one,two}", dir / "both"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "both"))->size(), 50);
  std::ofstream(dir / "list.txt") << "one\ntwo\n";
  outcome = run_dlpipe({"ingest", "--list", dir / "list.txt", dir / "listed"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "listed"))->id(),
            value_or_throw(data::Dataset::open(dir / "both"))->id());
  outcome = run_dlpipe({"ingest", dir / "one", dir / "two", "--list", dir / "list.txt", dir / "twice"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("is given twice"), std::string::npos) << outcome.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "twice.partial"));
}

TEST(IngestCommand, ListsInFoldersOfSplitsMakeSplits) {
  const ScratchDirectory dir;
  for (const char* split : {"train", "val"}) {
    ASSERT_EQ(run_dlpipe({"synth", dir / split, "--per-class", "1", "--size", "24"}).exit_code, 0);
    std::ofstream(dir / split + "/fields.jsonl")
        << "{\"fields\": [\"age:number\"], \"classes\": [\"old\", \"new\"]}\n"
        << "{\"path\": \"bar/00000.jpg\", \"label\": \"old\", \"age\": 3}\n"
        << "{\"path\": \"disc/00000.jpg\", \"label\": \"new\", \"age\": 1}\n";
  }
  Outcome outcome =
      run_dlpipe({"ingest", dir / "train/fields.jsonl", dir / "val/fields.jsonl", dir / "data"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("1 file of train, 1 file of val"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("all 2 inputs list the 2 classes in the same order"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.out.find("data/val"), std::string::npos) << outcome.out;
  outcome = run_dlpipe({"export", dir / "data", dir / "out"});
  EXPECT_NE(outcome.out.find("dlpipe ingest " + (dir / "out/train/fields.jsonl") + " " +
                             (dir / "out/val/fields.jsonl") + " DATA` reads everything back"),
            std::string::npos)
      << outcome.out;
  outcome = run_dlpipe({"ingest", dir / "out", dir / "folders"});
  EXPECT_NE(outcome.err.find("are not read; to read them: dlpipe ingest " + (dir / "out/train/fields.jsonl") +
                             " " + (dir / "out/val/fields.jsonl") + " DST"),
            std::string::npos)
      << outcome.err;
  outcome = run_dlpipe(
      {"ingest", dir / "train/fields.jsonl", dir / "val/fields.jsonl", dir / "whole", "--no-splits"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "whole"))->size(), 4);
}

TEST(IngestCommand, FieldsAreStoredVerifiedAndAskedAbout) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "src", "--per-class", "2", "--size", "24"}).exit_code, 0);
  std::ofstream(dir / "src/list.jsonl")
      << "{\"path\": \"bar/00000.jpg\", \"tags\": [\"a\", \"b\"], \"boxes\": [[1, 2, 9, 9]], \"age\": 3}\n"
      << "{\"path\": \"bar/00001.jpg\", \"tags\": [], \"boxes\": [], \"age\": 0.5}\n";
  Outcome outcome = run_dlpipe({"ingest", dir / "src/list.jsonl", dir / "data", "--field", "tags:labels",
                                "--field", "boxes:boxes", "--field", "age:number"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("classes of boxes, masks or labels, but not one per image"), std::string::npos)
      << outcome.err;
  EXPECT_NE(run_dlpipe({"inspect", dir / "data"}).out.find("image, label, path, tags, boxes, age"),
            std::string::npos);
  EXPECT_EQ(run_dlpipe({"verify", dir / "data"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"export", dir / "data", dir / "out"}).exit_code, 0);
  outcome = run_dlpipe({"ingest", dir / "out/fields.jsonl", dir / "again", "--field", "tags:labels",
                        "--field", "boxes:boxes", "--field", "age:number"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto text_of = [](const std::string& directory) {
    const auto dataset = value_or_throw(data::Dataset::open(directory));
    const auto reader = value_or_throw(dataset->reader());
    std::string text;
    for (int64_t i = 0; i < dataset->size(); ++i) {
      const auto record = value_or_throw(reader->record(i));
      for (const char* field : {"image", "tags", "boxes", "age"}) {
        const auto bytes = value_or_throw(data::field_bytes(*dataset, record, field));
        text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size()).append("|");
      }
    }
    return text;
  };
  EXPECT_EQ(text_of(dir / "again"), text_of(dir / "data")) << "what export lists is what ingest reads";
  outcome = run_dlpipe({"ingest", dir / "out/fields.jsonl", dir / "once_more"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(text_of(dir / "once_more"), text_of(dir / "data")) << "its first line says what the fields are";
  outcome = run_dlpipe({"train", "--data", dir / "data", "--model", "lenet", "--out", dir / "run", "--batch",
                        "2", "--augment", "resize(32)"});
  EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("give --task multilabel or --task regress"), std::string::npos) << outcome.err;
}

TEST(IngestCommand, LabelsOfBoxesAreOnePerBox) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "src", "--per-class", "3", "--size", "24"}).exit_code, 0);
  std::ofstream(dir / "src/list.jsonl")
      << "{\"path\": \"bar/00000.jpg\", \"kind\": [\"a\", \"b\"], \"box\": [[1, 2, 9, 9], [3, 3, 5, 5]]}\n"
      << "{\"path\": \"bar/00001.jpg\", \"kind\": [\"a\", \"b\"], \"box\": [[1, 2, 9, 9]]}\n"
      << "{\"path\": \"bar/00002.jpg\", \"kind\": [], \"box\": []}\n";
  const Outcome outcome = run_dlpipe(
      {"ingest", dir / "src/list.jsonl", dir / "data", "--field", "kind:labels:box", "--field", "box:boxes"});
  EXPECT_NE(outcome.err.find("field 'kind' has 2 rows for 1 box of field 'box'"), std::string::npos)
      << outcome.err;
  const auto dataset = value_or_throw(data::Dataset::open(dir / "data"));
  EXPECT_EQ(dataset->size(), 2) << "the one that is inconsistent is left out";
  EXPECT_EQ(dataset->format_version(), 4);
  EXPECT_EQ(dataset->fields()[3].of, "box");
  EXPECT_EQ(run_dlpipe({"verify", dir / "data"}).exit_code, 0);
  EXPECT_NE(run_dlpipe({"inspect", dir / "data", "--json"}).out.find("\"of\":\"box\""), std::string::npos);
}

TEST(IngestCommand, MasksAreFilesBesideAndComeBack) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "src", "--per-class", "4", "--size", "24"}).exit_code, 0);
  const auto write_mask = [&](const std::string& name, int width, int channels) {
    std::vector<uint8_t> pixels(static_cast<size_t>(width * 24 * channels));
    for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i % 5);
    const auto png = value_or_throw(data::encode_png({pixels.data(), width, 24, channels, width * channels}));
    std::ofstream(dir / ("src/" + name), std::ios::binary)
        .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  };
  std::filesystem::create_directories(dir / "src/m");
  write_mask("m/0.png", 24, 1);
  write_mask("m/1.png", 20, 1);
  write_mask("m/2.png", 24, 3);
  std::ofstream(dir / "src/list.csv")
      << "path,label,mask\nbar/00000.jpg,a,m/0.png\nbar/00001.jpg,a,m/1.png\n"
      << "bar/00002.jpg,b,m/2.png\nbar/00003.jpg,b,\ncross/00000.jpg,b,m/none.png\n";
  Outcome outcome = run_dlpipe({"ingest", dir / "src/list.csv", dir / "data", "--field", "mask:mask"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("field 'mask': the mask is 20x24, but its image is 24x24"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("the mask is a PNG with colours"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("there is no file"), std::string::npos) << outcome.err;
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "data"))->size(), 2);
  EXPECT_EQ(run_dlpipe({"verify", dir / "data", "--decode"}).exit_code, 0);
  EXPECT_NE(run_dlpipe({"inspect", dir / "data"}).out.find("image, label, path, mask"), std::string::npos);
  ASSERT_EQ(run_dlpipe({"export", dir / "data", dir / "out"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir / "out/masks/mask/a/bar/00000.png"));
  outcome = run_dlpipe({"ingest", dir / "out/fields.jsonl", dir / "again", "--field", "mask:mask"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto mask_of = [](const std::string& directory) {
    const auto dataset = value_or_throw(data::Dataset::open(directory));
    const auto reader = value_or_throw(dataset->reader());
    const auto bytes = value_or_throw(data::field_bytes(*dataset, value_or_throw(reader->record(0)), "mask"));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  EXPECT_EQ(mask_of(dir / "again"), mask_of(dir / "data"));
  outcome = run_dlpipe(
      {"ingest", dir / "src/list.csv", dir / "small", "--field", "mask:mask", "--resize-max", "12"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(run_dlpipe({"verify", dir / "small", "--decode"}).exit_code, 0)
      << "masks shrink with their images";
}

TEST(IngestCommand, CtrlCStopsAndTheSameCommandGoesOn) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "300", "--size", "24"}).exit_code, 0);
  const std::vector<std::string> command = {"ingest", dir / "jpegs", dir / "data", "--threads",
                                            "1",      "--window",    "1B"};
  Outcome outcome;
  {
    RunningProgram program(command);
    while (!std::filesystem::exists(dir / "data.partial/data.mdb") && !program.ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    program.send(SIGINT);
    outcome = program.wait();
  }
  // A fast machine may have finished before the signal came.
  if (outcome.exit_code != 0) {
    EXPECT_EQ(outcome.exit_code, 3) << outcome.err;
    EXPECT_NE(outcome.err.find("run the same command again to continue"), std::string::npos) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "data"));
  }
  EXPECT_EQ(run_dlpipe(command).exit_code, 0);
  EXPECT_EQ(value_or_throw(data::Dataset::open(dir / "data"))->size(), 3000);
}

TEST(IngestCommand, PublishedTrainAndValFoldersTrainAndEvaluate) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "src/train", "--per-class", "12", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(
      run_dlpipe({"synth", dir / "src/val", "--per-class", "4", "--size", "24", "--seed", "9"}).exit_code, 0);
  std::filesystem::create_directories(dir / "src/test");
  std::filesystem::copy_file(dir / "src/val/bar/00000.jpg", dir / "src/test/1.jpg");
  const Outcome made = run_dlpipe({"ingest", dir / "src", dir / "data"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  for (const char* part :
       {"are splits: 'train', 'val'", "--no-splits", "'test' has none of the class folders"})
    EXPECT_NE(made.err.find(part), std::string::npos) << part << " in\n" << made.err;
  const auto json = nlohmann::json::parse(run_dlpipe({"inspect", dir / "data", "--json"}).out);
  for (const auto& one : json["datasets"]) EXPECT_EQ(one["samples"], one["split"] == "train" ? 120 : 40);
  EXPECT_EQ(json["datasets"].size(), 2u);
  EXPECT_EQ(json["classes"].size(), 10u);
  EXPECT_EQ(run_dlpipe({"verify", dir / "data", "--decode"}).exit_code, 0);
  const Outcome trained = run_dlpipe({"train", "--data", dir / "data", "--model", "lenet", "--augment",
                                      "resize(28)", "--epochs", "1", "--batch", "20", "--out", dir / "run"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_NE(trained.err.find("40 validation samples"), std::string::npos) << trained.err;
  const Outcome judged = run_dlpipe({"eval", "--ckpt", dir / "run", "--data", dir / "data", "--json"});
  ASSERT_EQ(judged.exit_code, 0) << judged.err;
  EXPECT_EQ(nlohmann::json::parse(judged.out)["samples"], 40);
  ASSERT_EQ(run_dlpipe({"export", dir / "data", dir / "back"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir / "back/val/bar/00000.jpg"));
  EXPECT_TRUE(std::filesystem::exists(dir / "back/train/bar/00000.jpg"));
}

// What is no UTF-8 has no place in JSON's strings: it stands beside them, and is read from there.
TEST(IngestCommand, NamesThatAreNotUtf8AreWholeInJson) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "3", "--size", "24"}).exit_code, 0);
  std::filesystem::rename(dir / "jpegs/bar/00000.jpg", dir / "jpegs/bar/caf\xe9.jpg");
  std::filesystem::rename(dir / "jpegs/bar/00001.jpg", dir / "jpegs/bar/\xff.jpg");
  std::filesystem::resize_file(dir / "jpegs/bar/\xff.jpg", 200);
  const auto skipped =
      nlohmann::json::parse(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--json"}).out)["skipped"];
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_EQ(skipped[0]["path"], "bar/\ufffd.jpg");
  EXPECT_EQ(skipped[0]["path_bytes"], "YmFyL/8uanBn");
  const auto listed =
      nlohmann::json::parse(run_dlpipe({"inspect", dir / "data", "--skipped", "--json"}).out)["skipped"];
  EXPECT_EQ(listed[0]["path_bytes"], "YmFyL/8uanBn");

  std::ofstream(dir / "jpegs/list.jsonl")
      << "{\"path\": \"bar/caf\\ufffd.jpg\", \"path_bytes\": \"YmFyL2NhZukuanBn\", \"label\": \"bar\", "
         "\"size\": 7}\n"
      << "{\"path\": \"bar/00002.jpg\", \"label\": \"bar\", \"size\": 8}\n";
  const Outcome made = run_dlpipe({"ingest", dir / "jpegs/list.jsonl", dir / "listed"});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  ASSERT_EQ(run_dlpipe({"export", dir / "listed", dir / "back"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir / "back/bar/caf\xe9.jpg"));
  const Outcome again = run_dlpipe({"ingest", dir / "back/fields.jsonl", dir / "again"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.out.find("again        2        1"), std::string::npos) << again.out;
}

// Names of folders and files may hold any byte; none of them may reach the terminal as it is.
TEST(IngestCommand, NamesThatHoldEscapeSequencesAreEscapedByEveryCommand) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "3", "--size", "24"}).exit_code, 0);
  const std::string evil = dir / "jpegs/ev\x1b[31mil\n\xc2\x9b\xff";
  std::filesystem::rename(dir / "jpegs/bar", evil);
  std::filesystem::resize_file(evil + "/00001.jpg", 200);
  std::filesystem::rename(evil + "/00001.jpg", evil + "/\x1b]0;title\x07.jpg");
  const auto is_safe = [](const Outcome& outcome) {
    for (const std::string& text : {outcome.out, outcome.err}) {
      EXPECT_EQ(text.find_first_of("\x1b\x07\r"), std::string::npos) << text;
      EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << text;
      EXPECT_EQ(text.find('\xff'), std::string::npos) << text;
    }
  };
  const Outcome made = run_dlpipe({"ingest", dir / "jpegs", dir / "data"});
  EXPECT_EQ(made.exit_code, 0);
  is_safe(made);
  EXPECT_NE(made.err.find("ev\\u001b[31mil\\n\\u009b\\xff/\\u001b]0;title\\u0007.jpg: "), std::string::npos)
      << made.err;
  is_safe(run_dlpipe({"inspect", dir / "data"}));
  is_safe(run_dlpipe({"inspect", dir / "data", "--skipped"}));
  const Outcome json = run_dlpipe({"inspect", dir / "data", "--json"});
  is_safe(json);
  EXPECT_EQ(nlohmann::json::parse(json.out)["datasets"][0]["class_counts"].size(), 10u);
  is_safe(run_dlpipe({"verify", dir / "data", "--json"}));
  is_safe(run_dlpipe({"ingest", evil, dir / "other"}));
  is_safe(run_dlpipe({"inspect", evil}));
  const Outcome trained =
      run_dlpipe({"train", "--data", dir / "data", "--val", dir / "data", "--model", "lenet", "--augment",
                  "resize(28)", "--epochs", "1", "--batch", "8", "--out", dir / "run\x1b[1m"});
  EXPECT_EQ(trained.exit_code, 0) << trained.err;
  is_safe(trained);
  is_safe(run_dlpipe({"eval", "--ckpt", dir / "run\x1b[1m", "--data", dir / "data"}));
  is_safe(run_dlpipe({"predict", "--ckpt", dir / "run\x1b[1m", evil}));
  const Outcome predicted = run_dlpipe({"predict", "--ckpt", dir / "run\x1b[1m", evil, "--json"});
  is_safe(predicted);
  EXPECT_TRUE(nlohmann::json::accept(predicted.out.substr(0, predicted.out.find('\n')))) << predicted.out;
  ASSERT_EQ(run_dlpipe({"synth", dir / "other", "--per-class", "3", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "other", dir / "plain"}).exit_code, 0);
  const Outcome differ = run_dlpipe({"eval", "--ckpt", dir / "run\x1b[1m", "--data", dir / "plain"});
  EXPECT_NE(differ.err.find("different classes"), std::string::npos) << differ.err;
  is_safe(differ);
}

// Root may read everything, so it is tried where the tests run as somebody else.
TEST(IngestCommand, FoldersOfMasksThatMayNotBeReadAreNamed) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read them";
  namespace fs = std::filesystem;
  ScratchDirectory dir;
  const std::string root = dir / "images", locked = root + "/masks/locked";
  const std::vector<uint8_t> pixels(24 * 24);
  const auto png = value_or_throw(data::encode_png({pixels.data(), 24, 24, 1, 24}));
  for (const char* below : {"images", "masks"}) {
    fs::create_directories(root + "/" + below);
    std::ofstream(root + "/" + below + "/a.png", std::ios::binary)
        .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  }
  fs::create_directory(locked);
  fs::permissions(locked, fs::perms::none);
  const Outcome outcome = run_dlpipe({"ingest", root, dir / "data"});
  fs::permissions(locked, fs::perms::owner_all);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("cannot list the masks in " + locked), std::string::npos) << outcome.err;
}

// A Caffe LMDB looks like a dataset from outside, and a dataset may have been made among class folders.
TEST(IngestCommand, WhatLooksLikeADatasetAndIsRawDataIsIngested) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  for (const std::string name : {"train_lmdb", "val_lmdb"}) {
    std::filesystem::create_directories(dir / ("caffe/" + name));
    std::ofstream(dir / ("caffe/" + name + "/data.mdb")) << "no LMDB";
  }
  const Outcome caffe = run_dlpipe({"ingest", dir / "caffe", dir / "c"});
  EXPECT_NE(caffe.exit_code, 0);
  EXPECT_EQ(caffe.err.find("is a folder of dlpipe datasets"), std::string::npos) << caffe.err;
  std::filesystem::create_directories(dir / "caffe/cat");
  std::filesystem::copy(dir / "jpegs/ring/00000.jpg", dir / "caffe/cat");
  EXPECT_EQ(run_dlpipe({"ingest", dir / "caffe", dir / "p"}).exit_code, 0);
}

// A classifier can't be trained on boxes, so the report does not offer one.
TEST(IngestCommand, NoClassifierIsOfferedOnBoxesAlone) {
  const ScratchDirectory dir;
  std::filesystem::create_directories(dir / "images");
  std::string list = R"({"fields": ["boxes:boxes", "kinds:labels:boxes"], "classes": ["cat"]})";
  for (const std::string name : {"1", "2", "3", "4"}) {
    std::ofstream(dir / ("images/" + name + ".pgm")) << "P5\n32 32\n255\n" << std::string(1024, name[0]);
    list += "\n{\"path\": \"" + name +
            ".pgm\", \"boxes\": [[1, 2, 10, 12]], \"kinds\": [\"cat\"], \"split\": \"" +
            (name < "3" ? "train" : "test") + "\"}";
  }
  std::ofstream(dir / "images/list.jsonl") << list << "\n";
  const Outcome outcome = run_dlpipe({"ingest", dir / "images/list.jsonl", dir / "data"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(dir / "data/test")) << outcome.err;
  EXPECT_EQ(outcome.err.find("--model resnet18"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
