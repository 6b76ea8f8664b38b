// Boxes with a class each. The model's coding of boxes defines the meaning of its output rows (run/input/box_coding.h). The boxes
// that it finds are judged as COCO does, in the coordinates of the images that the chain made.
#include <algorithm>

#include "run/input/box_coding.h"
#include "run/task/coco_map.h"
#include "run/task/task.h"

namespace dlpipe::run {

namespace {

/// The field with the classes of `boxes`; null if there is none.
const data::Field* classes_of_boxes(const data::Dataset& dataset, const std::string& boxes) {
  const auto found = std::ranges::find_if(dataset.fields(), [&](const data::Field& field) {
    return field.kind == data::FieldKind::kLabels && field.of == boxes;
  });
  return found == dataset.fields().end() ? nullptr : &*found;
}

/// Whether the field is COCO's "crowd" or "iscrowd", which is not 0 for a group of objects.
bool flags_crowds(const data::Field& field, const std::string& boxes) {
  constexpr std::array kDTypes = {DType::kF32, DType::kF64, DType::kI64, DType::kU8};
  return (field.name == "crowd" || field.name == "iscrowd") && field.of == boxes &&
         field.kind == data::FieldKind::kTensor && std::ranges::find(kDTypes, field.dtype) != kDTypes.end();
}

bool holds_boxes(const data::Dataset& dataset, const data::Field& field) {
  return field.kind == data::FieldKind::kBoxes && classes_of_boxes(dataset, field.name) != nullptr;
}

/// The state's fields are the boxes, their classes, and the field that flags crowds, if there is one.
Result<TaskState> bind(const data::Dataset& dataset, std::span<const data::Field> fields,
                       std::span<const int64_t>, std::vector<std::string>& names) {
  TaskState state{.name = "detect",
                  .fields = {fields[0].name, classes_of_boxes(dataset, fields[0].name)->name}};
  for (const data::Field& field : dataset.fields())
    if (flags_crowds(field, fields[0].name) && state.fields.size() == 2) state.fields.push_back(field.name);
  names.assign(dataset.classes().begin(), dataset.classes().end());
  return state;
}

/// The found boxes and the true objects of each image. All are f64, which represents f32 and counts exactly.
class BoxTally final : public Tally {
 public:
  explicit BoxTally(const engine::BoxCoding& coding) : coding_(coding) {}
  void add(const engine::Tensor& outputs, const BatchInput& input) override {
    const BoxRows rows{coding_, input.pixels.size(1), input.pixels.size(2),
                       outputs.size(-1) - coding_.others};
    const int64_t classes = rows.classes, each = outputs.elements() / outputs.size(0);
    for (int64_t n = 0; n < outputs.size(0); ++n) {
      if (input.sample_weight[static_cast<size_t>(n)] == 0) continue;
      const std::span<const float> own(outputs.data<float>() + n * each, static_cast<size_t>(each));
      const std::vector<FoundBox> found = find_boxes(rows, own);
      const std::span<const BoxObject> objects = input.objects.of(n);
      append({static_cast<double>(classes), static_cast<double>(found.size()),
              static_cast<double>(objects.size())});
      for (const FoundBox& box : found) append_box(box.label, box.score, box.box);
      for (const BoxObject& object : objects) append_box(object.label, object.is_crowd ? 1 : 0, object.box);
    }
  }
  std::string bytes() const override { return bytes_of(numbers_); }

 private:
  void append(std::initializer_list<double> numbers) {
    numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
  }
  void append_box(int64_t label, double score_or_crowd, const std::array<float, 4>& box) {
    append({static_cast<double>(label), score_or_crowd});
    numbers_.insert(numbers_.end(), box.begin(), box.end());
  }

  const engine::BoxCoding coding_;
  std::vector<double> numbers_;
};

/// The images of several BoxTallies, and the number of classes.
struct TalliedImages {
  std::vector<MapImage> images;
  int64_t classes = 0;
};

TalliedImages images_of(std::span<const std::string> tallies) {
  constexpr size_t kHead = 3, kOfBox = 6;
  TalliedImages all;
  for (const std::string& tally : tallies) {
    const std::vector<double> numbers = doubles_of(tally);
    const auto box_at = [&](size_t at) {
      std::array<float, 4> box{};
      for (size_t side = 0; side < box.size(); ++side) box[side] = static_cast<float>(numbers[at + 2 + side]);
      return box;
    };
    for (size_t at = 0; at + kHead <= numbers.size();) {
      all.classes = static_cast<int64_t>(numbers[at]);
      const auto found = static_cast<size_t>(numbers[at + 1]), objects = static_cast<size_t>(numbers[at + 2]);
      at += kHead;
      MapImage& image = all.images.emplace_back();
      for (size_t i = 0; i < found; ++i, at += kOfBox)
        image.found.push_back(
            {box_at(at), static_cast<int64_t>(numbers[at]), static_cast<float>(numbers[at + 1])});
      for (size_t i = 0; i < objects; ++i, at += kOfBox)
        image.objects.push_back({box_at(at), static_cast<int64_t>(numbers[at]), numbers[at + 1] != 0});
    }
  }
  return all;
}

std::vector<ClassMap> maps_of(std::span<const std::string> tallies) {
  const TalliedImages all = images_of(tallies);
  return coco_map(all.images, all.classes);
}

std::vector<double> judge(std::span<const std::string> tallies,
                          const std::vector<const engine::MetricRecord*>& metrics, const TaskState&) {
  constexpr std::array<std::pair<std::string_view, double ClassMap::*>, 6> kFigures = {
      {{"map", &ClassMap::ap},
       {"map50", &ClassMap::ap50},
       {"map75", &ClassMap::ap75},
       {"map_small", &ClassMap::small},
       {"map_medium", &ClassMap::medium},
       {"map_large", &ClassMap::large}}};
  const std::vector<ClassMap> maps = maps_of(tallies);
  std::vector<double> values;
  for (const engine::MetricRecord* metric : metrics) {
    const auto figure = std::ranges::find(kFigures, std::string_view(metric->name),
                                          &std::pair<std::string_view, double ClassMap::*>::first);
    values.push_back(figure == kFigures.end() ? 0 : mean_of(maps, figure->second));  // not found: the loss
  }
  return values;
}

}  // namespace

extern const TaskRecord detect_task;
const TaskRecord detect_task = {
    .name = "detect",
    .help = "boxes with a class each, from a field of boxes",
    .loss = "fcos",
    .metrics =
        [] {
          return std::vector<std::string>{"map", "map50", "map75", "map_small", "map_medium", "map_large"};
        },
    .what = "boxes with classes",
    .suits = holds_boxes,
    .bind = bind,
    .target =
        [](const TaskState& state, int64_t outputs) {
          return TargetSpec{.form = TargetSpec::Form::kBoxes,
                            .fields = state.fields,
                            .outputs = outputs,
                            .boxes = state.boxes};
        },
    .tally = [](const std::vector<const engine::MetricRecord*>&, const TaskState& state)
        -> std::unique_ptr<Tally> { return std::make_unique<BoxTally>(state.boxes); },
    .judge = judge,
    .report =
        [](std::span<const std::string> tallies, const TaskState&, std::span<const std::string> names) {
          TaskReport report{{"objects", "boxes", "AP", "AP50"}, {}};
          const std::vector<ClassMap> maps = maps_of(tallies);
          for (size_t k = 0; k < maps.size(); ++k)
            report.rows.emplace_back(
                names[k], std::vector<double>{static_cast<double>(maps[k].objects),
                                              static_cast<double>(maps[k].found), maps[k].ap, maps[k].ap50});
          return report;
        },
    .answers = [](std::span<const float>, const TaskState&) { return std::vector<double>(); },
    .weighed = Weighed::kBoxes,
    .output = engine::ModelOutput::kBoxes,
};

}  // namespace dlpipe::run
