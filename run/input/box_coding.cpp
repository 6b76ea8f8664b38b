#include "run/input/box_coding.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "base/text.h"

namespace dlpipe::run {

using engine::Tensor;

extern const BoxCodingRecord grid_boxes, fcos_boxes, retinanet_boxes, retinanet_giou_boxes, ssd_boxes;

namespace {

constexpr std::array kCodings = {&grid_boxes, &fcos_boxes, &retinanet_boxes, &retinanet_giou_boxes,
                                 &ssd_boxes};

float area_of(const FoundBox& found) {
  return (found.box[2] - found.box[0]) * (found.box[3] - found.box[1]);
}

float overlap_of(const FoundBox& a, const FoundBox& b) {
  const float width = std::max(0.0f, std::min(a.box[2], b.box[2]) - std::max(a.box[0], b.box[0]));
  const float height = std::max(0.0f, std::min(a.box[3], b.box[3]) - std::max(a.box[1], b.box[1]));
  const float both = width * height;
  return both / (area_of(a) + area_of(b) - both);
}

const BoxCodingRecord& record_of(const engine::BoxCoding& coding) {
  return *value_or_throw(find_box_coding(coding));
}

}  // namespace

std::span<const BoxObject> BoxObjects::of(int64_t sample) const {
  const auto i = static_cast<size_t>(sample);
  return std::span(all).subspan(static_cast<size_t>(offsets.at(i)),
                                static_cast<size_t>(offsets.at(i + 1) - offsets.at(i)));
}

BoxObjects BoxObjects::part(int64_t first, int64_t count) const {
  BoxObjects part;
  for (int64_t sample = first; sample < first + count; ++sample) {
    const std::span<const BoxObject> own = of(sample);
    part.all.insert(part.all.end(), own.begin(), own.end());
    part.offsets.push_back(static_cast<int64_t>(part.all.size()));
  }
  return part;
}

Result<const BoxCodingRecord*> find_box_coding(const engine::BoxCoding& coding) {
  const auto found = std::ranges::find_if(
      kCodings, [&](const BoxCodingRecord* record) { return coding.name == record->name; });
  if (found != kCodings.end() && (*found)->others == coding.others) return *found;
  return Status(ErrorCode::kCorrupt,
                concat("[model] this dlpipe has no box coding '", coding.name, "' with ", coding.others,
                       " numbers besides the classes; capture the model again with this version"));
}

BoxTarget box_target(const BoxRows& of, const BoxObjects& objects, std::span<const float> sample_weight) {
  const BoxCodingRecord& record = record_of(of.coding);
  const auto samples = static_cast<int64_t>(sample_weight.size());
  const int64_t rows = record.rows(of), width = of.classes + 4 + record.more;
  BoxTarget target{Tensor::zeros({samples * rows, width}), Tensor::empty({samples * rows})};
  for (int64_t sample = 0; sample < samples; ++sample) {
    float* const weight = target.weight.data<float>() + sample * rows;
    std::fill_n(weight, rows, sample_weight[static_cast<size_t>(sample)]);
    record.assign(of, objects.of(sample), target.rows.data<float>() + sample * rows * width, weight);
  }
  return target;
}

BoxWeight box_weight(const engine::BoxCoding& coding, const Tensor& rows, const Tensor& weight) {
  const BoxCodingRecord& record = record_of(coding);
  const int64_t width = rows.size(1), classes = width - 4 - record.more;
  double objects = 0, images = 0;
  bool counts = false;
  for (int64_t i = 0; i < rows.size(0); ++i) {
    const double own = weight.data<float>()[i];
    const float* const row = rows.data<float>() + i * width;
    counts = counts || own != 0;
    objects += own * static_cast<double>(std::count(row, row + classes, 1.0f));
    if (record.is_by_image) images += row[width - 1];
  }
  if (!counts) return {};
  return record.is_by_image ? BoxWeight{images, true} : BoxWeight{std::max(objects, 1.0), objects > 0};
}

std::vector<FoundBox> find_boxes(const BoxRows& of, std::span<const float> outputs) {
  const BoxCodingRecord& record = record_of(of.coding);
  const int64_t numbers = record.rows(of) * (of.classes + record.others);
  if (static_cast<int64_t>(outputs.size()) != numbers)
    refuse("model", "the model returns ", outputs.size(), " numbers for an image of ", of.height, "x",
           of.width, ", but ", record.rows(of), " boxes of ", of.classes, " classes need ", numbers);
  return record.find(of, outputs);
}

std::vector<size_t> suppress_overlaps(std::span<const FoundBox> boxes, double most) {
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return boxes[a].score > boxes[b].score; });
  std::vector<size_t> kept;
  std::map<int64_t, std::vector<size_t>> of_class;
  for (const size_t i : order) {
    std::vector<size_t>& better = of_class[boxes[i].label];
    const bool is_best = std::ranges::none_of(
        better, [&](size_t other) { return static_cast<double>(overlap_of(boxes[other], boxes[i])) > most; });
    if (!is_best) continue;
    kept.push_back(i);
    better.push_back(i);
  }
  return kept;
}

void sort_by_score(std::vector<FoundBox>& boxes) {
  std::stable_sort(boxes.begin(), boxes.end(),
                   [](const FoundBox& a, const FoundBox& b) { return a.score > b.score; });
}

bool is_learned(const BoxObject& object, int64_t classes) {
  return !object.is_crowd && object.label >= 0 && object.label < classes && object.box[2] > object.box[0] &&
         object.box[3] > object.box[1];
}

}  // namespace dlpipe::run
