// Folds from ingest to averages: samples of a group stay together, and a run is validated on what it did not see.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/text.h"
#include "io/formats/atomic_file.h"
#include "io/formats/json.h"
#include "tests/cli/program.h"

namespace dlpipe::test {

using formats::Json;

namespace {

Json answer(const std::vector<std::string>& words) {
  const Outcome outcome = run_dlpipe(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  const auto json = Json::parse(outcome.out);
  return json.ok() ? *json : Json();
}

/// 60 drawn images of ten classes, listed with the patient that they are of: 20 patients with 3 images each.
class Folds : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_dlpipe({"synth", folder_ / "drawn", "--per-class", "6"}).exit_code, 0);
    std::ofstream list(std::filesystem::path(folder_ / "drawn/list.csv"));
    list << "path,label,patient\n";
    int number = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "drawn")) {
      if (entry.path().extension() != ".jpg") continue;
      const auto path = std::filesystem::relative(entry.path(), folder_ / "drawn");
      list << path.string() << ',' << path.begin()->string() << ",p" << number++ % 20 << '\n';
    }
  }
  std::vector<std::string> ingest(const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"ingest",     folder_ / "drawn",          folder_ / name,
                                      "--manifest", folder_ / "drawn/list.csv", "--group",
                                      "patient"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  /// What export writes of each sample.
  std::vector<Json> rows(const std::string& name) {
    const std::string out = folder_ / concat("rows-", std::to_string(exports_++));
    EXPECT_EQ(run_dlpipe({"export", folder_ / name, out}).exit_code, 0);
    std::ifstream file(std::filesystem::path(out) / "fields.jsonl");
    std::vector<Json> rows;
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) rows.push_back(value_or_throw(Json::parse(line)));
    return rows;
  }
  ScratchDirectory folder_;
  int exports_ = 0;
};

}  // namespace

TEST_F(Folds, RunsAreValidatedOnTheFoldThatTheyDidNotSee) {
  ASSERT_EQ(run_dlpipe(ingest("data", {"--folds", "4"})).exit_code, 0);
  const std::vector<std::string> words = {
      "crossval",  "--data", folder_ / "data", "--model", "lenet", "--batch",      "8",     "--epochs", "1",
      "--augment", "",       "--threads",      "2",       "--out", folder_ / "cv", "--json"};
  const Json all = answer(words);
  ASSERT_EQ(all["folds"].items().size(), 4u);
  int64_t samples = 0;
  double sum = 0, squares = 0;
  for (const Json& fold : all["folds"].items()) {
    samples += fold["samples"].as_int();
    sum += fold["metrics"]["loss"].as_double();
    // eval sees the same samples
    const Json eval = answer({"eval", "--ckpt", fold["run"].as_string(), folder_ / "data", "--fold",
                              fold["fold"].as_string(), "--json"});
    EXPECT_EQ(eval["samples"].as_int(), fold["samples"].as_int());
    EXPECT_EQ(eval["subset"].as_string(), concat("fold ", fold["fold"].as_string(), " of 4"));
    EXPECT_NEAR(eval["loss"].as_double(), fold["metrics"]["loss"].as_double(),
                1e-4);  // of the only validation
  }
  EXPECT_EQ(samples, 60);
  const double mean = sum / 4;
  for (const Json& fold : all["folds"].items())
    squares += std::pow(fold["metrics"]["loss"].as_double() - mean, 2);
  EXPECT_NEAR(all["mean"]["loss"].as_double(), mean, 1e-9);
  EXPECT_NEAR(all["std"]["loss"].as_double(), std::sqrt(squares / 3), 1e-9);
  // What is there is not computed again, and other options are refused.
  std::filesystem::remove_all(folder_ / "cv/fold-1");
  EXPECT_EQ(answer(words)["mean"]["loss"].as_double(), all["mean"]["loss"].as_double());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cv/fold-1"));
  std::vector<std::string> other = words;
  other.insert(other.end(), {"--lr", "0.5"});
  const Outcome refused = run_dlpipe(other);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("was begun with other options: none there, --lr 0.5 here"), std::string::npos)
      << refused.err;
  const Outcome some =
      run_dlpipe({"eval", "--ckpt", folder_ / "cv/fold-2", folder_ / "data", "--fold", "2", "--limit", "1"});
  EXPECT_NE(some.out.find("\n1 sample (1 of the "), std::string::npos) << some.out;
  EXPECT_NE(some.out.find(" samples of fold 2 of 4), "), std::string::npos) << some.out;
  // A run was trained on all folds but its own.
  for (const char* fold : {"1", "2"}) {
    const Outcome eval =
        run_dlpipe({"eval", "--ckpt", folder_ / "cv/fold-2", folder_ / "data", "--fold", fold});
    EXPECT_EQ(eval.exit_code, 0) << eval.err;
    EXPECT_EQ(eval.err.find("was trained on fold 1, because it held out fold 2") != std::string::npos,
              *fold == '1')
        << eval.err;
  }
  // A run that was finished before crossval noted it, as after a kill, counts by its log.
  Json note = value_or_throw(formats::read_json(folder_ / "cv/crossval.json"));
  Json::Array left(note["folds"].items().begin(), note["folds"].items().end() - 1);
  ASSERT_TRUE(formats::write_json(folder_ / "cv/crossval.json", note.set("folds", Json(left))).ok());
  EXPECT_EQ(answer(words)["mean"]["loss"].as_double(), all["mean"]["loss"].as_double());
  // Another dataset of the same name, and a folder of something else, are refused.
  std::filesystem::remove_all(folder_ / "data");
  ASSERT_EQ(run_dlpipe(ingest("data", {"--folds", "4", "--seed", "9"})).exit_code, 0);
  const Outcome foreign = run_dlpipe(words);
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_NE(foreign.err.find("another dataset"), std::string::npos) << foreign.err;
  std::filesystem::remove(folder_ / "cv/crossval.json");
  EXPECT_NE(run_dlpipe(words).err.find("is not empty and has no crossval.json"), std::string::npos);
}

TEST_F(Folds, AGroupIsInOneFoldAndInOneSplit) {
  ASSERT_EQ(run_dlpipe(ingest("data", {"--folds", "4"})).exit_code, 0);
  std::map<std::string, std::set<int64_t>> folds_of;
  std::map<int64_t, int> sizes;
  for (const auto& row : rows("data")) {
    folds_of[row["patient"].as_string()].insert(row["fold"].items().at(0).as_int());
    ++sizes[row["fold"].items().at(0).as_int()];
  }
  EXPECT_EQ(folds_of.size(), 20u);
  for (const auto& [patient, folds] : folds_of) EXPECT_EQ(folds.size(), 1u) << patient;
  ASSERT_EQ(sizes.size(), 4u);
  for (const auto& [fold, size] : sizes) EXPECT_NEAR(size, 15, 3) << fold;
  ASSERT_EQ(run_dlpipe(ingest("split", {"--split", "0.7,0.3"})).exit_code, 0);
  std::set<std::string> train, val;
  for (const auto& row : rows("split/train")) train.insert(row["patient"].as_string());
  for (const auto& row : rows("split/val")) val.insert(row["patient"].as_string());
  EXPECT_EQ(train.size() + val.size(), 20u);
  EXPECT_GE(val.size(), 4u);
}

TEST_F(Folds, WhatCannotBeIsRefused) {
  const auto refusal = [&](const std::vector<std::string>& words) {
    const Outcome outcome = run_dlpipe(words);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    return outcome.err;
  };
  std::ofstream(std::filesystem::path(folder_ / "drawn/ring/flat.csv"))
      << "path,label\n00000.jpg,a\n00001.jpg,b\n";
  const Outcome alone =
      run_dlpipe({"ingest", folder_ / "drawn", folder_ / "alone", "--group", "folder", "--folds", "3"});
  EXPECT_NE(alone.err.find("classes are in one fold"), std::string::npos) << alone.err;
  EXPECT_NE(refusal({"ingest", folder_ / "drawn/ring", folder_ / "no", "--manifest",
                     folder_ / "drawn/ring/flat.csv", "--group", "folder", "--folds", "2"})
                .find("more than there are groups"),
            std::string::npos);
  EXPECT_NE(refusal(ingest("no", {"--folds", "21"})).find("more than there are groups"), std::string::npos);
  EXPECT_NE(refusal(ingest("no", {"--folds", "4", "--split", "0.5,0.5"})).find("--split"), std::string::npos);
  EXPECT_NE(refusal({"ingest", folder_ / "drawn", folder_ / "no", "--group", "patient"}).find("folder"),
            std::string::npos);
  ASSERT_EQ(run_dlpipe({"ingest", folder_ / "drawn", folder_ / "plain"}).exit_code, 0);
  const std::vector<std::string> train = {"train",         "--model", "lenet", "--out",
                                          folder_ / "run", "--fold",  "9"};
  auto with = [&](const std::string& data) {
    std::vector<std::string> words = train;
    words.insert(words.end(), {"--data", folder_ / data});
    return words;
  };
  EXPECT_NE(refusal(with("plain")).find("--folds 5"), std::string::npos);
  ASSERT_EQ(run_dlpipe(ingest("data", {"--folds", "4"})).exit_code, 0);
  EXPECT_NE(refusal(with("data")).find("'1', '2', '3', '4'"), std::string::npos);
  // The splits of the source itself have a patient in both.
  std::ofstream list(std::filesystem::path(folder_ / "drawn/list.csv"));
  list << "path,label,patient,split\n";
  int number = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "drawn")) {
    if (entry.path().extension() != ".jpg") continue;
    const auto path = std::filesystem::relative(entry.path(), folder_ / "drawn");
    list << path.string() << ',' << path.begin()->string() << ",p" << number % 20 << ','
         << (number % 3 == 0 ? "val" : "train") << '\n';
    ++number;
  }
  list.close();
  EXPECT_NE(refusal(ingest("leak", {})).find("the same value of --group patient"), std::string::npos);
  // So have its own folds. Without either, --group would do nothing.
  const std::string text = *formats::read_file(folder_ / "drawn/list.csv");
  const std::string rest = text.substr(text.find('\n'));
  ASSERT_TRUE(formats::write_file(folder_ / "drawn/list.csv", "path,label,patient,fold" + rest).ok());
  const std::string torn = refusal(ingest("leak", {}));
  EXPECT_NE(torn.find("different values of the field 'fold'"), std::string::npos) << torn;
  ASSERT_TRUE(formats::write_file(folder_ / "drawn/list.csv", "path,label,patient,part" + rest).ok());
  const std::string none = refusal(ingest("leak", {}));
  EXPECT_NE(none.find("add --split or --folds, or leave --group out"), std::string::npos) << none;
}

}  // namespace dlpipe::test
