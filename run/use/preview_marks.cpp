#include "dlpipe/run/use/preview_marks.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/mask.h"
#include "dlpipe/run/use/preview_text.h"

namespace dlpipe::run {

namespace {

using augment::Pixel;
using Kind = data::FieldKind;

constexpr uint8_t kUnknown = 255;  // what comes from outside of a mask
constexpr int kPointReach = 2;     // pixels on each side of a point's middle

std::vector<float> numbers_of(std::span<const std::byte> bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return numbers;
}

/// The class of each row of the boxes field `boxes`; none where no field says it.
Result<std::vector<int64_t>> classes_of(const data::Dataset& dataset, std::span<const std::byte> record,
                                        const std::string& boxes) {
  std::vector<int64_t> classes;
  for (const data::Field& field : dataset.fields()) {
    if (field.kind != Kind::kLabels || field.of != boxes) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                            data::field_bytes(dataset, record, field.name));
    classes.resize(bytes.size() / sizeof(int64_t));
    if (!classes.empty()) std::memcpy(classes.data(), bytes.data(), classes.size() * sizeof(int64_t));
    break;
  }
  return classes;
}

/// The frame of a box, one pixel wide, inside `shown`.
void draw_frame(const ImageView& shown, int left, int top, int right, int bottom, const Pixel& color) {
  left = std::clamp(left, 0, shown.width - 1);
  right = std::clamp(right - 1, left, shown.width - 1);
  top = std::clamp(top, 0, shown.height - 1);
  bottom = std::clamp(bottom - 1, top, shown.height - 1);
  augment::fill_region(shown, {left, top, right - left + 1, 1}, color);
  augment::fill_region(shown, {left, bottom, right - left + 1, 1}, color);
  augment::fill_region(shown, {left, top, 1, bottom - top + 1}, color);
  augment::fill_region(shown, {right, top, 1, bottom - top + 1}, color);
}

}  // namespace

Pixel color_of_class(size_t number) {
  constexpr std::array<Pixel, 8> kColors = {{{230, 25, 75, 255},
                                             {60, 180, 75, 255},
                                             {255, 225, 25, 255},
                                             {0, 130, 200, 255},
                                             {245, 130, 48, 255},
                                             {145, 30, 180, 255},
                                             {70, 240, 240, 255},
                                             {240, 50, 230, 255}}};
  return kColors[number % kColors.size()];
}

static bool has(const data::Dataset& dataset, Kind kind) {
  return std::any_of(dataset.fields().begin(), dataset.fields().end(),
                     [&](const data::Field& field) { return field.kind == kind; });
}

namespace {

struct Asked {
  bool is_asked;
  Kind kind;
  const char* name;
};
std::array<Asked, 3> all_of(const MarkKinds& kinds) {
  return {{{kinds.boxes, Kind::kBoxes, "boxes"},
           {kinds.points, Kind::kPoints, "points"},
           {kinds.masks, Kind::kMask, "masks"}}};
}

}  // namespace

Status SampleMarks::check(const data::Dataset& dataset, const MarkKinds& kinds) {
  std::string names;
  if (!has(dataset, Kind::kImage)) return misuse("preview", dataset.directory(), " holds no pictures");
  for (const data::Field& field : dataset.fields()) names += concat(names.empty() ? "" : ", ", field.name);
  for (const Asked& what : all_of(kinds)) {
    if (what.is_asked && !has(dataset, what.kind)) {
      return misuse("preview", dataset.directory(), " has no ", what.name, ": its fields are ", names,
                    "; leave --", what.name, " out");
    }
  }
  return {};
}

std::string SampleMarks::options_for_others(const data::Dataset& dataset, const MarkKinds& kinds) {
  std::string options;
  for (const Asked& what : all_of(kinds)) {
    if (!what.is_asked && has(dataset, what.kind))
      options += concat(options.empty() ? "" : " ", "--", what.name);
  }
  return options;
}

Result<SampleMarks> SampleMarks::read(const data::Dataset& dataset, std::span<const std::byte> record,
                                      const MarkKinds& kinds, int width, int height) {
  SampleMarks marks;
  marks.shows_boxes_ = kinds.boxes;
  marks.width_ = width;
  marks.height_ = height;
  data::MaskDecoder decoder(
      {.max_pixels = int64_t{width} * height});  // those of the picture, which was decoded
  std::vector<std::string> boxes;                // names, in boxes_'s order
  for (const Kind kind : {Kind::kBoxes, Kind::kPoints, Kind::kMask}) {
    for (const data::Field& field : dataset.fields()) {
      if (field.kind != kind) continue;
      DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                              data::field_bytes(dataset, record, field.name));
      if (kind == Kind::kBoxes && (kinds.boxes || kinds.points)) {
        boxes.push_back(field.name);
        marks.boxes_.push_back({numbers_of(bytes)});
        DLPIPE_ASSIGN_OR_RETURN(marks.boxes_.back().classes, classes_of(dataset, record, field.name));
      }
      if (kind == Kind::kPoints && kinds.points) {
        const auto of = std::find(boxes.begin(), boxes.end(), field.of);
        const size_t points = field.shape.rank() == 2 ? static_cast<size_t>(field.shape[0]) : 1;
        marks.points_.push_back(
            {numbers_of(bytes), points, of == boxes.end() ? -1 : static_cast<int>(of - boxes.begin())});
      }
      if (kind != Kind::kMask || !kinds.masks) continue;
      Mask& kept = marks.masks_.emplace_back();
      if (bytes.empty()) continue;
      DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_mask(bytes));
      DLPIPE_RETURN_IF_ERROR(data::check_mask_size(info, width, height));
      DLPIPE_ASSIGN_OR_RETURN(const ConstImageView mask, decoder.decode(bytes));
      for (int y = 0; y < mask.height; ++y)
        kept.classes.insert(kept.classes.end(), mask.row(y), mask.row(y) + mask.width);
    }
  }
  return marks;
}

SampleMarks SampleMarks::moved(std::span<const SampleMarks> pictures, const augment::ChainPlan& plan) {
  SampleMarks all = pictures.front();
  all.width_ = plan.out.width;
  all.height_ = plan.out.height;
  for (Rows& boxes : all.boxes_) {
    boxes.numbers.clear();
    boxes.classes.clear();
  }
  for (Rows& points : all.points_) points.numbers.clear();
  const size_t pixels = static_cast<size_t>(plan.out.width) * static_cast<size_t>(plan.out.height);
  for (Mask& mask : all.masks_) mask.classes.assign(pixels, kUnknown);
  for (size_t k = 0; k < pictures.size(); ++k)
    pictures[k].move_into(plan.is_joined() ? augment::Moving(plan, k) : augment::Moving(plan), all);
  return all;
}

void SampleMarks::move_into(const augment::Moving& moving, SampleMarks& all) const {
  std::vector<std::vector<uint8_t>> kept(boxes_.size());
  for (size_t b = 0; b < boxes_.size(); ++b) {
    std::vector<float> rows = boxes_[b].numbers;
    moving.boxes(rows, kept[b]);
    for (size_t i = 0; i < kept[b].size(); ++i) {
      const float* const row = rows.data() + 4 * i;
      if (kept[b][i] == 0) continue;
      all.boxes_[b].numbers.insert(all.boxes_[b].numbers.end(), row, row + 4);
      if (i < boxes_[b].classes.size()) all.boxes_[b].classes.push_back(boxes_[b].classes[i]);
    }
  }
  for (size_t p = 0; p < points_.size(); ++p) {
    Rows points = points_[p];
    moving.points(points.numbers);
    for (size_t i = 0; points.of >= 0 && i < points.numbers.size() / 3; ++i) {
      const std::vector<uint8_t>& owners = kept[static_cast<size_t>(points.of)];
      const size_t row = i / points.points_per_row;
      if (row < owners.size() && owners[row] == 0) points.numbers[3 * i + 2] = 0;
    }
    std::vector<float>& to = all.points_[p].numbers;
    to.insert(to.end(), points.numbers.begin(), points.numbers.end());
  }
  for (size_t m = 0; m < masks_.size(); ++m) {
    if (masks_[m].classes.empty()) continue;
    moving.paint_mask({masks_[m].classes.data(), width_, height_, 1, width_},
                      {all.masks_[m].classes.data(), all.width_, all.height_, 1, all.width_});
  }
}

void SampleMarks::tint(const ImageView& picture) const {
  for (const Mask& mask : masks_) {
    for (int y = 0; y < picture.height && !mask.classes.empty(); ++y) {
      uint8_t* pixel = picture.row(y);
      for (int x = 0; x < picture.width; ++x, pixel += picture.channels) {
        const uint8_t value =
            mask.classes[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
        if (value == 0 || value == kUnknown) continue;
        const Pixel color = color_of_class(value - 1u);
        for (int c = 0; c < picture.channels; ++c)
          pixel[c] = static_cast<uint8_t>((pixel[c] + color[static_cast<size_t>(c)]) / 2);
      }
    }
  }
}

void SampleMarks::draw(const ImageView& shown, std::span<const std::string> classes) const {
  const float across = static_cast<float>(shown.width) / static_cast<float>(width_);
  const float down = static_cast<float>(shown.height) / static_cast<float>(height_);
  constexpr float kFar = 1 << 20;  // marks may lie anywhere; an int doesn't hold that
  const auto x_of = [&](float x) { return static_cast<int>(std::clamp(x * across, -kFar, kFar)); };
  const auto y_of = [&](float y) { return static_cast<int>(std::clamp(y * down, -kFar, kFar)); };
  for (const Rows& boxes : boxes_) {
    if (!shows_boxes_) break;
    for (size_t i = 0; i + 3 < boxes.numbers.size(); i += 4) {
      const float* const box = boxes.numbers.data() + i;
      const bool has_class = i / 4 < boxes.classes.size() && boxes.classes[i / 4] >= 0;
      const size_t number = has_class ? static_cast<size_t>(boxes.classes[i / 4]) : i / 4;
      const Pixel color = color_of_class(number);
      draw_frame(shown, x_of(box[0]), y_of(box[1]), x_of(box[2]), y_of(box[3]), color);
      if (has_class && number < classes.size())
        draw_text(shown, std::max(x_of(box[0]), 0), std::max(y_of(box[1]) - kTextHeight, 0),
                  drawable_name(classes[number], number), color);
    }
  }
  for (const Rows& points : points_) {
    for (size_t i = 0; i + 2 < points.numbers.size(); i += 3) {
      if (!(points.numbers[i + 2] > 0)) continue;
      const int x = x_of(points.numbers[i]), y = y_of(points.numbers[i + 1]);
      const Pixel color = color_of_class(i / 3 / points.points_per_row);
      augment::fill_region(shown, {x - kPointReach, y, 2 * kPointReach + 1, 1}, color);
      augment::fill_region(shown, {x, y - kPointReach, 1, 2 * kPointReach + 1}, color);
    }
  }
}

}  // namespace dlpipe::run
