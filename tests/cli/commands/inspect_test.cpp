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

TEST(InspectCommand, WhatIsNoDatasetIsNamed) {
  const ScratchDirectory dir;
  const Outcome outcome = run_dlpipe({"inspect", dir / "none"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("no dataset"), std::string::npos) << outcome.err;
}

}  // namespace dlpipe::test
