#include "run/task/task.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "io/data/schema.h"
#include "run/config/choices.h"
#include "run/input/box_coding.h"

namespace dlpipe::run {

extern const TaskRecord classify_task, multilabel_task, regress_task, segment_task, detect_task;

namespace {

constexpr std::array<const TaskRecord*, 5> kTasks = {&classify_task, &multilabel_task, &regress_task,
                                                     &segment_task, &detect_task};

bool every_sample_has_a_class(const data::Dataset& dataset) {
  const std::span<const int64_t> counts = dataset.class_counts();
  return dataset.size() > 0 && std::accumulate(counts.begin(), counts.end(), int64_t{0}) == dataset.size();
}

/// How many fields of `dataset` the task could learn. Exactly one means that the choice of the field is clear.
int64_t candidates(const TaskRecord& task, const data::Dataset& dataset) {
  if (task.suits == nullptr) return every_sample_has_a_class(dataset) ? 1 : 0;
  return std::ranges::count_if(dataset.fields(),
                               [&](const data::Field& field) { return task.suits(dataset, field); });
}

}  // namespace

std::span<const TaskRecord* const> TaskRecord::built_in() {
  return kTasks;
}

const TaskRecord& task_of(const TaskState& state) {
  return *value_or_throw(TaskRegistry::builtin().find(state.name));
}

bool is_for(const char* tasks, std::string_view task) {
  const std::vector<std::string> names = split(tasks, ',');
  return std::ranges::any_of(names, [&](const std::string& name) { return trim(name) == task; });
}

Result<const TaskRecord*> choose_task(const TrainConfig& config, const data::Dataset& dataset) {
  if (config.task != "auto") return TaskRegistry::builtin().find(config.task);
  std::vector<const TaskRecord*> fitting, of_several;
  for (const TaskRecord* task : kTasks) {
    const int64_t count = candidates(*task, dataset);
    if (count == 1) fitting.push_back(task);
    if (count > 1) of_several.push_back(task);
  }
  // If every image has a class, that is what most users want to learn; model_fields mentions the dataset's other fields.
  if (!fitting.empty() && fitting[0] == &classify_task) return fitting[0];
  if (!fitting.empty()) fitting.insert(fitting.end(), of_several.begin(), of_several.end());
  if (fitting.size() == 1) return fitting[0];
  std::string given;
  for (const TaskRecord* task : fitting) given += concat(given.empty() ? "" : " or ", "--task ", task->name);
  if (!fitting.empty())
    return misuse("train", dataset.directory(), " can be trained on in several ways; give ", given);
  if (of_several.size() == 1) return of_several[0];  // it uses --target, or asks for it
  return &classify_task;                             // it reports what is missing
}

namespace {

/// Whether the loss is for the task and, if the model is known, for its coding of boxes.
Status check_loss(const TrainConfig& config, const TaskRecord& task, const Registries& registries,
                  const BoxCodingRecord* boxes) {
  DLPIPE_ASSIGN_OR_RETURN(const LossRecord* loss, registries.losses.find(config.loss));
  if (!is_for(loss->tasks, task.name))
    return misuse("train", "--loss ", config.loss, " is for --task ", loss->tasks,
                  ", and this run's task is ", task.name, "; --help losses lists those of each task");
  if (boxes != nullptr && std::string_view(boxes->name) != loss->boxes)
    return misuse("train", "--loss ", config.loss, " is for models that code boxes as '", loss->boxes,
                  "', and this one codes them as '", boxes->name, "'; leave --loss out to use ", boxes->loss);
  return {};
}

}  // namespace

Result<TrainConfig> with_task(TrainConfig config, const TaskRecord& task, const Registries& registries,
                              const engine::ModelRecord* model) {
  config.task = task.name;
  const BoxCodingRecord* boxes = nullptr;
  const bool finds_boxes = task.output == engine::ModelOutput::kBoxes;
  if (finds_boxes && model != nullptr) {
    DLPIPE_ASSIGN_OR_RETURN(boxes, find_box_coding(model->boxes));
  }
  if (config.loss == "auto" && (boxes != nullptr || !finds_boxes))
    config.loss = boxes != nullptr ? boxes->loss : task.loss;
  if (config.metrics == std::vector<std::string>{"auto"}) config.metrics = task.metrics();
  if (config.loss != "auto") DLPIPE_RETURN_IF_ERROR(check_loss(config, task, registries, boxes));
  for (const std::string& name : config.metrics) {
    DLPIPE_ASSIGN_OR_RETURN(const engine::MetricRecord* metric, registries.metrics.find(name));
    if (name != engine::kLossMetric && !is_for(metric->task, task.name))
      return misuse("train", "--metrics ", name, " is for --task ", metric->task, ", and this run's task is ",
                    task.name, "; --help metrics lists those of each task");
  }
  DLPIPE_RETURN_IF_ERROR(resolve_choices(config, registries));
  return config;
}

std::string bytes_of(std::span<const double> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

std::vector<double> doubles_of(std::string_view bytes) {
  std::vector<double> values(bytes.size() / sizeof(double));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(double));
  return values;
}

Result<std::vector<data::Field>> target_fields(const TaskRecord& task, const data::Dataset& dataset,
                                               std::span<const std::string> chosen,
                                               std::string_view command) {
  if (task.suits == nullptr) {
    if (chosen.empty()) return std::vector<data::Field>();
    return misuse(
        command, "--task ", task.name,
        " learns the class of each image and does not use --target; leave it out, or give another --task");
  }
  std::vector<data::Field> fields, others;
  for (const data::Field& field : dataset.fields()) {
    if (task.suits(dataset, field))
      fields.push_back(field);
    else if (task.can_learn != nullptr && task.can_learn(dataset, field))
      others.push_back(field);
  }
  if (!chosen.empty() || fields.empty()) fields.insert(fields.end(), others.begin(), others.end());
  std::string names;
  for (const data::Field& field : fields) names += concat(names.empty() ? "" : ", ", field.name);
  if (chosen.empty()) {
    if (fields.size() == 1) return fields;
    return misuse(command, "--task ", task.name, " learns ", task.what, ", and ", dataset.directory(),
                  fields.empty() ? concat(" has none; ingest it with --field NAME:KIND")
                                 : concat(" has several: ", names, "; give --target with those to learn"));
  }
  if (chosen.size() > 1 && !task.learns_several)
    return misuse(command, "--task ", task.name, " learns one field of ", task.what, ", and --target names ",
                  chosen.size());
  std::vector<data::Field> found;
  for (const std::string& name : chosen) {
    const auto field = std::ranges::find(fields, name, &data::Field::name);
    if (field == fields.end())
      return misuse(command, dataset.directory(), " has no field '", name, "' of ", task.what, ", which ",
                    command == "train" ? concat("--task ", task.name, " learns") : "this model predicts",
                    "; it has ", names.empty() ? "none" : names);
    found.push_back(*field);
  }
  return found;
}

Status check_fields(const TaskState& state, const data::Dataset& dataset, std::string_view command) {
  const TaskRecord& task = task_of(state);
  const std::span<const std::string> learned = state.fields;
  // The fields that it learns may be followed by fields that belong to them, such as the classes of boxes.
  return target_fields(task, dataset,
                       task.learns_several ? learned : learned.first(std::min<size_t>(learned.size(), 1)),
                       command)
      .status();
}

// ---- one class per image, or per token

std::vector<size_t> top_classes(std::span<const float> values, size_t k) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto comes_first = [&](size_t a, size_t b) {
    if (std::isnan(values[a]) || std::isnan(values[b])) {
      if (std::isnan(values[a]) != std::isnan(values[b])) return std::isnan(values[b]);
      return a < b;
    }
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  };
  const size_t count = std::min(k, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(), comes_first);
  order.resize(count);
  return order;
}

std::vector<double> probabilities_of(std::span<const float> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const float logit : logits) largest = std::max(largest, static_cast<double>(logit));
  std::vector<double> probabilities;
  double sum = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(static_cast<double>(logit) - largest));
    sum += probabilities.back();
  }
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

namespace {

/// Sums of metrics by weight.
class ClassTally final : public Tally {
 public:
  explicit ClassTally(const std::vector<const engine::MetricRecord*>& metrics) : sums_(metrics) {}
  void add(const engine::Tensor& outputs, const BatchInput& input) override {
    sums_.add(outputs, input.target.to(cpu_device()), input.weight.to(cpu_device()));
  }
  std::string bytes() const override {
    std::vector<double> numbers = {sums_.weight()};
    for (size_t m = 0; m < sums_.metrics().size(); ++m) numbers.push_back(sums_.sum(m));
    return bytes_of(numbers);
  }

 private:
  engine::MetricSums sums_;
};

std::vector<double> class_metrics(std::span<const std::string> tallies,
                                  const std::vector<const engine::MetricRecord*>& metrics, const TaskState&) {
  std::vector<double> sums(1 + metrics.size());
  for (const std::string& tally : tallies) {
    const std::vector<double> numbers = doubles_of(tally);
    for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers[i];
  }
  std::vector<double> means;
  for (size_t m = 0; m < metrics.size(); ++m) means.push_back(sums[0] > 0 ? sums[1 + m] / sums[0] : 0);
  return means;
}

}  // namespace

const TaskRecord classify_task = {
    .name = "classify",
    .help = "one class for each image",
    .loss = "cross_entropy",
    .metrics =
        [] {
          return std::vector<std::string>{"top1", "top5"};
        },
    .bind = [](const data::Dataset& dataset, std::span<const data::Field>, std::span<const int64_t>,
               std::vector<std::string>& names) -> Result<TaskState> {
      names.assign(dataset.classes().begin(), dataset.classes().end());
      return TaskState{};
    },
    .target = [](const TaskState&, int64_t outputs) { return TargetSpec{.outputs = outputs}; },
    .tally = [](const std::vector<const engine::MetricRecord*>& metrics,
                const TaskState&) -> std::unique_ptr<Tally> { return std::make_unique<ClassTally>(metrics); },
    .judge = class_metrics,
    .report = nullptr,  // ClassReport, with the confusion matrix
    .answers = [](std::span<const float> outputs, const TaskState&) { return probabilities_of(outputs); },
};

}  // namespace dlpipe::run
