#include "dlpipe/predictor.h"
#include "run/task/task.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dlpipe::run {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(TopClasses, TheLargestFirstTheSmallerNumberOfEqualOnesAndNanLast) {
  const std::vector<float> values = {1, 3, kNan, 3, -kInf, kNan};
  EXPECT_EQ(top_classes(values, 6), (std::vector<size_t>{1, 3, 0, 4, 2, 5}));
  EXPECT_EQ(top_classes(values, 2), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(top_classes(values, 9).size(), 6u);
}

TEST(Probabilities, AddUpWithoutOverflowAndAreNanWhereALogitIs) {
  const std::vector<double> equal = probabilities_of(std::vector<float>{3e38f, 3e38f});
  EXPECT_EQ(equal, (std::vector<double>{0.5, 0.5}));
  const std::vector<double> two = probabilities_of(std::vector<float>{0, std::log(3.0f)});
  EXPECT_NEAR(two[0], 0.25, 1e-7);
  EXPECT_NEAR(two[1], 0.75, 1e-7);
  EXPECT_TRUE(std::isnan(probabilities_of(std::vector<float>{0, kNan})[0]));
  EXPECT_TRUE(std::isnan(probabilities_of(std::vector<float>{0, kInf})[0]));
}

// Labels 0 0 1 2 2 2, taken for 0 1 1 1 2 and nothing: figures by hand.
ClassReport six_samples() {
  ClassReport report = value_or_throw(ClassReport::make(4));
  report.add(0, std::vector<float>{5, 1, 1, 1});
  report.add(0, std::vector<float>{1, 5, 1, 1});
  report.add(1, std::vector<float>{1, 5, 5, 1});  // the first of equal ones
  report.add(2, std::vector<float>{1, 5, 1, kNan});
  report.add(2, std::vector<float>{1, 1, 5, 1});
  report.add(2, std::vector<float>{kNan, kNan, kNan, kNan});
  return report;
}

TEST(ClassReport, CountsLabelsByWhatTheyWereTakenFor) {
  const ClassReport report = six_samples();
  const int64_t wanted[4][4] = {{1, 1, 0, 0}, {0, 1, 0, 0}, {0, 1, 1, 0}, {0, 0, 0, 0}};
  for (int64_t label = 0; label < 4; ++label) {
    for (int64_t c = 0; c < 4; ++c) EXPECT_EQ(report.count(label, c), wanted[label][c]) << label << " " << c;
  }
  EXPECT_EQ(report.undecided(), 1);
}

TEST(ClassReport, PrecisionRecallAndF1AreEachClasss) {
  const std::vector<ClassScore> scores = six_samples().scores();
  EXPECT_EQ(scores[0].support, 2);
  EXPECT_EQ(scores[1].support, 1);
  EXPECT_EQ(scores[2].support, 3);
  EXPECT_EQ(scores[1].predicted, 3);
  EXPECT_DOUBLE_EQ(scores[0].precision(), 1);
  EXPECT_DOUBLE_EQ(scores[0].recall(), 0.5);
  EXPECT_DOUBLE_EQ(scores[0].f1(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(scores[1].precision(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores[1].recall(), 1);
  EXPECT_DOUBLE_EQ(scores[1].f1(), 0.5);
  EXPECT_DOUBLE_EQ(scores[2].precision(), 1);
  EXPECT_DOUBLE_EQ(scores[2].recall(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(scores[3].precision() + scores[3].recall() + scores[3].f1(), 0);
}

TEST(ClassReport, MeansLeaveOutClassesWithoutSamples) {
  const ClassReport report = six_samples();
  EXPECT_DOUBLE_EQ(report.macro_mean().precision, (1 + 1.0 / 3 + 1) / 3);
  EXPECT_DOUBLE_EQ(report.macro_mean().recall, (0.5 + 1 + 1.0 / 3) / 3);
  EXPECT_DOUBLE_EQ(report.weighted_mean().precision, (2 * 1 + 1 * 1.0 / 3 + 3 * 1) / 6);
  EXPECT_DOUBLE_EQ(report.weighted_mean().f1, (2 * 2.0 / 3 + 1 * 0.5 + 3 * 0.5) / 6);
  EXPECT_EQ(value_or_throw(ClassReport::make(2)).macro_mean().recall, 0);
}

TEST(ClassReport, AMatrixOfTooManyClassesIsRefused) {
  EXPECT_TRUE(ClassReport::make(4096).ok());
  EXPECT_EQ(ClassReport::make(4097).status().code(), ErrorCode::kMisuse);
}

}  // namespace
}  // namespace dlpipe::run
