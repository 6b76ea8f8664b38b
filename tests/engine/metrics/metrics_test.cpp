#include "dlpipe/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dlpipe::engine {
namespace {

MetricSums make_sums(const std::vector<std::string>& names) {
  std::vector<const MetricRecord*> records;
  for (const std::string& name : names) records.push_back(value_or_throw(find_metric(name)));
  return MetricSums(records);
}

Tensor six_logits(std::initializer_list<float> values) {
  return Tensor::from<float>({values.begin(), values.size()}, {static_cast<int64_t>(values.size()) / 6, 6});
}
Tensor targets(std::initializer_list<int64_t> values) {
  return Tensor::from<int64_t>({values.begin(), values.size()}, {static_cast<int64_t>(values.size())});
}

TEST(Metrics, CountsTopOneAndTopFive) {
  MetricSums sums = make_sums({"top1", "top5"});
  sums.add(six_logits({5, 4, 3, 2, 1, 0, 5, 4, 3, 2, 1, 0, 5, 4, 3, 2, 1, 0}), targets({0, 4, 5}));
  EXPECT_EQ(sums.sum(0), 1.0);
  EXPECT_EQ(sums.sum(1), 2.0);
  EXPECT_EQ(sums.weight(), 3.0);
}

TEST(Metrics, PaddingDoesNotCount) {
  MetricSums sums = make_sums({"loss", "top1"});
  const float weights[] = {1, 0};
  sums.add(six_logits({1, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9}), targets({0, -7}),
           Tensor::from<float>(weights, {2}));
  EXPECT_EQ(sums.weight(), 1.0);
  EXPECT_EQ(sums.mean(1), 1.0);
  EXPECT_NEAR(sums.mean(0), std::log(std::exp(1.0) + 5.0) - 1.0, 1e-12);
}

TEST(Metrics, LossHoldsForLargeLogits) {
  const float logits[] = {10000.0f, 9999.0f};
  EXPECT_NEAR(cross_entropy_of(logits, 0), std::log1p(std::exp(-1.0)), 1e-9);
  EXPECT_NEAR(cross_entropy_of(logits, 1), 1.0 + std::log1p(std::exp(-1.0)), 1e-9);
}

TEST(Metrics, TiesGoToTheSmallerClass) {
  const float logits[] = {1, 1, 0};
  EXPECT_TRUE(in_top_k(logits, 0, 1));
  EXPECT_FALSE(in_top_k(logits, 1, 1));
  EXPECT_TRUE(in_top_k(logits, 1, 2));
}

TEST(Metrics, NanIsNeverRight) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float logits[] = {nan, nan};
  EXPECT_FALSE(in_top_k(logits, 0, 5));
  EXPECT_TRUE(std::isnan(cross_entropy_of(logits, 0)));
}

TEST(Metrics, NanStandsBeforeAllNumbers) {
  const float logits[] = {std::numeric_limits<float>::quiet_NaN(), 1, 0};
  EXPECT_FALSE(in_top_k(logits, 1, 1)) << "predict names class 0";
  EXPECT_TRUE(in_top_k(logits, 1, 2));
  EXPECT_FALSE(in_top_k(logits, 2, 2));
}

TEST(Metrics, TopFiveOfThreeClassesIsAlwaysRight) {
  const float logits[] = {0, 1, 2};
  EXPECT_TRUE(in_top_k(logits, 0, 5));
}

TEST(Metrics, ReadsBf16Logits) {
  Tensor logits = Tensor::full({1, 2}, 0.0, DType::kBF16);
  logits.data<BFloat16>()[1] = BFloat16(2.0f);
  MetricSums sums = make_sums({"top1"});
  sums.add(logits, targets({1}));
  EXPECT_EQ(sums.mean(0), 1.0);
}

TEST(Metrics, ReadsF16Logits) {
  Tensor logits = Tensor::full({1, 2}, 0.0, DType::kF16);
  logits.data<Float16>()[1] = Float16(2.0f);
  MetricSums sums = make_sums({"top1"});
  sums.add(logits, targets({1}));
  EXPECT_EQ(sums.mean(0), 1.0);
}

TEST(Metrics, RefusesClassesTheModelHasNot) {
  MetricSums sums = make_sums({"top1"});
  try {
    sums.add(six_logits({0, 0, 0, 0, 0, 0}), targets({6}));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("class 6 of sample 0 is outside the 6 logits"),
              std::string::npos);
  }
  EXPECT_THROW(sums.add(six_logits({0, 0, 0, 0, 0, 0}), targets({0, 1})), Error);
}

TEST(Metrics, AShareOfClassesIsOneOfSamples) {
  for (const MetricRecord& record : MetricRecord::built_in()) {
    if (record.task != std::string("classify")) continue;
    EXPECT_EQ(record.is_share, record.name != std::string(kLossMetric)) << record.name;
    EXPECT_EQ(record.lower_is_better, record.name == std::string(kLossMetric)) << record.name;
  }
}

TEST(Metrics, NamesSuggestTheNearest) {
  EXPECT_NE(find_metric("top2").status().message().find("did you mean 'top"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::engine
