#include "run/task/task.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dlpipe::run {
namespace {

using engine::Tensor;

constexpr int64_t kRows = 40, kLabels = 5;

/// Between -3 and 3 in steps of a quarter, so that some are equal; make_golden.py has the same.
std::vector<float> numbers(uint32_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * kLabels; ++i) {
    seed = seed * 1664525 + 1013904223;
    values.push_back(static_cast<float>((seed >> 16) % 25) / 4 - 3);
  }
  return values;
}

Tensor table(const std::vector<float>& values) {
  return Tensor::from(std::span<const float>(values), {kRows, kLabels});
}

/// A label in the fourth column that does not occur, and one in the fifth that all samples have.
Tensor truths() {
  std::vector<float> values = numbers(2);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i % kLabels == 3 ? 0.0f : i % kLabels == 4 ? 1.0f : values[i] > 0.5f ? 1.0f : 0.0f;
  return table(values);
}

Tensor weights() {
  std::vector<float> values;
  for (int64_t i = 0; i < kRows; ++i) values.push_back(i % 7 == 3 ? 0.0f : 1.0f);
  return Tensor::from(std::span<const float>(values), {kRows});
}

std::vector<const engine::MetricRecord*> metrics_called(const std::vector<std::string>& names) {
  std::vector<const engine::MetricRecord*> metrics;
  for (const std::string& name : names) metrics.push_back(value_or_throw(engine::find_metric(name)));
  return metrics;
}

/// The metrics of a task, of rows [0, 13), [13, 13) and [13, 40) as tallies of their own.
std::vector<double> judged(const TaskRecord& task, const Tensor& outputs, const Tensor& target,
                           const TaskState& state) {
  const auto metrics = metrics_called(task.metrics());
  std::vector<std::string> tallies;
  for (const auto& range : {std::pair<int64_t, int64_t>{0, 13}, {13, 13}, {13, kRows}}) {
    const int64_t begin = range.first, end = range.second;
    const auto tally = task.tally(metrics, state);
    BatchInput input;
    if (begin < end) {
      const auto rows = [&](const Tensor& x) { return engine::slice(x, 0, begin, end).contiguous_copy(); };
      input.target = rows(target);
      input.weight = rows(weights());
      tally->add(rows(outputs), input);
    }
    tallies.push_back(tally->bytes());
  }
  return task.judge(tallies, metrics, state);
}

// The figures of scikit-learn and PyTorch: make_golden.py prints them.

TEST(Multilabel, MetricsAreThoseOfScikitLearn) {
  const TaskRecord& task = *value_or_throw(TaskRegistry::builtin().find("multilabel"));
  const std::vector<double> values = judged(task, table(numbers(1)), truths(), {});
  ASSERT_EQ(values.size(), 4u);
  EXPECT_NEAR(values[0], 0.628227753, 1e-8);
  EXPECT_NEAR(values[1], 0.429225869, 1e-8);
  EXPECT_NEAR(values[2], 0.488372093, 1e-8);
  EXPECT_NEAR(values[3], 0.517261905, 1e-8);
}

TEST(Regress, MetricsAreThoseOfScikitLearnInTheDatasUnits) {
  const TaskRecord& task = *value_or_throw(TaskRegistry::builtin().find("regress"));
  std::vector<float> outputs = numbers(1);
  for (float& value : outputs) value = value * 1.5f + 0.25f;
  const TaskState state{.name = "regress",
                        .fields = {"a"},
                        .mean = std::vector<double>(kLabels, 1.0),
                        .deviation = std::vector<double>(kLabels, 2.0)};
  const std::vector<double> values = judged(task, table(outputs), table(numbers(3)), state);
  ASSERT_EQ(values.size(), 3u);
  EXPECT_NEAR(values[0], 5.550000191, 1e-5);
  EXPECT_NEAR(values[1], 6.600697994, 1e-5);
  EXPECT_NEAR(values[2], -2.608824253, 1e-6);
  EXPECT_NEAR(task.answers(std::vector<float>(kLabels, 0.5f), state)[0], 2, 1e-12);
}

TEST(Multilabel, NotANumberIsLastAndNoMetricFails) {
  const TaskRecord& task = *value_or_throw(TaskRegistry::builtin().find("multilabel"));
  std::vector<float> logits = numbers(1);
  for (size_t i = 0; i < logits.size(); i += 3) logits[i] = std::nanf("");
  for (const double value : judged(task, table(logits), truths(), {})) {
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 1);
  }
}

TEST(Multilabel, AReportHasTheBestThresholdOfEachLabel) {
  const TaskRecord& task = *value_or_throw(TaskRegistry::builtin().find("multilabel"));
  // Logits 2 1 0 -1 with the label there, there, not there, there: from 1 upwards two of two are right, from -1 three of four.
  const std::vector<float> logits = {2, 1, 0, -1}, there = {1, 1, 0, 1};
  BatchInput input;
  input.target = Tensor::from(std::span<const float>(there), {4, 1});
  input.weight = Tensor::full({4}, 1);
  const auto tally = task.tally({}, {});
  tally->add(Tensor::from(std::span<const float>(logits), {4, 1}), input);
  const std::vector<std::string> tallies = {tally->bytes()}, names = {"cat"};
  const TaskReport report = task.report(tallies, {}, names);
  ASSERT_EQ(report.rows.size(), 1u);
  EXPECT_EQ(report.rows[0].first, "cat");
  const std::vector<double>& row = report.rows[0].second;
  EXPECT_EQ(row[0], 3);
  EXPECT_NEAR(row[4], 1 / (1 + std::exp(1.0)), 1e-9);  // 2 * 3 / (4 + 3) is more than 2 * 2 / (2 + 3)
  EXPECT_NEAR(row[5], 6.0 / 7, 1e-12);
}

struct LossCase {
  const char* name;
  LossArguments arguments;
  bool are_labels;
  double value, gradients,
      gradient;  // the sum of the gradients' absolute values, and that of output 2 of row 1
};

class TaskLoss : public testing::TestWithParam<LossCase> {};

TEST_P(TaskLoss, ValueAndGradientAreThoseOfPyTorch) {
  const LossCase& c = GetParam();
  const Tensor outputs = table(numbers(1)).set_requires_grad(true);
  const Tensor loss =
      (*find_loss(c.name))
          ->compute(outputs, c.are_labels ? truths() : table(numbers(3)), weights(), c.arguments);
  loss.backward();
  EXPECT_NEAR(loss.item(), c.value, 2e-6);
  double sum = 0;
  for (const double value : outputs.grad().to_doubles()) sum += std::fabs(value);
  EXPECT_NEAR(sum, c.gradients, 2e-5);
  EXPECT_NEAR(outputs.grad().to_doubles()[kLabels + 2], c.gradient, 1e-6);
  for (const int64_t row : {3, 10})  // of weight 0
    EXPECT_EQ(outputs.grad().to_doubles()[static_cast<size_t>(row * kLabels)], 0);
}

INSTANTIATE_TEST_SUITE_P(
    OfPyTorch, TaskLoss,
    testing::Values(
        LossCase{"bce", {}, true, 1.075548410, 0.508672655, 0.000278976},
        LossCase{"bce", {.pos_weight = 3}, true, 2.050977707, 0.981207252, 0.000278976},
        LossCase{"focal", {}, true, 0.380429029, 0.249291152, 0.000001389},
        LossCase{
            "focal", {.focal_gamma = 1.5, .focal_alpha = -1}, true, 0.778646588, 0.487873644, 0.000007099},
        LossCase{"asymmetric", {}, true, 0.579353929, 0.371347517, 0},
        LossCase{"mse", {}, false, 6.665073395, 4.226470947, -0.029411765},
        LossCase{"l1", {}, false, 2.113235235, 0.952941239, -0.005882353},
        LossCase{"smooth_l1", {.beta = 0.5}, false, 1.880882382, 0.905882359, -0.005882353},
        LossCase{"huber", {.beta = 0.5}, false, 0.940441191, 0.452941179, -0.002941177}),
    [](const auto& info) { return std::string(info.param.name) + std::to_string(info.index); });

TEST(TaskLoss, BceHasTheRightGradientAtZero) {
  const Tensor outputs = Tensor::zeros({1, 2}).set_requires_grad(true);
  const std::vector<float> there = {1, 0};
  (*find_loss("bce"))
      ->compute(outputs, Tensor::from(std::span<const float>(there), {1, 2}), Tensor(), {})
      .backward();
  EXPECT_EQ(outputs.grad().to_doubles(), (std::vector<double>{-0.25, 0.25}));
}

TEST(Tasks, ALossOrMetricOfAnotherTaskIsRefused) {
  TrainConfig config;
  config.loss = "bce";
  const Status loss =
      with_task(config, *value_or_throw(TaskRegistry::builtin().find("regress")), {}).status();
  EXPECT_EQ(loss.code(), ErrorCode::kMisuse);
  EXPECT_NE(loss.message().find("--task multilabel"), std::string::npos) << loss.message();
  config.loss = "auto";
  config.metrics = {"top1"};
  EXPECT_EQ(
      with_task(config, *value_or_throw(TaskRegistry::builtin().find("multilabel")), {}).status().code(),
      ErrorCode::kMisuse);
  config.metrics = {"loss", "map"};
  const TrainConfig resolved =
      value_or_throw(with_task(config, *value_or_throw(TaskRegistry::builtin().find("multilabel")), {}));
  EXPECT_EQ(resolved.loss, "bce");
  EXPECT_EQ(resolved.pos_weight, 1.0);
}

TEST(Tasks, ANameThatIsNoneIsRefusedWithTheNearest) {
  const Status status = TaskRegistry::builtin().find("multilable").status();
  EXPECT_NE(status.message().find("multilabel"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace dlpipe::run
