#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace dlpipe::test {
namespace {

/// Width and height in a PNG's header.
std::pair<int, int> png_size(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(24, 0);
  file.read(head.data(), 24);
  EXPECT_EQ(head.substr(1, 3), "PNG");
  const auto number = [&](size_t at) {
    int value = 0;
    for (size_t i = 0; i < 4; ++i) value = value * 256 + static_cast<unsigned char>(head[at + i]);
    return value;
  };
  return {number(16), number(20)};
}

class PreviewCommand : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(run_dlpipe({"synth", dir_ / "jpegs", "--per-class", "2", "--size", "24..300"}).exit_code, 0);
    ASSERT_EQ(run_dlpipe({"ingest", dir_ / "jpegs", dir_ / "data"}).exit_code, 0);
  }
  ScratchDirectory dir_;
};

TEST_F(PreviewCommand, DrawsOriginalsBesideResultsAndSaysWhatWasDrawn) {
  const Outcome outcome =
      run_dlpipe({"preview", "--data", dir_ / "data", "--augment", "rrc(32) rotate(20) hflip", "-o",
                  dir_ / "grid.png", "--samples", "3", "--times", "4", "--cell", "50"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(png_size(dir_ / "grid.png"), (std::pair{5 * 54 + 4, 3 * 54 + 4}));
  EXPECT_NE(outcome.out.find("rotate["), std::string::npos) << outcome.out;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 14);
}

TEST_F(PreviewCommand, TwoChainsStandBelowEachOther) {
  const std::vector<std::string> arguments = {
      "preview",         "--data",    dir_ / "data", "--augment", "invert", "--diff", "equalize", "-o",
      dir_ / "grid.png", "--samples", "2",           "--times",   "1",      "--cell", "40",       "--json"};
  const Outcome outcome = run_dlpipe(arguments);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["cells"].size(), 4u);
  EXPECT_EQ(json["cells"][1]["drawn"], "equalize");
  EXPECT_EQ(json["cells"][1]["chain"], 1);
  EXPECT_EQ(png_size(dir_ / "grid.png"), (std::pair{2 * 44 + 4, 4 * 44 + 4}));
}

TEST_F(PreviewCommand, TheSameSeedDrawsTheSamePicture) {
  const auto draw = [&](const std::string& name, const std::string& seed) {
    EXPECT_EQ(run_dlpipe({"preview", "--data", dir_ / "data", "--augment", "trivial_augment", "--seed", seed,
                          "-o", dir_ / name})
                  .exit_code,
              0);
    std::ifstream file(dir_ / name, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_EQ(draw("a.png", "3"), draw("b.png", "3"));
  EXPECT_NE(draw("a.png", "3"), draw("b.png", "4"));
}

TEST_F(PreviewCommand, MistakesAreNamedAndWriteNothing) {
  const Outcome wrong =
      run_dlpipe({"preview", "--data", dir_ / "data", "--augment", "hflp", "-o", dir_ / "x.png"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_NE(wrong.err.find("did you mean 'hflip'?"), std::string::npos) << wrong.err;
  const Outcome small = run_dlpipe(
      {"preview", "--data", dir_ / "data", "--augment", "random_crop(4000)", "-o", dir_ / "x.png"});
  EXPECT_NE(small.exit_code, 0);
  EXPECT_NE(small.err.find("[preview] sample 0: "), std::string::npos) << small.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "x.png"));
}

}  // namespace
}  // namespace dlpipe::test
