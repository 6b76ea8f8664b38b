// Byte for byte what Pillow gives, on every instruction set of this machine. golden/README.md says how the
// file was made.
#include <fstream>
#include <sstream>

#include "augment/resize.h"
#include "tests/augment/chain_testing.h"
#include "tests/augment/every_target.h"
#include "tests/augment/golden_image.h"
#include "tests/base/test_file.h"

namespace dlpipe::augment {
namespace {

struct GoldenCase {
  std::string kind;
  int width = 0;
  int height = 0;
  Region box;
  OwnedImage result{0, 0};
  std::string line;
};

std::vector<GoldenCase> golden_cases() {
  std::ifstream file(test_file("augment/golden/resize.golden"), std::ios::binary);
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    GoldenCase golden;
    golden.line = line;
    std::istringstream words(line);
    int channels = 0;
    int out_width = 0;
    int out_height = 0;
    Region& box = golden.box;
    words >> golden.kind >> channels >> golden.width >> golden.height >> box.x >> box.y >> box.width >>
        box.height >> out_width >> out_height;
    EXPECT_TRUE(words) << line;
    golden.result = OwnedImage(out_width, out_height, channels);
    file.read(reinterpret_cast<char*>(golden.result.pixels.data()),
              static_cast<std::streamsize>(golden.result.pixels.size()));
    EXPECT_TRUE(file) << line;
    cases.push_back(std::move(golden));
  }
  return cases;
}

OwnedImage resized(const GoldenCase& golden, bool scalar, bool mirror) {
  const OwnedImage& result = golden.result;
  const ResizeGeometry geometry{golden.width, golden.height, golden.box,
                                result.width, result.height, {0, 0, result.width, result.height}};
  const OwnedImage source =
      make_image(result.channels, golden.width, golden.height).part(resize_support(geometry));
  OwnedImage out(result.width, result.height, result.channels);
  std::vector<std::byte> work;
  if (scalar) {
    resize_scalar(geometry, source.view(), out.view(), mirror);
  } else {
    resize(geometry, source.view(), out.view(), mirror, work);
  }
  return out;
}

TEST(ResizeGolden, PlainLoopsGivePillowsPixels) {
  const std::vector<GoldenCase> cases = golden_cases();
  ASSERT_EQ(cases.size(), 42u);
  for (const GoldenCase& golden : cases) {
    if (golden.kind != "resize") continue;
    EXPECT_EQ(resized(golden, true, false), golden.result) << golden.line;
  }
}

TEST(ResizeGolden, EveryInstructionSetGivesPillowsPixels) {
  const std::vector<GoldenCase> cases = golden_cases();
  on_every_target([&] {
    for (const GoldenCase& golden : cases) {
      if (golden.kind != "resize") continue;
      EXPECT_EQ(resized(golden, false, false), golden.result) << golden.line;
      EXPECT_EQ(resized(golden, false, true), golden.result.mirrored()) << golden.line;
    }
  });
}

TEST(ResizeGolden, RrcGivesPillowsCropAndResize) {
  const Chain chain = parse_or_die("rrc(32)");
  const OwnedImage image = make_image(3, 500, 375);
  int64_t position = 0;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.kind != "crop") continue;
    const SampleKey key{.seed = 42, .epoch = 1, .position = position++};
    EXPECT_EQ(plan_or_die(chain, {500, 375, 3}, key).source_region, golden.box);
    EXPECT_EQ(run_chain(chain, image, key), golden.result) << golden.line;
  }
  EXPECT_EQ(position, 3);
}

TEST(ResizeGolden, ResizeAndCenterCropFoldedGivePillowsPixels) {
  int cases = 0;
  for (const GoldenCase& golden : golden_cases()) {
    if (golden.kind != "val") continue;
    EXPECT_EQ(run_chain("resize(48) center_crop(40)", make_image(3, golden.width, golden.height), {}),
              golden.result)
        << golden.line;
    ++cases;
  }
  EXPECT_EQ(cases, 2);
}

}  // namespace
}  // namespace dlpipe::augment
