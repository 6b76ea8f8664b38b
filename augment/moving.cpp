// Moves boxes, points and masks through a plan, and pastes objects over an image.
#include "augment/moving.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "augment/chain_link.h"

namespace dlpipe::augment {

namespace {

/// Replaces the index of a row or column that is outside of the image.
constexpr int kNowhere = -1;

/// Number of parts that a box's side is divided into if lines do not stay lines.
constexpr int kSideParts = 8;

Region all_of(const ImageSize& size) {
  return {0, 0, size.width, size.height};
}

/// Whether a movement that keeps axes also stretches one.
bool stretches(const Movement& movement) {
  const Place begin = movement.source({0, 0}), end = movement.source({1, 1});
  return std::abs(end.x - begin.x) != 1 || std::abs(end.y - begin.y) != 1;
}

/// `at`, or if it is on the border of two pixels, a place just inside the right or lower one. Otherwise a flip before a resize
/// would change which of the two is read, and masks of flipped images would be shifted by a pixel.
double off_border(double at) {
  constexpr double kRounding = 1e-9, kOff = 1e-6;
  const auto border = static_cast<double>(std::lround(at));
  return std::abs(at - border) < kRounding ? border + kOff : at;
}

bool is_inside(const Place& place, const Region& seen) {
  return place.x >= seen.x && place.y >= seen.y && place.x <= seen.x + seen.width &&
         place.y <= seen.y + seen.height;
}

/// The bounds of the moved outline; parts behind a horizon are left out.
MovedBox moved_box(const Movement& movement, const MovedBox& box) {
  MovedBox moved = box;
  bool is_first = true;
  const auto add = [&](double x, double y) {
    const std::optional<Place> to = movement.target({x, y});
    if (!to.has_value()) return;
    moved.left = is_first ? to->x : std::min(moved.left, to->x);
    moved.top = is_first ? to->y : std::min(moved.top, to->y);
    moved.right = is_first ? to->x : std::max(moved.right, to->x);
    moved.bottom = is_first ? to->y : std::max(moved.bottom, to->y);
    is_first = false;
  };
  const int parts = movement.keeps_lines() ? 1 : kSideParts;
  for (int i = 0; i <= parts; ++i) {
    const double x = box.left + (box.right - box.left) * i / parts;
    const double y = box.top + (box.bottom - box.top) * i / parts;
    add(x, box.top);
    add(x, box.bottom);
    add(box.left, y);
    add(box.right, y);
  }
  return is_first ? MovedBox() : moved;
}

Place middle_of(const MovedBox& box) {
  return {(box.left + box.right) / 2, (box.top + box.bottom) / 2};
}

void clip(MovedBox& box, const Region& seen) {
  box.left = std::clamp<double>(box.left, seen.x, seen.x + seen.width);
  box.right = std::clamp<double>(box.right, seen.x, seen.x + seen.width);
  box.top = std::clamp<double>(box.top, seen.y, seen.y + seen.height);
  box.bottom = std::clamp<double>(box.bottom, seen.y, seen.y + seen.height);
}

}  // namespace

Moving::Moving(const ChainPlan& plan) : source_(plan.source) {
  add(plan);
}

Moving::Moving(const ChainPlan& plan, size_t image) : source_(plan.images[image].plan.source) {
  const JoinedImage& one = plan.images[image];
  add(one.plan);
  const Region& from = one.from;
  steps_.push_back({.movement = Movement::shifted(from.x - one.x, from.y - one.y),
                    .in = from,
                    .out = {one.x, one.y, from.width, from.height}});
  if (plan.pastes) {
    steps_.back().overlay = &plan.overlay;
    steps_.back().is_over = image > 0;
    placed_ = &one.boxes;
  }
  joined_steps_ = steps_.size();
  add(plan);
}

void Moving::add(const ChainPlan& plan) {
  for (size_t i = 0; i < plan.draws.size(); ++i) {
    const OpDraw& draw = plan.draws[i];
    if (!draw.active) continue;
    const ChainLink& link = *plan.links[i];
    Step step{link.op->movement(draw), all_of(draw.in), all_of(draw.out), false, link.judge, &draw};
    step.is_resize = step.movement.keeps_axes() && stretches(step.movement);
    if (!step.movement.is_none() || step.in != step.out || step.judge != nullptr)
      steps_.push_back(std::move(step));
  }
}

std::optional<MovedBox> Moving::box(std::span<const float, 4> row, size_t i) const {
  MovedBox box{row[0], row[1], row[2], row[3]};
  clip(box, all_of(source_));
  box.middle = middle_of(box);
  if (placed_ != nullptr) {
    if (i >= placed_->size() || !(*placed_)[i].has_value()) return std::nullopt;
    box = *(*placed_)[i];
  }
  for (const Step& step : std::span(steps_).subspan(placed_ != nullptr ? joined_steps_ : 0)) {
    if (!(box.area() > 0)) return std::nullopt;
    box = moved_box(step.movement, box);
    const double whole = box.area();
    box.middle = middle_of(box);
    clip(box, step.out);
    box.share *= whole > 0 ? box.area() / whole : 0;
    if (step.judge != nullptr && !step.judge->keeps(*step.draw, box)) return std::nullopt;
  }
  return box.area() > 0 ? std::optional(box) : std::nullopt;
}

void Moving::boxes(std::span<float> rows, std::vector<uint8_t>& kept) const {
  kept.assign(rows.size() / 4, 0);
  for (size_t i = 0; i < kept.size(); ++i) {
    const std::span<float, 4> row = rows.subspan(4 * i).first<4>();
    const std::optional<MovedBox> moved = box(row, i);
    if (!moved.has_value()) continue;
    kept[i] = 1;
    row[0] = static_cast<float>(moved->left);
    row[1] = static_cast<float>(moved->top);
    row[2] = static_cast<float>(moved->right);
    row[3] = static_cast<float>(moved->bottom);
  }
}

void Moving::points(std::span<float> rows) const {
  for (size_t i = 0; i + 2 < rows.size(); i += 3) {
    Place place{rows[i], rows[i + 1]};
    bool is_seen = is_inside(place, all_of(source_));
    for (const Step& step : steps_) {
      const std::optional<Place> to = step.movement.target(place);
      is_seen = is_seen && to.has_value() && is_inside(*to, step.out);
      if (is_seen && step.overlay != nullptr)
        is_seen = step.overlay->at(static_cast<int>(to->x), static_cast<int>(to->y)) == step.is_over;
      if (to.has_value()) place = *to;
    }
    rows[i] = static_cast<float>(place.x);
    rows[i + 1] = static_cast<float>(place.y);
    if (!is_seen) rows[i + 2] = 0;
  }
}

void Moving::mask(const ConstImageView& source, const ImageView& out, uint8_t fill) const {
  for (int y = 0; y < out.height; ++y) std::fill_n(out.row(y), out.width, fill);
  paint_mask(source, out);
}

Region Moving::reach(int width, int height) const {
  const Region all = {0, 0, width, height};
  if (joined_steps_ == 0) return all;
  const Region& joined = steps_[joined_steps_ - 1].out;
  if (joined.width == 0 || joined.height == 0) return {};
  MovedBox box{static_cast<double>(joined.x), static_cast<double>(joined.y),
               static_cast<double>(joined.x + joined.width), static_cast<double>(joined.y + joined.height)};
  for (const Step& step : std::span(steps_).subspan(joined_steps_)) {
    if (!step.movement.keeps_lines()) return all;
    for (const Place& corner : {Place{box.left, box.top}, Place{box.right, box.top},
                                Place{box.left, box.bottom}, Place{box.right, box.bottom}}) {
      if (!step.movement.target(corner).has_value()) return all;
    }
    box = moved_box(step.movement, box);
    clip(box, step.out);
  }
  constexpr int kMargin = 1;  // pixels, for rounding errors
  const int left = std::max(static_cast<int>(std::floor(box.left)) - kMargin, 0);
  const int top = std::max(static_cast<int>(std::floor(box.top)) - kMargin, 0);
  const int right = std::min(static_cast<int>(std::ceil(box.right)) + kMargin, width);
  const int bottom = std::min(static_cast<int>(std::ceil(box.bottom)) + kMargin, height);
  return {left, top, std::max(right - left, 0), std::max(bottom - top, 0)};
}

bool Moving::keeps_axes() const {
  return std::all_of(steps_.begin(), steps_.end(),
                     [](const Step& step) { return step.overlay == nullptr && step.movement.keeps_axes(); });
}

bool Moving::trace_axes(const Region& part, std::vector<int>& columns, std::vector<int>& rows) const {
  bool swapped = false;
  // `is_x`: the vector's current contents are x of the image, else y. A matrix that keeps axes does not depend on the other
  // one.
  const auto trace = [&](int begin, int length, bool is_x, std::vector<int>& traced) {
    traced.resize(static_cast<size_t>(length));
    for (int i = 0; i < length; ++i) {
      double at = begin + i + 0.5;
      bool x = is_x;
      bool is_seen = true;
      for (size_t s = steps_.size(); is_seen && s-- > 0;) {
        const Step& step = steps_[s];
        const Place in = step.movement.source(x ? Place{at, 0} : Place{0, at});
        x = x != step.movement.swaps_axes();
        at = x ? in.x : in.y;
        is_seen = x ? at >= step.in.x && at < step.in.x + step.in.width
                    : at >= step.in.y && at < step.in.y + step.in.height;
        if (is_seen && step.is_resize) at = off_border(at);
      }
      traced[static_cast<size_t>(i)] = is_seen ? static_cast<int>(at) : kNowhere;
    }
  };
  for (const Step& step : steps_) swapped = swapped != step.movement.swaps_axes();
  trace(part.x, part.width, true, columns);
  trace(part.y, part.height, false, rows);
  return swapped;
}

void Moving::paint_mask(const ConstImageView& source, const ImageView& out, const Region& part) const {
  if (!keeps_axes()) return paint_mask_by_pixels(source, out, part);
  std::vector<int> columns, rows;
  const bool swapped = trace_axes(part, columns, rows);
  for (int y = 0; y < part.height; ++y) {
    const int row = rows[static_cast<size_t>(y)];
    if (row == kNowhere) continue;
    uint8_t* const to = out.row(part.y + y) + part.x;
    const uint8_t* const from = swapped ? source.row(0) + row : source.row(row);
    const ptrdiff_t step = swapped ? source.stride : 1;
    for (size_t x = 0; x < columns.size(); ++x) {
      if (columns[x] != kNowhere) to[x] = from[columns[x] * step];
    }
  }
}

void Moving::paint_mask_by_pixels(const ConstImageView& source, const ImageView& out,
                                  const Region& part) const {
  const auto width = static_cast<size_t>(part.width);
  std::vector<double> xs(width), ys(width);
  std::vector<uint8_t> seen(width);
  for (int y = part.y; y < part.y + part.height; ++y) {
    for (size_t x = 0; x < width; ++x) xs[x] = part.x + static_cast<int>(x) + 0.5;
    std::fill(ys.begin(), ys.end(), y + 0.5);
    std::fill(seen.begin(), seen.end(), uint8_t{1});
    for (size_t s = steps_.size(); s-- > 0;) {
      const Step& step = steps_[s];
      if (step.overlay != nullptr) {
        for (size_t x = 0; x < width; ++x) {
          if (seen[x] == 0) continue;
          if (step.overlay->at(static_cast<int>(xs[x]), static_cast<int>(ys[x])) != step.is_over) seen[x] = 0;
        }
      }
      if (step.movement.keeps_lines()) {
        step.movement.sources(xs, ys);  // also for invisible ones, whose values are unused
      } else {
        for (size_t x = 0; x < width; ++x) {
          if (seen[x] == 0) continue;
          const Place in = step.movement.source({xs[x], ys[x]});
          xs[x] = in.x;
          ys[x] = in.y;
        }
      }
      const double left = step.in.x, right = step.in.x + step.in.width;
      const double top = step.in.y, bottom = step.in.y + step.in.height;
      for (size_t x = 0; x < width; ++x)
        seen[x] &= static_cast<uint8_t>(int{xs[x] >= left} & int{xs[x] < right} & int{ys[x] >= top} &
                                        int{ys[x] < bottom});
      for (size_t x = 0; step.is_resize && x < width; ++x) {
        if (seen[x] == 0) continue;
        xs[x] = off_border(xs[x]);
        ys[x] = off_border(ys[x]);
      }
    }
    uint8_t* const to = out.row(y) + part.x;
    for (size_t x = 0; x < width; ++x) {
      if (seen[x] != 0) to[x] = source.row(static_cast<int>(ys[x]))[static_cast<int>(xs[x])];
    }
  }
}

// --- pasting (chain_link.h has the rules)

namespace {

constexpr uint8_t kNoObject = 0, kUnknown = 255;  // of a mask

/// A part of the op's output.
struct Bounds {
  int left = 0, top = 0, right = 0, bottom = 0;

  bool is_empty() const { return left >= right || top >= bottom; }
  void add(const Bounds& more) {
    if (more.is_empty()) return;
    *this = is_empty() ? more
                       : Bounds{std::min(left, more.left), std::min(top, more.top),
                                std::max(right, more.right), std::max(bottom, more.bottom)};
  }
  bool overlaps(const Bounds& other) const {
    return std::max(left, other.left) < std::min(right, other.right) &&
           std::max(top, other.top) < std::min(bottom, other.bottom);
  }
  Region region() const { return is_empty() ? Region() : Region{left, top, right - left, bottom - top}; }
};

/// The pixels that a box touches, apart from rounding in moving it.
Bounds pixels_of(const MovedBox& box) {
  constexpr double kRounding = 1e-6;
  return {static_cast<int>(std::floor(box.left + kRounding)),
          static_cast<int>(std::floor(box.top + kRounding)),
          static_cast<int>(std::ceil(box.right - kRounding)),
          static_cast<int>(std::ceil(box.bottom - kRounding))};
}

/// One image's objects in the op's output.
class Objects {
 public:
  Objects(const ChainPlan& plan, size_t k, const PlannedImage& image)
      : moving_(plan, k), image_(image), width_(plan.source.width), height_(plan.source.height) {
    for (size_t i = 0; 4 * i + 3 < image.boxes.size(); ++i)
      boxes.push_back(moving_.box(image.boxes.subspan(4 * i).first<4>(), i));
  }

  /// Prepares is_of for the pixels of `part`.
  void paint(const Bounds& part) {
    classes_.assign(static_cast<size_t>(width_) * static_cast<size_t>(height_), kNoObject);
    if (image_.mask.width == 0 || part.is_empty()) return;
    moving_.paint_mask(image_.mask, {classes_.data(), width_, height_, 1, width_}, part.region());
  }
  /// Whether the pixel belongs to object i.
  bool is_of(size_t i, int x, int y) const {
    const uint8_t value =
        classes_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
    if (value == kNoObject || value == kUnknown) return false;
    return i >= image_.labels.size() || image_.labels[i] + 1 == value;
  }

  std::vector<std::optional<MovedBox>> boxes;

 private:
  Moving moving_;
  const PlannedImage& image_;
  int width_;
  int height_;
  std::vector<uint8_t> classes_;  // [height, width]
};

/// Marks the pixels of the remaining boxes. Drops boxes without pixels.
Overlay take(Objects& other) {
  Bounds all;
  for (const auto& box : other.boxes) {
    if (box.has_value()) all.add(pixels_of(*box));
  }
  Overlay overlay;
  overlay.region = all.region();
  overlay.pasted.assign(
      static_cast<size_t>(overlay.region.width) * static_cast<size_t>(overlay.region.height), 0);
  other.paint(all);
  for (size_t i = 0; i < other.boxes.size(); ++i) {
    if (!other.boxes[i].has_value()) continue;
    const Bounds pixels = pixels_of(*other.boxes[i]);
    bool is_there = false;
    for (int y = pixels.top; y < pixels.bottom; ++y) {
      uint8_t* const row = overlay.pasted.data() + ptrdiff_t{y - all.top} * overlay.region.width - all.left;
      for (int x = pixels.left; x < pixels.right; ++x) {
        if (!other.is_of(i, x, y)) continue;
        row[x] = 1;
        is_there = true;
      }
    }
    if (!is_there) other.boxes[i].reset();
  }
  return overlay;
}

/// The part of object i that `overlay` leaves visible; nullopt if less than `least` of its pixels are visible.
std::optional<MovedBox> left_of(const Objects& own, size_t i, const Overlay& overlay, double least) {
  MovedBox box = *own.boxes[i];
  const Bounds pixels = pixels_of(box);
  Bounds outline, seen;  // of its pixels, and of those that are seen
  int64_t count = 0, count_seen = 0, covered = 0;
  for (int y = pixels.top; y < pixels.bottom; ++y) {
    for (int x = pixels.left; x < pixels.right; ++x) {
      const bool is_covered = overlay.at(x, y);
      covered += is_covered ? 1 : 0;
      if (!own.is_of(i, x, y)) continue;
      const Bounds pixel = {x, y, x + 1, y + 1};
      outline.add(pixel);
      ++count;
      if (is_covered) continue;
      seen.add(pixel);
      ++count_seen;
    }
  }
  const int64_t area = int64_t{pixels.right - pixels.left} * (pixels.bottom - pixels.top);
  const double share = count > 0 ? static_cast<double>(count_seen) / static_cast<double>(count)
                                 : static_cast<double>(area - covered) / static_cast<double>(area);
  if (share <= 0 || share < least) return std::nullopt;
  box.share *= share;
  // A side of the box moves only if that side of the object's own outline did.
  if (seen.left > outline.left) box.left = std::max<double>(box.left, seen.left);
  if (seen.top > outline.top) box.top = std::max<double>(box.top, seen.top);
  if (seen.right < outline.right) box.right = std::min<double>(box.right, seen.right);
  if (seen.bottom < outline.bottom) box.bottom = std::min<double>(box.bottom, seen.bottom);
  return box;
}

}  // namespace

uint64_t paste_objects(const PasteOp& op, std::span<const PlannedImage> images, RandomStream& rng,
                       ChainPlan& plan) {
  Objects own(plan, 0, images[0]), other(plan, 1, images[1]);
  std::vector<uint8_t> chosen(other.boxes.size(), 0);
  op.choose(rng, chosen);
  uint64_t hash = chosen.size();
  for (size_t i = 0; i < chosen.size(); ++i) {
    hash = philox_mix(hash, chosen[i]);
    if (chosen[i] == 0) other.boxes[i].reset();
  }
  plan.overlay = take(other);
  const bool is_any =
      std::any_of(other.boxes.begin(), other.boxes.end(), [](const auto& box) { return box.has_value(); });
  if (!is_any) plan.overlay = {};
  const Region& region = plan.overlay.region;
  const Bounds over = {region.x, region.y, region.x + region.width, region.y + region.height};
  Bounds below;
  for (const auto& box : own.boxes) {
    if (box.has_value() && pixels_of(*box).overlaps(over)) below.add(pixels_of(*box));
  }
  own.paint(below);
  for (size_t i = 0; i < own.boxes.size(); ++i) {
    if (own.boxes[i].has_value() && pixels_of(*own.boxes[i]).overlaps(over))
      own.boxes[i] = left_of(own, i, plan.overlay, op.least_seen());
  }
  // Both are at 0, 0: only the pasted part of the other image is computed.
  plan.images[1].from = region;
  plan.images[1].x = region.x;
  plan.images[1].y = region.y;
  plan.draws.front().values[0] = static_cast<float>(
      std::count_if(other.boxes.begin(), other.boxes.end(), [](const auto& box) { return box.has_value(); }));
  plan.images[0].boxes = std::move(own.boxes);
  plan.images[1].boxes = std::move(other.boxes);
  plan.pastes = true;
  return hash;
}

void lay_over(const Overlay& overlay, const Region& at, const ConstImageView& from, const ImageView& to) {
  const auto channels = static_cast<size_t>(from.channels);
  for (int y = 0; y < at.height; ++y) {
    const uint8_t* const pixels = from.row(y);
    uint8_t* const row = to.row(y);
    for (int x = 0; x < at.width; ++x) {
      if (!overlay.at(at.x + x, at.y + y)) continue;
      std::memcpy(row + static_cast<size_t>(x) * channels, pixels + static_cast<size_t>(x) * channels,
                  channels);
    }
  }
}

}  // namespace dlpipe::augment
