#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dlpipe/codec.h"
#include "run/use/preview.h"
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
  const Outcome outcome = run_dlpipe({"preview", dir_ / "data", "--augment", "rrc(32) rotate(20) hflip", "-o",
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

TEST_F(PreviewCommand, TheLargestImageCanBeChosen) {
  const auto with = [&](const std::string& most) {
    return run_dlpipe({"preview", dir_ / "data", "--augment", "hflip", "-o", dir_ / "grid.png", "--samples",
                       "1", "--times", "1", "--max-pixels", most});
  };
  const Outcome outcome = with("500");  // of 24 x 24 and more
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("pixels are more than --max-pixels 500"), std::string::npos) << outcome.err;
  EXPECT_EQ(with("90000").exit_code, 0);
}

TEST_F(PreviewCommand, ALinkedImageIsNotReplaced) {
  const ScratchDirectory folder;
  ASSERT_EQ(run_dlpipe({"synth", folder / "drawn", "--per-class", "2"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "linked", "--store", "link"}).exit_code, 0);
  const std::string image = folder / "drawn/bar/image.png";  // a new file there is nobody's
  const auto preview = [&](const std::string& data) {
    return run_dlpipe({"preview", folder / data, "--augment", "hflip", "-o", image});
  };
  ASSERT_EQ(preview("linked").exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", folder / "drawn", folder / "with", "--store", "link"}).exit_code, 0);
  const auto bytes = std::filesystem::file_size(image);
  const Outcome outcome = preview("with");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find("write it elsewhere"), std::string::npos) << outcome.err;
  EXPECT_EQ(std::filesystem::file_size(image), bytes);
}

TEST_F(PreviewCommand, TheSameSeedDrawsTheSameImage) {
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

/// Three channels of a PNG.
struct Grid {
  std::vector<uint8_t> pixels;
  int width = 0;
  std::array<int, 3> at(int x, int y) const {
    const uint8_t* const pixel =
        &pixels[(static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x)) * 3];
    return {pixel[0], pixel[1], pixel[2]};
  }
};
Grid read_grid(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(text.data()), text.size());
  const data::ImageInfo info = value_or_throw(data::probe_image(bytes));
  Grid grid{std::vector<uint8_t>(static_cast<size_t>(info.width * info.height * 3)), info.width};
  data::ImageDecoder decoder;
  throw_if_error(decoder.decode_oriented(bytes, info, {0, 0, info.width, info.height},
                                         {grid.pixels.data(), info.width, info.height, 3, info.width * 3}));
  return grid;
}

/// A dataset in dir / "data" of one image of 24 x 24: a box, a point of it and one that can't be seen, and a mask, which
/// holds something from 10, 12 to 16, 20.
void write_marked_image(const ScratchDirectory& dir, const std::string& box = "[1, 2, 9, 9]") {
  ASSERT_EQ(run_dlpipe({"synth", dir / "src", "--per-class", "1", "--size", "24"}).exit_code, 0);
  std::vector<uint8_t> mask(24 * 24);
  for (int y = 12; y < 20; ++y) std::fill_n(&mask[static_cast<size_t>(y * 24 + 10)], 6, uint8_t{2});
  const auto png = value_or_throw(data::encode_png({mask.data(), 24, 24, 1, 24}));
  std::ofstream(dir / "src/mask.png", std::ios::binary)
      .write(reinterpret_cast<const char*>(png.data()), static_cast<std::streamsize>(png.size()));
  std::ofstream(dir / "src/list.jsonl")
      << "{\"path\": \"bar/00000.jpg\", \"box\": [" << box
      << "], \"point\": [[5.5, 5.5, 1], [20, 20, 0]], \"mask\": \"mask.png\"}\n";
  const Outcome outcome = run_dlpipe({"ingest", dir / "src/list.jsonl", dir / "data", "--field", "box:boxes",
                                      "--field", "point:points", "--field", "mask:mask"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
}

/// The one image and what `chain` makes of it, in cells of `cell` pixels; what was drawn is listed with `said` in it.
Grid draw(const ScratchDirectory& dir, const std::string& chain, int cell, const std::string& said,
          const std::vector<std::string>& marks = {}) {
  std::vector<std::string> arguments = {"preview", "--data", dir / "data",        "--augment",
                                        chain,     "-o",     dir / "grid.png",    "--times",
                                        "1",       "--cell", std::to_string(cell)};
  arguments.insert(arguments.end(), marks.begin(), marks.end());
  const Outcome outcome = run_dlpipe(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find(said), std::string::npos) << outcome.out;
  return read_grid(dir / "grid.png");
}

TEST(PreviewMarks, MoveWithTheImage) {
  const ScratchDirectory dir;
  write_marked_image(dir);
  const Grid plain = draw(dir, "hflip(1)", 24, "hflip");
  const Grid marked = draw(dir, "hflip(1)", 24, "hflip", {"--boxes", "--points", "--masks"});
  constexpr int kLeft = 4, kRight = 4 + 28, kTop = 4;
  constexpr std::array<int, 3> kRed = {230, 25, 75};
  const auto changed = [&](int x, int y) { return plain.at(x, y) != marked.at(x, y); };
  for (int i = 1; i < 9; ++i) {  // the frame's upper line, in both
    EXPECT_EQ(marked.at(kLeft + i, kTop + 2), kRed);
    EXPECT_EQ(marked.at(kRight + 23 - i, kTop + 2), kRed);
  }
  EXPECT_EQ(marked.at(kLeft + 5, kTop + 5), kRed) << "the point";
  EXPECT_EQ(marked.at(kRight + 18, kTop + 5), kRed);
  EXPECT_FALSE(changed(kLeft + 20, kTop + 20)) << "it can't be seen";
  for (int y = 12; y < 20; ++y) {
    const auto tinted = [&](int x) {
      const auto [r, g, b] = plain.at(x, kTop + y);
      return std::array<int, 3>{(r + 60) / 2, (g + 180) / 2, (b + 75) / 2};
    };
    for (int x = 10; x < 16; ++x) {
      EXPECT_EQ(marked.at(kLeft + x, kTop + y), tinted(kLeft + x));
      EXPECT_EQ(marked.at(kRight + 23 - x, kTop + y), tinted(kRight + 23 - x));
    }
    EXPECT_FALSE(changed(kLeft + 9, kTop + y));
  }
}

TEST(PreviewMarks, CropsAreDrawnByTheBoxes) {
  const ScratchDirectory dir;
  write_marked_image(dir);
  const Outcome drawn =
      run_dlpipe({"preview", "--data", dir / "data", "--augment", "ssd_crop(0.5..0.9,overlaps=0)", "-o",
                  dir / "grid.png", "--times", "3", "--cell", "48", "--boxes"});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
  EXPECT_NE(drawn.out.find("ssd_crop["), std::string::npos) << drawn.out;
  ASSERT_EQ(run_dlpipe({"synth", dir / "plain", "--per-class", "1", "--size", "24"}).exit_code, 0);
  ASSERT_EQ(run_dlpipe({"ingest", dir / "plain", dir / "none"}).exit_code, 0);
  const Outcome refused =
      run_dlpipe({"preview", "--data", dir / "none", "--augment", "ssd_crop", "-o", dir / "none.png"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_NE(refused.err.find("ssd_crop, which needs boxes"), std::string::npos) << refused.err;
}

// The one image's object over itself: that below is covered and dropped.
TEST(PreviewMarks, PastedObjectsShow) {
  const ScratchDirectory dir;
  write_marked_image(dir, "[10, 12, 16, 20]");
  const Grid plain = draw(dir, "copy_paste(1)", 48, "(- | -) copy_paste[1]");
  const Grid marked = draw(dir, "copy_paste(1)", 48, "(- | -) copy_paste[1]", {"--boxes", "--masks"});
  constexpr int kOriginal = 4, kResult = kOriginal + 52, kTop = 4;  // each pixel a square of 2 x 2
  for (int y = 0; y < 48; ++y) {
    for (int x = 0; x < 48; ++x) {
      EXPECT_EQ(plain.at(kResult + x, kTop + y), plain.at(kOriginal + x, kTop + y));
      EXPECT_EQ(marked.at(kResult + x, kTop + y), marked.at(kOriginal + x, kTop + y)) << x << " " << y;
    }
  }
  EXPECT_NE(marked.at(kResult + 20, kTop + 30), plain.at(kResult + 20, kTop + 30)) << "the frame";
}

TEST(PreviewMarks, SmallImagesAreShownLarger) {
  const ScratchDirectory dir;
  write_marked_image(dir);
  const Grid small = draw(dir, "invert", 24, "invert");
  const Grid large = draw(dir, "invert", 80, "invert");  // three times as large, in the middle
  constexpr int kFrame = 4 + (80 - 72) / 2;
  for (int y = 0; y < 72; ++y) {
    for (int x = 0; x < 72; ++x)
      ASSERT_EQ(large.at(kFrame + x, kFrame + y), small.at(4 + x / 3, 4 + y / 3)) << x << " " << y;
  }
  EXPECT_EQ(large.at(kFrame - 1, kFrame), (std::array{255, 255, 255}));
}

// Of two boxes of one class and one of another; the image has a class of its own.
TEST(PreviewMarks, AClassHasOneColourAndItsName) {
  const ScratchDirectory dir;
  ASSERT_EQ(run_dlpipe({"synth", dir / "src", "--per-class", "1", "--size", "24"}).exit_code, 0);
  std::ofstream(dir / "src/list.jsonl")
      << R"({"fields": ["box:boxes", "of:labels:box"], "classes": ["ape", "bee"]})"
      << "\n"
      << R"({"path": "bar/00000.jpg", "label": "bee", "box": [[0, 12, 6, 20], [8, 12, 14, 20], [16, 12, 22, 20]], )"
      << R"("of": ["bee", "ape", "bee"]})"
      << "\n";
  ASSERT_EQ(run_dlpipe({"ingest", dir / "src/list.jsonl", dir / "data"}).exit_code, 0);
  const Grid marked = draw(dir, "invert", 96, "invert", {"--boxes"});
  constexpr std::array<int, 3> kApe = {230, 25, 75}, kBee = {60, 180, 75};
  const auto lower_line = [&](int x) { return marked.at(4 + 4 * x + 8, 4 + 4 * 20 - 1); };
  EXPECT_EQ(lower_line(0), kBee);
  EXPECT_EQ(lower_line(8), kApe);
  EXPECT_EQ(lower_line(16), kBee);
  EXPECT_EQ(marked.at(4 + 4 * 8, 4 + 4 * 12 - 1), kApe) << "the ground of the name above its box";
  EXPECT_EQ(marked.at(4, 4 + 95), kBee) << "the image's own, below it";
}

TEST(PreviewMarks, ThatAreNotDrawnAreNamedByTheirOptions) {
  const ScratchDirectory dir;
  write_marked_image(dir);
  const auto noted = [&](const std::vector<std::string>& marks) {
    std::vector<std::string> words = {"preview", dir / "data", "--augment", "hflip", "-o", dir / "grid.png"};
    words.insert(words.end(), marks.begin(), marks.end());
    return run_dlpipe(words).err;
  };
  EXPECT_NE(noted({}).find("to draw them: --boxes --points --masks\n"), std::string::npos) << noted({});
  EXPECT_NE(noted({"--points"}).find(": --boxes --masks\n"), std::string::npos) << noted({"--points"});
  EXPECT_EQ(noted({"--boxes", "--points", "--masks"}).find("--"), std::string::npos);
}

TEST(PreviewText, NamesAreDrawnInAsciiOrByTheirNumbers) {
  using run::drawable_name;
  EXPECT_EQ(drawable_name("tabby cat", 3), "tabby cat");
  EXPECT_EQ(drawable_name("Stra\u00dfe \u00c5rhus \u0141\u00f3d\u017a", 3), "Strase Arhus Lodz");
  EXPECT_EQ(drawable_name("cafe\u0301", 3), "cafe") << "as macOS stores it";
  EXPECT_EQ(drawable_name("\u732b", 3), "3");
  EXPECT_EQ(drawable_name("\u732b cat", 12), "12 cat");
  EXPECT_EQ(drawable_name("a\xff", 0), "0 a");
}

// One image of 24 x 24 beside, above and below itself.
TEST(PreviewMarks, AMosaicShowsThoseOfAllItsImages) {
  const ScratchDirectory dir;
  write_marked_image(dir);
  const Grid plain = draw(dir, "mosaic(24,center=0.5)", 48, "(- | - | - | -) mosaic[24 24]");
  const Grid marked =
      draw(dir, "mosaic(24,center=0.5)", 48, "(- | - | - | -) mosaic[24 24]", {"--boxes", "--masks"});
  constexpr int kLeft = 4 + 52, kTop = 4;
  constexpr std::array<std::array<int, 3>, 4> kColors = {
      {{230, 25, 75}, {60, 180, 75}, {255, 225, 25}, {0, 130, 200}}};
  for (int k = 0; k < 4; ++k) {
    const int left = kLeft + 24 * (k % 2), top = kTop + 24 * (k / 2);
    EXPECT_EQ(plain.at(left + 3, top + 5), plain.at(kLeft + 3, kTop + 5)) << "the same image";
    for (int i = 1; i < 9; ++i) EXPECT_EQ(marked.at(left + i, top + 2), kColors[static_cast<size_t>(k)]) << k;
    const auto [r, g, b] = plain.at(left + 12, top + 15);
    EXPECT_EQ(marked.at(left + 12, top + 15), (std::array<int, 3>{(r + 60) / 2, (g + 180) / 2, (b + 75) / 2}))
        << k;
    EXPECT_EQ(marked.at(left + 20, top + 21), plain.at(left + 20, top + 21));
  }
}

TEST_F(PreviewCommand, MarksThatTheDatasetHasNotAreNamed) {
  const Outcome outcome =
      run_dlpipe({"preview", "--data", dir_ / "data", "--augment", "hflip", "-o", dir_ / "x.png", "--boxes"});
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("has no boxes: its fields are image, label"), std::string::npos) << outcome.err;
}

// Links: what a sample's image is may change after ingest.
TEST_F(PreviewCommand, ADamagedImageIsNamedAndTheOthersAreDrawn) {
  ASSERT_EQ(run_dlpipe({"ingest", dir_ / "jpegs", dir_ / "links", "--store", "link"}).exit_code, 0);
  std::ofstream(dir_ / "jpegs/bar/00001.jpg") << "no image";
  const auto draw = [&](const std::string& chain) {
    std::filesystem::remove(dir_ / "grid.png");
    return run_dlpipe({"preview", "--data", dir_ / "links", "--augment", chain, "-o", dir_ / "grid.png",
                       "--samples", "1000", "--times", "2", "--cell", "24", "--json"});
  };
  const Outcome outcome = draw("hflip");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("[preview] sample 1: "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("bar/00001.jpg changed"), std::string::npos) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  ASSERT_EQ(json["corrupt"].size(), 1u);
  EXPECT_EQ(json["corrupt"][0]["sample"], 1);
  const size_t samples = json["cells"].back()["sample"].get<size_t>() + 1;
  EXPECT_EQ(json["cells"].size(), (samples - 1) * 2);
  const Grid grid = read_grid(dir_ / "grid.png");
  EXPECT_EQ(grid.at(4 + 12, 4 + 28 + 12), (std::array{255, 255, 255})) << "its row is empty";
  EXPECT_NE(grid.at(4 + 12, 4 + 2 * 28 + 12), (std::array{255, 255, 255}));
  // Beside other images, too.
  EXPECT_EQ(nlohmann::json::parse(draw("mosaic(24)").out)["corrupt"][0]["sample"], 1);
  for (const auto& file : std::filesystem::recursive_directory_iterator(dir_ / "jpegs"))
    if (file.is_regular_file()) std::ofstream(file.path()) << "no image";
  const Outcome none = draw("hflip");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_NE(none.err.find("[preview] sample 0: "), std::string::npos) << none.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "grid.png"));
}

TEST_F(PreviewCommand, MistakesAreNamedAndWriteNothing) {
  std::ofstream(dir_ / "a.txt") << std::string(1000, 'a');
  ASSERT_EQ(run_dlpipe({"ingest", dir_ / "a.txt", dir_ / "text"}).exit_code, 0);
  const Outcome text = run_dlpipe({"preview", dir_ / "text", "--augment", "hflip", "-o", dir_ / "x.png"});
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_NE(text.err.find("[preview] " + (dir_ / "text") + " holds no images"), std::string::npos)
      << text.err;
  const Outcome foreign =
      run_dlpipe({"preview", "--data", dir_ / "data", "--augment", "hflip", "-o", dir_ / "x.jpg"});
  EXPECT_EQ(foreign.exit_code, 2);
  EXPECT_NE(foreign.err.find("use .png"), std::string::npos) << foreign.err;
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
