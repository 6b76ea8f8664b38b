#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/json.h"
#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

namespace dlpipe::test {

using formats::Json;

static std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> lines;
  for (const std::string& line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(*Json::parse(line));
  }
  return lines;
}

TEST(Predict, EqualsEvalOnTheSameImages) {
  // Every picture of the folder, and the dataset made of all of them.
  ScratchDirectory folder;
  const SampleData& data = trained_run().data;
  ASSERT_EQ(run_dlpipe({"ingest", data.jpegs, folder / "all"}).exit_code, 0);
  const Outcome eval = run_dlpipe({"eval", "--ckpt", trained_run().run, "--data", folder / "all", "--json"});
  ASSERT_EQ(eval.exit_code, 0) << eval.err;
  const Outcome predict = run_dlpipe({"predict", "--ckpt", trained_run().run, data.jpegs, "--top", "10"});
  ASSERT_EQ(predict.exit_code, 0) << predict.err;
  const std::vector<Json> lines = json_lines(predict.out);
  double loss = 0;
  int64_t right = 0;
  for (const Json& line : lines) {
    const std::string label = std::filesystem::path(line["path"].as_string()).parent_path().filename();
    right += line["class"].as_string() == label ? 1 : 0;
    for (const Json& entry : line["top10"].items()) {
      if (entry["class"].as_string() == label) loss -= std::log(entry["probability"].as_double());
    }
  }
  const Json wanted = *Json::parse(eval.out);
  const auto count = static_cast<double>(lines.size());
  EXPECT_EQ(wanted["samples"].as_int(), static_cast<int64_t>(lines.size()));
  EXPECT_DOUBLE_EQ(wanted["top1"].as_double(), static_cast<double>(right) / count);
  EXPECT_NEAR(wanted["loss"].as_double(), loss / count, 1e-5);
}

TEST(Predict, GivesPathClassProbabilityAndFiveMore) {
  const SampleData& data = trained_run().data;
  const std::string file = data.jpegs + "/ring/00000.jpg";
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, file});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["path"].as_string(), file);
  const Json::Array& top = lines[0]["top5"].items();
  ASSERT_EQ(top.size(), 5u);
  EXPECT_EQ(top[0]["class"].as_string(), lines[0]["class"].as_string());
  for (size_t i = 1; i < top.size(); ++i) {
    EXPECT_LE(top[i]["probability"].as_double(), top[i - 1]["probability"].as_double());
  }
}

TEST(Predict, AFileThatIsNoImageHasItsOwnErrorLineAndTheOthersGoOn) {
  ScratchDirectory folder;
  const SampleData& data = trained_run().data;
  std::filesystem::copy_file(data.jpegs + "/disc/00001.jpg", folder / "b.jpg");
  std::ofstream(folder / "a.jpg") << "not a picture";
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, folder.path()});
  EXPECT_EQ(outcome.exit_code, 1);
  const std::vector<Json> lines = json_lines(outcome.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].contains("error"));
  EXPECT_TRUE(lines[1].contains("class"));
  EXPECT_NE(outcome.err.find("1 of 2 files"), std::string::npos) << outcome.err;
}

TEST(Predict, EndsWithoutFussWhenNobodyReadsAnyMore) {
  const ScratchDirectory folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  const int reader = open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  RunningProgram program({"predict", "--ckpt", trained_run().run, trained_run().data.jpegs, "--batch", "1"},
                         {.out = folder / "pipe"});
  close(reader);  // the program holds the other end since it was started
  const Outcome outcome = program.wait();
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

TEST(Predict, APathThatIsNotThereIsNamed) {
  const Outcome outcome = run_dlpipe({"predict", "--ckpt", trained_run().run, "/nonexistent.jpg"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("/nonexistent.jpg"), std::string::npos);
}

}  // namespace dlpipe::test
