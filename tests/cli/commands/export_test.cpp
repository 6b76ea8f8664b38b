#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "io/data/partial_directory.h"
#include "io/formats/json.h"
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
  EXPECT_NE(nothing.err.find("--limit 0; use 1 or more"), std::string::npos) << nothing.err;
  EXPECT_FALSE(std::filesystem::exists(dir / "none"));
}

// What a kill leaves: of one dataset, and of splits.
TEST(ExportCommand, AnInterruptedExportIsReplacedByTheNext) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "4", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.5,0.5"}).exit_code, 0);
  for (const char* data : {"data", "data/train"}) {
    const std::string out = dir / "out";
    {
      const auto left = value_or_throw(data::PartialDirectory::claim("export", out));
      ASSERT_TRUE(left.write("train/gone.jpg", {}).ok());
    }
    const Outcome outcome = run_dlpipe({"export", dir / data, out, "--limit", "1"});
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(": 1 file, "), std::string::npos) << outcome.out;
    EXPECT_FALSE(std::filesystem::exists(out + ".partial"));
    EXPECT_FALSE(std::filesystem::exists(out + "/train/gone.jpg"));
    EXPECT_FALSE(std::filesystem::exists(out + "/.dlpipe-partial"));
    std::filesystem::remove_all(out);
  }
}

static uint64_t largest_below(const std::string& folder) {
  uint64_t most = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) most = std::max<uint64_t>(most, entry.file_size());
  return most;
}

// A limit on file sizes stands in for a full disk.
TEST(ExportCommand, OfSplitsNothingStaysAfterAnErrorAndItCanBeRepeated) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs/train", "--per-class", "2", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs/val", "--per-class", "2", "--size", "160"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data"}).exit_code, 0);
  const uint64_t small = largest_below(dir / "jpegs/train");
  ASSERT_LT(small, largest_below(dir / "jpegs/val"));
  for (const uint64_t most : {uint64_t{100}, small}) {  // no file at all; the files of train alone
    Outcome outcome;
    {
      const Limited files(RLIMIT_FSIZE, most);
      outcome = run_dlpipe({"export", dir / "data", dir / "out"});
    }
    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "out")) << most << " bytes a file";
  }
  const Outcome again = run_dlpipe({"export", dir / "data", dir / "out"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(std::filesystem::is_directory(dir / "out/train"));
  EXPECT_TRUE(std::filesystem::is_directory(dir / "out/val"));
}

TEST(ExportCommand, WarnsOfASplitThatIsLost) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "10", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.7,0.3"}).exit_code, 0);
  std::filesystem::remove_all(dir / "data/train");
  const Outcome outcome = run_dlpipe({"export", dir / "data", dir / "out"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("30 files"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("[export] train, with 70 samples, is missing, but " +
                             (dir / "data/provenance.json") + " lists it"),
            std::string::npos)
      << outcome.err;
}

TEST(ExportCommand, CountsWhatDoesNotComeBackByteForByte) {
  const ScratchDirectory dir;
  const std::string images = test_file("io/data/codec/images/");
  std::filesystem::create_directories(dir / "jpegs/a");
  for (const char* name : {"rgb_420.jpg", "progressive_420.jpg"})
    std::filesystem::copy_file(images + name, dir / "jpegs/a/" + name);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--jpeg", "coefficients"}).exit_code, 0);
  const Outcome outcome = run_dlpipe({"export", dir / "data", dir / "out"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 files"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("; 1 of them with the source's pixels but different bytes"), std::string::npos)
      << outcome.out;
  EXPECT_EQ(bytes_of(dir / "out/a/rgb_420.jpg"), bytes_of(images + "rgb_420.jpg"));
}

// Lists and class folders aren't read together, so a list of one split alone would leave the others behind.
TEST(ExportCommand, AListIsWrittenOfEachSplitWhereOneNeedsIt) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "4", "--size", "24"}).exit_code, 0);
  std::filesystem::create_directories(dir / "src");
  std::filesystem::copy(dir / "jpegs", dir / "src/train", std::filesystem::copy_options::recursive);
  std::filesystem::copy(dir / "jpegs", dir / "src/val", std::filesystem::copy_options::recursive);
  const auto first = std::filesystem::directory_iterator(dir / "src/val")->path();
  for (const auto& image : std::filesystem::directory_iterator(first)) std::filesystem::remove(image);
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
