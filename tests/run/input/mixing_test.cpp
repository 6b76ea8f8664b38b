// A mixed batch as training input, and its loss.
#include <gtest/gtest.h>

#include <cmath>

#include "dlpipe/config.h"
#include "dlpipe/ops.h"
#include "run/input/batch_input.h"

namespace dlpipe::run {
namespace {

using engine::Tensor;

// Four samples of 2x2 grey pixels: 0 averaged with 1, a box of 1 from 2, 2 by itself, 3 left out.
struct MixedSamples {
  std::vector<FieldSpec> specs = {{"image", DType::kU8, {2, 2, 1}}, {"label", DType::kI64, {}}};
  std::vector<uint8_t> pixels = {0, 4, 8, 12, 100, 100, 60, 60, 20, 24, 28, 32, 0, 0, 0, 0};
  std::vector<int64_t> labels = {0, 1, 2, 9};
  std::vector<float> weight = {1, 1, 1, 0};
  BatchPrep prep;
  Batch batch;

  MixedSamples() {
    prep.scale.fill(0.5f);
    prep.bias.fill(1);
    prep.mix = {{1, 0.25f, {}}, {2, 0.75f, {1, 0, 1, 1}}, {}, {}};
    batch.count = 3;
    batch.capacity = 4;
    batch.fields = {{&specs[0], reinterpret_cast<std::byte*>(pixels.data()), {}},
                    {&specs[1], reinterpret_cast<std::byte*>(labels.data()), {}}};
    batch.weight = weight;
    batch.prep = &prep;
  }
};

Tensor logits_of_four() {
  const std::vector<float> values = {1, 0, -1, 0.5f, 2, 0.25f, -1, 0, 3, 7, 7, 7};
  Tensor logits = Tensor::from<float>(values, {4, 3});
  logits.set_requires_grad(true);
  return logits;
}

std::vector<double> log_softmax(const std::vector<double>& row) {
  double sum = 0;
  for (const double x : row) sum += std::exp(x);
  std::vector<double> out;
  for (const double x : row) out.push_back(x - std::log(sum));
  return out;
}

std::vector<double> row_of(const Tensor& x, size_t row) {
  const std::vector<double> all = x.to_doubles();
  return {all.begin() + static_cast<ptrdiff_t>(row * 3), all.begin() + static_cast<ptrdiff_t>(row * 3 + 3)};
}

// Of the three samples that count: label, partner's label, lambda.
struct Pair {
  size_t own, other;
  double lambda;
};
const Pair kPairs[] = {{0, 1, 0.25}, {1, 2, 0.75}, {2, 2, 1}};

TEST(MixedBatch, IsPixelsByHandAndTwoLabelsASample) {
  const MixedSamples samples;
  const BatchInput input = batch_input(samples.batch);
  // 0.25 own + 0.75 other, halved and 1 added; the box's pixel is 24 of sample 2.
  EXPECT_EQ(input.pixels.to_doubles(),
            (std::vector<double>{38.5, 39, 24.5, 25, 51, 13, 31, 31, 11, 13, 15, 17, 1, 1, 1, 1}));
  EXPECT_TRUE(input.is_mixed);
  EXPECT_EQ(input.target.to_doubles(), (std::vector<double>{0, 1, 2, 9, 1, 2, 2, 9}));
  EXPECT_EQ(input.weight.to_doubles(), (std::vector<double>{0.25, 0.75, 1, 0, 0.75, 0.25, 0, 0}));
  EXPECT_EQ(input.total_weight, 3);
}

TEST(MixedBatch, CrossEntropyIsThatOfBothLabels) {
  const MixedSamples samples;
  const BatchInput input = batch_input(samples.batch);
  const Tensor logits = logits_of_four();
  for (const double smoothing : {0.0, 0.1}) {
    double expected = 0;
    for (size_t n = 0; n < 3; ++n) {
      const std::vector<double> log_p = log_softmax(row_of(logits, n));
      const double all = log_p[0] + log_p[1] + log_p[2];
      const auto loss = [&](size_t label) { return -((1 - smoothing) * log_p[label] + smoothing / 3 * all); };
      const Pair& pair = kPairs[n];
      expected += (pair.lambda * loss(pair.own) + (1 - pair.lambda) * loss(pair.other)) / 3;
    }
    const LossRecord* record = *find_loss("cross_entropy");
    const Tensor loss = record->compute(input.rows(logits), input.target, input.weight, {smoothing});
    EXPECT_NEAR(loss.item(), expected, 1e-6);
  }
}

TEST(MixedBatch, GradientsAreTheOutputsLessTheMixedTarget) {
  const MixedSamples samples;
  const BatchInput input = batch_input(samples.batch);
  const Tensor logits = logits_of_four();
  (*find_loss("cross_entropy"))->compute(input.rows(logits), input.target, input.weight, {}).backward();
  for (size_t n = 0; n < 4; ++n) {
    const std::vector<double> log_p = log_softmax(row_of(logits, n)), grad = row_of(logits.grad(), n);
    for (size_t k = 0; k < 3; ++k) {
      double expected = 0;
      if (n < 3) {
        const Pair& pair = kPairs[n];
        const double target = (k == pair.own) * pair.lambda + (k == pair.other) * (1 - pair.lambda);
        expected = (std::exp(log_p[k]) - target) / 3;
      }
      EXPECT_NEAR(grad[k], expected, 1e-6) << n << " " << k;
    }
  }
}

TEST(MixedBatch, OtherLossesAreMixedAlike) {
  const MixedSamples samples;
  const BatchInput input = batch_input(samples.batch);
  const Tensor logits = logits_of_four();
  double expected = 0;
  for (size_t n = 0; n < 3; ++n) {
    const std::vector<double> row = row_of(logits, n);
    const auto loss = [&](size_t label) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) sum += (row[k] - (k == label)) * (row[k] - (k == label)) / 3;
      return sum;
    };
    const Pair& pair = kPairs[n];
    expected += (pair.lambda * loss(pair.own) + (1 - pair.lambda) * loss(pair.other)) / 3;
  }
  const LossRecord* mse = *find_loss("mse");
  EXPECT_NEAR(mse->compute(input.rows(logits), input.target, input.weight, {}).item(), expected, 1e-6);
}

TEST(MixedBatch, WithoutMixesRowsAreTheLogits) {
  MixedSamples samples;
  samples.prep.mix.clear();
  const BatchInput input = batch_input(samples.batch);
  EXPECT_FALSE(input.is_mixed);
  const Tensor logits = logits_of_four();
  EXPECT_EQ(input.rows(logits).raw(), logits.raw());
  EXPECT_EQ(input.target.size(0), 4);
}

TEST(MixedBatch, TokensAreRefused) {
  const auto cached = CachedBatch::random_tokens(4, 3, 9, 1);
  Batch batch = *value_or_throw(cached->next());
  BatchPrep prep;
  prep.mix.resize(4);
  batch.prep = &prep;
  EXPECT_THROW(batch_input(batch), Error);
}

TEST(MixedBatch, ABatchKeptToBeLearntByHeartIsNotMixed) {
  const MixedSamples samples;
  CachedBatch cached(samples.batch);
  EXPECT_FALSE(batch_input(*value_or_throw(cached.next())).is_mixed);
}

}  // namespace
}  // namespace dlpipe::run
