#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "dlpipe/io/formats/json.h"
#include "tests/base/test_file.h"
#include "tests/cli/program.h"

namespace dlpipe::test {

static std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ExportCommand, GivesTheFilesBack) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "10", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.7,0.3"}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"export", dir / "data", dir / "out"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("70 files"), std::string::npos) << outcome.out;
  int files = 0;
  for (const char* split : {"train", "val"}) {
    const std::filesystem::path root = dir / ("out/" + std::string(split));
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      const std::string name = std::filesystem::relative(entry.path(), root).string();
      EXPECT_EQ(bytes_of(entry.path().string()), bytes_of(dir / ("jpegs/" + name))) << name;
    }
  }
  EXPECT_EQ(files, 100);
  const Outcome again = run_dlpipe({"export", dir / "data", dir / "out"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("exists already"), std::string::npos) << again.err;
  const Outcome nowhere = run_dlpipe({"export", dir / "data/train", ""});
  EXPECT_EQ(nowhere.exit_code, 2);
  EXPECT_NE(nowhere.err.find("OUT is empty"), std::string::npos) << nowhere.err;
  const Outcome nothing = run_dlpipe({"export", dir / "data", dir / "none", "--limit", "0"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_NE(nothing.err.find("--limit 0; give at least 1"), std::string::npos) << nothing.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

TEST(ExportCommand, WarnsOfASplitThatIsLost) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "10", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.7,0.3"}).exit_code, 0);
  std::filesystem::remove_all(dir / "data/train");
  const Outcome outcome = run_dlpipe({"export", dir / "data", dir / "out"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("30 files"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("[export] train, of 70 samples, is not there, though " +
                             (dir / "data/provenance.json") + " names it"),
            std::string::npos)
      << outcome.err;
}

TEST(ExportCommand, CountsWhatDoesNotComeBackByteForByte) {
  const ScratchDirectory dir;
  const std::string pictures = test_file("io/data/codec/images/");
  std::filesystem::create_directories(dir / "jpegs/a");
  for (const char* name : {"rgb_420.jpg", "progressive_420.jpg"})
    std::filesystem::copy_file(pictures + name, dir / "jpegs/a/" + name);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--jpeg", "coefficients"}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"export", dir / "data", dir / "out"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 files"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("; 1 of them with the source's pixels in other bytes"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(bytes_of(dir / "out/a/rgb_420.jpg"), bytes_of(pictures + "rgb_420.jpg"));
}

// Lists and class folders aren't read together, so a list of one split alone would leave the others behind.
TEST(ExportCommand, AListIsWrittenOfEachSplitWhereOneNeedsIt) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "4", "--size", "24"}).exit_code, 0);
  std::filesystem::create_directories(dir / "src");
  std::filesystem::copy(dir / "jpegs", dir / "src/train", std::filesystem::copy_options::recursive);
  std::filesystem::copy(dir / "jpegs", dir / "src/val", std::filesystem::copy_options::recursive);
  const auto first = std::filesystem::directory_iterator(dir / "src/val")->path();
  for (const auto& picture : std::filesystem::directory_iterator(first)) std::filesystem::remove(picture);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "src", dir / "data"}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"export", dir / "data", dir / "out"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const std::string train = dir / "out/train/fields.jsonl", val = dir / "out/val/fields.jsonl";
  EXPECT_NE(outcome.out.find("dlpipe ingest " + train + " " + val + " DATA"), std::string::npos)
      << outcome.out;
  ASSERT_EQ(run_dlpipe({"ingest", train, val, dir / "again"}).exit_code, 0);
  for (const char* split : {"/train", "/val"}) {
    const auto id = [&](const std::string& data) {
      const auto told = formats::Json::parse(run_dlpipe({"inspect", data + split, "--json"}).out);
      return (*told)["datasets"].items().at(0)["id"].as_string();
    };
    EXPECT_EQ(id(dir / "again"), id(dir / "data")) << split;
  }
}

}  // namespace dlpipe::test
