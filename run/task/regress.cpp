// Numbers. The model learns targets minus their mean, divided by their standard deviation, both from the training data.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "io/data/sample.h"
#include "io/data/schema.h"
#include "run/task/task.h"

namespace dlpipe::run {

namespace {

bool is_row(const data::Field& field) {
  return field.kind == data::FieldKind::kTensor && data::fixed_field_bytes(field) && field.of.empty() &&
         field.shape.rank() <= 1 && field.shape.elements() > 0;
}
bool holds_numbers(const data::Dataset&, const data::Field& field) {
  return is_row(field) && field.dtype == DType::kF32;
}
/// Numbers of other dtypes are often no targets, but identifiers or folds.
bool holds_other_numbers(const data::Dataset&, const data::Field& field) {
  return is_row(field) && field.name != data::kFoldField;
}

/// The mean and the standard deviation of each element of `field`, over `samples`.
Status add_statistics(const data::Dataset& dataset, const data::Field& field,
                      std::span<const int64_t> samples, TaskState& state) {
  const auto width = static_cast<size_t>(field.shape.elements());
  std::vector<double> mean(width), squares(width);
  DLPIPE_ASSIGN_OR_RETURN(const auto reader, dataset.reader());
  for (size_t n = 0; n < samples.size(); ++n) {
    DLPIPE_ASSIGN_OR_RETURN(const auto record, data::record_without_image(dataset, *reader, samples[n]));
    DLPIPE_ASSIGN_OR_RETURN(const auto bytes, data::field_bytes(dataset, record, field.name));
    const size_t size = dtype_size(field.dtype);
    for (size_t i = 0; i < width && (i + 1) * size <= bytes.size(); ++i) {
      const double value = target_number(bytes.data() + i * size, field.dtype);
      // Welford, 1962.
      const double distance = value - mean[i];
      mean[i] += distance / static_cast<double>(n + 1);
      squares[i] += distance * (value - mean[i]);
    }
  }
  for (size_t i = 0; i < width; ++i) {
    const double deviation = std::sqrt(squares[i] / static_cast<double>(std::max<size_t>(samples.size(), 1)));
    if (!std::isfinite(mean[i]) || !std::isfinite(deviation))
      return misuse("train", "field ", field.name, " of ", dataset.directory(),
                    " has numbers that are not finite");
    state.mean.push_back(mean[i]);
    state.deviation.push_back(deviation > 0 ? deviation : 1);  // 0 if all targets are the same
  }
  return {};
}

/// The sums for each target, in units of its deviation: the number of samples, then |e|, e^2, y and y^2.
constexpr size_t kSums = 5;

class NumberTally final : public Tally {
 public:
  void add(const engine::Tensor& outputs, const BatchInput& input) override {
    const engine::Tensor target = input.target.to(cpu_device()), weight = input.weight.to(cpu_device());
    const auto width = static_cast<size_t>(outputs.size(1));
    sums_.resize(kSums * width);
    for (int64_t n = 0; n < outputs.size(0); ++n) {
      if (weight.data<float>()[n] == 0) continue;
      for (size_t k = 0; k < width; ++k) {
        const auto at = n * outputs.size(1) + static_cast<int64_t>(k);
        const double y = target.data<float>()[at], error = outputs.data<float>()[at] - y;
        double* const sums = &sums_[kSums * k];
        sums[0] += 1;
        sums[1] += std::fabs(error);
        sums[2] += error * error;
        sums[3] += y;
        sums[4] += y * y;
      }
    }
  }
  std::string bytes() const override { return bytes_of(sums_); }

 private:
  std::vector<double> sums_;
};

struct Figures {
  double mae = 0, rmse = 0, r2 = 0;
};

std::vector<Figures> figures_of(std::span<const std::string> tallies, const TaskState& state) {
  const size_t width = state.mean.size();
  std::vector<double> all(kSums * width);
  for (const std::string& tally : tallies) {
    const std::vector<double> sums = doubles_of(tally);
    for (size_t i = 0; i < std::min(all.size(), sums.size()); ++i) all[i] += sums[i];
  }
  std::vector<Figures> figures(width);
  for (size_t k = 0; k < width; ++k) {
    const double* const sums = &all[kSums * k];
    const double n = sums[0];
    if (n == 0) continue;
    const double variance = sums[4] - sums[3] * sums[3] / n;  // n times the variance
    figures[k].mae = sums[1] / n * state.deviation[k];
    figures[k].rmse = std::sqrt(sums[2] / n) * state.deviation[k];
    // If all targets are the same, the result is that of scikit-learn's r2_score.
    figures[k].r2 = variance > 0 ? 1 - sums[2] / variance : sums[2] == 0 ? 1 : 0;
  }
  return figures;
}

std::vector<double> judge_numbers(std::span<const std::string> tallies,
                                  const std::vector<const engine::MetricRecord*>& metrics,
                                  const TaskState& state) {
  const std::vector<Figures> figures = figures_of(tallies, state);
  const auto mean = [&](double Figures::*figure) {
    double sum = 0;
    for (const Figures& each : figures) sum += each.*figure;
    return figures.empty() ? 0 : sum / static_cast<double>(figures.size());
  };
  std::vector<double> values;
  for (const engine::MetricRecord* metric : metrics) {
    const std::string_view name = metric->name;
    values.push_back(name == "mae"    ? mean(&Figures::mae)
                     : name == "rmse" ? mean(&Figures::rmse)
                     : name == "r2"   ? mean(&Figures::r2)
                                      : 0);  // the loss, which is computed elsewhere
  }
  return values;
}

}  // namespace

extern const TaskRecord regress_task;
const TaskRecord regress_task = {
    .name = "regress",
    .help = "one number or several for each image, from fields of numbers (--field NAME:number)",
    .loss = "mse",
    .metrics =
        [] {
          return std::vector<std::string>{"mae", "rmse", "r2"};
        },
    .what = "numbers",
    .suits = holds_numbers,
    .can_learn = holds_other_numbers,
    .learns_several = true,
    .bind = [](const data::Dataset& dataset, std::span<const data::Field> fields,
               std::span<const int64_t> samples, std::vector<std::string>& names) -> Result<TaskState> {
      TaskState state{.name = "regress"};
      for (const data::Field& field : fields) {
        state.fields.push_back(field.name);
        const int64_t count = field.shape.elements();
        for (int64_t i = 0; i < count; ++i)
          names.push_back(count == 1 ? field.name : concat(field.name, "[", i, "]"));
        DLPIPE_RETURN_IF_ERROR(add_statistics(dataset, field, samples, state));
      }
      return state;
    },
    .target =
        [](const TaskState& state, int64_t outputs) {
          return TargetSpec{.form = TargetSpec::Form::kNumbers,
                            .fields = state.fields,
                            .outputs = outputs,
                            .mean = state.mean,
                            .deviation = state.deviation};
        },
    .tally = [](const std::vector<const engine::MetricRecord*>&, const TaskState&) -> std::unique_ptr<Tally> {
      return std::make_unique<NumberTally>();
    },
    .judge = judge_numbers,
    .report =
        [](std::span<const std::string> tallies, const TaskState& state, std::span<const std::string> names) {
          TaskReport report{{"MAE", "RMSE", "R2", "mean", "deviation"}, {}};
          const std::vector<Figures> figures = figures_of(tallies, state);
          for (size_t k = 0; k < figures.size(); ++k)
            report.rows.emplace_back(
                names[k], std::vector<double>{figures[k].mae, figures[k].rmse, figures[k].r2, state.mean[k],
                                              state.deviation[k]});
          return report;
        },
    .answers =
        [](std::span<const float> outputs, const TaskState& state) {
          std::vector<double> numbers;
          for (size_t k = 0; k < outputs.size(); ++k)
            numbers.push_back(static_cast<double>(outputs[k]) * state.deviation.at(k) + state.mean.at(k));
          return numbers;
        },
    .names_classes = false,
    .weighed = Weighed::kNothing,
    .targets_may_be_places = true,
};

}  // namespace dlpipe::run
