#include "dlpipe/io/data/sources/annotations/coco_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data::coco {

namespace {

using Json = nlohmann::json;

/// Why an element can't be taken, thrown out of the parser's callback and caught around it.
struct Unfit {
  std::string what;
};

// Of whole numbers programs that keep their tables in floats write 7.0.
std::optional<int64_t> whole_value(const Json& json) {
  if (json.is_number_integer()) return json.get<int64_t>();
  if (!json.is_number_float()) return std::nullopt;
  constexpr double kExact = 9007199254740992;  // 2^53: every whole number below is one double
  const auto value = json.get<double>();
  if (value != std::floor(value) || std::fabs(value) > kExact) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::string id_text(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (const auto value = whole_value(json)) return std::to_string(*value);
  throw Unfit{"an id is neither a whole number nor a text"};
}

int64_t whole_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  const auto value = it == object.end() ? std::nullopt : whole_value(*it);
  if (!value) throw Unfit{concat("'", key, "' is no whole number")};
  return *value;
}

std::vector<float> numbers_of(const Json& json, const char* key) {
  std::vector<float> numbers;
  if (!json.is_array()) throw Unfit{concat("'", key, "' is no list")};
  for (const Json& one : json) {
    if (!one.is_number()) throw Unfit{concat("'", key, "' holds something that is no number")};
    numbers.push_back(one.get<float>());
  }
  return numbers;
}

int32_t side_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return 0;
  const int64_t side = whole_number(object, key);
  constexpr int64_t kMostSide = 1 << 30;
  if (side < 0 || side > kMostSide) throw Unfit{concat("'", key, "' is ", side)};
  return static_cast<int32_t>(side);
}

std::vector<double> polygon_of(const Json& json) {
  if (!json.is_array()) throw Unfit{"has a polygon that is no list of numbers"};
  std::vector<double> numbers;
  for (const Json& one : json) {
    if (!one.is_number()) throw Unfit{"has a polygon that is no list of numbers"};
    numbers.push_back(one.get<double>());
  }
  constexpr size_t kLeast = 6;
  if (numbers.size() < kLeast || numbers.size() % 2 != 0)
    throw Unfit{concat("has a polygon of ", numbers.size(), " numbers, not 6, 8, ...")};
  return numbers;
}

/// COCO's run lengths: a list of them, or its text.
Outline runs_of(const Json& json) {
  const auto size = json.find("size");
  const auto counts = json.find("counts");
  if (size == json.end() || counts == json.end() || !size->is_array() || size->size() != 2)
    throw Unfit{"has neither polygons nor 'size' and 'counts'"};
  Outline outline;
  const auto side = [&](size_t at) {
    constexpr int64_t kMostSide = 1 << 30;
    const Json& one = (*size)[at];
    if (!one.is_number_integer() || one.get<int64_t>() < 1 || one.get<int64_t>() > kMostSide)
      throw Unfit{"has an impossible 'size'"};
    return one.get<int32_t>();
  };
  outline.runs_height = side(0);
  outline.runs_width = side(1);
  if (counts->is_string()) {
    auto runs = unpack_runs(counts->get_ref<const std::string&>());
    if (!runs.ok()) throw Unfit{concat("has 'counts' that are no runs: ", runs.status().message())};
    outline.runs = std::move(*runs);
  } else if (counts->is_array()) {
    for (const Json& one : *counts) {
      if (!one.is_number_unsigned() || one.get<uint64_t>() > UINT32_MAX)
        throw Unfit{"has an impossible run in 'counts'"};
      outline.runs.push_back(one.get<uint32_t>());
    }
  }
  if (outline.runs.empty()) throw Unfit{"has empty 'counts'"};
  return outline;
}

void take_outline(const Json& annotation, Annotation& out) {
  const auto json = annotation.find("segmentation");
  if (json == annotation.end() || json->empty()) return;
  try {
    Outline outline;
    if (json->is_object()) {
      outline = runs_of(*json);
    } else {
      if (!json->is_array()) throw Unfit{"is neither polygons nor runs"};
      for (const Json& polygon : *json) outline.polygons.push_back(polygon_of(polygon));
    }
    out.outline = std::move(outline);
  } catch (const Unfit& unfit) {
    out.problem = concat("its 'segmentation' ", unfit.what);
  }
}

void take_picture(const Json& json, Contents& contents) {
  Picture picture;
  const auto id = json.find("id");
  const auto name = json.find("file_name");
  if (id == json.end() || name == json.end() || !name->is_string() ||
      name->get_ref<const std::string&>().empty())
    throw Unfit{"'id' or 'file_name' is missing"};
  picture.id = id_text(*id);
  picture.file_name = name->get<std::string>();
  picture.width = side_of(json, "width");
  picture.height = side_of(json, "height");
  if (picture.width == 0 || picture.height == 0) picture.width = picture.height = 0;
  contents.pictures.push_back(std::move(picture));
}

void take_category(const Json& json, Contents& contents) {
  Category category;
  const int64_t id = whole_number(json, "id");
  const auto name = json.find("name");
  if (name == json.end() || !name->is_string() || name->get_ref<const std::string&>().empty())
    throw Unfit{concat("category ", id, " has no 'name'")};
  category.name = name->get<std::string>();
  if (const auto points = json.find("keypoints"); points != json.end() && points->is_array())
    category.keypoints = points->size();
  if (!contents.categories.emplace(id, std::move(category)).second)
    throw Unfit{concat("two are called ", id)};
}

void take_annotation(const Json& json, Contents& contents) {
  Annotation annotation;
  const auto image = json.find("image_id");
  if (image == json.end()) throw Unfit{"'image_id' is missing"};
  annotation.image = id_text(*image);
  if (json.contains("caption")) throw Unfit{"it is a caption, and this file no list of objects"};
  annotation.category = whole_number(json, "category_id");
  const auto crowd = json.find("iscrowd");
  annotation.is_crowd = crowd != json.end() && (crowd->is_boolean() ? crowd->get<bool>() : *crowd == 1);
  if (const auto box = json.find("bbox"); box != json.end() && !box->empty()) {
    annotation.box = numbers_of(*box, "bbox");
    if (annotation.box.size() != 4) throw Unfit{concat("'bbox' has ", annotation.box.size(), " numbers")};
  }
  if (const auto points = json.find("keypoints"); points != json.end())
    annotation.keypoints = numbers_of(*points, "keypoints");
  take_outline(json, annotation);
  contents.annotations.push_back(std::move(annotation));
}

/// What doesn't fit together; "" for nothing.
std::string problem_of(const Contents& contents) {
  std::unordered_set<std::string_view> ids;
  for (const Picture& picture : contents.pictures) {
    if (!ids.insert(picture.id).second) return concat("two pictures have the id ", printable(picture.id));
  }
  for (const Annotation& annotation : contents.annotations) {
    if (!contents.categories.contains(annotation.category))
      return concat("an annotation of picture ", printable(annotation.image), " is of category ",
                    annotation.category, ", which 'categories' doesn't list");
  }
  return {};
}

/// "NaN", "Infinity" or "-Infinity" where the text breaks at `byte`, counted from 1, in such a word; else "". Python writes
/// them, and JSON has none of them.
std::string_view non_number_at(std::string_view text, size_t byte) {
  const size_t last = text.find_last_of(" \t\r\n,:[{", std::min(byte, text.size()) - 1);
  const std::string_view rest = text.substr(last == std::string_view::npos ? 0 : last + 1);
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (rest.starts_with(word)) return word;
  }
  return {};
}

}  // namespace

Result<Contents> parse(std::string_view text, const std::string& file) {
  const auto wrong = [&](std::string_view what) {
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(file), ": ", what));
  };
  Contents contents;
  std::string section;
  std::map<std::string, size_t> counts;
  constexpr int kElement = 2;
  const auto on_event = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      section = parsed.get<std::string>();
      counts.emplace(section, 0);
    }
    if (depth != kElement || event != Json::parse_event_t::object_end) return true;
    const size_t number = counts[section]++;
    try {
      if (section == "images") take_picture(parsed, contents);
      if (section == "annotations") take_annotation(parsed, contents);
      if (section == "categories") take_category(parsed, contents);
    } catch (const Unfit& unfit) {
      throw Unfit{concat("'", section, "' element ", number, ": ", unfit.what)};
    }
    return false;
  };
  try {
    const Json rest = Json::parse(text.begin(), text.end(), on_event);
  } catch (const Unfit& unfit) {
    return wrong(unfit.what);
  } catch (const Json::parse_error& error) {
    if (const std::string_view word = text.empty() ? "" : non_number_at(text, error.byte); !word.empty()) {
      const std::string_view before = text.substr(0, error.byte);
      const bool is_listed = section == "images" || section == "annotations" || section == "categories";
      return wrong(
          concat(is_listed ? concat("'", section, "' element ", counts[section], ", ") : "", "line ",
                 1 + std::count(before.begin(), before.end(), '\n'), ", byte ", error.byte, ": ", word,
                 " is no JSON, though Python's json writes it; write a number in its place, or leave "
                 "that element out"));
    }
    return wrong(concat("no whole JSON, it breaks at byte ", error.byte, "; download or make it again"));
  } catch (const Json::exception& error) {
    return wrong(concat("a value can't be taken: ", printable(error.what())));
  }
  for (const char* key : {"images", "annotations", "categories"}) {
    if (!counts.contains(key))
      return wrong(
          concat("no '", key,
                 "' in it, so it is no list of objects as COCO has them; a list of path and label is "
                 "read from .jsonl or .csv"));
  }
  if (contents.pictures.empty()) return wrong("it lists no picture");
  if (const std::string problem = problem_of(contents); !problem.empty()) return wrong(problem);
  return contents;
}

}  // namespace dlpipe::data::coco
