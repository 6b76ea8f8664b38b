#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(InspectCommand, ShowsCountsAndPrintsJson) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "6", "--size", "24..40"}).exit_code, 0);
  std::filesystem::resize_file(dir / "jpegs/ring/00001.jpg", 100);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data"}).exit_code, 0);
  const Outcome shown = run_dlpipe({"inspect", dir / "data"});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_EQ(shown.err, "");
  for (const char* part : {"samples    59", "classes    10", "image, label, path", "triangle", "longer side"})
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << " in\n" << shown.out;
  const Outcome outcome = run_dlpipe({"inspect", dir / "data", "--json"});
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["samples"], 59);
  EXPECT_EQ(json["classes"].size(), 10u);
  EXPECT_EQ(json["fields"][0]["name"], "image");
  EXPECT_EQ(json["datasets"][0]["class_counts"][6], 5);
  EXPECT_EQ(json["skipped"], 1);
  const Outcome skipped = run_dlpipe({"inspect", dir / "data", "--skipped"});
  EXPECT_NE(skipped.out.find("ring/00001.jpg: "), std::string::npos) << skipped.out;
}

TEST(InspectCommand, SplitsAreShownTogether) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "10", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.7,0.2,0.1"}).exit_code, 0);
  const auto json = nlohmann::json::parse(run_dlpipe({"inspect", dir / "data", "--json"}).out);
  EXPECT_EQ(json["samples"], 100);
  EXPECT_EQ(json["classes"].size(), 10u);
  std::map<std::string, int> samples;
  for (const auto& one : json["datasets"]) samples[one["split"]] = one["samples"];
  EXPECT_EQ(samples, (std::map<std::string, int>{{"train", 70}, {"val", 20}, {"test", 10}}));
}

TEST(InspectCommand, TablesAlignByWhatATerminalShows) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  // two wide characters, one letter with a combining mark, one letter of two bytes: 4, 1 and 1 columns
  std::filesystem::rename(dir / "jpegs/ring", dir / "jpegs/\u6a39\u6728");
  std::filesystem::rename(dir / "jpegs/triangle", dir / "jpegs/e\u0301");
  std::filesystem::rename(dir / "jpegs/square", dir / "jpegs/\u00e9");
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data"}).exit_code, 0);
  const Outcome shown = run_dlpipe({"inspect", dir / "data"});
  const size_t head = shown.out.find("label  class");
  ASSERT_NE(head, std::string::npos) << shown.out;
  const size_t column = shown.out.find("samples", head) - head + std::string("samples").size();
  for (const auto& [name, hidden] :
       std::map<std::string, size_t>{{"\u6a39\u6728", 2}, {"e\u0301", 2}, {"\u00e9", 1}}) {
    const size_t at = shown.out.find(name, head);
    ASSERT_NE(at, std::string::npos) << shown.out;
    const size_t begin = shown.out.rfind('\n', at) + 1;
    EXPECT_EQ(shown.out.find('\n', at) - begin - hidden, column) << shown.out;
  }
}

TEST(InspectCommand, WhatIsNoDatasetIsNamed) {
  const ScratchDirectory dir;
  const Outcome outcome = run_dlpipe({"inspect", dir / "none"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("no dataset"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
