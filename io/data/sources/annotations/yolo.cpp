// YOLO: a .txt of objects for each image, at the image's path with labels/ instead of images/, or next to the image. SRC is a
// data.yaml that names classes and splits, a folder with one, a folder with images/ and labels/, or one with a list of the
// classes (classes.txt, obj.names, _darknet.labels) and images that have their .txt next to them, also in its folders. Boxes are
// stored as shares of the image; ingest makes pixels of them. An image without a .txt has no objects. A list that names an image
// again makes one more sample of it, as in Ultralytics. Polygons become one mask per image, in addition to the boxes around them.
//
// First the parsers of data.yaml and labels, then where the files are, then the source.
#include "io/data/sources/annotations/yolo.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/annotations/annotated_images.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace yolo {

namespace {

namespace fs = std::filesystem;

/// A dataset by the folder of its images: x/images, or x/images/train, next to x/labels.
struct Around {
  std::string root;          // x
  bool is_of_split = false;  // the folder holds one split's images
};

constexpr int64_t kMostClasses = 1'000'000;

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, std::string(what));
}

/// The texts of a file whose aliases (*) may repeat one of them many times: limited to the size of the file.
class Texts {
 public:
  explicit Texts(size_t bytes) : left_(bytes) {}
  /// Throws YAML::Exception, as YAML::Node does.
  std::string of(const YAML::Node& node) {
    std::string text = node.as<std::string>();
    if (text.size() > left_)
      throw YAML::Exception(node.Mark(), "its aliases expand to more text than the file has");
    left_ -= text.size();
    return text;
  }
  std::vector<std::string> one_or_many(const YAML::Node& node) {
    if (!node.IsSequence()) return {of(node)};
    std::vector<std::string> all;
    for (const YAML::Node& one : node) all.push_back(of(one));
    return all;
  }

 private:
  size_t left_;
};

/// YAML forbids it. Readers differ: PyYAML uses the last value, yaml-cpp the first.
Status twice(const YAML::Node& key) {
  return wrong(concat("line ", key.Mark().line + 1, ": the key ", in_quotes(key.as<std::string>()),
                      " is given a second time; remove one"));
}

/// A list, or a map of numbers.
Result<std::vector<std::string>> names_of(const YAML::Node& node, Texts& texts) {
  if (!node || node.IsNull()) return wrong("it has no 'names' of classes");
  if (!node.IsMap()) return texts.one_or_many(node);
  std::map<int64_t, std::string> by_number;
  for (const auto& pair : node) {
    if (!by_number.emplace(pair.first.as<int64_t>(), texts.of(pair.second)).second) return twice(pair.first);
  }
  std::vector<std::string> names;
  for (auto& [number, name] : by_number) {
    if (number != static_cast<int64_t>(names.size()))
      return wrong(concat("'names' has class ", number, ", but not class ", names.size()));
    names.push_back(std::move(name));
  }
  return names;
}

Result<Config> parse_node(const YAML::Node& root, Texts texts) {
  if (!root.IsMap()) return wrong("it is not a mapping of keys to values");
  std::set<std::string> keys;
  for (const auto& pair : root) {
    if (pair.first.IsScalar() && !keys.insert(texts.of(pair.first)).second) return twice(pair.first);
  }
  Config config;
  if (const YAML::Node path = root["path"]; path && !path.IsNull()) config.path = path.as<std::string>();
  for (const char* split : {"train", "val", "test"}) {
    const YAML::Node node = root[split];
    if (node && !node.IsNull()) config.splits[split] = texts.one_or_many(node);
  }
  if (const YAML::Node valid = root["valid"]; valid && !valid.IsNull() && !config.splits.contains("val"))
    config.splits["val"] = texts.one_or_many(valid);
  DLPIPE_ASSIGN_OR_RETURN(config.names, names_of(root["names"], texts));
  if (const YAML::Node count = root["nc"]; count && !count.IsNull()) {
    const auto wanted = count.as<int64_t>();
    if (wanted != static_cast<int64_t>(config.names.size()))
      return wrong(concat("'nc' is ", wanted, ", 'names' has ", config.names.size()));
  }
  std::vector<std::string> sorted = config.names;
  std::sort(sorted.begin(), sorted.end());
  const auto again = std::adjacent_find(sorted.begin(), sorted.end());
  if (again != sorted.end()) return wrong(concat("'names' has '", printable(*again), "' twice"));
  if (const YAML::Node shape = root["kpt_shape"]; shape && !shape.IsNull()) {
    const auto sizes = shape.as<std::vector<int64_t>>();
    constexpr int64_t kMostPoints = 4096;
    if (sizes.size() != 2 || sizes[0] < 1 || sizes[0] > kMostPoints || sizes[1] < 2 || sizes[1] > 3)
      return wrong("'kpt_shape' is not [number of key points, 2 or 3]");
    config.points = sizes[0];
    config.numbers_per_point = sizes[1];
  }
  return config;
}

/// The numbers of a line, its class first.
Result<std::vector<double>> numbers_of(std::string_view line) {
  std::vector<double> numbers;
  size_t at = 0;
  while ((at = line.find_first_not_of(" \t", at)) != std::string_view::npos) {
    const size_t end = std::min(line.find_first_of(" \t", at), line.size());
    double value = 0;
    const std::string_view text = line.substr(at, end - at);
    if (!parse_double(text, &value) || !std::isfinite(value))
      return wrong(concat(in_quotes(text), " ", unfit_number(text, DType::kF64)));
    numbers.push_back(value);
    at = end;
  }
  return numbers;
}

Status check_shares(const std::vector<double>& numbers, size_t begin, size_t end) {
  constexpr double kSlack = 0.01;  // programs round
  for (size_t i = begin; i < end; ++i) {
    if (numbers[i] < -kSlack || numbers[i] > 1 + kSlack)
      return wrong(concat(numbers[i], " is not a share of the image's width or height, from 0 to 1"));
  }
  return {};
}

void add_box(double left, double top, double right, double bottom, Labels& labels) {
  for (const double side : {left, top, right, bottom}) labels.boxes.push_back(static_cast<float>(side));
}

/// Whether a line of these numbers ends with a confidence, as a prediction with `save_conf` writes it.
bool ends_with_confidence(const std::vector<double>& numbers, const Config& config) {
  const size_t pose = 5 + static_cast<size_t>(config.points * config.numbers_per_point);
  constexpr size_t kShortestPolygon = 7;
  const bool is_longer = numbers.size() == pose + 1 ||
                         (config.points == 0 && numbers.size() > kShortestPolygon && numbers.size() % 2 == 0);
  return is_longer && numbers.back() >= 0 && numbers.back() <= 1;
}

Status add_line(const std::vector<double>& numbers, const Config& config, Labels& labels) {
  const double number = numbers[0];
  const auto most = static_cast<double>(config.names.empty() ? kMostClasses : config.names.size());
  if (number != std::floor(number) || number < 0 || number >= most)
    return wrong(concat("there is no class ", number, ", classes are 0 to ", most - 1));
  const size_t pose = 5 + static_cast<size_t>(config.points * config.numbers_per_point);
  if (numbers.size() == pose) {
    DLPIPE_RETURN_IF_ERROR(check_shares(numbers, 1, 5));
    if (numbers[3] < 0 || numbers[4] < 0) return wrong("the width or height is negative");
    add_box(numbers[1] - numbers[3] / 2, numbers[2] - numbers[4] / 2, numbers[1] + numbers[3] / 2,
            numbers[2] + numbers[4] / 2, labels);
    for (size_t at = 5; at < pose; at += static_cast<size_t>(config.numbers_per_point)) {
      const bool is_known = numbers[at] != 0 || numbers[at + 1] != 0;
      labels.points.push_back(static_cast<float>(numbers[at]));
      labels.points.push_back(static_cast<float>(numbers[at + 1]));
      labels.points.push_back(config.numbers_per_point == 3 ? static_cast<float>(numbers[at + 2])
                              : is_known                    ? 2.f
                                                            : 0.f);
    }
  } else if (config.points == 0 && numbers.size() >= 7 && numbers.size() % 2 == 1) {
    DLPIPE_RETURN_IF_ERROR(check_shares(numbers, 1, numbers.size()));
    double low[2] = {1, 1};
    double high[2] = {0, 0};
    for (size_t i = 1; i < numbers.size(); ++i) {
      low[(i + 1) % 2] = std::min(low[(i + 1) % 2], numbers[i]);
      high[(i + 1) % 2] = std::max(high[(i + 1) % 2], numbers[i]);
    }
    add_box(low[0], low[1], high[0], high[1], labels);
    Outline outline;
    outline.object = labels.classes.size();
    outline.polygons.emplace_back(numbers.begin() + 1, numbers.end());
    labels.outlines.push_back(std::move(outline));
  } else {
    return wrong(concat(numbers.size(), " numbers; a class and a box need ", pose,
                        config.points == 0 ? ", a class and a polygon need 7, 9, ..." : " with key points"));
  }
  labels.classes.push_back(static_cast<int64_t>(number));
  return {};
}

}  // namespace

Result<Config> parse_config(std::string_view text) {
  try {
    return parse_node(YAML::Load(std::string(text)), Texts(text.size()));
  } catch (const YAML::DeepRecursion& error) {
    return wrong(
        concat("line ", error.mark.line + 1, ": values are nested too deeply; leave out those that are"));
  } catch (const YAML::Exception& error) {
    return wrong(concat("line ", error.mark.line + 1, ": ", printable(error.msg)));
  }
}

Result<Labels> parse_labels(std::string_view text, const Config& config) {
  Labels labels;
  std::unordered_set<std::string_view> lines;
  int64_t line_number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = trim(text.substr(at, end - at));
    at = end + 1;
    ++line_number;
    if (line.empty()) continue;
    if (!lines.insert(line).second) {
      ++labels.repeated;
      continue;
    }
    auto numbers = numbers_of(line);
    if (numbers.ok() && ends_with_confidence(*numbers, config)) {
      numbers->pop_back();
      ++labels.confidences;
    }
    const Status added = numbers.ok() ? add_line(*numbers, config, labels) : numbers.status();
    if (!added.ok()) return added.with_context(concat("line ", line_number, ": "));
  }
  return labels;
}

namespace {

constexpr std::array<const char*, 3> kNameLists = {"classes.txt", "obj.names", "_darknet.labels"};

/// Whether a .txt is next to the image.
bool is_labelled_image(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  return name[0] != '.' && has_image_name(name) && is_file(fs::path(entry.path()).replace_extension(".txt"));
}

/// The absolute path; "" means the current folder.
fs::path full_path(const fs::path& path) {
  const fs::path full = (fs::current_path() / path).lexically_normal();
  return full.has_filename() ? full : full.parent_path();  // x/images/
}

/// The split that a folder's name, or a word of it, indicates; "": none.
std::string split_called(const std::string& folder) {
  return split_of_name(folder).empty() ? split_in_words(folder) : std::string(split_of_name(folder));
}

bool is_yaml(const std::string& path) {
  const std::string ending = lower_ending(path);
  return ending == "yaml" || ending == "yml";
}

/// The YAML of a folder: data.yaml, dataset.yaml, or the only one next to images/ and labels/.
std::optional<fs::path> config_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name[0] != '.' && is_yaml(name)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  for (const fs::path& path : found) {
    if (path.stem() == "data" || path.stem() == "dataset") return path;
  }
  return found.size() == 1 && is_folder(folder / "images") && is_folder(folder / "labels")
             ? found.front()
             : std::optional<fs::path>();
}

/// The list of the classes in a folder; "": none.
std::string name_list_in(const fs::path& folder) {
  for (const char* name : kNameLists) {
    std::error_code ignored;
    if (fs::is_regular_file(folder / name, ignored)) return (folder / name).string();
  }
  return {};
}

/// Darknet's way: which folders of SRC, "" for itself, contain images with their labels next to them, also in folders of their
/// own. A list of the classes must be there too: a .txt next to an image may be anything.
std::vector<std::string> folders_of_both(const fs::path& root) {
  const bool is_named = !name_list_in(root).empty();  // few are: only these are searched for images
  std::vector<std::string> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    if (is_named && is_labelled_image(entry)) return {""};
    if ((is_named || !name_list_in(entry.path()).empty()) && find_below(entry.path(), is_labelled_image))
      folders.push_back(entry.path().filename().string());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// The label file of an image with an absolute path: next to the image if it is there, else in labels/.
std::string label_path(const std::string& image) {
  constexpr std::string_view kImages = "/images/";
  std::string path = image;
  if (const size_t at = path.rfind(kImages); at != std::string::npos)
    path.replace(at, kImages.size(), "/labels/");
  const fs::path beside = fs::path(image).replace_extension(".txt");
  std::error_code ignored;
  if (fs::exists(beside, ignored)) return beside.string();
  return fs::path(path).replace_extension(".txt").string();
}

/// Whether the images are in folders, none of which is a split or has a folder of the same name in `labels`: these are classes,
/// and a .txt in `labels` is a list.
bool holds_class_folders(const fs::path& images, const fs::path& labels) {
  size_t folders = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(images, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.') continue;
    if (!entry.is_directory(ignored) || !split_called(name).empty() || is_folder(labels / name)) return false;
    ++folders;
  }
  return folders > 0;
}

/// nullopt if the folder may have another layout: class folders in it, or no labels next to it.
std::optional<Around> dataset_around(const std::string& given) {
  const fs::path folder = full_path(given);
  Around around;
  around.is_of_split = folder.filename() != "images";
  const fs::path images = around.is_of_split ? folder.parent_path() : folder;
  if (images.filename() != "images" || !is_folder(folder)) return std::nullopt;
  const fs::path labels = images.parent_path() / "labels" / (around.is_of_split ? folder.filename() : "");
  if (!holds_ending(labels, "txt")) return std::nullopt;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || !entry.is_directory(ignored)) continue;
    if (around.is_of_split || split_in_words(name).empty()) return std::nullopt;
  }
  around.root = (fs::path(given) / (around.is_of_split ? "../.." : "..")).lexically_normal().string();
  if (around.root.size() > 1 && around.root.ends_with('/')) around.root.pop_back();
  return around;
}

Result<std::string> read_text(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{256} << 20;
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(path, stamp, kMost));
  return std::string(without_mark({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

/// The path of an image below `root`, by its listed name: its labels have the same name, whatever it links to. Folders may be
/// written through other links than `root`.
std::string path_below(const fs::path& image, const fs::path& root) {
  const auto leads_out = [](const fs::path& path) { return path.empty() || *path.begin() == ".."; };
  if (const fs::path below = image.lexically_relative(root); !leads_out(below)) return below.string();
  std::error_code ignored;
  const fs::path folder = fs::weakly_canonical(image.parent_path(), ignored);
  return (folder / image.filename()).lexically_relative(fs::weakly_canonical(root, ignored)).string();
}

class YoloSource final : public AnnotatedSource {
 public:
  using AnnotatedSource::AnnotatedSource;

  Result<SourceListing> list() override;
  void add_note(std::string note) { note_ = std::move(note); }

 private:
  Status find_config();
  Status read_names(const fs::path& root);
  Result<fs::path> resolve(const std::string& given) const;
  Status add_folder(const std::string& split, const fs::path& folder);
  Status add_list(const std::string& split, const fs::path& list);
  Status add_image(std::string path, bool is_listed);
  Status add_splits();
  void number(SourceListing& listing);
  void warn(SourceListing& listing) const;

  Config config_;
  fs::path root_;         // of the dataset
  fs::path config_file_;  // "": none
  std::vector<AnnotatedImages::Part> folders_;
  std::vector<AnnotatedImage> found_;
  int64_t without_labels_ = 0;
  int64_t confidences_ = 0;  // lines that end with one
  int64_t repeated_ = 0;     // lines that repeat another of their file
  std::string first_repeated_;
  FilesAgain again_{options_};
  std::vector<std::string> lost_links_;  // warnings
  std::string note_;                     // a warning of its own
};

Status YoloSource::read_names(const fs::path& root) {
  std::vector<fs::path> folders = {root, root / "labels"};
  for (const std::string& folder : folders_of_both(root)) folders.push_back(root / folder);
  for (const fs::path& folder : folders) {
    const std::string file = name_list_in(folder);
    if (file.empty()) continue;
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(file));
    for (const std::string& line : split(text, '\n')) {
      if (!trim(line).empty()) config_.names.emplace_back(trim(line));
    }
    return {};
  }
  return {};
}

Status YoloSource::find_config() {
  config_ = {};
  const fs::path given(options_.path);
  config_file_ = is_folder(given) ? config_in(given).value_or(fs::path()) : given;
  root_ = full_path(is_folder(given) ? given : given.parent_path());
  if (config_file_.empty()) {
    DLPIPE_RETURN_IF_ERROR(read_names(root_));
    std::vector<std::string> folders = {"images"};
    if (is_folder(root_ / "images")) {
      ImageFolder folder((root_ / "images").string());
      DLPIPE_ASSIGN_OR_RETURN(const ImageFolder::Names names, folder.names_in(""));
      for (const std::string& name : names.folders) {
        if (!split_called(name).empty()) config_.splits[split_called(name)].push_back("images/" + name);
      }
    } else {
      folders = folders_of_both(root_);
      for (const std::string& name : folders) config_.splits[split_called(name)].push_back(name);
    }
    if (config_.splits.size() < 2 || config_.splits.contains("")) config_.splits = {{"train", folders}};
    return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(config_file_.string()));
  auto config = parse_config(text);
  if (!config.ok())
    return config.status().with_context(concat("[ingest] ", printable(config_file_.string()), ": "));
  config_ = std::move(*config);
  if (config_.splits.empty())
    return Status(ErrorCode::kCorrupt,
                  concat("[ingest] ", printable(config_file_.string()),
                         ": neither 'train' nor 'val' in it, so it is not a YOLO dataset"));
  for (const fs::path& path : {root_ / config_.path, full_path(config_.path)}) {
    if (!config_.path.empty() && is_folder(path)) {
      root_ = path;
      break;
    }
  }
  return {};
}

/// Finds a split's folder or list. Programs write the paths of their own machine: ../train/images is tried as train/images,
/// too.
Result<fs::path> YoloSource::resolve(const std::string& given) const {
  const fs::path beside = full_path(config_file_).parent_path();
  std::vector<fs::path> tried = {root_ / given, beside / given};
  if (given.starts_with("../")) tried.push_back(root_ / given.substr(3));
  for (const fs::path& path : tried) {
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path.lexically_normal();
  }
  return Status(
      ErrorCode::kNotFound,
      concat("[ingest] ", printable(config_file_.string()), " names ", printable(given),
             ", which is neither in ", printable(root_.string()), " nor next to it; correct that path"));
}

Status YoloSource::add_image(std::string path, bool is_listed) {
  if (options_.stop_requested && options_.stop_requested())
    return Status(ErrorCode::kCancelled,
                  concat("[ingest] stopped while ", printable(options_.path), " was being listed"));
  const std::string labels = label_path(folders_.back().folder + "/" + path);
  AnnotatedImage image;
  image.path = std::move(path);
  image.part = folders_.size() - 1;
  image.is_listed = is_listed;
  if (is_dead_link(labels)) {
    image.problem = concat("its label file ", printable(labels), " is a broken link");
    found_.push_back(std::move(image));
    return {};
  }
  if (std::error_code ignored; !fs::exists(labels, ignored)) {
    ++without_labels_;
    found_.push_back(std::move(image));
    return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(labels));
  if (is_listed) DLPIPE_RETURN_IF_ERROR(again_.take(labels, text.size()));
  auto parsed = parse_labels(text, config_);
  if (!parsed.ok()) {
    image.problem = concat(printable(labels), " ", parsed.status().message());
  } else {
    confidences_ += parsed->confidences;
    if (repeated_ == 0 && parsed->repeated > 0) first_repeated_ = labels;
    repeated_ += parsed->repeated;
    image.boxes = std::move(parsed->boxes);
    image.labels = std::move(parsed->classes);
    image.points = std::move(parsed->points);
    image.outlines = std::move(parsed->outlines);
  }
  found_.push_back(std::move(image));
  return {};
}

Status YoloSource::add_folder(const std::string& split, const fs::path& folder) {
  ImageFolder images(folder.string());
  folders_.push_back({images.root(), {}, split});
  Status status;
  DLPIPE_RETURN_IF_ERROR(images.walk("", [&](FoundImage image) {
    if (status.ok()) status = add_image(std::move(image.path), false);
  }));
  for (const std::string& links : images.lost_links())
    lost_links_.push_back(concat("[ingest] ", printable(images.root()), ": ignored, ", links));
  return status;
}

Status YoloSource::add_list(const std::string& split, const fs::path& list) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(list.string()));
  const fs::path root = full_path(root_);
  folders_.push_back({root.string(), {}, split});
  for (const std::string& line : dlpipe::split(text, '\n')) {
    if (trim(line).empty()) continue;
    const fs::path given{std::string(trim(line))};
    const fs::path beside = list.parent_path() / given;
    std::error_code ignored;
    const fs::path full = full_path(fs::exists(beside, ignored) ? beside : root / given);
    DLPIPE_RETURN_IF_ERROR(add_image(path_below(full, root), true));
  }
  return {};
}

Status YoloSource::add_splits() {
  for (const auto& [name, places] : config_.splits) {
    const std::string split = options_.splits && config_.splits.size() > 1 ? name : "";
    for (size_t i = 0; i < places.size(); ++i) {
      auto path = resolve(places[i]);
      if (!path.ok() && name == "test" && config_.splits.size() > 1) continue;  // often not published
      if (!path.ok()) return path.status();
      DLPIPE_RETURN_IF_ERROR(is_folder(*path) ? add_folder(split, *path) : add_list(split, *path));
      if (config_.splits.size() > 1) folders_.back().prefix = name + "/";
      if (places.size() > 1) folders_.back().prefix += concat(i, "/");
    }
  }
  return {};
}

// Without names, classes are named by their numbers.
void YoloSource::number(SourceListing& listing) {
  listing.classes = config_.names;
  if (!listing.classes.empty()) return;
  int64_t most = -1;
  for (const AnnotatedImage& image : found_) {
    for (const int64_t label : image.labels) most = std::max(most, label);
  }
  for (int64_t i = 0; i <= most; ++i) listing.classes.push_back(std::to_string(i));
  listing.warnings.push_back(
      concat("[ingest] ", printable(options_.path),
             " has neither data.yaml nor classes.txt: its classes are named by their numbers"));
}

void YoloSource::warn(SourceListing& listing) const {
  warn_of_no_class(options_.path, listing);
  if (confidences_ > 0)
    listing.warnings.push_back(concat(
        "[ingest] ", counted(confidences_, "line of labels ends", "lines of labels end"),
        " with an extra number, the confidence of a prediction; it is ignored, and the objects are used"));
  if (repeated_ > 0)
    listing.warnings.push_back(
        concat("[ingest] ignored: ",
               counted(repeated_, "line of labels that repeats", "lines of labels that repeat"),
               " another line of its file, the first one in ", printable(first_repeated_)));
  if (without_labels_ > 0)
    listing.warnings.push_back(concat(
        "[ingest] ", counted(without_labels_, "image has no label file and becomes a sample without objects",
                             "images have no label file and become samples without objects")));
  listing.warnings.insert(listing.warnings.end(), lost_links_.begin(), lost_links_.end());
}

Result<SourceListing> YoloSource::list() {
  folders_.clear();
  found_.clear();
  without_labels_ = 0;
  confidences_ = repeated_ = 0;
  again_ = FilesAgain(options_);
  lost_links_.clear();
  DLPIPE_RETURN_IF_ERROR(find_config());
  DLPIPE_RETURN_IF_ERROR(add_splits());
  if (found_.empty())
    return Status(
        ErrorCode::kNotFound,
        concat("[ingest] no image in ", printable(folders_.empty() ? root_.string() : folders_[0].folder)));
  if (without_labels_ == static_cast<int64_t>(found_.size()))
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] none of the ", found_.size(), " images has a label file; looked for ",
                         printable(label_path(folders_[0].folder + "/" + found_[0].path)), " and so on"));
  SourceListing listing;
  number(listing);
  listing.has_class_order = true;
  AnnotatedImages::Kinds kinds;
  kinds.points = config_.points;
  kinds.is_relative = true;
  DLPIPE_RETURN_IF_ERROR(images_.add(std::move(folders_), kinds, std::move(found_), listing));
  warn(listing);
  if (!note_.empty()) listing.warnings.insert(listing.warnings.begin(), note_);
  return listing;
}

int recognizes_yolo(const SourceOptions& options) {
  if (!options.manifest.empty() || options.path == "-") return 0;
  if (!is_folder(options.path)) return is_yaml(options.path) ? 2 : 0;
  const fs::path folder(options.path);
  const bool has_both = find_layout("yolo", folder) != nullptr && holds_ending(folder / "labels", "txt") &&
                        !holds_class_folders(folder / "images", folder / "labels");
  if (has_both || config_in(folder) || !folders_of_both(folder).empty()) return 2;
  return options.labels.empty() && dataset_around(options.path) ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_yolo(const SourceOptions& options) {
  const fs::path folder(options.path);
  const bool is_root = !is_folder(folder) || is_folder(folder / "images") || config_in(folder);
  const std::optional<Around> around = is_root ? std::nullopt : dataset_around(options.path);
  if (!around) return std::unique_ptr<Source>(std::make_unique<YoloSource>(options));
  if (around->is_of_split) {
    return misuse("ingest", printable(options.path), " holds the images of one split of the YOLO dataset ",
                  printable(around->root), "; ingest all of it: dlpipe ingest ", shell_word(around->root),
                  " DST");
  }
  SourceOptions whole = options;
  whole.path = around->root;
  auto source = std::make_unique<YoloSource>(whole);
  source->add_note(concat("[ingest] ", printable(options.path), " holds the images of the YOLO dataset ",
                          printable(around->root), ", which is read"));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace

}  // namespace yolo

extern const SourceRecord yolo_source;
const SourceRecord yolo_source = {
    "yolo",
    "YOLO's data.yaml, a folder with it, a folder with images/ and labels/, or these images/ "
    "(classes.txt names the classes); Darknet's images with their .txt next to them and obj.names or "
    "classes.txt",
    yolo::recognizes_yolo, yolo::open_yolo};

}  // namespace dlpipe::data
