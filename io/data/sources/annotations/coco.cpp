// COCO's JSON: images, categories, and annotations with a box, a class, a crowd flag and key points. SRC is the JSON itself,
// whose images are in --images or next to it, or a folder as layouts.cpp lists them: annotations/ (instances_train2017.json
// and instances_val2017.json become the splits train and val), train/_annotations.coco.json, one JSON next to images/ or data/.
// Classes are in the order of their ids. Polygons and run lengths of objects become one mask per image.
//
// First the parser of the JSON, then the source.
#include "io/data/sources/annotations/coco.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/annotations/annotated_images.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/lists/manifest.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace coco {

namespace {

namespace fs = std::filesystem;

using Json = nlohmann::json;

/// Why an element is rejected; thrown by the parser's callback and caught by the caller of the parser.
struct Unfit {
  std::string what;
};

// Programs that keep their tables in floats write whole numbers as 7.0.
std::optional<int64_t> whole_value(const Json& json) {
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT64_MAX) return std::nullopt;
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
  throw Unfit{"an id is neither a whole number nor a string"};
}

int64_t whole_number(const Json& object, const char* key) {
  const auto it = object.find(key);
  const auto value = it == object.end() ? std::nullopt : whole_value(*it);
  if (!value) throw Unfit{concat("'", key, "' is not a whole number")};
  return *value;
}

std::vector<float> numbers_of(const Json& json, const char* key) {
  std::vector<float> numbers;
  if (!json.is_array()) throw Unfit{concat("'", key, "' is not a list")};
  for (const Json& one : json) {
    if (!one.is_number()) throw Unfit{concat("'", key, "' holds something that is not a number")};
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
  if (!json.is_array()) throw Unfit{"has a polygon that is not a list of numbers"};
  std::vector<double> numbers;
  for (const Json& one : json) {
    if (!one.is_number()) throw Unfit{"has a polygon that is not a list of numbers"};
    numbers.push_back(one.get<double>());
  }
  constexpr size_t kLeast = 6;
  if (numbers.size() < kLeast || numbers.size() % 2 != 0)
    throw Unfit{concat("has a polygon of ", numbers.size(), " numbers instead of 6, 8, ...")};
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
      throw Unfit{"has an invalid 'size'"};
    return one.get<int32_t>();
  };
  outline.runs_height = side(0);
  outline.runs_width = side(1);
  if (counts->is_string()) {
    auto runs = unpack_runs(counts->get_ref<const std::string&>());
    if (!runs.ok()) throw Unfit{concat("has invalid 'counts': ", runs.status().message())};
    outline.runs = std::move(*runs);
  } else if (counts->is_array()) {
    for (const Json& one : *counts) {
      if (!one.is_number_unsigned() || one.get<uint64_t>() > UINT32_MAX)
        throw Unfit{"has an invalid run in 'counts'"};
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

void take_image(const Json& json, Contents& contents) {
  Image image;
  const auto id = json.find("id");
  const auto name = json.find("file_name");
  if (id == json.end() || name == json.end() || !name->is_string() ||
      name->get_ref<const std::string&>().empty())
    throw Unfit{"'id' or 'file_name' is missing"};
  image.id = id_text(*id);
  image.file_name = name->get<std::string>();
  image.width = side_of(json, "width");
  image.height = side_of(json, "height");
  if (image.width == 0 || image.height == 0) image.width = image.height = 0;
  contents.images.push_back(std::move(image));
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
    throw Unfit{concat("two have the id ", id)};
}

void take_annotation(const Json& json, Contents& contents) {
  Annotation annotation;
  const auto image = json.find("image_id");
  if (image == json.end()) throw Unfit{"'image_id' is missing"};
  annotation.image = id_text(*image);
  if (json.contains("caption")) throw Unfit{"it is a caption, so this file is not a list of objects"};
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

/// Describes an inconsistency; "" if there is none.
std::string problem_of(const Contents& contents) {
  std::unordered_set<std::string_view> ids;
  for (const Image& image : contents.images) {
    if (!ids.insert(image.id).second) return concat("two images have the id ", short_name(image.id));
  }
  for (const Annotation& annotation : contents.annotations) {
    if (!contents.categories.contains(annotation.category))
      return concat("an annotation of image ", short_name(annotation.image), " has category ",
                    annotation.category, ", which 'categories' doesn't list");
  }
  return {};
}

/// "NaN", "Infinity" or "-Infinity" if the parser stopped at `byte`, counted from 1, in one of these words; else "". Python
/// writes them, but they are not valid JSON.
std::string_view non_number_at(std::string_view text, size_t byte) {
  const size_t last = text.find_last_of(" \t\r\n,:[{", std::min(byte, text.size()) - 1);
  const std::string_view rest = text.substr(last == std::string_view::npos ? 0 : last + 1);
  for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
    if (rest.starts_with(word)) return word;
  }
  return {};
}

/// The position, in bytes counted from 1, of the first number in the text that does not fit a double. The parser's error names
/// it without a place, and stops at the first.
size_t place_of(std::string_view text, std::string_view number) {
  const auto is_between = [&](size_t at) {
    return at >= text.size() || std::string_view(" \t\r\n,:[]{}").find(text[at]) != std::string_view::npos;
  };
  size_t at = text.find(number);
  while (at != std::string_view::npos && !((at == 0 || is_between(at - 1)) && is_between(at + number.size())))
    at = text.find(number, at + 1);
  return at == std::string_view::npos ? 1 : at + 1;
}

/// "line 7, byte 912: " where a key of the outermost object appears for the second time; "" if the key is written with escapes.
std::string place_of_second(std::string_view text, std::string_view key) {
  int depth = 0;
  int times = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (c != '"') continue;
    const size_t begin = ++i;
    while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    if (depth != 1 || text.substr(begin, i - begin) != key) continue;
    const size_t next = std::min(text.find_first_not_of(" \t\r\n", i + 1), text.size() - 1);
    if (text[next] == ':' && ++times == 2)
      return concat("line ", 1 + std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(begin), '\n'),
                    ", byte ", begin, ": ");
  }
  return {};
}

bool is_section(std::string_view key) {
  return key == "images" || key == "annotations" || key == "categories";
}

}  // namespace

Result<Contents> parse(std::string_view text, const std::string& file) {
  DLPIPE_RETURN_IF_ERROR(list_text(file, std::as_bytes(std::span(text))).status());
  const auto wrong = [&](std::string_view what) {
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(file), ": ", what));
  };
  Contents contents;
  std::string section;
  std::map<std::string, size_t> counts;
  const auto no_number = [&](std::string_view word, size_t byte, std::string_view why) {
    const std::string_view before = text.substr(0, byte);
    const bool is_listed = is_section(section);
    return wrong(concat(is_listed ? concat("'", section, "' element ", counts[section], ", ") : "", "line ",
                        1 + std::count(before.begin(), before.end(), '\n'), ", byte ", byte, ": ",
                        short_name(word), why, "; replace it with a number, or remove that element"));
  };
  constexpr int kElement = 2;
  const auto on_event = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key) {
      section = parsed.get<std::string>();
      const bool is_new = counts.emplace(section, 0).second;
      if (!is_new && is_section(section))
        throw Unfit{
            concat(place_of_second(text, section), "'", section, "' is given a second time; remove one")};
    }
    const bool is_listed = is_section(section);
    const bool is_value = event == Json::parse_event_t::value;
    if (is_listed && depth == 1 && (is_value || event == Json::parse_event_t::object_start))
      throw Unfit{concat("'", section, "' is not a list")};
    if (is_listed && depth == kElement && (is_value || event == Json::parse_event_t::array_start))
      throw Unfit{concat("'", section, "' element ", counts[section], " is not an object")};
    if (depth != kElement || event != Json::parse_event_t::object_end) return true;
    const size_t number = counts[section]++;
    try {
      if (section == "images") take_image(parsed, contents);
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
    if (const std::string_view word = text.empty() ? "" : non_number_at(text, error.byte); !word.empty())
      return no_number(word, error.byte, " is not valid JSON, although Python's json writes it");
    return wrong(concat("not valid JSON: it breaks at byte ", error.byte, "; download or create it again"));
  } catch (const Json::out_of_range& error) {  // "number overflow parsing '1e400'"
    const std::string_view what = error.what();
    const size_t begin = what.find('\'');
    if (begin == std::string_view::npos) return wrong("a value can't be read; create it again");
    const std::string_view number = what.substr(begin + 1, what.rfind('\'') - begin - 1);
    return no_number(number, place_of(text, number), " is too large for a double");
  } catch (const Json::exception&) {
    return wrong("a value can't be read; create it again");
  }
  for (const char* key : {"images", "annotations", "categories"}) {
    if (!counts.contains(key))
      return wrong(concat("there is no '", key,
                          "' in it, so it is not a COCO list of objects; a list of path and label is "
                          "read from .jsonl or .csv"));
  }
  if (contents.images.empty()) return wrong("it lists no image");
  if (const std::string problem = problem_of(contents); !problem.empty()) return wrong(problem);
  return contents;
}

namespace {

constexpr std::string_view kBesideImages = "_annotations.coco.json";
constexpr uint64_t kMostBytes = uint64_t{4} << 30;

/// One of the JSONs that SRC refers to, and what its samples get: the split and the beginning of their paths.
struct Part {
  std::string file;
  std::string name;  // "val2017"
  std::string split = {};
  std::string prefix = {};  // of its samples' paths
};

std::string name_of(const fs::path& file) {
  if (file.filename() == kBesideImages) return file.parent_path().filename().string();
  const std::string stem = file.stem().string();
  return stem.substr(stem.rfind('_') + 1);
}

/// Whether a JSON begins like COCO's; there are many JSONs of other kinds.
bool begins_as_coco(const fs::path& file) {
  std::string head(size_t{64} << 10, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<size_t>(stream.gcount()));
  return head.find("\"images\"") != std::string::npos || head.find("\"annotations\"") != std::string::npos;
}

/// The layout of the JSONs in a folder; null if none matches.
const PublishedLayout* layout_of(const fs::path& root) {
  const PublishedLayout* const layout = find_layout("coco", root);
  if (layout == nullptr || layout->has.size() == 1) return layout;
  const std::vector<fs::path> files =
      files_like(root, layout->has[0]);  // next to a folder of images: exactly one
  return files.size() == 1 && begins_as_coco(files[0]) ? layout : nullptr;
}

Result<std::vector<Part>> parts_of(const SourceOptions& options) {
  const fs::path root(options.path);
  if (!is_folder(root)) return std::vector<Part>{{options.path, name_of(root)}};
  std::vector<Part> parts;
  const PublishedLayout* const layout = layout_of(root);
  if (layout == nullptr) return changed_since_listed(options.path, "changed");
  for (const fs::path& file : files_like(root, layout->has[0])) {
    const std::string name = name_of(file);
    parts.push_back({file.string(), name,
                     file.filename() == kBesideImages ? std::string(split_of_name(name))
                                                      : split_in_words(file.stem().string())});
  }
  if (!options.splits || parts.size() == 1) {
    for (Part& part : parts) part.split.clear();
  }
  if (parts.size() == 1) return parts;
  for (Part& part : parts) part.prefix = part.name + "/";
  if (!options.splits) return parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool again = std::any_of(parts.begin(), parts.begin() + static_cast<ptrdiff_t>(i),
                                   [&](const Part& other) { return other.split == parts[i].split; });
    if (parts[i].split.empty() || again)
      return misuse("ingest", printable(parts[i].file),
                    again ? " is another JSON for the split " + parts[i].split
                          : " has a name that does not indicate a split",
                    "; ingest each JSON on its own, one dataset each");
  }
  return parts;
}

/// The folder of the part's images (layouts.h), to which their names are relative.
Result<std::string> image_folder(const SourceOptions& options, const Part& part, Contents& contents) {
  std::vector<std::string> paths;
  for (const Image& image : contents.images) paths.push_back(image.file_name);
  DLPIPE_ASSIGN_OR_RETURN(std::string folder,
                          locate_images(part.file, options.images, {&part.name, 1}, paths));
  for (size_t i = 0; i < paths.size(); ++i) contents.images[i].file_name = std::move(paths[i]);
  return folder;
}

class CocoSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;

 private:
  Status add_categories(const Part& part, const Contents& contents);
  Status number_categories(const std::vector<Contents>& all, SourceListing& listing);
  Status add_images(const Part& part, Contents& contents);
  void add_object(Annotation& annotation, AnnotatedImage& image);
  void warn(SourceListing& listing) const;

  std::vector<AnnotatedImages::Part> folders_;
  std::vector<AnnotatedImage> found_;
  std::map<int64_t, Category> categories_;
  std::map<int64_t, int64_t> label_of_;
  size_t keypoints_ = 0;  // of each object; 0: none
  int64_t unfit_ = 0;     // outlines that can't be used
  std::string first_unfit_;
  int64_t lost_ = 0;  // annotations of images that are not listed
};

Status CocoSource::add_categories(const Part& part, const Contents& contents) {
  for (const auto& [id, category] : contents.categories) {
    const auto [former, fresh] = categories_.emplace(id, category);
    if (!fresh && former->second.name != category.name)
      return misuse("ingest", printable(part.file), " calls category ", id, " '", short_name(category.name),
                    "', but another JSON calls it '", short_name(former->second.name),
                    "'; ingest them separately");
    if (category.keypoints == 0) continue;
    constexpr size_t kMostPoints = 4096;  // the same as for YOLO
    if (category.keypoints > kMostPoints)
      return misuse("ingest", printable(part.file), ": the category '", short_name(category.name), "' has ",
                    category.keypoints, " key points; at most ", kMostPoints, " are stored");
    if (keypoints_ != 0 && keypoints_ != category.keypoints)
      return misuse(
          "ingest", printable(part.file), " has categories of ", keypoints_, " and of ", category.keypoints,
          " key points; all categories of a dataset have the same number, so remove the others' key points");
    keypoints_ = category.keypoints;
  }
  return {};
}

// If two categories have the same name, one without objects is removed: some programs list the name of the project as category
// 0.
Status CocoSource::number_categories(const std::vector<Contents>& all, SourceListing& listing) {
  std::map<int64_t, int64_t> uses;
  std::map<std::string_view, int64_t> of_name;
  for (const Contents& contents : all) {
    for (const Annotation& annotation : contents.annotations) ++uses[annotation.category];
  }
  for (const auto& [id, category] : categories_) ++of_name[category.name];
  for (const auto& [id, category] : categories_) {
    if (of_name[category.name] > 1 && uses[id] == 0) {
      --of_name[category.name];
      continue;
    }
    if (of_name[category.name] > 1)
      return misuse("ingest", printable(options_.path), ": two categories are called '",
                    short_name(category.name), "', and both are used; rename one");
    label_of_[id] = static_cast<int64_t>(listing.classes.size());
    listing.classes.push_back(category.name);
  }
  return {};
}

void CocoSource::add_object(Annotation& annotation, AnnotatedImage& image) {
  if (!annotation.problem.empty() && ++unfit_ == 1)
    first_unfit_ = concat(printable(image.path), ": ", annotation.problem);
  if (annotation.box.empty()) {
    if (image.problem.empty()) image.problem = "an annotation of it has no 'bbox'";
    return;
  }
  if (annotation.outline) {
    image.outlines.push_back(std::move(*annotation.outline));
    image.outlines.back().object = image.labels.size();
  }
  const std::vector<float>& box = annotation.box;
  image.boxes.insert(image.boxes.end(), {box[0], box[1], box[0] + box[2], box[1] + box[3]});
  image.labels.push_back(label_of_.at(annotation.category));
  image.flags.push_back(annotation.is_crowd ? 1 : 0);
  std::vector<float> points = annotation.keypoints;
  if (points.empty()) points.resize(3 * keypoints_);
  if (points.size() != 3 * keypoints_)
    image.problem =
        concat("an annotation of it has ", points.size(), " numbers for ", keypoints_, " key points");
  image.points.insert(image.points.end(), points.begin(), points.end());
}

Status CocoSource::add_images(const Part& part, Contents& contents) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string folder, image_folder(options_, part, contents));
  std::unordered_map<std::string_view, size_t> by_id;
  for (const Image& image : contents.images) {
    by_id.emplace(image.id, found_.size());
    found_.push_back({image.file_name, folders_.size(), image.width, image.height});
    found_.back().described = concat("image ", image.id, " of ", part.file);
  }
  for (Annotation& annotation : contents.annotations) {
    const auto image = by_id.find(annotation.image);
    if (image == by_id.end())
      ++lost_;
    else
      add_object(annotation, found_[image->second]);
  }
  folders_.push_back({folder, part.prefix, part.split});
  return {};
}

void CocoSource::warn(SourceListing& listing) const {
  warn_of_no_class(options_.path, listing);
  if (unfit_ > 0)
    listing.warnings.push_back(concat("[ingest] ignored: ", counted(unfit_, "outline"),
                                      " that can't be read, the first one in ", first_unfit_));
  if (lost_ > 0)
    listing.warnings.push_back(
        concat("[ingest] ignored: ", counted(lost_, "annotation of an image", "annotations of images"),
               " that 'images' doesn't list"));
}

Result<SourceListing> CocoSource::list() {
  found_.clear();
  folders_.clear();
  categories_.clear();
  label_of_.clear();
  keypoints_ = 0;
  unfit_ = lost_ = 0;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<Part> parts, parts_of(options_));
  std::vector<Contents> all;
  uint64_t input_bytes = 0;
  uint64_t without_points = 0;
  for (const Part& part : parts) {
    DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(part.file));
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes,
                            read_stamped_file(part.file, stamp, kMostBytes));
    DLPIPE_ASSIGN_OR_RETURN(Contents contents,
                            parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, part.file));
    DLPIPE_RETURN_IF_ERROR(add_categories(part, contents));
    input_bytes += bytes.size();
    for (const Annotation& annotation : contents.annotations)
      without_points += annotation.keypoints.empty() ? 1 : 0;
    all.push_back(std::move(contents));
  }
  SourceListing listing;
  DLPIPE_RETURN_IF_ERROR(number_categories(all, listing));
  listing.has_class_order = true;
  DLPIPE_RETURN_IF_ERROR(ReadBudget(options_, options_.path, input_bytes)
                             .take(2 * 3 * sizeof(float) * keypoints_, without_points,
                                   concat("key points for the ", without_points, " objects without any")));
  for (size_t i = 0; i < parts.size(); ++i) DLPIPE_RETURN_IF_ERROR(add_images(parts[i], all[i]));
  DLPIPE_RETURN_IF_ERROR(images_.add(std::move(folders_), {"crowd", static_cast<int64_t>(keypoints_)},
                                     std::move(found_), listing));
  warn(listing);
  return listing;
}

int recognizes_coco(const SourceOptions& options) {
  if (!options.manifest.empty() || options.path == "-") return 0;
  if (is_folder(options.path)) {
    const PublishedLayout* const layout = layout_of(options.path);
    return layout == nullptr ? 0 : layout->sure;
  }
  return lower_ending(options.path) == "json" ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_coco(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<CocoSource>(options));
}

}  // namespace

}  // namespace coco

extern const SourceRecord coco_source;
const SourceRecord coco_source = {
    "coco",
    "COCO's .json of objects with --images FOLDER, or its root folder (annotations/, train2017/, val2017/)",
    coco::recognizes_coco, coco::open_coco, "--images"};

}  // namespace dlpipe::data
