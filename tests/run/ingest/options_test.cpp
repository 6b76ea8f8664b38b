#include "run/ingest/options.h"
#include "dlpipe/ingest.h"

#include <gtest/gtest.h>

namespace dlpipe::ingest {
namespace {

using Colour = std::array<uint8_t, 3>;

TEST(IngestOptions, ABackgroundIsANameOrSixDigits) {
  EXPECT_EQ(value_or_throw(parse_background("white")), (Colour{255, 255, 255}));
  EXPECT_EQ(value_or_throw(parse_background("black")), (Colour{0, 0, 0}));
  EXPECT_EQ(value_or_throw(parse_background("#12Ab0f")), (Colour{0x12, 0xab, 0x0f}));
  for (const char* wrong : {"", "red", "12ab0f", "#12ab0", "#12ab0f0", "#12ab0g", "x12ab0f"})
    EXPECT_EQ(parse_background(wrong).status().code(), ErrorCode::kMisuse) << wrong;
}

TEST(IngestOptions, ASplitIsTwoOrThreeFractionsOfAll) {
  EXPECT_EQ(value_or_throw(parse_split("0.9,0.1")), (std::vector<double>{0.9, 0.1}));
  EXPECT_EQ(value_or_throw(parse_split("0.5, 0.25,0.25")), (std::vector<double>{0.5, 0.25, 0.25}));
  for (const char* wrong :
       {"", "1", "0.9,0.2", "0.4,0.2,0.2,0.2", "1,0", "1.5,-0.5", "0.9,x,0.1", "x,0.9,0.1"})
    EXPECT_EQ(parse_split(wrong).status().code(), ErrorCode::kMisuse) << wrong;
}

}  // namespace
}  // namespace dlpipe::ingest
