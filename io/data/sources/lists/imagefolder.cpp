// Hugging Face's imagefolder with metadata: a folder of images with a metadata.csv or metadata.jsonl in it or in folders of it.
// Each names images below its own folder in the column file_name (or NAME_file_name). A column named like labels is the class,
// otherwise the class folders are; "objects" with boxes become boxes; other columns are texts, or what --field says. Folders
// called train, val and test make splits. The rows of all metadata files are one list (manifest.h).
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/lists/manifest.h"
#include "io/data/sources/lists/tables.h"
#include "io/data/sources/source_file.h"

namespace dlpipe::data {

namespace imagefolder {

namespace {

namespace fs = std::filesystem;

inline constexpr std::array<const char*, 3> kMetadataNames = {"metadata.csv", "metadata.jsonl",
                                                              "metadata.parquet"};
inline constexpr std::string_view kFileName = "file_name";

constexpr const char* kCsv = kMetadataNames[0];
constexpr const char* kJsonLines = kMetadataNames[1];
constexpr const char* kParquet = kMetadataNames[2];

/// Whether a column of this name holds names of files: file_name, or NAME_file_name.
bool names_files(std::string_view column) {
  return column == kFileName || column.ends_with("_file_name");
}

/// Whether the first line has a column of files. (Others call their lists metadata.csv, too.)
bool names_images(const fs::path& file) {
  if (!is_file(file)) return false;
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  if (file.filename() == kJsonLines) return line.find("file_name\"") != std::string::npos;
  std::vector<std::string> cells;
  int64_t number = 0;
  const auto more = CsvReader(without_mark(line), ',').next(cells, number);
  return more.ok() && *more && std::any_of(cells.begin(), cells.end(), names_files);
}

/// Whether a metadata file is in the folder, in one directly below it, or in a class folder of a split.
bool is_root(const fs::path& root) {
  const auto layouts = published_layouts();
  return std::any_of(layouts.begin(), layouts.end(), [&](const PublishedLayout& layout) {
    if (layout.source != "imagefolder") return false;
    const std::vector<fs::path> files = files_like(root, layout.has[0]);
    return std::any_of(files.begin(), files.end(), [](const fs::path& file) {
      return file.filename() == kParquet || names_images(file);
    });
  });
}

Result<JsonTable> read_table(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_list_text(path));
  if (lower_ending(path) == "jsonl") {
    auto table = read_json_lines(text);
    if (!table.ok()) return table.status().with_context(concat("[ingest] ", printable(path), " "));
    return table;
  }
  JsonTable table;
  CsvReader reader(text, ',');
  while (true) {
    JsonTable::Row row;
    const auto more = reader.next(row.cells, row.line);
    if (!more.ok()) return more.status().with_context(concat("[ingest] ", printable(path), " "));
    if (!*more) return table;
    if (table.columns.empty()) {
      table.columns = std::move(row.cells);
      continue;
    }
    if (row.cells.size() != table.columns.size())
      return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(path), " line ", row.line, ": ",
                                                counted(static_cast<int64_t>(row.cells.size()), "column"),
                                                ", the first line has ", table.columns.size()));
    table.rows.push_back(std::move(row));
  }
}

/// Appends the rows of `one`, whose files are below `folder`; `count` includes them.
Status append(JsonTable one, const std::string& folder, ReadList& list, uint64_t count) {
  std::vector<size_t> place_of;
  std::vector<std::string>& columns = list.table.columns;
  for (const std::string& column : one.columns) {
    const auto it = std::find(columns.begin(), columns.end(), column);
    place_of.push_back(static_cast<size_t>(it - columns.begin()));
    if (it == columns.end()) columns.push_back(column);
  }
  DLPIPE_RETURN_IF_ERROR(check_table(count, columns.size(), list.text_bytes));
  const int64_t before = list.files.back().lines_before;
  for (JsonTable::Row& row : one.rows) {
    JsonTable::Row all{before + row.line, std::vector<std::string>(columns.size())};
    for (size_t i = 0; i < row.cells.size(); ++i) {
      std::string& cell = row.cells[i];
      if (names_files(one.columns[i]) && !cell.empty())
        cell = (fs::path(folder) / cell).lexically_normal().string();
      all.cells[place_of[i]] = std::move(cell);
    }
    list.table.rows.push_back(std::move(all));
  }
  return {};
}

/// SRC, or its folder data, in which published repositories have their splits; "" if neither has metadata.
std::string root_in(const std::string& path) {
  if (is_root(path)) return path;
  const std::string data = (fs::path(path) / "data").string();
  std::error_code ignored;
  return fs::is_directory(data, ignored) && is_root(data) ? data : std::string();
}

/// `files` are paths of metadata files below `root`, sorted. Those whose first line has no column of files are removed with a
/// warning: other lists are also called metadata.csv. kUnsupported for Parquet, kMisuse for two in one folder.
Status check_metadata_files(const std::string& root, std::vector<std::string>& files,
                            std::vector<std::string>& warnings) {
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path file(files[i]);
    const fs::path folder = file.parent_path();
    if (file.filename() == kParquet)
      return Status(
          ErrorCode::kUnsupported,
          concat("[ingest] ", printable(root), "/", printable(file.string()),
                 " is not supported; write it as metadata.jsonl, or let Hugging Face's library read it: "
                 "dlpipe.from_dataset(datasets.load_dataset(\"imagefolder\", data_dir=...), DST)"));
    if (i > 0 && fs::path(files[i - 1]).parent_path() == folder)
      return misuse("ingest", printable((root / folder).lexically_normal().string()), " contains both ", kCsv,
                    " and ", kJsonLines, "; keep one of them");
  }
  std::erase_if(files, [&](const std::string& file) {
    if (names_images(fs::path(root) / file)) return false;
    warnings.push_back(concat("[ingest] ignored: ", printable(file), ", which has no column 'file_name'"));
    return true;
  });
  return {};
}

/// Appends the rows of one metadata file to `list`, and its columns to the others. Names of files are then relative to `root`.
/// kCorrupt names a line.
Status add_metadata_file(const std::string& root, const std::string& file, ReadList& list) {
  const std::string path = concat(root, "/", file);
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(path));
  list.text_bytes += stamp.size_bytes;
  DLPIPE_ASSIGN_OR_RETURN(JsonTable table, read_table(path));
  const int64_t before = list.table.rows.empty() ? 0 : list.table.rows.back().line;
  list.files.push_back({path, before});
  const uint64_t rows = list.table.rows.size() + table.rows.size();
  const Status fits = append(std::move(table), fs::path(file).parent_path().string(), list, rows);
  return fits.ok() ? fits : fits.with_context(concat("[ingest] ", printable(path), ": "));
}

/// "train" for "train/cat/1.jpg"; "" for files that are not in a folder.
std::string_view top_of(std::string_view path) {
  const size_t slash = path.find('/');
  return slash == std::string_view::npos || slash == 0 ? std::string_view() : path.substr(0, slash);
}

class ImageFolderSource final : public Source {
 public:
  explicit ImageFolderSource(SourceOptions options)
      : options_(std::move(options)), root_(ImageFolder(root_in(options_.path)).root()) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override { return rows_->read(entry); }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override {
    return rows_->read_referred(entry, reference);
  }
  Result<Link> where(const SourceEntry& entry) const override { return rows_->where(entry); }

 private:
  /// All images below the root, and the metadata files that name images.
  Status look();
  void choose_image_column();
  Status choose_label();
  void take_class_folders();
  Status find_splits();
  Status add_objects();
  void leave_out_unlabelled(SourceListing& listing);
  void add_images_without_rows(SourceListing& listing);
  void say_what_was_found(SourceListing& listing) const;
  std::string fields_text(const SourceListing& listing) const;
  /// Where a sample's name begins in the path: after the split's folder.
  size_t split_begin(std::string_view path) const {
    const std::string_view top = top_of(path);
    return !top.empty() && (splits_.contains(top) || top == lone_split_) ? top.size() + 1 : 0;
  }

  SourceOptions options_;
  std::string root_;
  std::vector<FoundImage> images_;
  std::vector<std::string> metadata_;  // below the root
  std::vector<std::string> warnings_;
  ReadList list_;
  std::set<std::string> referred_;                          // files that rows name next to their images
  std::map<std::string, std::string, std::less<>> splits_;  // folder -> split
  std::string lone_split_;  // the folder of a split that has all images, and makes no split; "": none
  std::vector<std::string> found_fields_;  // the kinds of columns that were found, in the form of --field
  std::string image_column_;
  std::string label_column_;  // "": none
  bool has_class_folders_ = false;
  std::unique_ptr<ManifestSource> rows_;
};

Status ImageFolderSource::look() {
  ImageFolder folder(root_);
  for (const char* name : kMetadataNames) folder.note(name);
  DLPIPE_RETURN_IF_ERROR(folder.walk("", [&](FoundImage image) { images_.push_back(std::move(image)); }));
  metadata_ = folder.noted();
  std::sort(metadata_.begin(), metadata_.end());
  if (const std::string rest = folder.left_aside(); !rest.empty())
    warnings_.push_back(concat("[ingest] ignored because they are not images: ", rest));
  for (const std::string& links : folder.lost_links())
    warnings_.push_back(concat("[ingest] ignored ", links));
  return check_metadata_files(root_, metadata_, warnings_);
}

void ImageFolderSource::choose_image_column() {
  const std::vector<std::string>& columns = list_.table.columns;
  auto chosen = columns.end();
  for (const std::string_view name : {kFileName, std::string_view("image_file_name")}) {
    if (chosen == columns.end()) chosen = std::find(columns.begin(), columns.end(), name);
  }
  if (chosen == columns.end()) chosen = std::find_if(columns.begin(), columns.end(), names_files);
  image_column_ = *chosen;
  list_.path = static_cast<size_t>(chosen - columns.begin());
  for (size_t i = 0; i < columns.size(); ++i) {
    if (i == list_.path || !names_files(columns[i])) continue;
    warnings_.push_back(concat("[ingest] the column ", in_quotes(columns[i]),
                               " names more files and is kept as text; if these are masks of class numbers: "
                               "--field ",
                               shell_text(concat(columns[i], ":mask"))));
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
                    " has no such column", printable(suggestion(options_.label, columns)));
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

// A folder without a split's name, or an image outside of all folders, belongs to no split. Then there are no splits, or they
// are unclear.
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
                  ", but its metadata names images outside of these; --no-splits makes one dataset");
  if (splits_.size() == 1 && others.empty()) lone_split_ = splits_.begin()->first;
  if (splits_.size() < 2) splits_.clear();
  if (const auto own = std::find(list_.table.columns.begin(), list_.table.columns.end(), "split");
      own != list_.table.columns.end() && splits_.empty()) {
    list_.split = static_cast<size_t>(own - list_.table.columns.begin());
  }
  if (splits_.empty()) return {};
  const std::vector<std::pair<std::string, std::string>> found(splits_.begin(), splits_.end());
  warnings_.push_back(concat("[ingest] the folders of ", printable(root_),
                             " are splits: ", splits_text(found), "; --no-splits makes one dataset"));
  return {};
}

// If no column is the class and images are in several folders, the folders are the classes.
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
  const std::string classes = !label_column_.empty()
                                  ? concat(" and their classes in ", in_quotes(label_column_))
                              : has_class_folders_ ? std::string("; their folders are their classes")
                                                   : std::string();
  std::string text = concat(
      "[ingest] ", printable(root_), " is read as Hugging Face's imagefolder: ",
      metadata_.size() == 1 ? printable(metadata_.front()) : concat(metadata_.size(), " metadata files"),
      metadata_.size() == 1 ? " names" : " name", " the images in ", in_quotes(image_column_), classes,
      fields_text(listing));
  listing.warnings.insert(listing.warnings.begin(), warnings_.begin(), warnings_.end());
  listing.warnings.insert(listing.warnings.begin(), std::move(text));
}

// Images without a label can't be used, as in lists. A split without any label is kept: it is a published test split.
void ImageFolderSource::leave_out_unlabelled(SourceListing& listing) {
  std::set<std::string> labelled;  // splits
  for (const SourceEntry& entry : listing.entries)
    if (entry.label >= 0) labelled.insert(entry.split);
  int64_t kept = 0;
  for (SourceEntry& entry : listing.entries) {
    if (entry.label >= 0) continue;
    const bool is_kept = !labelled.contains(entry.split);
    kept += is_kept ? 1 : 0;
    if (!is_kept && entry.problem.empty())
      entry.problem = concat("its ", in_quotes(label_column_), " in the metadata is empty; write its class");
  }
  if (kept > 0)
    warnings_.push_back(concat("[ingest] ", counted(kept, "image has no label", "images have no label"),
                               ", and neither has any other image of the split"));
}

// Images without a row would be lost silently. If a split's folder has no row at all, its images are not samples: it is often
// the test split.
void ImageFolderSource::add_images_without_rows(SourceListing& listing) {
  std::unordered_set<std::string_view> named(referred_.begin(), referred_.end());
  for (const SourceEntry& entry : listing.entries) named.insert(entry.path);
  const std::string any_split = listing.entries.front().split;
  std::vector<SourceEntry> added;
  std::map<std::string, int64_t> without;  // folder of a split -> its images
  for (const FoundImage& image : images_) {
    if (named.contains(image.path)) continue;
    const std::string top(top_of(image.path));
    if (!splits_.empty() && !splits_.contains(top) && !split_of_name(top).empty()) {
      ++without[top];
      continue;
    }
    SourceEntry& entry = added.emplace_back();
    entry.path = image.path;
    entry.problem = "no row of a metadata file names it";
    entry.split = splits_.contains(top) ? splits_.at(top) : any_split;
    entry.name_begin = split_begin(entry.path);
    entry.extra.resize(listing.fields.size());
  }
  for (const auto& [folder, count] : without)
    warnings_.push_back(concat("[ingest] ignored: the folder ", in_quotes(folder), " with ",
                               counted(count, "image"), ", because no metadata file names ",
                               count == 1 ? "it" : "them"));
  std::move(added.begin(), added.end(), std::back_inserter(listing.entries));
}

Result<SourceListing> ImageFolderSource::list() {
  *this = ImageFolderSource(options_);
  DLPIPE_RETURN_IF_ERROR(look());
  for (const std::string& file : metadata_) DLPIPE_RETURN_IF_ERROR(add_metadata_file(root_, file, list_));
  if (list_.table.rows.empty())
    return Status(ErrorCode::kNotFound,
                  concat("[ingest] the metadata files of ", printable(root_), " name no image"));
  for (JsonTable::Row& row : list_.table.rows)
    row.cells.resize(list_.table.columns.size());  // append() has checked the memory
  DLPIPE_RETURN_IF_ERROR(add_objects());
  choose_image_column();
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
    if (const auto split = splits_.find(top_of(entry.path)); split != splits_.end())
      entry.split = split->second;
    if (const size_t begin = split_begin(entry.path); begin > 0) entry.name_begin = begin;
  }
  if (!label_column_.empty()) leave_out_unlabelled(listing);
  add_images_without_rows(listing);
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
                                         "Hugging Face's folder of images with metadata.csv or "
                                         "metadata.jsonl (file_name, label, text, objects), or "
                                         "one in each of train, validation and test",
                                         imagefolder::recognizes_imagefolder, imagefolder::open_imagefolder,
                                         "--label --field"};

}  // namespace dlpipe::data
