#include "tests/augment/chain_testing.h"

namespace dlpipe::augment {
namespace {

constexpr ChannelStats kStats{.channels = 3, .mean = {0.5, 0.25, 0.125}, .std = {0.25, 0.5, 0.0}};

float normalized(const BatchPrep& prep, int channel, int value) {
  return prep.scale[channel] * static_cast<float>(value) + prep.bias[channel];
}

TEST(Normalize, TakesItsArgumentsPerChannel) {
  BatchPrep prep;
  const Chain chain = parse_or_die("rrc(224) normalize(mean=0.485:0.456:0.406, std=0.229:0.224:0.225)");
  ASSERT_TRUE(chain.fill_prep(prep).ok());
  EXPECT_NEAR(normalized(prep, 0, 255), (1 - 0.485) / 0.229, 1e-6);  // float rounding of scale and bias
  EXPECT_NEAR(normalized(prep, 1, 0), -0.456 / 0.224, 1e-6);
  EXPECT_NEAR(normalized(prep, 2, 100), (100 / 255.0 - 0.406) / 0.225, 1e-6);
}

TEST(Normalize, WithoutArgumentsTakesTheDataSets) {
  BatchPrep prep;
  ASSERT_TRUE(parse_or_die("normalize").fill_prep(prep, kStats).ok());
  EXPECT_NEAR(normalized(prep, 0, 255), (1 - 0.5) / 0.25, 1e-6);
  EXPECT_NEAR(normalized(prep, 1, 51), (0.2 - 0.25) / 0.5, 1e-6);
}

TEST(Normalize, AGreyDataSetsServeAllChannels) {
  constexpr ChannelStats kGrey{.channels = 1, .mean = {0.5}, .std = {0.25}};
  BatchPrep prep;
  ASSERT_TRUE(parse_or_die("normalize").fill_prep(prep, kGrey).ok());
  for (int c = 0; c < BatchPrep::kMaxChannels; ++c)
    EXPECT_NEAR(normalized(prep, c, 255), (1 - 0.5) / 0.25, 1e-6) << c;
  ASSERT_TRUE(parse_or_die("normalize(mean=0.25)").fill_prep(prep, kGrey).ok());
  EXPECT_NEAR(normalized(prep, 2, 255), (1 - 0.25) / 0.25, 1e-6);
}

TEST(Normalize, AChannelThatNeverChangesIsCentredAlone) {
  BatchPrep prep;
  ASSERT_TRUE(parse_or_die("normalize").fill_prep(prep, kStats).ok());
  EXPECT_NEAR(normalized(prep, 2, 255), 1 - 0.125, 1e-6);
}

TEST(Normalize, OneValueServesAllChannelsAndHalfMayBeTheDataSets) {
  BatchPrep prep;
  ASSERT_TRUE(parse_or_die("normalize(mean=0.5)").fill_prep(prep, kStats).ok());
  EXPECT_NEAR(normalized(prep, 1, 255), (1 - 0.5) / 0.5, 1e-6);
  ASSERT_TRUE(parse_or_die("normalize(0.5, 0.5)").fill_prep(prep).ok());
  EXPECT_NEAR(normalized(prep, 0, 0), -1, 1e-6);
}

TEST(Normalize, SaysWhenTheDataSetsAreNotKnown) {
  BatchPrep prep;
  EXPECT_EQ(parse_or_die("normalize").fill_prep(prep).message(),
            "[augment] normalize(mean=none,std=none): the dataset's mean and std are unknown; write "
            "normalize(mean=r:g:b,std=r:g:b)");
}

TEST(Normalize, TouchesNoPixel) {
  const OwnedImage image = noise_image(6, 4);
  EXPECT_EQ(run_chain("normalize(0.5,0.5) cast(bf16)", image, {}), image);
}

TEST(Normalize, RefusesAStdThatMakesPixelsInfinite) {
  BatchPrep prep;
  EXPECT_TRUE(parse_or_die("normalize(0, 0.00001)").fill_prep(prep).ok());
  EXPECT_TRUE(parse_or_die("normalize(0, 0.00001) cast(bf16)").fill_prep(prep).ok());
  const Status small = parse_or_die("normalize(0, 0.00001) cast(f16)").fill_prep(prep);
  EXPECT_EQ(small.code(), ErrorCode::kMisuse);
  EXPECT_NE(small.message().find("channel 0 is so small that pixels exceed the range of f16"),
            std::string::npos)
      << small.message();
  for (const char* tiny : {"normalize(0, 1e-39)", "normalize(1, 1e-39)", "normalize(0.5, 1e-300)"})
    EXPECT_EQ(parse_or_die(tiny).fill_prep(prep).code(), ErrorCode::kMisuse) << tiny;
  EXPECT_NE(parse_or_die("normalize(0:0:0, 1:1:1e-40)").fill_prep(prep).message().find("channel 2"),
            std::string::npos);
}

TEST(Normalize, RefusesValuesOnTheScaleOfBytes) {
  EXPECT_NE(parse_error("normalize(mean=123:117:104, std=1)").find("divide it by 255"), std::string::npos);
  EXPECT_NE(parse_error("normalize(mean=0.5:0.4, std=1)").find("got 2"), std::string::npos);
  EXPECT_NE(parse_error("normalize(0.5, 58)").find("divide it by 255"), std::string::npos);
  EXPECT_NE(parse_error("normalize(0.5, 0)").find("must be positive"), std::string::npos);
  EXPECT_NE(parse_error("normalize(0.5:0.5:0.5, 0.2:0.2)").find("give the same number of each"),
            std::string::npos);
  EXPECT_NE(parse_error("normalize(1:1:1:1:1)").find("one per channel"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::augment
