// A class for each pixel, from a mask of class numbers. Pixels of TargetSpec::kIgnored do not count.
#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>

#include "io/data/codec/mask.h"
#include "io/data/sample.h"
#include "run/task/task.h"

namespace dlpipe::run {

namespace {

bool holds_mask(const data::Dataset&, const data::Field& field) {
  return field.kind == data::FieldKind::kMask;
}

bool is_class_of_boxes(const data::Field& field) {
  return field.kind == data::FieldKind::kLabels && !field.of.empty();
}

/// The number of samples in one slice of a pass over masks.
constexpr int64_t kSamplesASlice = 64;

/// The largest class number of the masks called `name` except kIgnored; -1 if there is none.
int64_t largest_class(const data::Dataset& dataset, const std::string& name) {
  std::vector<int64_t> all(static_cast<size_t>(dataset.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const std::vector<int64_t> counts = count_mask_pixels(dataset, all, name);
  for (int64_t number = TargetSpec::kIgnored; number-- > 0;)
    if (counts[static_cast<size_t>(number)] > 0) return number;
  return -1;
}

/// The names of a mask's classes. In masks that come with boxes, 0 is the background and their classes begin with 1
/// (io/data/FORMAT.md).
Result<std::vector<std::string>> class_names_of(const data::Dataset& dataset, const std::string& mask) {
  const bool has_boxes = std::ranges::any_of(dataset.fields(), is_class_of_boxes);
  std::vector<std::string> names;
  if (has_boxes) {
    names.emplace_back("background");
    names.insert(names.end(), dataset.classes().begin(), dataset.classes().end());
  }
  const int64_t largest = largest_class(dataset, mask);
  for (auto number = static_cast<int64_t>(names.size()); number <= largest; ++number)
    names.push_back(std::to_string(number));
  if (names.size() < 2)
    return misuse("train", "the masks '", mask, "' of ", dataset.directory(),
                  " contain only one class; segmentation needs at least two");
  return names;
}

/// Counts pixels by true and predicted class: [K, K].
class PixelTally final : public Tally {
 public:
  void add(const engine::Tensor& outputs, const BatchInput& input) override {
    const engine::Tensor target = input.target.to(cpu_device()), weight = input.weight.to(cpu_device());
    const int64_t classes = outputs.size(-1), pixels = outputs.elements() / classes;
    counts_.resize(static_cast<size_t>(classes * classes));
    for (int64_t i = 0; i < pixels; ++i) {
      const int64_t own = target.data<int64_t>()[i];
      if (weight.data<float>()[i] == 0 || own < 0 || own >= classes) continue;
      const float* const row = outputs.data<float>() + i * classes;
      const auto best = std::max_element(row, row + classes) - row;
      counts_[static_cast<size_t>(own * classes + best)] += 1;
    }
  }
  std::string bytes() const override { return bytes_of(counts_); }

 private:
  std::vector<double> counts_;
};

/// part / whole; NaN if `whole` is 0.
double share(double part, double whole) {
  return whole > 0 ? part / whole : std::numeric_limits<double>::quiet_NaN();
}

/// The pixels of one class: those that have it, those predicted to have it, and both.
struct Pixels {
  double own = 0, taken = 0, right = 0;
  double iou() const { return share(right, own + taken - right); }
  double dice() const { return share(2 * right, own + taken); }
};

std::vector<Pixels> pixels_of(std::span<const std::string> tallies) {
  std::vector<double> counts;
  for (const std::string& tally : tallies) {
    const std::vector<double> own = doubles_of(tally);
    counts.resize(std::max(counts.size(), own.size()));
    for (size_t i = 0; i < own.size(); ++i) counts[i] += own[i];
  }
  const auto classes = static_cast<size_t>(std::lround(std::sqrt(static_cast<double>(counts.size()))));
  std::vector<Pixels> pixels(classes);
  for (size_t own = 0; own < classes; ++own) {
    for (size_t taken = 0; taken < classes; ++taken) {
      const double count = counts[own * classes + taken];
      pixels[own].own += count;
      pixels[taken].taken += count;
      if (own == taken) pixels[own].right += count;
    }
  }
  return pixels;
}

std::vector<double> judge_pixels(std::span<const std::string> tallies,
                                 const std::vector<const engine::MetricRecord*>& metrics, const TaskState&) {
  const std::vector<Pixels> all = pixels_of(tallies);
  double right = 0, count = 0;
  for (const Pixels& pixels : all) {
    right += pixels.right;
    count += pixels.own;
  }
  std::vector<double> values;
  for (const engine::MetricRecord* metric : metrics) {
    const std::string_view name = metric->name;
    values.push_back(name == "miou"             ? mean_of(all, &Pixels::iou)
                     : name == "dice"           ? mean_of(all, &Pixels::dice)
                     : name == "pixel_accuracy" ? (count > 0 ? right / count : 0)
                                                : 0);  // the loss, which is computed elsewhere
  }
  return values;
}

}  // namespace

std::vector<int64_t> count_mask_pixels(const data::Dataset& dataset, std::span<const int64_t> samples,
                                       const std::string& field) {
  std::array<std::atomic<int64_t>, 256> counts{};
  engine::parallel_ranges(
      static_cast<int64_t>(samples.size()), kSamplesASlice, [&](int64_t begin, int64_t end) {
        const auto reader = value_or_throw(dataset.reader());
        data::MaskDecoder decoder;
        std::array<int64_t, 256> own{};
        for (int64_t i = begin; i < end; ++i) {
          const auto record =
              value_or_throw(data::record_without_image(dataset, *reader, samples[static_cast<size_t>(i)]));
          const auto bytes = value_or_throw(data::field_bytes(dataset, record, field));
          const ConstImageView mask = value_or_throw(decoder.decode(bytes));
          for (int y = 0; y < mask.height; ++y)
            for (int x = 0; x < mask.width; ++x) ++own[mask.row(y)[x]];
        }
        for (size_t number = 0; number < own.size(); ++number) counts[number] += own[number];
      });
  return {counts.begin(), counts.end()};
}

extern const TaskRecord segment_task;
const TaskRecord segment_task = {
    .name = "segment",
    .help = "a class for each pixel, from a mask of class numbers; 255 does not count",
    .loss = "cross_entropy_dice",
    .metrics =
        [] {
          return std::vector<std::string>{"miou", "pixel_accuracy", "dice"};
        },
    .what = "masks",
    .suits = holds_mask,
    .bind = [](const data::Dataset& dataset, std::span<const data::Field> fields, std::span<const int64_t>,
               std::vector<std::string>& names) -> Result<TaskState> {
      DLPIPE_ASSIGN_OR_RETURN(names, class_names_of(dataset, fields[0].name));
      return TaskState{.name = "segment", .fields = {fields[0].name}};
    },
    .target =
        [](const TaskState& state, int64_t outputs) {
          return TargetSpec{.form = TargetSpec::Form::kMask, .fields = state.fields, .outputs = outputs};
        },
    .tally = [](const std::vector<const engine::MetricRecord*>&, const TaskState&) -> std::unique_ptr<Tally> {
      return std::make_unique<PixelTally>();
    },
    .judge = judge_pixels,
    .report =
        [](std::span<const std::string> tallies, const TaskState&, std::span<const std::string> names) {
          TaskReport report{{"pixels", "IoU", "Dice", "precision", "recall"}, {}};
          const std::vector<Pixels> all = pixels_of(tallies);
          for (size_t k = 0; k < all.size(); ++k)
            report.rows.emplace_back(names[k], std::vector<double>{all[k].own, all[k].iou(), all[k].dice(),
                                                                   share(all[k].right, all[k].taken),
                                                                   share(all[k].right, all[k].own)});
          return report;
        },
    .answers = [](std::span<const float> outputs, const TaskState&) { return probabilities_of(outputs); },
    .names_classes = false,
    .weighed = Weighed::kPixels,
    .output = engine::ModelOutput::kPixels,
};

}  // namespace dlpipe::run
