// The report of an evaluation against scikit-learn's.
#include <gtest/gtest.h>

#include <limits>

#include "dlpipe/predictor.h"
#include "tests/parity/golden.h"

namespace dlpipe::engine::parity {

constexpr int64_t kClasses = 7;

static run::ClassReport report_of(const std::vector<double>& labels, const std::vector<double>& predicted) {
  run::ClassReport report = value_or_throw(run::ClassReport::make(kClasses));
  for (size_t i = 0; i < labels.size(); ++i) {
    std::vector<float> logits(kClasses, -1.0f);
    logits[static_cast<size_t>(predicted[i])] = 1.0f;
    report.add(static_cast<int64_t>(labels[i]), logits);
  }
  return report;
}

TEST(ReportParity, ScoresAndMeansAreScikitLearns) {
  constexpr double kTolerance = 1e-8;  // the file has nine digits
  const Golden golden("report");
  const run::ClassReport report = report_of(golden.at("labels"), golden.at("predicted"));
  const std::vector<run::ClassScore> scores = report.scores();
  for (size_t c = 0; c < scores.size(); ++c) {
    EXPECT_NEAR(scores[c].precision(), golden.at("precision")[c], kTolerance) << c;
    EXPECT_NEAR(scores[c].recall(), golden.at("recall")[c], kTolerance) << c;
    EXPECT_NEAR(scores[c].f1(), golden.at("f1")[c], kTolerance) << c;
    EXPECT_EQ(static_cast<double>(scores[c].support), golden.at("support")[c]) << c;
    const std::vector<double>& row = golden.at("confusion." + std::to_string(c));
    for (size_t p = 0; p < row.size(); ++p)
      EXPECT_EQ(static_cast<double>(report.count(static_cast<int64_t>(c), static_cast<int64_t>(p))), row[p]);
  }
  for (const auto& [name, means] :
       {std::pair("macro", report.macro_mean()), {"weighted", report.weighted_mean()}}) {
    EXPECT_NEAR(means.precision, golden.at(name)[0], kTolerance) << name;
    EXPECT_NEAR(means.recall, golden.at(name)[1], kTolerance) << name;
    EXPECT_NEAR(means.f1, golden.at(name)[2], kTolerance) << name;
  }
}

TEST(ReportParity, LogitsThatAreNaNComeLastAndAllOfThemDecideNothing) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  run::ClassReport report = value_or_throw(run::ClassReport::make(3));
  report.add(0, std::vector<float>{kNaN, -2.0f, -3.0f});
  report.add(0, std::vector<float>{kNaN, kNaN, kNaN});
  report.add(2, std::vector<float>{1.0f, 1.0f, 1.0f});  // the first of equal ones
  EXPECT_EQ(report.count(0, 1), 1);
  EXPECT_EQ(report.count(2, 0), 1);
  EXPECT_EQ(report.undecided(), 1);
  EXPECT_EQ(report.scores()[0].support, 2);
  EXPECT_FALSE(run::ClassReport::make(1'000'000).ok());
}

}  // namespace dlpipe::engine::parity
