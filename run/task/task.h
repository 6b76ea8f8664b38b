// What a model can be trained to predict: one class per image, labels, numbers, masks, boxes. A task is a record: the fields of a
// dataset that it learns from, the meaning of its outputs, its losses and metrics, and what is counted over a pass.
//
// To add a task: a record in a separate file here, a line in task.cpp, its losses in config/loss.cpp and its metrics in
// engine/metrics, each of which names the task.
//
// Ownership: records are constants. Threads: functions are pure; one thread per Tally.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/config.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/metrics.h"
#include "dlpipe/models.h"
#include "dlpipe/registry.h"
#include "dlpipe/tensor.h"
#include "run/input/batch_input.h"

namespace dlpipe::run {

/// The counts of one pass over a dataset, for one process's share or for a grain of it.
class Tally {
 public:
  virtual ~Tally() = default;
  /// `outputs` f32 [N,K], on the host. Rows of weight 0 do not count.
  virtual void add(const engine::Tensor& outputs, const BatchInput& input) = 0;
  /// Everything that was added, for TaskRecord::judge in any process.
  virtual std::string bytes() const = 0;
};

/// Figures of each label or target, for `eval --report`.
struct TaskReport {
  std::vector<std::string> columns;
  std::vector<std::pair<std::string, std::vector<double>>>
      rows;  // a name, and a figure for each column; NaN: there is none
};

/// What --class-weights weighs, and what it counts if weights are balanced.
enum class Weighed : uint8_t { kNothing, kSamples, kLabels, kBoxes, kPixels };

struct TaskRecord {
  static constexpr const char* kKind = "task";
  static std::span<const TaskRecord* const> built_in();

  const char* name;
  const char* help;
  const char* loss;                       // the default
  std::vector<std::string> (*metrics)();  // the default; the first one decides which checkpoint is best
  /// What the learned fields contain, for messages. nullptr: the task learns the class of each sample instead of a field.
  const char* what = nullptr;
  bool (*suits)(const data::Dataset& dataset, const data::Field& field) = nullptr;
  /// Fields that it learns in addition if --target names them, or if no field suits. nullptr: none.
  bool (*can_learn)(const data::Dataset& dataset, const data::Field& field) = nullptr;
  bool learns_several = false;  // several fields at once
  /// The state of the task for the `fields` of training data. Reads what the fields' descriptions do not contain, such as
  /// statistics of `samples`. `names` gets the names of the outputs.
  Result<TaskState> (*bind)(const data::Dataset& dataset, std::span<const data::Field> fields,
                            std::span<const int64_t> samples, std::vector<std::string>& names);
  TargetSpec (*target)(const TaskState& state, int64_t outputs);
  std::unique_ptr<Tally> (*tally)(const std::vector<const engine::MetricRecord*>& metrics,
                                  const TaskState& state);
  /// The values of `metrics` over all tallies.
  std::vector<double> (*judge)(std::span<const std::string> tallies,
                               const std::vector<const engine::MetricRecord*>& metrics,
                               const TaskState& state);
  TaskReport (*report)(std::span<const std::string> tallies, const TaskState& state,
                       std::span<const std::string> names);
  /// The meaning of a sample's outputs: probabilities of classes or labels, or numbers in the data's units. NaN: the model did
  /// not return one. Empty for boxes, which box_coding.h finds.
  std::vector<double> (*answers)(std::span<const float> outputs, const TaskState& state);
  /// Whether the outputs' names are the dataset's classes.
  bool names_classes = true;
  Weighed weighed = Weighed::kSamples;
  bool targets_may_be_places = false;  // in the image: augmentations move the image but not the targets
  engine::ModelOutput output = engine::ModelOutput::kImage;  // of the models that can learn it
};

using TaskRegistry = Registry<TaskRecord>;
/// The task of a checkpoint; throws Error.
const TaskRecord& task_of(const TaskState& state);

/// The task that `config` names, or the one for the dataset's fields: classify if every sample has a class, else the only one
/// that fits, else classify. kMisuse, with the options to choose from, if several fit.
Result<const TaskRecord*> choose_task(const TrainConfig& config, const data::Dataset& dataset);

/// Whether `task` is among `tasks`, names with commas between them.
bool is_for(const char* tasks, std::string_view task);

/// `config` with the loss and the metrics of `task` if they are "auto". kMisuse for those of another task. The loss of boxes
/// depends on how `model` codes them; without a model, it stays "auto".
Result<TrainConfig> with_task(TrainConfig config, const TaskRecord& task, const Registries& registries,
                              const engine::ModelRecord* model = nullptr);

/// The number of pixels of each class number, 0 to 255, in the masks `field` of `samples`. Decodes all of them, on all threads.
/// Throws Error.
std::vector<int64_t> count_mask_pixels(const data::Dataset& dataset, std::span<const int64_t> samples,
                                       const std::string& field);

/// The `k` classes with the largest values, sorted from the largest, equal ones by number. NaN comes after all numbers.
std::vector<size_t> top_classes(std::span<const float> values, size_t k);
/// exp(logits) divided by their sum, in f64; all are NaN if a logit is NaN or +inf.
std::vector<double> probabilities_of(std::span<const float> logits);

/// The mean of a figure over the `items` for which it is not NaN; NaN if there is no such item.
template <class Item, class Figure>
double mean_of(const std::vector<Item>& items, Figure figure) {
  double sum = 0;
  int64_t count = 0;
  for (const Item& item : items) {
    const double value = std::invoke(figure, item);
    if (std::isnan(value)) continue;
    sum += value;
    ++count;
  }
  return sum / static_cast<double>(count);
}

/// 1 / (1 + exp(-x)), without overflow.
template <class Float>
Float sigmoid(Float x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

/// Rows of figures as bytes, and back.
std::string bytes_of(std::span<const double> values);
std::vector<double> doubles_of(std::string_view bytes);

/// The fields of `dataset` that `task` learns: those named in `chosen`, else the only one that suits it. Otherwise kMisuse, by
/// `command`, with what to give. Does not read samples.
Result<std::vector<data::Field>> target_fields(const TaskRecord& task, const data::Dataset& dataset,
                                               std::span<const std::string> chosen, std::string_view command);
/// kMisuse, by `command`, unless `dataset` has the fields that a model of `state` learned. Does not read samples.
Status check_fields(const TaskState& state, const data::Dataset& dataset, std::string_view command);

}  // namespace dlpipe::run
