// The box codings of torchvision's detectors: FCOS, RetinaNet, and SSD with SSDlite. Arithmetic is in f32 and in torchvision's
// order, so that objects get the same rows and the returned boxes are the same (torchvision/models/detection, 0.29).
//
// One difference: rows without an object do not count if their anchor's middle is in a crowd. torchvision has no crowds.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "dlpipe/error.h"
#include "run/input/box_coding.h"

namespace dlpipe::run {

namespace {

using Box = std::array<float, 4>;

int64_t rows_of_level(const engine::BoxCoding::Level& level) {
  return level.rows * level.columns * static_cast<int64_t>(level.anchors.size());
}

int64_t count_anchors(const BoxRows& of) {
  if (of.height != of.coding.height || of.width != of.coding.width)
    refuse("model", "the model finds boxes in images of ", of.coding.height, "x", of.coding.width, ", got ",
           of.height, "x", of.width);
  int64_t rows = 0;
  for (const engine::BoxCoding::Level& level : of.coding.levels) rows += rows_of_level(level);
  return rows;
}

/// As AnchorGenerator: each cell has its level's anchors, moved to the cell's corner.
std::vector<Box> anchors_of(const engine::BoxCoding& coding) {
  std::vector<Box> anchors;
  for (const engine::BoxCoding::Level& level : coding.levels) {
    for (int64_t row = 0; row < level.rows; ++row) {
      for (int64_t column = 0; column < level.columns; ++column) {
        const auto x = static_cast<float>(static_cast<double>(column) * level.pitch[1]);
        const auto y = static_cast<float>(static_cast<double>(row) * level.pitch[0]);
        for (const Box& own : level.anchors)
          anchors.push_back({x + own[0], y + own[1], x + own[2], y + own[3]});
      }
    }
  }
  return anchors;
}

struct Place {
  float x, y;
};

Place middle_of(const Box& box) {
  return {(box[0] + box[2]) / 2, (box[1] + box[3]) / 2};
}

bool is_within(const Place& place, const Box& box) {
  return place.x >= box[0] && place.x <= box[2] && place.y >= box[1] && place.y <= box[3];
}

/// Writes 1 for the class of the row's object; returns the place for the four numbers of its box, after the classes.
float* write_class(const BoxRows& of, const BoxObject& object, float* row) {
  row[object.label] = 1;
  return row + of.classes;
}

/// Sets the weight of rows without an object to 0 if their anchor's middle is in a crowd.
void leave_out_crowds(std::span<const BoxObject> objects, const std::vector<Box>& anchors,
                      const std::vector<const BoxObject*>& object_of, float* weight) {
  for (const BoxObject& crowd : objects) {
    if (!crowd.is_crowd) continue;
    for (size_t i = 0; i < anchors.size(); ++i)
      if (object_of[i] == nullptr && is_within(middle_of(anchors[i]), crowd.box)) weight[i] = 0;
  }
}

std::vector<const BoxObject*> learned_of(std::span<const BoxObject> objects, int64_t classes) {
  std::vector<const BoxObject*> learned;
  for (const BoxObject& object : objects)
    if (is_learned(object, classes)) learned.push_back(&object);
  return learned;
}

float probability(float logit) {
  return 1 / (1 + std::exp(-logit));
}

/// A number below all logits with a probability above `least`. It is a little lower than necessary, to allow for rounding.
float logit_below(double least) {
  constexpr double kRounding = 0.01;
  return least <= 0 ? -std::numeric_limits<float>::infinity()
                    : static_cast<float>(std::log(least / std::max(1 - least, 1e-9)) - kRounding);
}

bool are_finite(const float* numbers, int64_t count) {
  return std::all_of(numbers, numbers + count, [](float number) { return std::isfinite(number); });
}

Box clipped(const Box& box, const BoxRows& of) {
  const auto width = static_cast<float>(of.width), height = static_cast<float>(of.height);
  return {std::clamp(box[0], 0.0f, width), std::clamp(box[1], 0.0f, height), std::clamp(box[2], 0.0f, width),
          std::clamp(box[3], 0.0f, height)};
}

/// A row and class that may be a box, before its box is computed.
struct Candidate {
  float score = 0;
  int64_t row = 0, label = 0;
};

/// Keeps the `most` candidates with the highest scores, sorted from the highest.
void keep_best(std::vector<Candidate>& candidates, int64_t most) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  if (static_cast<int64_t>(candidates.size()) > most) candidates.resize(static_cast<size_t>(most));
}

/// As torchvision's batched_nms: up to a thousand boxes are moved apart by class before overlaps are computed. Moving rounds them.
std::vector<FoundBox> best_of(const engine::BoxCoding& coding, const std::vector<FoundBox>& boxes) {
  constexpr size_t kMostMoved = 1000;
  const int64_t first_label = coding.name == "ssd" ? 1 : 0;  // class 0 is the background
  std::vector<FoundBox> moved = boxes;
  if (boxes.size() <= kMostMoved) {
    float largest = 0;
    for (const FoundBox& found : boxes) largest = std::max(largest, *std::ranges::max_element(found.box));
    for (FoundBox& found : moved)
      for (float& side : found.box) side += static_cast<float>(found.label + first_label) * (largest + 1);
  }
  std::vector<FoundBox> best;
  for (const size_t i : suppress_overlaps(moved, coding.nms_thresh)) {
    if (static_cast<int64_t>(best.size()) == coding.detections_per_img) break;
    best.push_back(boxes[i]);
  }
  return best;
}

/// The boxes of the best candidates of each level.
template <class Score, class Decode>
std::vector<FoundBox> find_by_level(const BoxRows& of, const Score& score_of, const Decode& box_of) {
  const std::vector<Box> anchors = anchors_of(of.coding);
  std::vector<FoundBox> boxes;
  int64_t first = 0;
  for (const engine::BoxCoding::Level& level : of.coding.levels) {
    std::vector<Candidate> candidates;
    const int64_t end = first + rows_of_level(level);
    for (int64_t row = first; row < end; ++row) {
      for (int64_t label = 0; label < of.classes; ++label) {
        const std::optional<float> score = score_of(row, label);
        if (score && *score > static_cast<float>(of.coding.score_thresh))
          candidates.push_back({*score, row, label});
      }
    }
    keep_best(candidates, of.coding.topk_candidates);
    for (const Candidate& one : candidates)
      boxes.push_back(
          {clipped(box_of(one.row, anchors[static_cast<size_t>(one.row)]), of), one.label, one.score});
    first = end;
  }
  return best_of(of.coding, boxes);
}

// ---- FCOS: an anchor is a point with a size; a row has the distances from the point to the box's sides, in units of that size

/// The object of each anchor; null if there is none. It is the smallest object whose middle is near the anchor's point, which
/// contains the point, and whose farthest side is within the level's range of distances.
std::vector<const BoxObject*> fcos_objects(const engine::BoxCoding& coding, const std::vector<Box>& anchors,
                                           const std::vector<const BoxObject*>& objects) {
  constexpr float kAreas = 1e8f;  // torchvision subtracts areas from it, in f32
  std::vector<const BoxObject*> object_of(anchors.size(), nullptr);
  size_t i = 0;
  for (size_t l = 0; l < coding.levels.size(); ++l) {
    for (const size_t end = i + static_cast<size_t>(rows_of_level(coding.levels[l])); i < end; ++i) {
      const Place point = middle_of(anchors[i]);
      const float size = anchors[i][2] - anchors[i][0];
      const float least = l == 0 ? 0 : size * 4;
      const float most = l + 1 == coding.levels.size() ? std::numeric_limits<float>::infinity() : size * 8;
      float best = 1e-5f;
      for (const BoxObject* object : objects) {
        const Box& box = object->box;
        const Place middle = middle_of(box);
        const float away = std::max(std::abs(point.x - middle.x), std::abs(point.y - middle.y));
        const Box sides = {point.x - box[0], point.y - box[1], box[2] - point.x, box[3] - point.y};
        const float nearest = *std::ranges::min_element(sides), farthest = *std::ranges::max_element(sides);
        const float value = kAreas - (box[2] - box[0]) * (box[3] - box[1]);
        const bool fits = away < static_cast<float>(coding.center_sampling_radius) * size && nearest > 0 &&
                          farthest > least && farthest < most;
        if (!fits || !(value > best)) continue;
        best = value;
        object_of[i] = object;
      }
    }
  }
  return object_of;
}

/// Writes the four sides, in units of the anchor's size, and the centerness: how near the point is to the box's middle. Rows
/// without an object get sides of 1: their box loss has weight 0, but must be finite.
void assign_fcos(const BoxRows& of, std::span<const BoxObject> objects, float* rows, float* weight) {
  const std::vector<Box> anchors = anchors_of(of.coding);
  const std::vector<const BoxObject*> object_of =
      fcos_objects(of.coding, anchors, learned_of(objects, of.classes));
  const int64_t width = of.classes + 5;
  for (size_t i = 0; i < anchors.size(); ++i) {
    float* const row = rows + static_cast<int64_t>(i) * width;
    if (object_of[i] == nullptr) {
      std::fill_n(row + of.classes, 4, 1.0f);
      continue;
    }
    float* const sides = write_class(of, *object_of[i], row);
    const Box& box = object_of[i]->box;
    const float x = 0.5f * (anchors[i][0] + anchors[i][2]), y = 0.5f * (anchors[i][1] + anchors[i][3]);
    const float across = anchors[i][2] - anchors[i][0], down = anchors[i][3] - anchors[i][1];
    sides[0] = (x - box[0]) / across;
    sides[1] = (y - box[1]) / down;
    sides[2] = (box[2] - x) / across;
    sides[3] = (box[3] - y) / down;
    const auto [left, right] = std::minmax(sides[0], sides[2]);
    const auto [upper, lower] = std::minmax(sides[1], sides[3]);
    sides[4] = std::sqrt((left / right) * (upper / lower));
  }
  leave_out_crowds(objects, anchors, object_of, weight);
}

std::vector<FoundBox> find_fcos(const BoxRows& of, std::span<const float> outputs) {
  const int64_t width = of.classes + 5;
  const auto row_of = [&](int64_t row) { return outputs.data() + row * width; };
  const float least = logit_below(of.coding.score_thresh * of.coding.score_thresh);  // with a centerness of 1
  return find_by_level(
      of,
      [&](int64_t row, int64_t label) -> std::optional<float> {
        const float* const own = row_of(row);
        if (!(own[label] > least) || !std::isfinite(own[label]) || !are_finite(own + of.classes, 5))
          return std::nullopt;
        return std::sqrt(probability(own[label]) * probability(own[of.classes + 4]));
      },
      [&](int64_t row, const Box& anchor) -> Box {
        const float* const sides = row_of(row) + of.classes;
        const float x = 0.5f * (anchor[0] + anchor[2]), y = 0.5f * (anchor[1] + anchor[3]);
        const float across = anchor[2] - anchor[0], down = anchor[3] - anchor[1];
        return {x - sides[0] * across, y - sides[1] * down, x + sides[2] * across, y + sides[3] * down};
      });
}

// ---- RetinaNet and SSD: a row has the middle and size of the box, relative to those of its anchor

float overlap_of_boxes(const Box& a, const Box& b) {
  const float width = std::max(0.0f, std::min(a[2], b[2]) - std::max(a[0], b[0]));
  const float height = std::max(0.0f, std::min(a[3], b[3]) - std::max(a[1], b[1]));
  const float both = width * height;
  return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both);
}

/// A box as its middle and size.
struct Extent {
  explicit Extent(const Box& box)
      : width(box[2] - box[0]),
        height(box[3] - box[1]),
        x(box[0] + 0.5f * width),
        y(box[1] + 0.5f * height) {}
  float width, height, x, y;
};

std::array<float, 4> float_weights(const engine::BoxCoding& coding) {
  std::array<float, 4> weights{};
  std::ranges::transform(coding.weights, weights.begin(),
                         [](double weight) { return static_cast<float>(weight); });
  return weights;
}

/// As BoxCoder.encode_single.
std::array<float, 4> encoded(const engine::BoxCoding& coding, const Box& box, const Box& anchor) {
  const std::array<float, 4> weights = float_weights(coding);
  const Extent own(anchor), object(box);
  return {weights[0] * (object.x - own.x) / own.width, weights[1] * (object.y - own.y) / own.height,
          weights[2] * std::log(object.width / own.width), weights[3] * std::log(object.height / own.height)};
}

/// As BoxCoder.decode_single.
Box decoded(const engine::BoxCoding& coding, const float* code, const Box& anchor) {
  const float most = static_cast<float>(std::log(1000.0 / 16));  // of a logarithm
  const std::array<float, 4> weights = float_weights(coding);
  const Extent own(anchor);
  const float x = code[0] / weights[0] * own.width + own.x, y = code[1] / weights[1] * own.height + own.y;
  const float across = 0.5f * (std::exp(std::min(code[2] / weights[2], most)) * own.width);
  const float down = 0.5f * (std::exp(std::min(code[3] / weights[3], most)) * own.height);
  return {x - across, y - down, x + across, y + down};
}

/// Overlaps of objects and anchors, [objects, anchors].
class Overlaps {
 public:
  Overlaps(const std::vector<const BoxObject*>& objects, const std::vector<Box>& anchors)
      : objects_(objects), anchors_(anchors.size()) {
    values_.reserve(objects.size() * anchors.size());
    for (const BoxObject* object : objects)
      for (const Box& anchor : anchors) values_.push_back(overlap_of_boxes(object->box, anchor));
  }
  size_t objects() const { return objects_.size(); }
  const BoxObject* object(size_t number) const { return objects_[number]; }
  std::span<const float> of(size_t object) const {
    return std::span(values_).subspan(object * anchors_, anchors_);
  }
  /// The object that overlaps the anchor most, the first of equal ones. There must be an object.
  size_t best_at(size_t anchor) const {
    size_t best = 0;
    for (size_t object = 1; object < objects_.size(); ++object)
      if (of(object)[anchor] > of(best)[anchor]) best = object;
    return best;
  }

 private:
  const std::vector<const BoxObject*>& objects_;
  const size_t anchors_;
  std::vector<float> values_;
};

/// Writes the rows of anchors with an object: its class and code; `more` further numbers follow. Returns the number of such rows.
int64_t write_objects(const BoxRows& of, const std::vector<Box>& anchors,
                      const std::vector<const BoxObject*>& object_of, int64_t more, float* rows) {
  int64_t count = 0;
  for (size_t i = 0; i < anchors.size(); ++i) {
    if (object_of[i] == nullptr) continue;
    ++count;
    float* const code =
        write_class(of, *object_of[i], rows + static_cast<int64_t>(i) * (of.classes + 4 + more));
    std::ranges::copy(encoded(of.coding, object_of[i]->box, anchors[i]), code);
  }
  return count;
}

/// As Matcher with allow_low_quality_matches. An anchor has the object that it overlaps most, if their overlap reaches
/// fg_iou_thresh, or if no anchor overlaps some object more. Other anchors with an overlap of bg_iou_thresh or more do not count.
/// Weights are divided by the number of rows with an object, so that all images weigh the same; the last number of the first row
/// is the image's weight.
void assign_retinanet(const BoxRows& of, std::span<const BoxObject> objects, float* rows, float* weight) {
  constexpr int64_t kMore = 1;
  const std::vector<Box> anchors = anchors_of(of.coding);
  const std::vector<const BoxObject*> learned = learned_of(objects, of.classes);
  const Overlaps overlaps(learned, anchors);
  std::vector<const BoxObject*> object_of(anchors.size(), nullptr), best_of(anchors.size(), nullptr);
  std::vector<bool> is_between(anchors.size(), false);
  for (size_t i = 0; i < anchors.size() && !learned.empty(); ++i) {
    const size_t best = overlaps.best_at(i);
    const float overlap = overlaps.of(best)[i];
    best_of[i] = overlaps.object(best);
    if (overlap >= static_cast<float>(of.coding.fg_iou_thresh)) object_of[i] = best_of[i];
    is_between[i] = object_of[i] == nullptr && overlap >= static_cast<float>(of.coding.bg_iou_thresh);
  }
  for (size_t object = 0; object < overlaps.objects(); ++object) {
    const std::span<const float> own = overlaps.of(object);
    const float most = *std::ranges::max_element(own);
    for (size_t i = 0; i < own.size() && most > 0; ++i)
      if (own[i] == most) object_of[i] = best_of[i];
  }
  const float of_image = weight[0];
  const int64_t count = write_objects(of, anchors, object_of, kMore, rows);
  rows[of.classes + 4] = of_image;
  for (size_t i = 0; i < anchors.size(); ++i) {
    const bool is_ignored = is_between[i] && object_of[i] == nullptr;
    weight[i] = is_ignored ? 0 : of_image / static_cast<float>(std::max<int64_t>(count, 1));
  }
  leave_out_crowds(objects, anchors, object_of, weight);
}

std::vector<FoundBox> find_retinanet(const BoxRows& of, std::span<const float> outputs) {
  const int64_t width = of.classes + 4;
  const auto row_of = [&](int64_t row) { return outputs.data() + row * width; };
  const float least = logit_below(of.coding.score_thresh);
  return find_by_level(
      of,
      [&](int64_t row, int64_t label) -> std::optional<float> {
        const float* const own = row_of(row);
        if (!(own[label] > least) || !std::isfinite(own[label]) || !are_finite(own + of.classes, 4))
          return std::nullopt;
        return probability(own[label]);
      },
      [&](int64_t row, const Box& anchor) { return decoded(of.coding, row_of(row) + of.classes, anchor); });
}

/// As DefaultBoxGenerator: sizes and middles are fractions of the image.
std::vector<Box> default_boxes_of(const engine::BoxCoding& coding) {
  const auto across = static_cast<float>(coding.width), down = static_cast<float>(coding.height);
  std::vector<Box> boxes;
  for (const engine::BoxCoding::Level& level : coding.levels) {
    for (int64_t row = 0; row < level.rows; ++row) {
      for (int64_t column = 0; column < level.columns; ++column) {
        const float x = (static_cast<float>(column) + 0.5f) / static_cast<float>(level.pitch[1]);
        const float y = (static_cast<float>(row) + 0.5f) / static_cast<float>(level.pitch[0]);
        for (const Box& own : level.anchors) {
          const float half_width = 0.5f * (own[2] - own[0]), half_height = 0.5f * (own[3] - own[1]);
          boxes.push_back({(x - half_width) * across, (y - half_height) * down, (x + half_width) * across,
                           (y + half_height) * down});
        }
      }
    }
  }
  return boxes;
}

/// As SSDMatcher: an anchor has the object that it overlaps most, if their overlap reaches fg_iou_thresh. Whatever the overlap,
/// the anchor that overlaps an object most has that object, the last of several such objects. The last number of the first row
/// says how many rows without an object count.
void assign_ssd(const BoxRows& of, std::span<const BoxObject> objects, float* rows, float* weight) {
  constexpr int64_t kMore = 1;
  const std::vector<Box> anchors = default_boxes_of(of.coding);
  const std::vector<const BoxObject*> learned = learned_of(objects, of.classes);
  const Overlaps overlaps(learned, anchors);
  std::vector<const BoxObject*> object_of(anchors.size(), nullptr);
  for (size_t i = 0; i < anchors.size() && !learned.empty(); ++i) {
    const size_t best = overlaps.best_at(i);
    if (overlaps.of(best)[i] >= static_cast<float>(of.coding.fg_iou_thresh))
      object_of[i] = overlaps.object(best);
  }
  for (size_t object = 0; object < overlaps.objects(); ++object) {
    const std::span<const float> own = overlaps.of(object);
    object_of[static_cast<size_t>(std::ranges::max_element(own) - own.begin())] = overlaps.object(object);
  }
  const int64_t count = write_objects(of, anchors, object_of, kMore, rows);
  rows[of.classes + 4] =
      std::ceil(static_cast<float>(of.coding.neg_to_pos_ratio) * static_cast<float>(count));
  leave_out_crowds(objects, anchors, object_of, weight);
}

/// Softmax over the background, which comes first, and the classes: f32 [rows, 1 + classes]. A row is NaN if any of its numbers
/// is not finite.
std::vector<float> ssd_scores(const BoxRows& of, std::span<const float> outputs) {
  const int64_t logits = of.classes + 1, width = of.classes + 5;
  std::vector<float> scores;
  for (int64_t row = 0; row < static_cast<int64_t>(outputs.size()) / width; ++row) {
    const float* const own = outputs.data() + row * width;
    const bool is_good = are_finite(own, width);
    const float largest = *std::max_element(own, own + logits);
    float sum = 0;
    for (int64_t k = 0; k < logits; ++k) sum += scores.emplace_back(std::exp(own[k] - largest));
    if (!is_good) sum = std::numeric_limits<float>::quiet_NaN();
    for (float& score : std::span(scores).last(static_cast<size_t>(logits))) score /= sum;
  }
  return scores;
}

/// The boxes of the best candidates of each class.
std::vector<FoundBox> find_ssd(const BoxRows& of, std::span<const float> outputs) {
  const std::vector<Box> anchors = default_boxes_of(of.coding);
  const std::vector<float> scores = ssd_scores(of, outputs);
  const int64_t width = of.classes + 5;
  std::vector<FoundBox> boxes;
  for (int64_t label = 0; label < of.classes; ++label) {
    std::vector<Candidate> candidates;
    for (size_t i = 0; i < anchors.size(); ++i) {
      const float score = scores[i * static_cast<size_t>(of.classes + 1) + static_cast<size_t>(label) + 1];
      if (score > static_cast<float>(of.coding.score_thresh))
        candidates.push_back({score, static_cast<int64_t>(i), label});
    }
    keep_best(candidates, of.coding.topk_candidates);
    for (const Candidate& one : candidates) {
      const float* const code = outputs.data() + one.row * width + of.classes + 1;
      boxes.push_back(
          {clipped(decoded(of.coding, code, anchors[static_cast<size_t>(one.row)]), of), label, one.score});
    }
  }
  return best_of(of.coding, boxes);
}

constexpr BoxCodingRecord retinanet(const char* name, const char* loss) {
  return {.name = name,
          .loss = loss,
          .others = 4,
          .more = 1,
          .is_by_image = true,
          .rows = count_anchors,
          .assign = assign_retinanet,
          .find = find_retinanet};
}

}  // namespace

extern const BoxCodingRecord fcos_boxes, retinanet_boxes, retinanet_giou_boxes, ssd_boxes;
const BoxCodingRecord fcos_boxes = {
    .name = "fcos",
    .loss = "torchvision_fcos",
    .others = 5,
    .more = 1,
    .rows = count_anchors,
    .assign = assign_fcos,
    .find = find_fcos,
};
const BoxCodingRecord retinanet_boxes = retinanet("retinanet", "torchvision_retinanet");
const BoxCodingRecord retinanet_giou_boxes = retinanet("retinanet_giou", "torchvision_retinanet_giou");
const BoxCodingRecord ssd_boxes = {
    .name = "ssd",
    .loss = "torchvision_ssd",
    .others = 5,
    .more = 1,
    .rows = count_anchors,
    .assign = assign_ssd,
    .find = find_ssd,
};

}  // namespace dlpipe::run
