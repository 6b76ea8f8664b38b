#include "tests/augment/golden_ops.h"

namespace dlpipe::augment {
namespace {

TEST(PadTo, GivesTorchvisionsPixels) {
  expect_golden("pad_to");
}

TEST(PadTo, LeavesWhatIsLargeEnoughAlone) {
  EXPECT_TRUE(plan_or_die(parse_or_die("pad_to(10)"), {20, 12, 3}, {}).is_copy());
}

}  // namespace
}  // namespace dlpipe::augment
