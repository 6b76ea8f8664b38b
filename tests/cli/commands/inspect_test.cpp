#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"
#include "tests/cli/trained_run.h"

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

/// A table's columns, blanks put together.
static std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ' && out.back() != '\n')) out += c;
  }
  return out;
}

TEST(InspectCommand, ClassesThatBoxesOrTagsUseAreCountedInThem) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "src", "--per-class", "3", "--size", "24"}).exit_code, 0);
  std::ofstream(dir / "src/boxes.jsonl")
      << R"({"path": "bar/00000.jpg", "box": [[1, 2, 9, 9], [0, 0, 5, 5]], "kind": ["cat", "dog"]}
{"path": "bar/00001.jpg", "box": [[1, 2, 9, 9]], "kind": ["dog"]}
{"path": "bar/00002.jpg", "box": [], "kind": []}
)";
  ASSERT_EQ(run_dlpipe({"ingest", dir / "src/boxes.jsonl", dir / "boxes", "--store", "link", "--field",
                        "box:boxes", "--field", "kind:labels:box"})
                .exit_code,
            0);
  std::filesystem::remove(dir / "src/bar/00001.jpg");  // no image is read
  const Outcome shown = run_dlpipe({"inspect", dir / "boxes"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  const std::string text = squeezed(shown.out);
  EXPECT_NE(text.find("label class kind\n"), std::string::npos) << shown.out;
  EXPECT_NE(text.find("0 cat 1\n1 dog 2\nno sample has a class of its own; kind counts box\n"),
            std::string::npos)
      << shown.out;
  const auto json = nlohmann::json::parse(run_dlpipe({"inspect", dir / "boxes", "--json"}).out);
  EXPECT_EQ(json["datasets"][0]["class_counts"], (std::vector<int>{0, 0}));
  EXPECT_EQ(json["datasets"][0]["label_counts"]["kind"], (std::vector<int>{1, 2}));

  std::ofstream(dir / "src/tags.csv")
      << "path,label,tags\nbar/00000.jpg,cat,cat|red|red\ndisc/00000.jpg,dog,red\n";
  ASSERT_EQ(run_dlpipe({"ingest", dir / "src/tags.csv", dir / "tags", "--field", "tags:labels"}).exit_code,
            0);
  const std::string tags = squeezed(run_dlpipe({"inspect", dir / "tags"}).out);
  EXPECT_NE(tags.find("0 cat 1 1\n1 dog 1 0\n2 red 0 2\ntags counts samples that name the class\n"),
            std::string::npos)
      << tags;
}

/// Four images of a class are in both splits, one of another class is in one.
TEST(InspectCommand, ProblemsAreListedAndAreNoError) {
  const ScratchDirectory dir;
  namespace fs = std::filesystem;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "4", "--size", "64"}).exit_code, 0);
  fs::create_directories(dir / "src/train/disc");
  fs::create_directories(dir / "src/val");
  fs::copy(dir / "jpegs/bar", dir / "src/train/bar");
  fs::copy(dir / "jpegs/bar", dir / "src/val/bar");
  fs::copy(dir / "jpegs/disc/00000.jpg", dir / "src/train/disc/00000.jpg");
  ASSERT_EQ(run_dlpipe({"ingest", dir / "src", dir / "data"}).exit_code, 0);
  const Outcome shown = run_dlpipe({"inspect", dir / "data", "--problems"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  for (const char* part :
       {"9 samples, problems:", "label disc: 1\n", "train bar/00001.jpg = val bar/00001.jpg: the same bytes"})
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << " in\n" << shown.out;
  const auto json = nlohmann::json::parse(run_dlpipe({"inspect", dir / "data", "--problems", "--json"}).out);
  EXPECT_EQ(json["classes"][0]["class"], "disc");
  EXPECT_GE(json["alike"].size(), 4u);
  EXPECT_EQ(run_dlpipe({"inspect", dir / "data", "--problems", "--skipped"}).exit_code, 2);

  const Outcome dropped = run_dlpipe({"ingest", dir / "src", dir / "dropped", "--dedup", "drop"});
  EXPECT_EQ(dropped.exit_code, 1);  // nothing is left for val
  EXPECT_NE(dropped.err.find("a copy of train/bar/"), std::string::npos) << dropped.err;
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

TEST(InspectCommand, ASplitThatIsLostIsSaid) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "10", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.7,0.2,0.1"}).exit_code, 0);
  EXPECT_EQ(run_dlpipe({"inspect", dir / "data"}).err, "");
  std::filesystem::remove_all(dir / "data/val");
  const Outcome shown = run_dlpipe({"inspect", dir / "data"});
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_NE(shown.err.find("[inspect] val, with 20 samples, is missing, but " +
                           (dir / "data/provenance.json") + " lists it"),
            std::string::npos)
      << shown.err;
  const auto json = nlohmann::json::parse(run_dlpipe({"inspect", dir / "data", "--json"}).out);
  EXPECT_EQ(json["samples"], 80);
  ASSERT_EQ(json["lost"].size(), 1u);
  EXPECT_EQ(json["lost"][0]["split"], "val");
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
  const Outcome quoted = run_dlpipe({"inspect", dir / "out dir \u00fc"});
  EXPECT_NE(quoted.err.find("`dlpipe ingest SRC '" + (dir / "out dir \u00fc") + "'`"), std::string::npos)
      << quoted.err;
}

}  // namespace dlpipe::test
