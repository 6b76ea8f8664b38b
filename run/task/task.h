// What a model can be trained to predict: one class per image, labels, numbers, masks, boxes. A task is a record:
// which fields of a dataset it learns from, what its outputs mean, which losses and metrics suit it, what is counted over a pass.
//
// Adding one: a record in a file of its own here, a line in task.cpp, its losses in config/loss.cpp and its metrics in
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

/// What one pass over a dataset counts, of one process's share or of a grain of it.
class Tally {
 public:
  virtual ~Tally() = default;
  /// `outputs` f32 [N,K], on the host. Rows of weight 0 do not count.
  virtual void add(const engine::Tensor& outputs, const BatchInput& input) = 0;
  /// All that was added: what TaskRecord::judge of any process reads.
  virtual std::string bytes() const = 0;
};

/// Figures of each label or target, for `eval --report`.
struct TaskReport {
  std::vector<std::string> columns;
  std::vector<std::pair<std::string, std::vector<double>>>
      rows;  // a name, and a figure for each column; NaN: there is none
};

/// What --class-weights weighs, and counts where they are balanced.
enum class Weighed : uint8_t { kNothing, kSamples, kLabels, kBoxes, kPixels };

struct TaskRecord {
  static constexpr const char* kKind = "task";
  static std::span<const TaskRecord* const> built_in();

  const char* name;
  const char* help;
  const char* loss;                       // by default
  std::vector<std::string> (*metrics)();  // by default; the first one decides which checkpoint is best
  /// What the fields that it learns contain, for messages. nullptr: it learns no field, but the class of each sample.
  const char* what = nullptr;
  bool (*suits)(const data::Dataset& dataset, const data::Field& field) = nullptr;
  bool learns_several = false;  // fields at once
  /// What it learns from the `fields` of training data, its statistics those of `samples`: reads what fields do not say. `names` gets what
  /// the outputs are called.
  Result<TaskState> (*bind)(const data::Dataset& dataset, std::span<const data::Field> fields,
                            std::span<const int64_t> samples, std::vector<std::string>& names);
  TargetSpec (*target)(const TaskState& state, int64_t outputs);
  std::unique_ptr<Tally> (*tally)(const std::vector<const engine::MetricRecord*>& metrics,
                                  const TaskState& state);
  /// `metrics` of all tallies, in their order.
  std::vector<double> (*judge)(std::span<const std::string> tallies,
                               const std::vector<const engine::MetricRecord*>& metrics,
                               const TaskState& state);
  TaskReport (*report)(std::span<const std::string> tallies, const TaskState& state,
                       std::span<const std::string> names);
  /// What a sample's outputs say: probabilities of classes or labels, or numbers in the data's units. NaN: the model gave none. Nothing
  /// of boxes: box_coding.h finds them.
  std::vector<double> (*answers)(std::span<const float> outputs, const TaskState& state);
  /// Whether the outputs' names are the dataset's classes.
  bool names_classes = true;
  Weighed weighed = Weighed::kSamples;
  bool targets_may_be_places = false;  // in the image, which augmentations move, but not them
  engine::ModelOutput output = engine::ModelOutput::kImage;  // of the models that can learn it
};

using TaskRegistry = Registry<TaskRecord>;
/// The one of a checkpoint; throws Error.
const TaskRecord& task_of(const TaskState& state);

/// The task that `config` names, or that the dataset's fields leave no doubt about; kMisuse asks, with the options to give.
Result<const TaskRecord*> choose_task(const TrainConfig& config, const data::Dataset& dataset);

/// Whether `task` is among `tasks`, names with commas between them.
bool is_for(const char* tasks, std::string_view task);

/// `config` with the loss and the metrics of `task` where they are "auto". kMisuse for those of another task. The loss of boxes depends on how
/// `model` codes them: without one it stays "auto".
Result<TrainConfig> with_task(TrainConfig config, const TaskRecord& task, const Registries& registries,
                              const engine::ModelRecord* model = nullptr);

/// The number of pixels of each class number, 0 to 255, in the masks `field` of `samples`. Decodes all of them, on all threads.
/// Throws Error.
std::vector<int64_t> count_mask_pixels(const data::Dataset& dataset, std::span<const int64_t> samples,
                                       const std::string& field);

/// The `k` classes of the largest values, the largest first; of equal ones the smaller number first. NaN comes after all numbers.
std::vector<size_t> top_classes(std::span<const float> values, size_t k);
/// exp(logits) over their sum, in f64; all NaN where a logit is NaN or +inf.
std::vector<double> probabilities_of(std::span<const float> logits);

/// The mean of a figure over the `items` that have it, NaN where none does: theirs is NaN, too.
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

/// The fields of `dataset` that `task` learns: those called `chosen`, else the only one that suits it. kMisuse of `command` says what to
/// give. No sample is read.
Result<std::vector<data::Field>> target_fields(const TaskRecord& task, const data::Dataset& dataset,
                                               std::span<const std::string> chosen, std::string_view command);
/// kMisuse of `command` unless `dataset` has what a model of `state` learned. No sample is read.
Status check_fields(const TaskState& state, const data::Dataset& dataset, std::string_view command);

}  // namespace dlpipe::run
