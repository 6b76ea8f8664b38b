// Hugging Face's imagefolder with metadata: a folder of pictures with a metadata.csv or metadata.jsonl, in it or in folders of
// it, each of which names pictures below its own folder in the column file_name (or NAME_file_name). A column called as labels
// are is the class, or else the class folders are; "objects" with boxes become boxes; other columns are texts, or what --field
// says. Folders called train, val and test make splits. The rows of all metadata files are one list (manifest_source.h).
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/lists/imagefolder_metadata.h"
#include "dlpipe/io/data/sources/lists/json_lines.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/lists/object_columns.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace imagefolder {

namespace {

namespace fs = std::filesystem;

/// "train" of "train/cat/1.jpg"; "" of what lies in no folder.
std::string_view top_of(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == std::string_view::npos || slash == 0 ? std::string_view() : path.substr(0, slash);
}

class ImageFolderSource final : public Source {
 public:
  explicit ImageFolderSource(SourceOptions options)
      : options_(std::move(options)), root_(PictureFolder(root_in(options_.path)).root()) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override { return rows_->read(entry); }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override {
    return rows_->read_referred(entry, reference);
  }
  Result<Link> where(const SourceEntry& entry) const override { return rows_->where(entry); }

 private:
  /// All pictures below the root, and the metadata files that name pictures.
  Status look();
  void choose_picture_column();
  Status choose_label();
  void take_class_folders();
  Status find_splits();
  Status add_objects();
  void add_pictures_without_rows(SourceListing& listing);
  void say_what_was_found(SourceListing& listing) const;
  std::string fields_text(const SourceListing& listing) const;
  /// The pieces of a path: what leads to a split's folder is none of a sample's name.
  size_t split_begin(std::string_view path) const {
    return splits_.contains(top_of(path)) ? top_of(path).size() + 1 : 0;
  }

  SourceOptions options_;
  std::string root_;
  std::vector<FoundPicture> pictures_;
  std::vector<std::string> metadata_;  // below the root
  std::vector<std::string> warnings_;
  ReadList list_;
  std::set<std::string> referred_;                          // files that rows name beside their pictures
  std::map<std::string, std::string, std::less<>> splits_;  // folder -> split
  std::vector<std::string> found_fields_;  // what columns are found to be, as --field says it
  std::string picture_column_;
  std::string label_column_;  // "": none
  bool has_class_folders_ = false;
  std::unique_ptr<ManifestSource> rows_;
};

Status ImageFolderSource::look() {
  PictureFolder folder(root_);
  for (const char* name : kMetadataNames) folder.note(name);
  DLPIPE_RETURN_IF_ERROR(
      folder.walk("", [&](FoundPicture picture) { pictures_.push_back(std::move(picture)); }));
  metadata_ = folder.noted();
  std::sort(metadata_.begin(), metadata_.end());
  if (const std::string rest = folder.left_aside(); !rest.empty())
    warnings_.push_back(concat("[ingest] left aside, no pictures: ", rest));
  for (const std::string& links : folder.lost_links())
    warnings_.push_back(concat("[ingest] left aside, ", links));
  return check_metadata_files(root_, metadata_, warnings_);
}

void ImageFolderSource::choose_picture_column() {
  const std::vector<std::string>& columns = list_.table.columns;
  auto chosen = columns.end();
  for (const std::string_view name : {kFileName, std::string_view("image_file_name")}) {
    if (chosen == columns.end()) chosen = std::find(columns.begin(), columns.end(), name);
  }
  if (chosen == columns.end()) chosen = std::find_if(columns.begin(), columns.end(), names_files);
  picture_column_ = *chosen;
  list_.path = static_cast<size_t>(chosen - columns.begin());
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i == list_.path || !names_files(columns[i])) continue;
    warnings_.push_back(
        concat("[ingest] the column ", in_quotes(columns[i]),
               " names further files and is kept as text; where these are masks of class numbers: "
               "--field ",
               shell_word(concat(columns[i], ":mask"))));
    for (const JsonTable::Row& row : list_.table.rows) referred_.insert(row.cells[i]);
  }
}

Status ImageFolderSource::choose_label() {
  const std::vector<std::string>& columns = list_.table.columns;
  const auto is_typed = [&](const std::string& name) {
    return std::any_of(options_.fields.begin(), options_.fields.end(),
                       [&](const std::string& field) { return field.starts_with(name + ":"); });
  };
  std::optional<size_t> label = find_label_column(columns);
  if (!options_.label.empty()) {
    const auto it = std::find(columns.begin(), columns.end(), options_.label);
    if (it == columns.end())
      return misuse("ingest", "--label ", printable(options_.label), ": the metadata of ", printable(root_),
                    " have no such column", printable(suggestion(options_.label, columns)));
    label = static_cast<size_t>(it - columns.begin());
  } else if (label && is_typed(columns[*label])) {
    return {};
  } else if (label && holds_lists(list_.table, *label)) {
    found_fields_.push_back(concat(columns[*label], ":labels"));
    return {};
  }
  list_.label = label;
  if (label) label_column_ = columns[*label];
  return {};
}

// A folder without a split's name, and a picture outside of all folders, are of no split: then there are none, or it is unclear.
Status ImageFolderSource::find_splits() {
  if (!options_.splits) return {};
  std::set<std::string> tops;
  for (const JsonTable::Row& row : list_.table.rows) tops.emplace(top_of(row.cells[list_.path]));
  std::vector<std::string> others;
  for (const std::string& top : tops) {
    if (const std::string_view split = split_of_name(top); !split.empty())
      splits_[top] = split;
    else
      others.push_back(top);
  }
  if (splits_.size() >= 2 && !others.empty())
    return misuse("ingest", printable(root_), " has the splits ",
                  quoted_names(std::vector<std::string>(tops.begin(), tops.end())),
                  ", and metadata name pictures outside of these; --no-splits makes one dataset of all");
  if (splits_.size() < 2) splits_.clear();
  if (const auto own = std::find(list_.table.columns.begin(), list_.table.columns.end(), "split");
      own != list_.table.columns.end() && splits_.empty()) {
    list_.split = static_cast<size_t>(own - list_.table.columns.begin());
  }
  if (splits_.empty()) return {};
  const std::vector<std::pair<std::string, std::string>> found(splits_.begin(), splits_.end());
  warnings_.push_back(concat("[ingest] the folders of ", printable(root_),
                             " are splits: ", splits_text(found), "; --no-splits makes one dataset of all"));
  return {};
}

// Where no column is the class, and pictures lie in several folders: these are.
void ImageFolderSource::take_class_folders() {
  const bool has_boxes =
      std::any_of(found_fields_.begin(), found_fields_.end(), [](const std::string& field) {
        return field.find(":boxes") != std::string::npos || field.ends_with(":labels");
      });
  if (list_.label || has_boxes) return;
  std::set<std::string_view> classes;
  for (const JsonTable::Row& row : list_.table.rows) {
    const std::string_view path = row.cells[list_.path];
    classes.insert(top_of(path.substr(split_begin(path))));
  }
  if (classes.size() < 2 || classes.contains("")) return;
  has_class_folders_ = true;
  list_.label = list_.table.columns.size();
  list_.table.columns.emplace_back("label");
  for (JsonTable::Row& row : list_.table.rows) {
    const std::string_view path = row.cells[list_.path];
    std::string name(top_of(path.substr(split_begin(path))));
    row.cells.push_back(std::move(name));
  }
}

Status ImageFolderSource::add_objects() {
  UnfitCell unfit;
  found_fields_ = take_objects_apart(list_.table, unfit);
  if (unfit.line == 0) return {};
  return Status(ErrorCode::kCorrupt, concat("[ingest] ", list_.place_of(unfit.line), ": ", unfit.what));
}

std::string ImageFolderSource::fields_text(const SourceListing& listing) const {
  std::string text;
  for (const Field& field : listing.fields) {
    const bool is_xywh = std::find(found_fields_.begin(), found_fields_.end(), field.name + ":boxes-xywh") !=
                         found_fields_.end();
    text += concat(text.empty() ? "" : ", ", in_quotes(field.name),
                   is_xywh            ? " (boxes of x, y, width, height)"
                   : field.of.empty() ? ""
                                      : " (one for each box)");
  }
  return text.empty() ? text : concat("; fields: ", text);
}

void ImageFolderSource::say_what_was_found(SourceListing& listing) const {
  const std::string classes =
      !label_column_.empty() ? concat(" and their classes in ", in_quotes(label_column_))
      : has_class_folders_   ? std::string("; their classes are the folders that they lie in")
                             : std::string();
  std::string text = concat(
      "[ingest] ", printable(root_), " is read as Hugging Face's imagefolder: ",
      metadata_.size() == 1 ? printable(metadata_.front()) : concat(metadata_.size(), " metadata files"),
      metadata_.size() == 1 ? " names" : " name", " the pictures in ", in_quotes(picture_column_), classes,
      fields_text(listing));
  listing.warnings.insert(listing.warnings.begin(), warnings_.begin(), warnings_.end());
  listing.warnings.insert(listing.warnings.begin(), std::move(text));
}

// They would be lost without a word. Those of a split's folder that has no row at all aren't samples: often it is the test's.
void ImageFolderSource::add_pictures_without_rows(SourceListing& listing) {
  std::unordered_set<std::string_view> named(referred_.begin(), referred_.end());
  for (const SourceEntry& entry : listing.entries) named.insert(entry.path);
  const std::string any_split = listing.entries.front().split;
  std::vector<SourceEntry> added;
  std::map<std::string, int64_t> without;  // folder of a split -> its pictures
  for (const FoundPicture& picture : pictures_) {
    if (named.contains(picture.path)) continue;
    const std::string top(top_of(picture.path));
    if (!splits_.empty() && !splits_.contains(top) && !split_of_name(top).empty()) {
      ++without[top];
      continue;
    }
    SourceEntry& entry = added.emplace_back();
    entry.path = picture.path;
    entry.problem = "no row of a metadata file names it";
    entry.split = splits_.contains(top) ? splits_.at(top) : any_split;
    entry.name_begin = split_begin(entry.path);
    entry.extra.resize(listing.fields.size());
  }
  for (const auto& [folder, count] : without)
    warnings_.push_back(concat("[ingest] left aside: the folder ", in_quotes(folder), " with ", count,
                               " pictures, of which no metadata file names any"));
  std::move(added.begin(), added.end(), std::back_inserter(listing.entries));
}

Result<SourceListing> ImageFolderSource::list() {
  *this = ImageFolderSource(options_);
  DLPIPE_RETURN_IF_ERROR(look());
  for (const std::string& file : metadata_) DLPIPE_RETURN_IF_ERROR(add_metadata_file(root_, file, list_));
  if (list_.table.rows.empty())
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] the metadata files of ", printable(root_), " name no picture"));
  for (JsonTable::Row& row : list_.table.rows)
    row.cells.resize(list_.table.columns.size());  // add_metadata_file asked
  DLPIPE_RETURN_IF_ERROR(add_objects());
  choose_picture_column();
  DLPIPE_RETURN_IF_ERROR(choose_label());
  DLPIPE_RETURN_IF_ERROR(find_splits());
  take_class_folders();
  SourceOptions options = options_;
  for (const std::string& field : found_fields_) {
    const std::string name = field.substr(0, field.find(':') + 1);
    if (std::none_of(options_.fields.begin(), options_.fields.end(),
                     [&](const std::string& given) { return given.starts_with(name); }))
      options.fields.push_back(field);
  }
  rows_ =
      std::make_unique<ManifestSource>(concat("the metadata of ", root_), root_, options, std::move(list_));
  DLPIPE_ASSIGN_OR_RETURN(SourceListing listing, rows_->list());
  for (SourceEntry& entry : listing.entries) {
    if (splits_.empty()) break;
    entry.split = splits_.at(std::string(top_of(entry.path)));
    entry.name_begin = split_begin(entry.path);
  }
  const auto unlabelled = std::count_if(listing.entries.begin(), listing.entries.end(),
                                        [](const SourceEntry& entry) { return entry.label < 0; });
  if (!label_column_.empty() && unlabelled > 0)
    warnings_.push_back(concat("[ingest] ", unlabelled,
                               unlabelled == 1 ? " picture has no label" : " pictures have no label"));
  add_pictures_without_rows(listing);
  say_what_was_found(listing);
  return listing;
}

int recognizes_imagefolder(const SourceOptions& options) {
  if (!options.manifest.empty() || options.path == "-" || !is_folder(options.path)) return 0;
  return root_in(options.path).empty() ? 0 : 2;
}

Result<std::unique_ptr<Source>> open_imagefolder(const SourceOptions& options) {
  return std::unique_ptr<Source>(std::make_unique<ImageFolderSource>(options));
}

}  // namespace

}  // namespace imagefolder

extern const SourceRecord imagefolder_source;
const SourceRecord imagefolder_source = {"imagefolder",
                                         "Hugging Face's folder of pictures with metadata.csv or "
                                         "metadata.jsonl (file_name, label, text, objects), or "
                                         "one in each of train, validation and test",
                                         imagefolder::recognizes_imagefolder, imagefolder::open_imagefolder,
                                         "--label --field"};

}  // namespace dlpipe::data
