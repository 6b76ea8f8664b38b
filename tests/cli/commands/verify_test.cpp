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
  EXPECT_NE(bad.err.find("is damaged; copy it again"), std::string::npos) << bad.err;
  const auto json = nlohmann::json::parse(run_dlpipe({"verify", dir / "data", "--json"}).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["datasets"][0]["bad"][0]["sample"], 50);
}

// Without --decode no picture's size is looked at.
TEST(VerifyCommand, ABoundOfPixelsGoesWithDecoding) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data"}).exit_code, 0);
  const Outcome idle = run_dlpipe({"verify", dir / "data", "--max-pixels", "3"});
  EXPECT_EQ(idle.exit_code, 2);
  EXPECT_NE(idle.err.find("--max-pixels requires --decode"), std::string::npos) << idle.err;
  EXPECT_EQ(run_dlpipe({"verify", dir / "data", "--max-pixels", "3", "--decode"}).exit_code, 1);
}

TEST(VerifyCommand, SaysWhereLinkedPicturesThatMovedAreExpected) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "jpegs", "--per-class", "2", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "jpegs", dir / "data", "--store", "link"}).exit_code, 0);
  std::filesystem::rename(dir / "jpegs", dir / "elsewhere");
  const Outcome moved = run_dlpipe({"verify", dir / "data"});
  EXPECT_EQ(moved.exit_code, 1);
  EXPECT_NE(moved.err.find("links to 20 pictures whose files aren't there any more: they are expected where "
                           "they were, such as " +
                           (dir / "jpegs/")),
            std::string::npos)
      << moved.err;
  EXPECT_EQ(moved.err.find("is damaged"), std::string::npos) << moved.err;
}

}  // namespace dlpipe::test
