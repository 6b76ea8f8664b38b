// Boxes with a class each. A model answers each cell of a grid; what it finds is judged as COCO does, on images as the chain made them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "run/task/coco_map.h"
#include "run/task/detections.h"
#include "run/task/task.h"

namespace dlpipe::run {

// ---- boxes of outputs

namespace {

constexpr float kLeastScore = 0.05f, kMostOverlap = 0.6f;
constexpr size_t kMostCandidates = 1000, kMostBoxes = 100;
constexpr float kMostLogarithm = 8;  // as in the loss

void sort_by_score(std::vector<FoundBox>& boxes) {
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const FoundBox& a, const FoundBox& b) { return a.score > b.score; });
}

float area_of(const FoundBox& found) {
  return (found.box[2] - found.box[0]) * (found.box[3] - found.box[1]);
}

float overlap_of(const FoundBox& a, const FoundBox& b) {
  const float width = std::max(0.0f, std::min(a.box[2], b.box[2]) - std::max(a.box[0], b.box[0]));
  const float height = std::max(0.0f, std::min(a.box[3], b.box[3]) - std::max(a.box[1], b.box[1]));
  const float both = width * height;
  return both / (area_of(a) + area_of(b) - both);
}

/// The box of a cell, from the four logarithms of its sides' distances.
std::array<float, 4> box_of(const float* logarithms, const BoxGrid& grid, int64_t cell) {
  const auto stride = static_cast<float>(grid.stride);
  const int64_t row = cell / grid.columns();
  const float x = (static_cast<float>(cell % grid.columns()) + 0.5f) * stride;
  const float y = (static_cast<float>(row) + 0.5f) * stride;
  const auto distance = [&](int side) {
    return std::exp(std::clamp(logarithms[side], -kMostLogarithm, kMostLogarithm)) * stride;
  };
  const auto width = static_cast<float>(grid.width), height = static_cast<float>(grid.height);
  return {std::clamp(x - distance(0), 0.0f, width), std::clamp(y - distance(1), 0.0f, height),
          std::clamp(x + distance(2), 0.0f, width), std::clamp(y + distance(3), 0.0f, height)};
}

}  // namespace

std::vector<size_t> suppress_overlaps(std::span<const FoundBox> boxes, float most) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return boxes[a].score > boxes[b].score; });
  std::vector<size_t> kept;
  for (const size_t i : order) {
    const bool is_best = std::ranges::none_of(kept, [&](size_t better) {
      return boxes[better].label == boxes[i].label && overlap_of(boxes[better], boxes[i]) > most;
    });
    if (is_best) kept.push_back(i);
  }
  return kept;
}

std::vector<FoundBox> find_boxes(std::span<const float> outputs, const BoxGrid& grid, int64_t classes) {
  if (static_cast<int64_t>(outputs.size()) != grid.cells() * (classes + 4))
    refuse("model", "it answers ", outputs.size(), " numbers for an image of ", grid.height, "x", grid.width,
           ", and a grid of stride ", grid.stride, " for ", classes, " classes has ",
           grid.cells() * (classes + 4));
  std::vector<FoundBox> candidates;
  // sigmoid(x) > kLeastScore, without an exp for each class of each cell
  const float least_logit = std::log(kLeastScore / (1 - kLeastScore));
  for (int64_t cell = 0; cell < grid.cells(); ++cell) {
    const float* const own = outputs.data() + cell * (classes + 4);
    for (int64_t label = 0; label < classes; ++label) {
      if (!(own[label] > least_logit) || !std::isfinite(own[label])) continue;
      const float* const sides = own + classes;
      if (!std::all_of(sides, sides + 4, [](float side) { return std::isfinite(side); })) continue;
      candidates.push_back({box_of(sides, grid, cell), label, sigmoid(own[label])});
    }
  }
  sort_by_score(candidates);
  if (candidates.size() > kMostCandidates) candidates.resize(kMostCandidates);
  std::vector<FoundBox> boxes;
  for (const size_t i : suppress_overlaps(candidates, kMostOverlap)) {
    if (boxes.size() == kMostBoxes) break;
    boxes.push_back(candidates[i]);
  }
  return boxes;
}

// ---- the task

namespace {

/// The field of `boxes`' classes; null: there is none.
const data::Field* classes_of_boxes(const data::Dataset& dataset, const std::string& boxes) {
  const auto found = std::ranges::find_if(dataset.fields(), [&](const data::Field& field) {
    return field.kind == data::FieldKind::kLabels && field.of == boxes;
  });
  return found == dataset.fields().end() ? nullptr : &*found;
}

/// COCO's "crowd", 1 for a group.
bool flags_crowds(const data::Field& field, const std::string& boxes) {
  return field.name == "crowd" && field.of == boxes && field.kind == data::FieldKind::kTensor &&
         field.dtype == DType::kF32;
}

bool holds_boxes(const data::Dataset& dataset, const data::Field& field) {
  return field.kind == data::FieldKind::kBoxes && classes_of_boxes(dataset, field.name) != nullptr;
}

/// The state's fields are the boxes, their classes, and what flags crowds if there is one.
Result<TaskState> bind(const data::Dataset& dataset, std::span<const data::Field> fields,
                       std::span<const int64_t>, std::vector<std::string>& names) {
  TaskState state{.name = "detect",
                  .fields = {fields[0].name, classes_of_boxes(dataset, fields[0].name)->name}};
  for (const data::Field& field : dataset.fields())
    if (flags_crowds(field, fields[0].name)) state.fields.push_back(field.name);
  names.assign(dataset.classes().begin(), dataset.classes().end());
  return state;
}

/// What was found in each image, and what is there: all as f64, which holds f32 and counts.
class BoxTally final : public Tally {
 public:
  explicit BoxTally(int64_t stride) : stride_(stride) {}
  void add(const engine::Tensor& outputs, const BatchInput& input) override {
    const BoxGrid grid{input.pixels.size(1), input.pixels.size(2), stride_};
    const int64_t classes = outputs.size(-1) - 4, each = outputs.elements() / outputs.size(0);
    for (int64_t n = 0; n < outputs.size(0); ++n) {
      if (input.sample_weight[static_cast<size_t>(n)] == 0) continue;
      const std::span<const float> own(outputs.data<float>() + n * each, static_cast<size_t>(each));
      const std::vector<FoundBox> found = find_boxes(own, grid, classes);
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

  const int64_t stride_;
  std::vector<double> numbers_;
};

/// The images of BoxTallies, and the number of classes.
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
    values.push_back(figure == kFigures.end() ? 0 : mean_of(maps, figure->second));  // else the loss
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
                            .stride = state.stride};
        },
    .tally = [](const std::vector<const engine::MetricRecord*>&, const TaskState& state)
        -> std::unique_ptr<Tally> { return std::make_unique<BoxTally>(state.stride); },
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
