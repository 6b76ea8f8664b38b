#include "dlpipe/augment/paste.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "dlpipe/augment/moving.h"

namespace dlpipe::augment {

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

/// The pixels that a box touches, but for what comes of rounding where it was moved.
Bounds pixels_of(const MovedBox& box) {
  constexpr double kRounding = 1e-6;
  return {static_cast<int>(std::floor(box.left + kRounding)),
          static_cast<int>(std::floor(box.top + kRounding)),
          static_cast<int>(std::ceil(box.right - kRounding)),
          static_cast<int>(std::ceil(box.bottom - kRounding))};
}

/// One picture's objects in the op's output.
class Objects {
 public:
  Objects(const ChainPlan& plan, size_t k, const PlannedPicture& picture)
      : moving_(plan, k), picture_(picture), width_(plan.source.width), height_(plan.source.height) {
    for (size_t i = 0; 4 * i + 3 < picture.boxes.size(); ++i)
      boxes.push_back(moving_.box(picture.boxes.subspan(4 * i).first<4>(), i));
  }

  /// Makes is_of answer for the pixels of `part`.
  void paint(const Bounds& part) {
    classes_.assign(static_cast<size_t>(width_) * static_cast<size_t>(height_), kNoObject);
    if (picture_.mask.width == 0 || part.is_empty()) return;
    moving_.paint_mask(picture_.mask, {classes_.data(), width_, height_, 1, width_}, part.region());
  }
  /// Whether the pixel is one of object i.
  bool is_of(size_t i, int x, int y) const {
    const uint8_t value =
        classes_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
    if (value == kNoObject || value == kUnknown) return false;
    return i >= picture_.labels.size() || picture_.labels[i] + 1 == value;
  }

  std::vector<std::optional<MovedBox>> boxes;

 private:
  Moving moving_;
  const PlannedPicture& picture_;
  int width_;
  int height_;
  std::vector<uint8_t> classes_;  // [height, width]
};

/// Marks the pixels of the boxes that are there, and leaves out those that have none.
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

/// What `overlay` leaves of object i: nothing where less than `least` of its pixels is seen.
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
  // A side moves where the object's own outline did.
  if (seen.left > outline.left) box.left = std::max<double>(box.left, seen.left);
  if (seen.top > outline.top) box.top = std::max<double>(box.top, seen.top);
  if (seen.right < outline.right) box.right = std::min<double>(box.right, seen.right);
  if (seen.bottom < outline.bottom) box.bottom = std::min<double>(box.bottom, seen.bottom);
  return box;
}

}  // namespace

uint64_t paste_objects(const PasteOp& op, std::span<const PlannedPicture> pictures, RandomStream& rng,
                       ChainPlan& plan) {
  Objects own(plan, 0, pictures[0]), other(plan, 1, pictures[1]);
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
  // Both stand at 0, 0: of the other picture only what is pasted is made.
  plan.pictures[1].from = region;
  plan.pictures[1].x = region.x;
  plan.pictures[1].y = region.y;
  plan.draws.front().values[0] = static_cast<float>(
      std::count_if(other.boxes.begin(), other.boxes.end(), [](const auto& box) { return box.has_value(); }));
  plan.pictures[0].boxes = std::move(own.boxes);
  plan.pictures[1].boxes = std::move(other.boxes);
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
