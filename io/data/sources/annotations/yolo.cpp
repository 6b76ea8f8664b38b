// YOLO: a .txt of objects for each picture, at the picture's path with images/ instead of labels/, or beside it. SRC is a
// data.yaml that names classes and splits, a folder with one, a folder with images/ and labels/, or one with a list of the
// classes (classes.txt, obj.names, _darknet.labels) and pictures that have their .txt beside them, also in its folders. Boxes are stored in
// shares of the picture, of which ingest makes pixels. A picture without a .txt has no objects.
// A list that names a picture again makes one more sample of it, as Ultralytics has it.
// Polygons become one mask per picture, beside the boxes around them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/annotations/annotated_pictures.h"
#include "dlpipe/io/data/sources/annotations/yolo_files.h"
#include "dlpipe/io/data/sources/annotations/yolo_layout.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace yolo {

namespace {

namespace fs = std::filesystem;

Result<std::string> read_text(const std::string& path) {
  constexpr uint64_t kMost = uint64_t{256} << 20;
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(path, stamp, kMost));
  return std::string(without_mark({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
}

/// Where a picture lies below `root`, by the name that it is listed by: its labels are called as it is, whatever it links
/// to. Folders may be written through other links than `root`.
std::string path_below(const fs::path& picture, const fs::path& root) {
  const auto leads_out = [](const fs::path& path) { return path.empty() || *path.begin() == ".."; };
  if (const fs::path below = picture.lexically_relative(root); !leads_out(below)) return below.string();
  std::error_code ignored;
  const fs::path folder = fs::weakly_canonical(picture.parent_path(), ignored);
  return (folder / picture.filename()).lexically_relative(fs::weakly_canonical(root, ignored)).string();
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
  Status add_picture(std::string path, bool is_listed);
  Status add_splits();
  void number(SourceListing& listing);
  void warn(SourceListing& listing) const;

  Config config_;
  fs::path root_;         // of the dataset
  fs::path config_file_;  // "": none
  std::vector<AnnotatedPictures::Part> folders_;
  std::vector<AnnotatedPicture> found_;
  int64_t without_labels_ = 0;
  int64_t confidences_ = 0;  // lines that end with one
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
      PictureFolder folder((root_ / "images").string());
      DLPIPE_ASSIGN_OR_RETURN(const PictureFolder::Names names, folder.names_in(""));
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
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(config_file_.string()),
                                              ": neither 'train' nor 'val' in it, so it is no YOLO dataset"));
  for (const fs::path& path : {root_ / config_.path, full_path(config_.path)}) {
    if (!config_.path.empty() && is_folder(path)) {
      root_ = path;
      break;
    }
  }
  return {};
}

/// Where a split's folder or list is. Programs write paths as they are on their own machine: ../train/images is tried
/// as train/images, too.
Result<fs::path> YoloSource::resolve(const std::string& given) const {
  const fs::path beside = full_path(config_file_).parent_path();
  std::vector<fs::path> tried = {root_ / given, beside / given};
  if (given.starts_with("../")) tried.push_back(root_ / given.substr(3));
  for (const fs::path& path : tried) {
    std::error_code ignored;
    if (fs::exists(path, ignored)) return path.lexically_normal();
  }
  return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(config_file_.string()), " names ",
                                             printable(given), ", which is neither in ",
                                             printable(root_.string()), " nor beside it; correct that path"));
}

Status YoloSource::add_picture(std::string path, bool is_listed) {
  if (options_.stop_requested && options_.stop_requested())
    return Status(ErrorCode::kCancelled,
                  concat("[ingest] stopped while ", printable(options_.path), " was listed"));
  const std::string labels = label_path(folders_.back().folder + "/" + path);
  AnnotatedPicture picture;
  picture.path = std::move(path);
  picture.part = folders_.size() - 1;
  picture.is_listed = is_listed;
  if (is_dead_link(labels)) {
    picture.problem = concat("its labels, ", printable(labels), ", are a link to nothing");
    found_.push_back(std::move(picture));
    return {};
  }
  if (std::error_code ignored; !fs::exists(labels, ignored)) {
    ++without_labels_;
    found_.push_back(std::move(picture));
    return {};
  }
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text(labels));
  if (is_listed) DLPIPE_RETURN_IF_ERROR(again_.take(labels, text.size()));
  auto parsed = parse_labels(text, config_);
  if (!parsed.ok()) {
    picture.problem = concat(printable(labels), " ", parsed.status().message());
  } else {
    confidences_ += parsed->confidences;
    picture.boxes = std::move(parsed->boxes);
    picture.labels = std::move(parsed->classes);
    picture.points = std::move(parsed->points);
    picture.outlines = std::move(parsed->outlines);
  }
  found_.push_back(std::move(picture));
  return {};
}

Status YoloSource::add_folder(const std::string& split, const fs::path& folder) {
  PictureFolder pictures(folder.string());
  folders_.push_back({pictures.root(), {}, split});
  Status status;
  DLPIPE_RETURN_IF_ERROR(pictures.walk("", [&](FoundPicture picture) {
    if (status.ok()) status = add_picture(std::move(picture.path), false);
  }));
  for (const std::string& links : pictures.lost_links())
    lost_links_.push_back(concat("[ingest] ", printable(pictures.root()), ": left aside, ", links));
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
    DLPIPE_RETURN_IF_ERROR(add_picture(path_below(full, root), true));
  }
  return {};
}

Status YoloSource::add_splits() {
  for (const auto& [name, places] : config_.splits) {
    const std::string split = options_.splits && config_.splits.size() > 1 ? name : "";
    for (size_t i = 0; i < places.size(); ++i) {
      auto path = resolve(places[i]);
      if (!path.ok() && name == "test" && config_.splits.size() > 1) continue;  // often not handed out
      if (!path.ok()) return path.status();
      DLPIPE_RETURN_IF_ERROR(is_folder(*path) ? add_folder(split, *path) : add_list(split, *path));
      if (config_.splits.size() > 1) folders_.back().prefix = name + "/";
      if (places.size() > 1) folders_.back().prefix += concat(i, "/");
    }
  }
  return {};
}

// Without names, classes are called by their numbers.
void YoloSource::number(SourceListing& listing) {
  listing.classes = config_.names;
  if (!listing.classes.empty()) return;
  int64_t most = -1;
  for (const AnnotatedPicture& picture : found_) {
    for (const int64_t label : picture.labels) most = std::max(most, label);
  }
  for (int64_t i = 0; i <= most; ++i) listing.classes.push_back(std::to_string(i));
  listing.warnings.push_back(
      concat("[ingest] ", printable(options_.path),
             " has neither data.yaml nor classes.txt: its classes are called by their numbers"));
}

void YoloSource::warn(SourceListing& listing) const {
  warn_of_no_class(options_.path, listing);
  if (confidences_ > 0)
    listing.warnings.push_back(concat(
        "[ingest] ", human_count(confidences_),
        confidences_ == 1 ? " line of labels ends" : " lines of labels end",
        " with one number more, the confidence of a prediction; it is left aside, the objects are taken"));
  if (without_labels_ > 0)
    listing.warnings.push_back(concat("[ingest] ", human_count(without_labels_),
                                      " pictures have no label file and become samples without objects"));
  listing.warnings.insert(listing.warnings.end(), lost_links_.begin(), lost_links_.end());
}

Result<SourceListing> YoloSource::list() {
  folders_.clear();
  found_.clear();
  without_labels_ = 0;
  confidences_ = 0;
  again_ = FilesAgain(options_);
  lost_links_.clear();
  DLPIPE_RETURN_IF_ERROR(find_config());
  DLPIPE_RETURN_IF_ERROR(add_splits());
  if (found_.empty())
    return Status(
        ErrorCode::kNotFound,
        concat("[ingest] no picture in ", printable(folders_.empty() ? root_.string() : folders_[0].folder)));
  if (without_labels_ == static_cast<int64_t>(found_.size()))
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] none of the ", found_.size(), " pictures has a label file; looked for ",
                         printable(label_path(folders_[0].folder + "/" + found_[0].path)), " and so on"));
  SourceListing listing;
  number(listing);
  listing.has_class_order = true;
  AnnotatedPictures::Kinds kinds;
  kinds.points = config_.points;
  kinds.is_relative = true;
  DLPIPE_RETURN_IF_ERROR(pictures_.add(std::move(folders_), kinds, std::move(found_), listing));
  warn(listing);
  if (!note_.empty()) listing.warnings.insert(listing.warnings.begin(), note_);
  return listing;
}

int recognizes_yolo(const SourceOptions& options) {
  if (!options.manifest.empty() || options.path == "-") return 0;
  if (!is_folder(options.path)) return is_yaml(options.path) ? 2 : 0;
  const fs::path folder(options.path);
  const bool has_both = is_folder(folder / "images") && holds_ending(folder / "labels", "txt") &&
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
    return misuse("ingest", printable(options.path), " holds the pictures of one split of the YOLO dataset ",
                  printable(around->root), "; ingest all of it: dlpipe ingest ", shell_word(around->root),
                  " DST");
  }
  SourceOptions whole = options;
  whole.path = around->root;
  auto source = std::make_unique<YoloSource>(whole);
  source->add_note(concat("[ingest] ", printable(options.path), " holds the pictures of the YOLO dataset ",
                          printable(around->root), ", which is read"));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace

}  // namespace yolo

extern const SourceRecord yolo_source;
const SourceRecord yolo_source = {
    "yolo",
    "YOLO's data.yaml, a folder with it, a folder with images/ and labels/, or these images/ "
    "(classes.txt names the classes); Darknet's pictures with their .txt beside them and obj.names or "
    "classes.txt",
    yolo::recognizes_yolo, yolo::open_yolo};

}  // namespace dlpipe::data
