#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace dlpipe::test {

TEST(VerifyCommand, TellsGoodFromDamaged) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "6", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data"}).exit_code, 0);
  const Outcome good = run_dlpipe({"verify", dir / "data", "--decode"});
  EXPECT_EQ(good.exit_code, 0) << good.err;
  EXPECT_NE(good.out.find("60 samples"), std::string::npos) << good.out;
  EXPECT_NE(good.out.find("all good"), std::string::npos) << good.out;

  std::string bytes;
  {
    std::ifstream file(dir / "data/data.mdb", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const size_t at = bytes.find("star/00002.jpg");
  ASSERT_NE(at, std::string::npos);
  bytes[at + 9] = '7';
  std::ofstream(dir / "data/data.mdb", std::ios::binary) << bytes;
  const Outcome bad = run_dlpipe({"verify", dir / "data"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_NE(bad.out.find("bad: sample 50"), std::string::npos) << bad.out;
  EXPECT_NE(bad.err.find("is corrupt; copy it again"), std::string::npos) << bad.err;
  const auto json = nlohmann::json::parse(run_dlpipe({"verify", dir / "data", "--json"}).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["datasets"][0]["bad"][0]["sample"], 50);
}

// Without --decode no image's size is looked at.
TEST(VerifyCommand, ABoundOfPixelsGoesWithDecoding) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data"}).exit_code, 0);
  const Outcome idle = run_dlpipe({"verify", dir / "data", "--max-pixels", "3"});
  EXPECT_EQ(idle.exit_code, 2);
  EXPECT_NE(idle.err.find("--max-pixels requires --decode"), std::string::npos) << idle.err;
  EXPECT_EQ(run_dlpipe({"verify", dir / "data", "--max-pixels", "3", "--decode"}).exit_code, 1);
}

// Each split that is left is good by itself, so only what was made tells of the others.
TEST(VerifyCommand, ASplitThatIsLostOrAnotherDatasetIsNamed) {
  namespace fs = std::filesystem;
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "10", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--split", "0.7,0.3"}).exit_code, 0);
  EXPECT_EQ(run_dlpipe({"verify", dir / "data"}).exit_code, 0);

  fs::rename(dir / "data/train/data.mdb", dir / "train.mdb");  // its folder stays
  const Outcome lost = run_dlpipe({"verify", dir / "data"});
  EXPECT_EQ(lost.exit_code, 1);
  EXPECT_NE(lost.out.find("data/val: 30 samples"), std::string::npos) << lost.out;
  EXPECT_NE(lost.out.find("bad: train, with 70 samples, is missing\n"), std::string::npos) << lost.out;
  EXPECT_NE(lost.err.find("doesn't match " + (dir / "data/provenance.json") + "; copy it again"),
            std::string::npos)
      << lost.err;
  const auto json = nlohmann::json::parse(run_dlpipe({"verify", dir / "data", "--json"}).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["lost"][0]["split"], "train");
  EXPECT_EQ(json["lost"][0]["samples"], 70);

  fs::copy_file(dir / "data/val/data.mdb", dir / "data/train/data.mdb");
  const Outcome other = run_dlpipe({"verify", dir / "data"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.out.find("bad: train is not the dataset that was made here, which had the id "),
            std::string::npos)
      << other.out;
  EXPECT_EQ(other.out.find("not there"), std::string::npos) << other.out;

  fs::rename(dir / "train.mdb", dir / "data/train/data.mdb");
  EXPECT_EQ(run_dlpipe({"verify", dir / "data"}).exit_code, 0);
  fs::remove(dir / "data/train/data.mdb");
  fs::remove(dir / "data/provenance.json");  // as the advice says for a split that nobody wants any more
  EXPECT_EQ(run_dlpipe({"verify", dir / "data"}).exit_code, 0);
  std::ofstream(dir / "data/provenance.json") << "{";
  const Outcome unknown = run_dlpipe({"verify", dir / "data"});
  EXPECT_EQ(unknown.exit_code, 0) << "it is no part of the dataset";
  EXPECT_NE(unknown.err.find("[verify] can't check which splits were made: "), std::string::npos)
      << unknown.err;
}

TEST(VerifyCommand, SaysWhereLinkedImagesThatMovedAreExpected) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--store", "link"}).exit_code, 0);
  std::filesystem::rename(dir / "jpegs", dir / "elsewhere");
  const Outcome moved = run_dlpipe({"verify", dir / "data"});
  EXPECT_EQ(moved.exit_code, 1);
  EXPECT_NE(
      moved.err.find("links to 20 images that no longer exist at their paths, such as " + (dir / "jpegs/")),
      std::string::npos)
      << moved.err;
  EXPECT_EQ(moved.err.find("is corrupt"), std::string::npos) << moved.err;
}

}  // namespace dlpipe::test
