#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(Pad, GivesTorchvisionsPixels) {
  expect_golden("pad");
}

TEST(Pad, IsMirroredWithWhatItFrames) {
  const OwnedImage image = make_image(3, 20, 12);
  for (const char* mode : {"constant", "edge", "reflect"}) {
    const std::string pad = std::string("pad(3:1:5:9,") + mode + ")";
    EXPECT_EQ(run_chain(pad + " hflip(1)", image, {}), run_chain(pad, image, {}).mirrored()) << mode;
  }
}

TEST(Pad, RefusesOtherThanOneTwoOrFourWholeNumbers) {
  EXPECT_NE(parse_error("pad(1:2:3)").find("left:top:right:bottom"), std::string::npos);
  EXPECT_NE(parse_error("pad(1.5)").find("left:top:right:bottom"), std::string::npos);
  EXPECT_NE(parse_error("pad(-1)").find("pixels must be in 0..4096 pixels"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
