// A folder full of corrupt images: what can't be decoded is left out and listed, all of it and nothing
// else, and what can comes through with its pixels, whichever layout it is stored in.
#include <set>

#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

/// The pixels of an image, or nothing when it is bad.
std::vector<uint8_t> pixels_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  const auto info = data::probe_image(bytes);
  constexpr int64_t kMaxPixels = 1'000'000;
  if (!info.ok() || int64_t{info->width} * info->height > kMaxPixels) return {};
  const bool swaps = swaps_axes(info->orientation);
  data::Pixels pixels(swaps ? info->height : info->width, swaps ? info->width : info->height, 3);
  data::ImageDecoder decoder({.max_pixels = kMaxPixels});
  const Status status = decoder.decode_oriented(bytes, *info, all_of(pixels), pixels.view());
  return status.ok() ? pixels.bytes : std::vector<uint8_t>();
}

/// The codec's test images cut every few hundred bytes, with bits flipped, bytes taken out and sizes
/// changed.
std::map<std::string, std::string> damaged_files() {
  std::map<std::string, std::string> files;
  RandomStream random(17, 0);
  for (const data::Golden& golden : data::golden_images()) {
    const std::string whole = to_text(data::read_image(golden.name));
    const std::string folder = golden.name.substr(golden.name.size() - 3);  // jpg, png
    const auto add = [&](const std::string& what, const std::string& text) {
      files[folder + "/" + what + "_" + golden.name] = text;
    };
    add("whole", whole);
    for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 8)
      add("cut" + std::to_string(size), whole.substr(0, size));
    for (int i = 0; i < 8; ++i) {
      std::string text = whole;
      const size_t at = random.below(static_cast<uint32_t>(text.size()));
      text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
      add("flip" + std::to_string(i), text);
      text.erase(random.below(static_cast<uint32_t>(text.size())), 1 + random.below(20));
      add("gone" + std::to_string(i), text);
    }
    if (folder == "jpg") {  // a header that claims 60,000 x 60,000
      std::string text = whole;
      for (size_t at = 0; at + 8 < text.size(); ++at) {
        const auto marker = static_cast<unsigned char>(text[at + 1]);
        if (text[at] != '\xff' || marker < 0xc0 || marker > 0xc2) continue;
        for (size_t i = 5; i < 9; ++i) text[at + i] = i % 2 == 1 ? '\xea' : '\x60';
        break;
      }
      add("bomb", text);
    }
  }
  return files;
}

class DamagedImages : public testing::TestWithParam<JpegLayout> {};

TEST_P(DamagedImages, AreListedExactly) {
  TempDir dir;
  const std::map<std::string, std::string> files = damaged_files();
  std::set<std::string> bad;
  for (const auto& [path, text] : files) {
    write_text(dir / ("src/" + path), text);
    if (pixels_of(text).empty()) bad.insert(path);
  }
  ASSERT_GT(bad.size(), files.size() / 4);
  ASSERT_LT(bad.size(), files.size() * 9 / 10);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.jpeg = GetParam();
  options.max_pixels = 1'000'000;
  const IngestReport report = value_or_throw(ingest(options));
  std::set<std::string> skipped;
  for (const auto& one : report.skipped) {
    skipped.insert(one.path);
    EXPECT_FALSE(one.reason.empty()) << one.path;
  }
  EXPECT_EQ(skipped, bad);
  const std::vector<Sample> samples = samples_of(dir / "dst");
  EXPECT_EQ(samples.size(), files.size() - bad.size());
  for (const Sample& sample : samples)
    EXPECT_EQ(pixels_of(sample.image), pixels_of(files.at(sample.path))) << sample.path;
}

TEST(DeadLinks, AreSkippedAndNamedOrStopAsFilesThatCannotBeReadDo) {
  TempDir dir;
  for (int i = 0; i < 4; ++i)
    write_text(dir / ("src/c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg"),
               jpeg_text(static_cast<uint64_t>(i), 16, 16));
  std::filesystem::create_symlink("gone.jpg", dir / "src/c1/9.jpg");
  for (const Store store : {Store::kAuto, Store::kLink}) {
    IngestOptions options = options_for(dir / "src", dir / ("dst" + std::to_string(store == Store::kLink)));
    options.store = store;
    const IngestReport report = value_or_throw(ingest(options));
    ASSERT_EQ(report.skipped.size(), 1u);
    EXPECT_EQ(report.skipped[0].path, "c1/9.jpg");
    expect_part(report.skipped[0].reason, "is a link to gone.jpg, which does not exist");
    EXPECT_EQ(report.splits[0].samples, 4);
  }
  IngestOptions options = options_for(dir / "src", dir / "stopped");
  options.on_error = OnError::kStop;
  expect_part(ingest(options).status().message(), "c1/9.jpg: is a link to gone.jpg, which does not exist");
}

INSTANTIATE_TEST_SUITE_P(Layouts, DamagedImages,
                         testing::Values(JpegLayout::kAuto, JpegLayout::kStandard, JpegLayout::kRestart,
                                         JpegLayout::kCoefficients));

}  // namespace
}  // namespace dlpipe::ingest
