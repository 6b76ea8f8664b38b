#include "run/task/coco_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dlpipe::run {

namespace {

constexpr size_t kOverlaps = 10, kRecalls = 101, kMostFound = 100;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

/// Steps from `low` to `high`, rounded like numpy's linspace, because pycocotools compares with these exact values.
template <size_t kCount>
constexpr std::array<double, kCount> steps(double low, double high) {
  std::array<double, kCount> all{};
  const double step = (high - low) / static_cast<double>(kCount - 1);
  for (size_t i = 0; i < kCount; ++i) all[i] = static_cast<double>(i) * step + low;
  all.back() = high;
  return all;
}

struct AreaRange {
  double least, most;
  bool holds(double area) const { return area >= least && area <= most; }
};
constexpr double kSmall = 32.0 * 32.0, kMedium = 96.0 * 96.0, kAnyArea = 1e10;
constexpr std::array<AreaRange, 4> kRanges = {
    {{0, kAnyArea}, {0, kSmall}, {kSmall, kMedium}, {kMedium, kAnyArea}}};

/// A box in COCO's form: a corner, a width and a height.
struct Rectangle {
  explicit Rectangle(const std::array<float, 4>& box)
      : x(box[0]),
        y(box[1]),
        width(static_cast<double>(box[2]) - box[0]),
        height(static_cast<double>(box[3]) - box[1]) {}
  double area() const { return width * height; }

  double x, y, width, height;
};

/// Intersection over union; for a crowd, intersection over the area of `found`, which may be any part of the crowd.
double overlap_of(const Rectangle& found, const Rectangle& object, bool is_crowd) {
  const double width = std::min(found.x + found.width, object.x + object.width) - std::max(found.x, object.x);
  const double height =
      std::min(found.y + found.height, object.y + object.height) - std::max(found.y, object.y);
  if (width <= 0 || height <= 0) return 0;
  const double both = width * height;
  return both / (is_crowd ? found.area() : found.area() + object.area() - both);
}

/// A box of a class, and its result at each overlap threshold.
struct Judged {
  float score = 0;
  std::array<bool, kOverlaps> is_right = {};
  std::array<bool, kOverlaps> is_ignored = {};  // neither right nor wrong
};

/// One class's boxes and objects in one image.
class ImageOfClass {
 public:
  ImageOfClass(const MapImage& image, int64_t label) {
    for (const FoundBox& found : image.found)
      if (found.label == label) found_.push_back(&found);
    for (const BoxObject& object : image.objects)
      if (object.label == label) objects_.push_back(&object);
    std::stable_sort(found_.begin(), found_.end(),
                     [](const FoundBox* a, const FoundBox* b) { return a->score > b->score; });
    if (found_.size() > kMostFound) found_.resize(kMostFound);
    for (const FoundBox* found : found_) {
      const Rectangle box(found->box);
      for (const BoxObject* object : objects_)
        overlaps_.push_back(overlap_of(box, Rectangle(object->box), object->is_crowd));
    }
  }

  /// Adds the boxes, judged by the objects with an area in `range`, and counts these objects. Other objects are ignored.
  void judge(const AreaRange& range, std::vector<Judged>& all, int64_t& objects) const {
    std::vector<bool> is_ignored;
    for (const BoxObject* object : objects_)
      is_ignored.push_back(object->is_crowd || !range.holds(Rectangle(object->box).area()));
    std::vector<size_t> order(objects_.size());  // objects that count come first
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_partition(order.begin(), order.end(), [&](size_t i) { return !is_ignored[i]; });
    objects += std::count(is_ignored.begin(), is_ignored.end(), false);

    const size_t first = all.size();
    for (const FoundBox* found : found_) all.push_back({.score = found->score});
    static constexpr std::array<double, kOverlaps> kLeast = steps<kOverlaps>(0.5, 0.95);
    for (size_t t = 0; t < kOverlaps; ++t) {
      std::vector<bool> is_taken(objects_.size());
      for (size_t d = 0; d < found_.size(); ++d) {
        Judged& judged = all[first + d];
        const std::ptrdiff_t match = match_of(d, kLeast[t], order, is_ignored, is_taken);
        if (match < 0) {
          judged.is_ignored[t] = !range.holds(Rectangle(found_[d]->box).area());
          continue;
        }
        is_taken[static_cast<size_t>(match)] = true;
        judged.is_ignored[t] = is_ignored[static_cast<size_t>(match)];
        judged.is_right[t] = !judged.is_ignored[t];
      }
    }
  }

 private:
  /// Of the objects that no earlier box has, the one with the largest overlap, the last of equal ones. A crowd may have several
  /// boxes. An ignored object is used only if no other one fits. -1: there is none.
  std::ptrdiff_t match_of(size_t found, double least, const std::vector<size_t>& order,
                          const std::vector<bool>& is_ignored, const std::vector<bool>& is_taken) const {
    double best = std::min(least, 1 - 1e-10);
    std::ptrdiff_t match = -1;
    for (const size_t i : order) {
      if (is_taken[i] && !objects_[i]->is_crowd) continue;
      if (match >= 0 && !is_ignored[static_cast<size_t>(match)] && is_ignored[i]) break;
      const double overlap = overlaps_[found * objects_.size() + i];
      if (overlap < best) continue;
      best = overlap;
      match = static_cast<std::ptrdiff_t>(i);
    }
    return match;
  }

  std::vector<const FoundBox*> found_;  // the highest score first
  std::vector<const BoxObject*> objects_;
  std::vector<double> overlaps_;  // [found, objects]
};

/// The mean over the recalls 0, 0.01 ... 1 of the highest precision at that recall or above. `judged` is sorted from the highest
/// score.
double precision_over_recalls(std::span<const Judged> judged, size_t overlap, int64_t objects) {
  std::vector<double> recalls, precisions;
  double right = 0, wrong = 0;
  for (const Judged& one : judged) {
    if (!one.is_ignored[overlap]) ++(one.is_right[overlap] ? right : wrong);
    recalls.push_back(right / static_cast<double>(objects));
    precisions.push_back(right / (right + wrong + std::numeric_limits<double>::epsilon()));
  }
  for (size_t i = precisions.size(); i-- > 1;) precisions[i - 1] = std::max(precisions[i - 1], precisions[i]);
  static constexpr std::array<double, kRecalls> kLevels = steps<kRecalls>(0, 1);
  double sum = 0;
  for (const double level : kLevels) {
    const auto at = std::lower_bound(recalls.begin(), recalls.end(), level) - recalls.begin();
    if (at < static_cast<std::ptrdiff_t>(precisions.size())) sum += precisions[static_cast<size_t>(at)];
  }
  return sum / static_cast<double>(kRecalls);
}

/// The average precision at each overlap threshold; NaN if no object counts.
std::array<double, kOverlaps> precisions_of(const std::vector<ImageOfClass>& images, const AreaRange& range,
                                            int64_t& objects) {
  std::vector<Judged> judged;
  objects = 0;
  for (const ImageOfClass& image : images) image.judge(range, judged, objects);
  std::stable_sort(judged.begin(), judged.end(),
                   [](const Judged& a, const Judged& b) { return a.score > b.score; });
  std::array<double, kOverlaps> precisions{};
  for (size_t t = 0; t < kOverlaps; ++t)
    precisions[t] = objects > 0 ? precision_over_recalls(judged, t, objects) : kNone;
  return precisions;
}

double mean_over_overlaps(const std::array<double, kOverlaps>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(kOverlaps);
}

}  // namespace

std::vector<ClassMap> coco_map(std::span<const MapImage> images, int64_t classes) {
  constexpr size_t kAt50 = 0, kAt75 = 5;
  std::vector<ClassMap> maps;
  for (int64_t label = 0; label < classes; ++label) {
    std::vector<ImageOfClass> own;
    ClassMap map;
    for (const MapImage& image : images) {
      own.emplace_back(image, label);
      map.found += std::ranges::count(image.found, label, &FoundBox::label);
    }
    int64_t ignored = 0;
    const auto all = precisions_of(own, kRanges[0], map.objects);
    map.ap = mean_over_overlaps(all);
    map.ap50 = all[kAt50];
    map.ap75 = all[kAt75];
    map.small = mean_over_overlaps(precisions_of(own, kRanges[1], ignored));
    map.medium = mean_over_overlaps(precisions_of(own, kRanges[2], ignored));
    map.large = mean_over_overlaps(precisions_of(own, kRanges[3], ignored));
    maps.push_back(map);
  }
  return maps;
}

}  // namespace dlpipe::run
