#include "io/data/sources/annotations/outlines.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <utility>

#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"

namespace dlpipe::data {

namespace {

constexpr uint8_t kUnknown = 255;

Status wrong_outline(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

/// What a mask may cost: steps along outlines and pixels inside of them, each counted as often as it is drawn. Objects in
/// photographs overlap only a few times; without a limit, drawing a small file could take hours.
class Work {
 public:
  Work(int width, int height)
      : left_(kBase + kPerPixel * static_cast<uint64_t>(width) * static_cast<uint64_t>(height)) {}
  Status take(uint64_t steps) {
    if (steps > left_)
      return Status(ErrorCode::kUnsupported,
                    "its outlines are too long or overlap too often; leave some of them out");
    left_ -= steps;
    return {};
  }

 private:
  static constexpr uint64_t kBase = uint64_t{1} << 24;
  static constexpr uint64_t kPerPixel = 256;
  uint64_t left_;
};

/// Where the border of a polygon crosses columns of pixels. It is walked as COCO's rleFrPoly (pycocotools, maskApi.c) walks it,
/// so that the pixels are the same: on a grid five times as fine, each edge in steps of one along its longer side. Two
/// crossings at one place cancel out, so one bit for each place is enough, however long the border is.
class Border {
 public:
  Border(int width, int height)
      : width_(width),
        height_(height),
        places_(static_cast<uint64_t>(width) * static_cast<uint64_t>(height)) {}

  Status walk(std::span<const double> polygon, double x_scale, double y_scale, Work& work) {
    if (bits_.empty()) bits_.resize(places_ / 64 + 1);
    const size_t count = polygon.size() / 2;
    if (polygon.size() % 2 != 0 || count < 3)
      return wrong_outline(concat("an outline has ", polygon.size(), " numbers; a polygon has 6, 8, ..."));
    has_last_ = false;
    for (size_t i = 0; i < count; ++i) {
      const size_t next = (i + 1) % count;
      DLPIPE_ASSIGN_OR_RETURN(const Point from, fine(polygon[2 * i] * x_scale, polygon[2 * i + 1] * y_scale));
      DLPIPE_ASSIGN_OR_RETURN(const Point to,
                              fine(polygon[2 * next] * x_scale, polygon[2 * next + 1] * y_scale));
      DLPIPE_RETURN_IF_ERROR(
          work.take(static_cast<uint64_t>(std::max(std::abs(to.x - from.x), std::abs(to.y - from.y)))));
      edge(from, to);
    }
    return {};
  }

  /// Calls fill(begin, end) for each run of places that is inside, column by column, and forgets the border.
  template <class Fill>
  Status take(const Fill& fill) {
    std::optional<uint64_t> begin;
    Status status;
    const auto cross = [&](uint64_t place) {
      if (begin && status.ok()) status = fill(*begin, place);
      begin = begin ? std::nullopt : std::optional(place);
    };
    for (uint64_t word = first_word_; word <= last_word_; ++word) {
      for (uint64_t left = std::exchange(bits_[word], 0); left != 0; left &= left - 1)
        cross(64 * word + static_cast<uint64_t>(std::countr_zero(left)));
    }
    if (begin) cross(places_);
    first_word_ = UINT64_MAX;
    last_word_ = 0;
    return status;
  }

 private:
  static constexpr int kFine = 5;
  struct Point {
    int x = 0;
    int y = 0;
  };

  /// Points that are further outside than the size of the image belong to another image; walking to them would also take long.
  Result<Point> fine(double x, double y) const {
    const bool is_near = x >= -width_ && x <= 2.0 * width_ && y >= -height_ && y <= 2.0 * height_;
    if (!is_near) return wrong_outline(concat("an outline reaches ", x, ",", y, ", far outside the image"));
    // NOLINTNEXTLINE(bugprone-incorrect-roundings): as pycocotools
    return Point{static_cast<int>(kFine * x + 0.5), static_cast<int>(kFine * y + 0.5)};
  }

  /// Computed from the edge's left or upper end in both directions, so that neighbouring objects share their border.
  void edge(Point from, Point to) {
    const int dx = std::abs(to.x - from.x);
    const int dy = std::abs(to.y - from.y);
    const int steps = std::max(dx, dy);
    if (steps == 0) return;
    const bool is_flat = dx >= dy;
    const bool is_backward = is_flat ? from.x > to.x : from.y > to.y;
    const Point low = is_backward ? to : from;
    const Point high = is_backward ? from : to;
    const double slope =
        is_flat ? static_cast<double>(high.y - low.y) / dx : static_cast<double>(high.x - low.x) / dy;
    // NOLINTBEGIN(bugprone-incorrect-roundings): as pycocotools
    for (int step = 0; step <= steps; ++step) {
      const int t = is_backward ? steps - step : step;
      if (is_flat)
        visit({low.x + t, static_cast<int>(low.y + slope * t + 0.5)});
      else
        visit({static_cast<int>(low.x + slope * t + 0.5), low.y + t});
    }
    // NOLINTEND(bugprone-incorrect-roundings)
  }

  void visit(Point point) {
    if (has_last_ && point.x != last_.x) {
      const int x = point.x < last_.x ? point.x : point.x - 1;
      constexpr int kMiddle = kFine / 2;
      if (x >= 0 && x % kFine == kMiddle && x / kFine < width_) {
        const int y = std::min(point.y, last_.y);
        const int row = y <= kMiddle ? 0 : std::min(height_, (y - kMiddle + kFine - 1) / kFine);
        const uint64_t place =
            static_cast<uint64_t>(x / kFine) * static_cast<uint64_t>(height_) + static_cast<uint64_t>(row);
        bits_[place / 64] ^= uint64_t{1} << place % 64;
        first_word_ = std::min(first_word_, place / 64);
        last_word_ = std::max(last_word_, place / 64);
      }
    }
    last_ = point;
    has_last_ = true;
  }

  const int width_;
  const int height_;
  bool has_last_ = false;
  Point last_;
  const uint64_t places_;
  std::vector<uint64_t> bits_;  // crossings: a bit for each place, and one after the last place
  uint64_t first_word_ = UINT64_MAX;
  uint64_t last_word_ = 0;
};

/// The mask while it is drawn, column by column.
struct Drawing {
  int width;
  int height;
  std::vector<uint8_t> columns;
  Work work{width, height};

  Status fill(uint64_t begin, uint64_t end, uint8_t number) {
    DLPIPE_RETURN_IF_ERROR(work.take(end - begin));
    for (uint64_t at = begin; at < end; ++at)
      columns[at] = columns[at] == 0 || columns[at] == number ? number : kUnknown;
    return {};
  }
  std::vector<uint8_t> rows() const {
    std::vector<uint8_t> out(columns.size());
    const auto w = static_cast<size_t>(width);
    const auto h = static_cast<size_t>(height);
    for (size_t x = 0; x < w; ++x)
      for (size_t y = 0; y < h; ++y) out[y * w + x] = columns[x * h + y];
    return out;
  }
};

Status draw_runs(const Outline& outline, uint8_t number, Drawing& drawing) {
  if (outline.runs_width != drawing.width || outline.runs_height != drawing.height)
    return wrong_outline(concat("an outline is for an image of ", outline.runs_width, "x",
                                outline.runs_height, ", but the file is ", drawing.width, "x",
                                drawing.height));
  const uint64_t all = std::accumulate(outline.runs.begin(), outline.runs.end(), uint64_t{0});
  if (all != drawing.columns.size())
    return wrong_outline(
        concat("the runs of an outline cover ", all, " pixels instead of ", drawing.columns.size()));
  uint64_t at = 0;
  for (size_t i = 0; i < outline.runs.size(); ++i) {
    if (i % 2 == 1) DLPIPE_RETURN_IF_ERROR(drawing.fill(at, at + outline.runs[i], number));
    at += outline.runs[i];
  }
  return {};
}

/// Boxes may continue outside of the image.
void cut_off(std::vector<double>& polygon, double width, double height) {
  for (size_t i = 0; i < polygon.size(); ++i)
    polygon[i] = std::clamp(polygon[i], 0.0, i % 2 == 0 ? width : height);
}

template <class T>
void append(std::vector<std::byte>& bytes, std::span<const T> values) {
  const uint64_t count = values.size();
  const auto head = std::as_bytes(std::span(&count, 1));
  const auto body = std::as_bytes(values);
  bytes.insert(bytes.end(), head.begin(), head.end());
  bytes.insert(bytes.end(), body.begin(), body.end());
}

}  // namespace

Result<std::vector<uint32_t>> unpack_runs(std::string_view text) {
  std::vector<uint32_t> runs;
  for (size_t at = 0; at < text.size();) {
    int64_t value = 0;
    bool has_more = true;
    int shift = 0;
    for (; has_more; shift += 5, ++at) {
      constexpr int kMostShift = 30;
      if (at == text.size()) return wrong_outline("its text ends within a number");
      const int group = text[at] - '0';
      if (group < 0 || group > 63 || shift > kMostShift)
        return wrong_outline("its text is not COCO's format of runs");
      value |= int64_t{group & 0x1f} << shift;
      has_more = (group & 0x20) != 0;
      if (!has_more && (group & 0x10) != 0) value -= int64_t{1} << (shift + 5);  // the sign
    }
    if (runs.size() > 2) value += runs[runs.size() - 2];
    if (value < 0 || value > UINT32_MAX) return wrong_outline("its text has an invalid run");
    runs.push_back(static_cast<uint32_t>(value));
  }
  return runs;
}

Result<std::vector<uint8_t>> draw_mask(std::span<const Outline> outlines, std::span<const int64_t> labels,
                                       int width, int height, bool is_relative) {
  Drawing drawing{width, height,
                  std::vector<uint8_t>(static_cast<size_t>(width) * static_cast<size_t>(height))};
  Border border(width, height);
  for (const Outline& outline : outlines) {
    if (outline.object >= labels.size()) return wrong_outline("an outline belongs to no object");
    const int64_t label = labels[outline.object];
    if (label < 0 || label >= static_cast<int64_t>(kMostMaskClasses))
      return Status(ErrorCode::kUnsupported,
                    concat("an outline has class ", label, "; a mask holds ", kMostMaskClasses, " classes"));
    const uint8_t number = outline.is_known ? static_cast<uint8_t>(label + 1) : kUnknown;
    if (!outline.runs.empty()) DLPIPE_RETURN_IF_ERROR(draw_runs(outline, number, drawing));
    for (std::vector<double> polygon : outline.polygons) {
      if (!outline.is_known) cut_off(polygon, is_relative ? 1 : width, is_relative ? 1 : height);
      DLPIPE_RETURN_IF_ERROR(
          border.walk(polygon, is_relative ? width : 1, is_relative ? height : 1, drawing.work));
      DLPIPE_RETURN_IF_ERROR(
          border.take([&](uint64_t begin, uint64_t end) { return drawing.fill(begin, end, number); }));
    }
  }
  return drawing.rows();
}

std::string Outlines::keep(std::vector<Outline> outlines) {
  std::vector<std::byte> bytes;
  for (const Outline& outline : outlines) {
    const uint64_t head[] = {outline.object, uint64_t{outline.is_known},
                             static_cast<uint64_t>(outline.runs_width),
                             static_cast<uint64_t>(outline.runs_height), outline.polygons.size()};
    append(bytes, std::span<const uint64_t>(head));
    append(bytes, std::span(outline.runs));
    for (const std::vector<double>& polygon : outline.polygons) append(bytes, std::span(polygon));
  }
  std::string reference = hex64(checksum64(bytes));
  by_reference_.emplace(reference, std::move(outlines));
  return reference;
}

Result<std::vector<std::byte>> Outlines::mask(std::string_view reference, std::span<const int64_t> labels,
                                              int width, int height, bool is_relative) const {
  const auto found = by_reference_.find(std::string(reference));
  if (found == by_reference_.end()) return Status(ErrorCode::kChanged, "its outlines have changed");
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<uint8_t> pixels,
                          draw_mask(found->second, labels, width, height, is_relative));
  return encode_png({pixels.data(), width, height, 1, width});
}

}  // namespace dlpipe::data
