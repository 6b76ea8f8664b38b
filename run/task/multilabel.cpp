// Labels that do not exclude each other. Each label has one output; the output's sigmoid is the label's probability.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "run/task/task.h"

namespace dlpipe::run {

namespace {

/// The probability from which F1 and predict count a label as present.
constexpr double kThreshold = 0.5;

bool holds_labels(const data::Dataset&, const data::Field& field) {
  return field.kind == data::FieldKind::kLabels && field.of.empty();
}

/// Logits and targets of all samples that count: K outputs, then K truths for each sample.
class LabelTally final : public Tally {
 public:
  void add(const engine::Tensor& outputs, const BatchInput& input) override {
    const engine::Tensor target = input.target.to(cpu_device()), weight = input.weight.to(cpu_device());
    const int64_t labels = outputs.size(1);
    for (int64_t n = 0; n < outputs.size(0); ++n) {
      if (weight.data<float>()[n] == 0) continue;
      const float* const logits = outputs.data<float>() + n * labels;
      const float* const truths = target.data<float>() + n * labels;
      values_.insert(values_.end(), logits, logits + labels);
      values_.insert(values_.end(), truths, truths + labels);
    }
    labels_ = labels;
  }
  std::string bytes() const override {
    std::string bytes(reinterpret_cast<const char*>(&labels_), sizeof labels_);
    if (!values_.empty())
      bytes.append(reinterpret_cast<const char*>(values_.data()), values_.size() * sizeof(float));
    return bytes;
  }

 private:
  int64_t labels_ = 0;
  std::vector<float> values_;
};

/// All samples' logits and truths of one label.
struct Label {
  std::vector<float> logits;
  std::vector<bool> is_there;

  int64_t count() const { return std::count(is_there.begin(), is_there.end(), true); }
};

std::vector<Label> labels_of(std::span<const std::string> tallies) {
  std::vector<Label> labels;
  for (const std::string& tally : tallies) {
    int64_t count = 0;
    std::memcpy(&count, tally.data(), sizeof count);
    if (count == 0) continue;
    const auto width = static_cast<size_t>(count);
    std::vector<float> values((tally.size() - sizeof count) / sizeof(float));
    std::memcpy(values.data(), tally.data() + sizeof count, values.size() * sizeof(float));
    labels.resize(width);
    for (size_t row = 0; row + 2 * width <= values.size(); row += 2 * width) {
      for (size_t k = 0; k < width; ++k) {
        labels[k].logits.push_back(values[row + k]);
        labels[k].is_there.push_back(values[row + width + k] > 0.5f);
      }
    }
  }
  return labels;
}

/// Sample numbers sorted from the largest logit, NaN last; equal ones keep their order.
std::vector<size_t> ranked(const Label& label) {
  std::vector<size_t> order(label.logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const bool a_is_nan = std::isnan(label.logits[a]), b_is_nan = std::isnan(label.logits[b]);
    if (a_is_nan || b_is_nan) return !a_is_nan && b_is_nan;
    return label.logits[a] > label.logits[b];
  });
  return order;
}

/// The samples with at least this logit: how many have the label (right) and how many do not (wrong).
struct Step {
  float logit;
  int64_t right, wrong;
};
std::vector<Step> steps_of(const Label& label) {
  std::vector<Step> steps;
  int64_t right = 0, wrong = 0;
  for (const size_t i : ranked(label)) {
    ++(label.is_there[i] ? right : wrong);
    const float logit = label.logits[i];
    const bool is_same = !steps.empty() && (steps.back().logit == logit || std::isnan(steps.back().logit));
    if (!is_same) steps.push_back({logit, 0, 0});
    steps.back().right = right;
    steps.back().wrong = wrong;
  }
  return steps;
}

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

/// The sum of (R_n - R_(n-1)) P_n over thresholds: scikit-learn's average_precision_score. NaN if the label does not occur.
double ranking_precision(const Label& label) {
  const auto positives = static_cast<double>(label.count());
  if (positives == 0) return kNoFigure;
  double sum = 0, before = 0;
  for (const Step& step : steps_of(label)) {
    const auto right = static_cast<double>(step.right);
    sum += (right - before) / positives * (right / static_cast<double>(step.right + step.wrong));
    before = right;
  }
  return sum;
}

/// Of all pairs of a sample with the label and a sample without it, the share where the former has the larger logit. Equal logits
/// count half. NaN if there is no such pair.
double area_under_roc(const Label& label) {
  const int64_t positives = label.count(), negatives = static_cast<int64_t>(label.logits.size()) - positives;
  if (positives == 0 || negatives == 0) return kNoFigure;
  double area = 0;
  int64_t right = 0, wrong = 0;
  for (const Step& step : steps_of(label)) {
    area += static_cast<double>(step.wrong - wrong) *
            (static_cast<double>(right) + static_cast<double>(step.right)) / 2;
    right = step.right;
    wrong = step.wrong;
  }
  return area / (static_cast<double>(positives) * static_cast<double>(negatives));
}

struct Counts {
  int64_t right = 0, predicted = 0, there = 0;
  double f1() const {
    return predicted + there == 0 ? 0
                                  : 2 * static_cast<double>(right) / static_cast<double>(predicted + there);
  }
};

Counts counts_at_threshold(const Label& label) {
  Counts counts;
  for (size_t i = 0; i < label.logits.size(); ++i) {
    const bool is_predicted = label.logits[i] >= 0;  // sigmoid >= kThreshold
    counts.predicted += is_predicted;
    counts.there += label.is_there[i];
    counts.right += is_predicted && label.is_there[i];
  }
  return counts;
}

/// The threshold of the best F1, as a probability, and that F1.
std::pair<double, double> best_threshold(const Label& label) {
  std::pair<double, double> best = {kThreshold, 0};
  const int64_t there = label.count();
  for (const Step& step : steps_of(label)) {
    const double f1 = Counts{step.right, step.right + step.wrong, there}.f1();
    if (f1 > best.second) best = {sigmoid(static_cast<double>(step.logit)), f1};
  }
  return best;
}

std::vector<double> judge_labels(std::span<const std::string> tallies,
                                 const std::vector<const engine::MetricRecord*>& metrics, const TaskState&) {
  const std::vector<Label> labels = labels_of(tallies);
  std::vector<double> values;
  for (const engine::MetricRecord* metric : metrics) {
    const std::string_view name = metric->name;
    if (name == "map") {
      values.push_back(mean_of(labels, ranking_precision));
    } else if (name == "auroc") {
      values.push_back(mean_of(labels, area_under_roc));
    } else if (name == "macro_f1") {
      values.push_back(mean_of(labels, [](const Label& label) { return counts_at_threshold(label).f1(); }));
    } else if (name == "micro_f1") {
      Counts all;
      for (const Label& label : labels) {
        const Counts counts = counts_at_threshold(label);
        all.right += counts.right;
        all.predicted += counts.predicted;
        all.there += counts.there;
      }
      values.push_back(all.f1());
    } else {
      values.push_back(0);  // the loss, which is computed elsewhere
    }
  }
  return values;
}

TaskReport label_report(std::span<const std::string> tallies, const TaskState&,
                        std::span<const std::string> names) {
  TaskReport report{{"samples", "AP", "AUROC", "F1", "best threshold", "its F1"}, {}};
  const std::vector<Label> labels = labels_of(tallies);
  for (size_t k = 0; k < labels.size(); ++k) {
    const auto [threshold, f1] = best_threshold(labels[k]);
    report.rows.emplace_back(
        names[k],
        std::vector<double>{static_cast<double>(labels[k].count()), ranking_precision(labels[k]),
                            area_under_roc(labels[k]), counts_at_threshold(labels[k]).f1(), threshold, f1});
  }
  return report;
}

}  // namespace

extern const TaskRecord multilabel_task;
const TaskRecord multilabel_task = {
    .name = "multilabel",
    .help = "any number of labels for each image, from a field of labels (--field NAME:labels)",
    .loss = "bce",
    .metrics =
        [] {
          return std::vector<std::string>{"map", "macro_f1", "micro_f1", "auroc"};
        },
    .what = "labels",
    .suits = holds_labels,
    .bind = [](const data::Dataset& dataset, std::span<const data::Field> fields, std::span<const int64_t>,
               std::vector<std::string>& names) -> Result<TaskState> {
      names.assign(dataset.classes().begin(), dataset.classes().end());
      return TaskState{.name = "multilabel", .fields = {fields[0].name}};
    },
    .target =
        [](const TaskState& state, int64_t outputs) {
          return TargetSpec{.form = TargetSpec::Form::kMultiHot, .fields = state.fields, .outputs = outputs};
        },
    .tally = [](const std::vector<const engine::MetricRecord*>&, const TaskState&) -> std::unique_ptr<Tally> {
      return std::make_unique<LabelTally>();
    },
    .judge = judge_labels,
    .report = label_report,
    .answers =
        [](std::span<const float> outputs, const TaskState&) {
          std::vector<double> probabilities;
          for (const float logit : outputs) probabilities.push_back(sigmoid(static_cast<double>(logit)));
          return probabilities;
        },
    .weighed = Weighed::kLabels,
};

}  // namespace dlpipe::run
