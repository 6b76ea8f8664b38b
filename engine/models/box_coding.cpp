#include "engine/models/box_coding.h"

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/text.h"

namespace dlpipe::engine {

namespace {

using formats::Json;

constexpr int64_t kMostSide = 1 << 16, kMostRows = 1 << 24, kMostStride = 1 << 10, kMostLevels = 64;

/// Calls visit(key, number) for each number of a coding with levels; each_count does the same for its integers.
template <class Coding, class Visit>
void each_number(Coding& coding, Visit&& visit) {
  visit("score_thresh", coding.score_thresh);
  visit("nms_thresh", coding.nms_thresh);
  visit("center_sampling_radius", coding.center_sampling_radius);
  visit("fg_iou_thresh", coding.fg_iou_thresh);
  visit("bg_iou_thresh", coding.bg_iou_thresh);
  visit("neg_to_pos_ratio", coding.neg_to_pos_ratio);
}
template <class Coding, class Visit>
void each_count(Coding& coding, Visit&& visit) {
  visit("others", coding.others, 32);
  visit("height", coding.height, kMostSide);
  visit("width", coding.width, kMostSide);
  visit("topk_candidates", coding.topk_candidates, kMostRows);
  visit("detections_per_img", coding.detections_per_img, kMostRows);
}

template <class Numbers>
Json list_of(const Numbers& numbers) {
  Json list = Json::array();
  for (const auto number : numbers) list.push_back(static_cast<double>(number));
  return list;
}

template <class Number, size_t kCount>
bool read_numbers(const Json& json, std::array<Number, kCount>& numbers) {
  if (json.items().size() != kCount) return false;
  for (size_t i = 0; i < kCount; ++i) {
    numbers[i] = static_cast<Number>(json.items()[i].as_double(std::numeric_limits<double>::quiet_NaN()));
    if (!std::isfinite(numbers[i])) return false;
  }
  return true;
}

bool read_count(const Json& json, int64_t& count, int64_t most) {
  count = json.as_int();
  return json.is_integer() && count >= 1 && count <= most;
}

bool read_level(const Json& json, BoxCoding::Level& level) {
  if (!read_count(json["rows"], level.rows, kMostSide) ||
      !read_count(json["columns"], level.columns, kMostSide) || !read_numbers(json["pitch"], level.pitch) ||
      level.pitch[0] <= 0 || level.pitch[1] <= 0)
    return false;
  for (const Json& one : json["anchors"].items()) {
    std::array<float, 4>& anchor = level.anchors.emplace_back();
    if (!read_numbers(one, anchor) || anchor[0] >= anchor[2] || anchor[1] >= anchor[3]) return false;
  }
  return !level.anchors.empty();
}

bool read_coding(const Json& json, BoxCoding& coding) {
  bool is_good = json["name"].is_string() && json["levels"].items().size() <= kMostLevels;
  each_count(coding, [&](const char* key, int64_t& count, int64_t most) {
    is_good = is_good && read_count(json[key], count, most);
  });
  each_number(coding, [&](const char* key, double& number) {
    number = json[key].as_double(std::numeric_limits<double>::quiet_NaN());
    is_good = is_good && std::isfinite(number) && number >= 0;
  });
  is_good = is_good && read_numbers(json["weights"], coding.weights);
  for (const double weight : coding.weights) is_good = is_good && weight > 0;
  int64_t rows = 0;
  for (const Json& one : json["levels"].items()) {
    BoxCoding::Level level;
    if (!read_level(one, level)) return false;
    rows += level.rows * level.columns * static_cast<int64_t>(level.anchors.size());
    if (rows > kMostRows) return false;
    coding.levels.push_back(std::move(level));
  }
  return is_good && !coding.levels.empty();
}

}  // namespace

Json box_coding_json(const BoxCoding& coding) {
  Json json = Json::object({{"name", coding.name}});
  if (coding.levels.empty()) return json.set("stride", coding.stride);
  each_count(coding, [&](const char* key, int64_t count, int64_t) { json.set(key, count); });
  each_number(coding, [&](const char* key, double number) { json.set(key, number); });
  json.set("weights", list_of(coding.weights));
  Json levels = Json::array();
  for (const BoxCoding::Level& level : coding.levels) {
    Json anchors = Json::array();
    for (const std::array<float, 4>& anchor : level.anchors) anchors.push_back(list_of(anchor));
    levels.push_back(Json::object({{"rows", level.rows},
                                   {"columns", level.columns},
                                   {"pitch", list_of(level.pitch)},
                                   {"anchors", std::move(anchors)}}));
  }
  return json.set("levels", std::move(levels));
}

Result<BoxCoding> box_coding_from(const Json& json, std::string_view file) {
  BoxCoding coding;
  coding.name = json["name"].as_string();
  const bool is_grid = coding.name == "grid";
  if (is_grid ? read_count(json["stride"], coding.stride, kMostStride) : read_coding(json, coding))
    return coding;
  return Status(ErrorCode::kCorrupt,
                concat("[model] the box coding in ", file,
                       " is invalid; capture the model again, or use another checkpoint"));
}

}  // namespace dlpipe::engine
