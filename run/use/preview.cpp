#include "run/use/preview.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>

#include "augment/copy.h"
#include "augment/resize.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/augment.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "io/data/codec/mask.h"
#include "io/formats/atomic_file.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/sampler.h"
#include "run/input/path_kind.h"

namespace dlpipe::run {

namespace {

constexpr int kColumns = 5;
constexpr int kRows = 8;

/// The columns of the characters from ' ' to '~', with the uppermost pixel in the lowest bit.
constexpr std::array<std::array<uint8_t, kColumns>, 95> kLetters = {{
    {0, 0, 0, 0, 0},
    {0, 0, 0x5f, 0, 0},
    {0, 7, 0, 7, 0},
    {0x14, 0x7f, 0x14, 0x7f, 0x14},
    {0x24, 0x2a, 0x7f, 0x2a, 0x12},
    {0x23, 0x13, 8, 0x64, 0x62},
    {0x36, 0x49, 0x56, 0x20, 0x50},
    {0, 8, 7, 3, 0},
    {0, 0x1c, 0x22, 0x41, 0},
    {0, 0x41, 0x22, 0x1c, 0},
    {0x2a, 0x1c, 0x7f, 0x1c, 0x2a},
    {8, 8, 0x3e, 8, 8},
    {0, 0x80, 0x70, 0x30, 0},
    {8, 8, 8, 8, 8},
    {0, 0, 0x60, 0x60, 0},
    {0x20, 0x10, 8, 4, 2},
    {0x3e, 0x51, 0x49, 0x45, 0x3e},
    {0, 0x42, 0x7f, 0x40, 0},
    {0x72, 0x49, 0x49, 0x49, 0x46},
    {0x21, 0x41, 0x49, 0x4d, 0x33},
    {0x18, 0x14, 0x12, 0x7f, 0x10},
    {0x27, 0x45, 0x45, 0x45, 0x39},
    {0x3c, 0x4a, 0x49, 0x49, 0x31},
    {0x41, 0x21, 0x11, 9, 7},
    {0x36, 0x49, 0x49, 0x49, 0x36},
    {0x46, 0x49, 0x49, 0x29, 0x1e},
    {0, 0, 0x14, 0, 0},
    {0, 0x40, 0x34, 0, 0},
    {0, 8, 0x14, 0x22, 0x41},
    {0x14, 0x14, 0x14, 0x14, 0x14},
    {0, 0x41, 0x22, 0x14, 8},
    {2, 1, 0x59, 9, 6},
    {0x3e, 0x41, 0x5d, 0x59, 0x4e},
    {0x7c, 0x12, 0x11, 0x12, 0x7c},
    {0x7f, 0x49, 0x49, 0x49, 0x36},
    {0x3e, 0x41, 0x41, 0x41, 0x22},
    {0x7f, 0x41, 0x41, 0x41, 0x3e},
    {0x7f, 0x49, 0x49, 0x49, 0x41},
    {0x7f, 9, 9, 9, 1},
    {0x3e, 0x41, 0x41, 0x51, 0x73},
    {0x7f, 8, 8, 8, 0x7f},
    {0, 0x41, 0x7f, 0x41, 0},
    {0x20, 0x40, 0x41, 0x3f, 1},
    {0x7f, 8, 0x14, 0x22, 0x41},
    {0x7f, 0x40, 0x40, 0x40, 0x40},
    {0x7f, 2, 0x1c, 2, 0x7f},
    {0x7f, 4, 8, 0x10, 0x7f},
    {0x3e, 0x41, 0x41, 0x41, 0x3e},
    {0x7f, 9, 9, 9, 6},
    {0x3e, 0x41, 0x51, 0x21, 0x5e},
    {0x7f, 9, 0x19, 0x29, 0x46},
    {0x26, 0x49, 0x49, 0x49, 0x32},
    {3, 1, 0x7f, 1, 3},
    {0x3f, 0x40, 0x40, 0x40, 0x3f},
    {0x1f, 0x20, 0x40, 0x20, 0x1f},
    {0x3f, 0x40, 0x38, 0x40, 0x3f},
    {0x63, 0x14, 8, 0x14, 0x63},
    {3, 4, 0x78, 4, 3},
    {0x61, 0x59, 0x49, 0x4d, 0x43},
    {0, 0x7f, 0x41, 0x41, 0x41},
    {2, 4, 8, 0x10, 0x20},
    {0, 0x41, 0x41, 0x41, 0x7f},
    {4, 2, 1, 2, 4},
    {0x40, 0x40, 0x40, 0x40, 0x40},
    {0, 3, 7, 8, 0},
    {0x20, 0x54, 0x54, 0x78, 0x40},
    {0x7f, 0x28, 0x44, 0x44, 0x38},
    {0x38, 0x44, 0x44, 0x44, 0x28},
    {0x38, 0x44, 0x44, 0x28, 0x7f},
    {0x38, 0x54, 0x54, 0x54, 0x18},
    {0, 8, 0x7e, 9, 2},
    {0x18, 0xa4, 0xa4, 0x9c, 0x78},
    {0x7f, 8, 4, 4, 0x78},
    {0, 0x44, 0x7d, 0x40, 0},
    {0x20, 0x40, 0x40, 0x3d, 0},
    {0x7f, 0x10, 0x28, 0x44, 0},
    {0, 0x41, 0x7f, 0x40, 0},
    {0x7c, 4, 0x78, 4, 0x78},
    {0x7c, 8, 4, 4, 0x78},
    {0x38, 0x44, 0x44, 0x44, 0x38},
    {0xfc, 0x18, 0x24, 0x24, 0x18},
    {0x18, 0x24, 0x24, 0x18, 0xfc},
    {0x7c, 8, 4, 4, 8},
    {0x48, 0x54, 0x54, 0x54, 0x24},
    {4, 4, 0x3f, 0x44, 0x24},
    {0x3c, 0x40, 0x40, 0x20, 0x7c},
    {0x1c, 0x20, 0x40, 0x20, 0x1c},
    {0x3c, 0x40, 0x30, 0x40, 0x3c},
    {0x44, 0x28, 0x10, 0x28, 0x44},
    {0x4c, 0x90, 0x90, 0x90, 0x7c},
    {0x44, 0x64, 0x54, 0x4c, 0x44},
    {0, 8, 0x36, 0x41, 0},
    {0, 0, 0x77, 0, 0},
    {0, 0x41, 0x36, 8, 0},
    {2, 1, 2, 4, 2},
}};

/// ASCII replacements for the characters from U+00C0 to U+017F.
constexpr std::string_view kLatin =
    "AAAAAAACEEEEIIIIDNOOOOOxOUUUUYTsaaaaaaaceeeeiiiidnooooo/ouuuuyty"
    "AaAaAaCcCcCcCcDdDdEeEeEeEeEeGgGgGgGgHhHhIiIiIiIiIiIiJjKkkLlLlLlLlLl"
    "NnNnNnnNnOoOoOoOoRrRrRrSsSsSsSsTtTtTtUuUuUuUuUuUuWwYyYZzZzZzs";

}  // namespace

std::string drawable_name(std::string_view name, size_t number) {
  constexpr uint32_t kFirst = 0xc0, kAccents = 0x300, kAccentsEnd = 0x370;
  std::string text;
  bool is_whole = true;
  for (size_t at = 0; at < name.size();) {
    const size_t bytes = utf8_bytes(name, at);
    const auto byte = [&](size_t i) {
      return static_cast<uint32_t>(static_cast<unsigned char>(name[at + i]));
    };
    const uint32_t code = bytes == 1 ? byte(0) : bytes == 2 ? (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f) : 0;
    if (code >= ' ' && code <= '~')
      text += static_cast<char>(code);
    else if (code >= kFirst && code - kFirst < kLatin.size())
      text += kLatin[code - kFirst];
    else if (code < kAccents ||
             code >= kAccentsEnd)  // an accent after its letter, as macOS stores names, is left out
      is_whole = false;
    at += std::max<size_t>(bytes, 1);
  }
  if (is_whole) return text;
  text.erase(0, text.find_first_not_of(' '));
  return concat(number, text.empty() ? "" : " ", text);
}

void draw_text(const ImageView& image, int x, int y, std::string_view text, const augment::Pixel& color) {
  constexpr int kStep = kColumns + 1, kBright = 3 * 128;
  const bool is_bright = int{color[0]} + color[1] + color[2] >= kBright;
  const augment::Pixel ink = is_bright ? augment::Pixel{0, 0, 0, 255} : augment::Pixel{255, 255, 255, 255};
  const auto fill = [&](int left, int top, int width, int height, const augment::Pixel& with) {
    const int right = std::min(left + width, image.width), bottom = std::min(top + height, image.height);
    left = std::max(left, 0);
    top = std::max(top, 0);
    if (left < right && top < bottom)
      augment::fill_region(image, {left, top, right - left, bottom - top}, with);
  };
  for (size_t at = 0; at < text.size() && x < image.width; ++at, x += kStep) {
    const bool is_known = text[at] >= ' ' && text[at] <= '~';
    const auto& letter = kLetters[static_cast<size_t>((is_known ? text[at] : '?') - ' ')];
    fill(x, y, kStep, kTextHeight, color);
    for (int column = 0; column < kColumns; ++column) {
      for (int row = 0; row < kRows; ++row) {
        if ((letter[static_cast<size_t>(column)] >> row & 1) != 0) fill(x + column, y + row, 1, 1, ink);
      }
    }
  }
}

namespace {

using augment::Pixel;
using Kind = data::FieldKind;

constexpr uint8_t kUnknown = 255;  // for pixels outside of a mask
constexpr int kPointReach = 2;     // pixels on each side of a point's middle

std::vector<float> numbers_of(std::span<const std::byte> bytes) {
  std::vector<float> numbers(bytes.size() / sizeof(float));
  if (!numbers.empty()) std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  return numbers;
}

/// The class of each row of the boxes field `boxes`; empty if no field has classes for it.
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

}  // namespace

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
  if (!has(dataset, Kind::kImage)) return misuse("preview", dataset.directory(), " holds no images");
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
      {.max_pixels = int64_t{width} * height});  // as many as in the image, which was decoded
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

SampleMarks SampleMarks::moved(std::span<const SampleMarks> images, const augment::ChainPlan& plan) {
  SampleMarks all = images.front();
  all.width_ = plan.out.width;
  all.height_ = plan.out.height;
  for (Rows& boxes : all.boxes_) {
    boxes.numbers.clear();
    boxes.classes.clear();
  }
  for (Rows& points : all.points_) points.numbers.clear();
  const size_t pixels = static_cast<size_t>(plan.out.width) * static_cast<size_t>(plan.out.height);
  for (Mask& mask : all.masks_) mask.classes.assign(pixels, kUnknown);
  for (size_t k = 0; k < images.size(); ++k)
    images[k].move_into(plan.is_joined() ? augment::Moving(plan, k) : augment::Moving(plan), all);
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

void SampleMarks::tint(const ImageView& image) const {
  for (const Mask& mask : masks_) {
    for (int y = 0; y < image.height && !mask.classes.empty(); ++y) {
      uint8_t* pixel = image.row(y);
      for (int x = 0; x < image.width; ++x, pixel += image.channels) {
        const uint8_t value =
            mask.classes[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
        if (value == 0 || value == kUnknown) continue;
        const Pixel color = color_of_class(value - 1u);
        for (int c = 0; c < image.channels; ++c)
          pixel[c] = static_cast<uint8_t>((pixel[c] + color[static_cast<size_t>(c)]) / 2);
      }
    }
  }
}

void SampleMarks::draw(const ImageView& shown, std::span<const std::string> classes) const {
  const float across = static_cast<float>(shown.width) / static_cast<float>(width_);
  const float down = static_cast<float>(shown.height) / static_cast<float>(height_);
  constexpr float kFar = 1 << 20;  // marks may be anywhere, even beyond an int's range
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

namespace {

constexpr int kGap = 4;  // pixels between cells
constexpr augment::Pixel kPaper = {255, 255, 255, 255};

/// An image that owns its pixels.
struct Image {
  std::vector<uint8_t> pixels;
  ImageView view;

  Image(int width, int height, int channels)
      : pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels)),
        view{pixels.data(), width, height, channels, ptrdiff_t{width} * channels} {}
};

ImageView part(const ImageView& image, int x, int y, int width, int height) {
  return {image.row(y) + ptrdiff_t{x} * image.channels, width, height, image.channels, image.stride};
}

/// Draws `image` in the middle of `cell`, scaled down if it does not fit, or up by the largest integer factor that fits. Returns
/// its place.
ImageView place(const ConstImageView& image, const ImageView& cell, std::vector<std::byte>& work) {
  int width = image.width;
  int height = image.height;
  if (width > cell.width || height > cell.height) {
    const bool wide = int64_t{width} * cell.height >= int64_t{height} * cell.width;
    const int64_t scaled =
        wide ? int64_t{height} * cell.width / width : int64_t{width} * cell.height / height;
    width = wide ? cell.width : static_cast<int>(std::max<int64_t>(scaled, 1));
    height = wide ? static_cast<int>(std::max<int64_t>(scaled, 1)) : cell.height;
  }
  const int times = std::min(cell.width / width, cell.height / height);
  if (times > 1) {  // each pixel becomes a square, without interpolation
    const ImageView to = part(cell, (cell.width - times * width) / 2, (cell.height - times * height) / 2,
                              times * width, times * height);
    for (int y = 0; y < to.height; ++y) {
      for (int x = 0; x < to.width; ++x)
        std::copy_n(image.row(y / times) + ptrdiff_t{x / times} * image.channels, image.channels,
                    to.row(y) + ptrdiff_t{x} * to.channels);
    }
    return to;
  }
  const ImageView to = part(cell, (cell.width - width) / 2, (cell.height - height) / 2, width, height);
  augment::resize(augment::whole_resize(image.width, image.height, width, height), image, to, false, work);
  return to;
}

/// A decoded image of the dataset, and the marks that are drawn over it.
struct Shown {
  int64_t sample = 0;
  Image image;
  SampleMarks marks;
  int64_t label = -1;
  std::unique_ptr<pipeline::RecordObjects> objects;  // for ops that depend on them
};

/// Decodes images of one dataset.
class Source {
 public:
  static Result<Source> open(const data::Dataset& dataset, const PreviewOptions& options) {
    DLPIPE_ASSIGN_OR_RETURN(auto reader, dataset.reader());
    return Source(dataset, std::move(reader), options);
  }
  /// nullopt if one of them can't be shown; damaged() then has it.
  std::optional<std::vector<Shown>> shown(std::span<const int64_t> samples, const MarkKinds& kinds,
                                          bool pastes);
  const std::map<int64_t, Status>& damaged() const { return damaged_; }

 private:
  Result<Image> decode(int64_t sample);
  Result<Shown> shown(int64_t sample, const MarkKinds& kinds, bool pastes);

  Source(const data::Dataset& dataset, std::unique_ptr<data::Dataset::Reader> reader,
         const PreviewOptions& options)
      : dataset_(&dataset),
        reader_(std::move(reader)),
        channels_(static_cast<int>(options.channels)),
        limits_{.max_pixels = options.max_pixels},
        decoder_(limits_) {}

  const data::Dataset* dataset_;
  std::unique_ptr<data::Dataset::Reader> reader_;
  int channels_;
  data::DecodeLimits limits_;
  data::ImageDecoder decoder_;
  std::map<int64_t, Status> damaged_;
};

Result<Image> Source::decode(int64_t sample) {
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(sample));
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, data::image_bytes(*dataset_, record));
  if (bytes.empty()) return Status(ErrorCode::kMisuse, "it has no image");
  DLPIPE_ASSIGN_OR_RETURN(const data::ImageInfo info, data::probe_image(bytes));
  DLPIPE_RETURN_IF_ERROR(data::check_pixels(info, limits_.max_pixels));
  const bool swap = swaps_axes(info.orientation);
  Image image(swap ? info.height : info.width, swap ? info.width : info.height, channels_);
  const Region all = {0, 0, image.view.width, image.view.height};
  DLPIPE_RETURN_IF_ERROR(decoder_.decode_oriented(bytes, info, all, image.view));
  return image;
}

Result<Shown> Source::shown(int64_t sample, const MarkKinds& kinds, bool pastes) {
  DLPIPE_ASSIGN_OR_RETURN(Image image, decode(sample));
  const auto [width, height] = std::pair(image.view.width, image.view.height);
  DLPIPE_ASSIGN_OR_RETURN(const std::span<const std::byte> record, reader_->record(sample));
  DLPIPE_ASSIGN_OR_RETURN(SampleMarks marks, SampleMarks::read(*dataset_, record, kinds, width, height));
  auto objects = std::make_unique<pipeline::RecordObjects>(limits_);
  DLPIPE_RETURN_IF_ERROR(objects->read(*dataset_, record, width, height, pastes));
  DLPIPE_ASSIGN_OR_RETURN(const data::RecordHeader header, dataset_->header(sample));
  return Shown{sample, std::move(image), std::move(marks), header.label, std::move(objects)};
}

std::optional<std::vector<Shown>> Source::shown(std::span<const int64_t> samples, const MarkKinds& kinds,
                                                bool pastes) {
  std::vector<Shown> all;
  for (const int64_t sample : samples) {
    Result<Shown> one = shown(sample, kinds, pastes);
    if (!one.ok()) {
      damaged_.emplace(sample, one.status());
      return std::nullopt;
    }
    all.push_back(*std::move(one));
  }
  return all;
}

ConstImageView region_of(const ConstImageView& source, const Region& region) {
  return {source.row(region.y) + ptrdiff_t{region.x} * source.channels, region.width, region.height,
          source.channels, source.stride};
}

/// Returns parts of images that are already decoded.
class Decoded : public augment::ImageSource {
 public:
  explicit Decoded(const std::vector<const Shown*>& images) : images_(images) {}
  Result<ConstImageView> pixels(size_t index, const augment::ChainPlan& plan, const ImageView& out) override {
    const ConstImageView part = region_of(images_[index]->image.view, plan.source_region);
    if (!plan.is_copy()) return part;
    augment::copy_image(part, out, false);
    return ConstImageView(out);
  }

 private:
  const std::vector<const Shown*>& images_;
};

/// A chain, and the scratch for applying it.
struct Runner {
  augment::Chain chain;
  augment::ChainPlan plan = {};
  augment::ChainScratch scratch = {};

  /// Applies the chain to the sample's own image and those joined with it.
  Result<Image> run(const std::vector<const Shown*>& images, const SampleKey& key) {
    std::vector<augment::PlannedImage> sizes;
    for (const Shown* one : images) {
      const ImageView& view = one->image.view;
      one->objects->give_to(
          sizes.emplace_back(augment::PlannedImage{{view.width, view.height, view.channels}, one->sample}));
    }
    DLPIPE_RETURN_IF_ERROR(chain.plan(sizes, key, plan));
    Image out(plan.out.width, plan.out.height, plan.out.channels);
    if (plan.is_joined()) {
      Decoded source(images);
      DLPIPE_RETURN_IF_ERROR(chain.apply_joined(plan, source, out.view, scratch));
      return out;
    }
    const ConstImageView pixels = region_of(images.front()->image.view, plan.source_region);
    DLPIPE_RETURN_IF_ERROR(chain.apply(plan, pixels, out.view, scratch));
    return out;
  }
};

/// Draws the rows of a grid: one per sample and chain, with the original image and each result of the chain.
class Grid {
 public:
  Grid(const data::Dataset& dataset, const PreviewOptions& options, std::vector<Runner> runners,
       Source source)
      : options_(options),
        classes_(dataset.classes()),
        runners_(std::move(runners)),
        source_(std::move(source)),
        // Chooses images to join with a sample's own as a run does.
        sampler_({.subset = pipeline::Subset::all(dataset.size()), .seed = options.seed}),
        samples_(std::min(options.samples, dataset.size())),
        image_(static_cast<int>(step() * (1 + options.times) + kGap),
               static_cast<int>(step() * samples_ * static_cast<int64_t>(runners_.size()) + kGap),
               static_cast<int>(options.channels)) {
    for (const Runner& runner : runners_) pastes_ = pastes_ || runner.chain.find_paste() != nullptr;
    augment::fill_region(view(), {0, 0, view().width, view().height}, kPaper);
  }

  int64_t samples() const { return samples_; }
  const ImageView& view() const { return image_.view; }
  const std::map<int64_t, Status>& damaged() const { return source_.damaged(); }
  /// Draws the rows of `sample`, the `number`th one; `cells` gets what was drawn.
  Status draw(int64_t sample, int64_t number, std::vector<PreviewCell>& cells);

 private:
  int64_t step() const { return options_.cell + kGap; }
  ImageView cell(int64_t row, int64_t column) const {
    return part(view(), static_cast<int>(kGap + column * step()), static_cast<int>(kGap + row * step()),
                static_cast<int>(options_.cell), static_cast<int>(options_.cell));
  }
  Result<bool> draw_result(Runner& runner, const Shown& own, const SampleKey& key, const ImageView& to);

  const PreviewOptions& options_;
  const std::span<const std::string> classes_;
  std::vector<Runner> runners_;
  Source source_;
  pipeline::Sampler sampler_;
  int64_t samples_;
  bool pastes_ = false;
  Image image_;
  std::vector<std::byte> work_;
};

Status Grid::draw(int64_t sample, int64_t number, std::vector<PreviewCell>& cells) {
  const auto own_images = source_.shown({&sample, 1}, options_.marks, pastes_);
  if (!own_images) return {};
  const Shown& own = own_images->front();
  const ImageView& original = own.image.view;
  Image shown(original.width, original.height, static_cast<int>(options_.channels));
  augment::copy_image(original, shown.view, false);
  own.marks.tint(shown.view);
  for (size_t c = 0; c < runners_.size(); ++c) {
    const int64_t row = number * static_cast<int64_t>(runners_.size()) + static_cast<int64_t>(c);
    own.marks.draw(place(shown.view, cell(row, 0), work_), classes_);
    if (own.label >= 0 && static_cast<size_t>(own.label) < classes_.size()) {
      const auto number = static_cast<size_t>(own.label);
      const ImageView to = cell(row, 0);
      draw_text(to, 0, to.height - kTextHeight, drawable_name(classes_[number], number),
                color_of_class(number));
    }
    for (int64_t time = 0; time < options_.times; ++time) {
      const SampleKey key = {.seed = options_.seed, .epoch = time, .position = sample, .sample = sample};
      DLPIPE_ASSIGN_OR_RETURN(const bool is_drawn, draw_result(runners_[c], own, key, cell(row, time + 1)));
      if (is_drawn)
        cells.push_back({sample, static_cast<int>(c), time, augment::Chain::describe(runners_[c].plan)});
    }
  }
  return {};
}

/// Draws the result of a chain with its marks. False if an image joined with the sample's own can't be shown.
Result<bool> Grid::draw_result(Runner& runner, const Shown& own, const SampleKey& key, const ImageView& to) {
  std::vector<int64_t> companions(static_cast<size_t>(runner.chain.others(key)));
  sampler_.companions(key.epoch, key.position, key.attempt, companions);
  const auto others = source_.shown(companions, options_.marks, pastes_);
  if (!others) return false;
  std::vector<const Shown*> images = {&own};
  for (const Shown& other : *others) images.push_back(&other);
  Result<Image> result = runner.run(images, key);
  if (!result.ok()) return result.status().with_context(concat("[preview] sample ", key.sample, ": "));
  std::vector<SampleMarks> marks;
  marks.reserve(images.size());
  for (const Shown* one : images) marks.push_back(one->marks);
  const SampleMarks moved = SampleMarks::moved(marks, runner.plan);
  moved.tint(result->view);
  moved.draw(place(result->view, to, work_), classes_);
  return true;
}

}  // namespace

Result<PreviewReport> preview(const data::Dataset& dataset, const PreviewOptions& options,
                              const augment::OpRegistry& registry) {
  std::vector<Runner> runners;
  for (const std::string& expression : options.chains) {
    DLPIPE_ASSIGN_OR_RETURN(augment::Chain chain, augment::Chain::parse(expression, registry));
    DLPIPE_RETURN_IF_ERROR(pipeline::check_objects("preview", chain, dataset));
    runners.push_back({std::move(chain)});
  }
  if (dataset.size() == 0) return misuse("preview", dataset.directory(), " is empty");
  std::error_code error;
  if (dataset.links() && std::filesystem::exists(options.out, error) &&
      is_inside(options.out, *dataset.links()))
    return misuse(
        "preview", options.out,
        " is among the files that hold the dataset's images and would be overwritten; write it elsewhere");
  DLPIPE_RETURN_IF_ERROR(SampleMarks::check(dataset, options.marks));
  DLPIPE_ASSIGN_OR_RETURN(Source source, Source::open(dataset, options));
  Grid grid(dataset, options, std::move(runners), std::move(source));
  PreviewReport report;
  report.width = grid.view().width;
  report.height = grid.view().height;
  for (int64_t i = 0; i < grid.samples(); ++i)
    DLPIPE_RETURN_IF_ERROR(grid.draw(i * dataset.size() / grid.samples(), i, report.cells));
  report.damaged = grid.damaged();
  if (report.cells.empty()) {
    const auto& [sample, why] = *report.damaged.begin();
    return why.with_context(concat("[preview] sample ", sample, ": "));
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> png, data::encode_png(grid.view()));
  DLPIPE_RETURN_IF_ERROR(
      formats::write_output(options.out, {reinterpret_cast<const char*>(png.data()), png.size()}));
  return report;
}

}  // namespace dlpipe::run
