// A CSV or TSV list, path,label[,...] or path;label[;...] (where numbers may have decimal commas), or one of JSON lines. Paths are relative to SRC (or to the list itself, when it
// is SRC), or absolute. A first line that names the columns (path, label, split, others) may give them in any order; the
// column split makes splits, others become fields of the records: text, or what --field says. The label is one class
// for each picture: several classes and numbers with fractions are fields.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/lists/caffe_list.h"
#include "dlpipe/io/data/sources/lists/csv.h"
#include "dlpipe/io/data/sources/lists/json_lines.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/read_budget.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

bool is_json_lines(const std::string& path) {
  const std::string ending = lower_ending(path);
  return ending == "jsonl" || ending == "ndjson";
}

int recognizes_manifest(const SourceOptions& options) {
  if (!options.manifest.empty()) return 3;
  const std::string ending = lower_ending(options.path);
  const bool is_list = ending == "csv" || ending == "tsv" || is_json_lines(options.path);
  return is_list && fs::is_regular_file(options.path) ? 2 : 0;
}

/// Whether --manifest is a list of Caffe's without commas, semicolons or tabs, which make columns here.
bool has_blanks_between(const SourceOptions& options) {
  const PictureListKind kind = kind_of_picture_list(options.manifest, options.path);
  if (kind != PictureListKind::kLabelled && kind != PictureListKind::kWithoutEnding) return false;
  std::ifstream file(options.manifest);
  std::string line;
  std::getline(file, line);
  return line.find_first_of(",;\t") == std::string::npos;
}

Result<std::unique_ptr<Source>> open_manifest(const SourceOptions& options) {
  const bool alone = options.manifest.empty();
  if (!alone && options.label.empty() && options.fields.empty() && has_blanks_between(options)) {
    SourceOptions list = options;
    list.path = options.manifest;
    list.images = options.path;
    list.manifest.clear();
    return open_caffe_list(list);
  }
  std::string list = alone ? options.path : options.manifest;
  std::string root = alone ? fs::path(options.path).parent_path().string() : options.path;
  if (alone && !options.images.empty()) root = options.images;
  if (root.empty()) root = ".";
  return std::unique_ptr<Source>(std::make_unique<ManifestSource>(std::move(list), std::move(root), options));
}

}  // namespace

std::string ReadList::place_of(int64_t line) const {
  const auto behind = std::find_if(files.begin() + 1, files.end(),
                                   [&](const File& file) { return file.lines_before >= line; });
  const File& file = *(behind - 1);
  return concat(printable(file.path), " line ", line - file.lines_before);
}

std::string ManifestSource::place_of(int64_t line) const {
  return read_ ? read_->place_of(line) : concat(printable(list_), " line ", line);
}

Status ManifestSource::wrong(int64_t line, std::string_view what) const {
  return Status(ErrorCode::kCorrupt, concat("[ingest] ", place_of(line), ": ", what));
}

Result<std::vector<std::byte>> ManifestSource::read(const SourceEntry& entry) const {
  return read_stamped_file(full(entry.path), {entry.size_bytes, entry.modified_ns});
}

Result<Link> ManifestSource::where(const SourceEntry& entry) const {
  return Link{full(entry.path), 0, entry.size_bytes, true};
}

Result<std::string_view> list_text(const std::string& path, std::span<const std::byte> bytes) {
  const std::string_view text = without_mark({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const bool is_utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
  if (is_utf16 || text.find('\0') != std::string_view::npos) {
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(path), is_utf16 ? " is UTF-16" : " holds zero bytes",
                         "; save it as UTF-8 text"));
  }
  return text;
}

Result<std::string> read_list_text(const std::string& path) {
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(path));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(path, stamp));
  DLPIPE_ASSIGN_OR_RETURN(const std::string_view text, list_text(path, bytes));
  return std::string(text);
}

char separator_of(const std::string& list, std::string_view text) {
  const std::string_view first = text.substr(0, text.find_first_of("\r\n"));
  const auto has = [&](char c) { return first.find(c) != std::string_view::npos; };
  if (lower_ending(list) == "tsv" || (has('\t') && !has(','))) return '\t';
  if (!has(';')) return ',';
  // As spreadsheets write it where the comma stands in numbers. Cells may hold the other one.
  const auto names_pictures = [&](char separator) {
    const std::vector<std::string> cells = split(first, separator);
    return find_path_column(cells) || has_image_name(cells.front());
  };
  return !has(',') || (names_pictures(';') && !names_pictures(',')) ? ';' : ',';
}

Status ManifestSource::read_lines(std::string_view text, SourceListing& listing) {
  separator_ = separator_of(list_, text);
  CsvReader reader(text, separator_);
  std::vector<std::string> cells;
  int64_t line = 0;
  int64_t read = 0;  // behind the head
  bool is_first = true;
  while (true) {
    const auto more = reader.next(cells, line);
    if (!more.ok()) return more.status().with_context(concat("[ingest] ", printable(list_), " "));
    if (!*more) return {};
    if (is_first) {
      is_first = false;
      std::vector<std::string> next;
      CsvReader ahead = reader;
      int64_t next_line = 0;
      const auto has_next = ahead.next(next, next_line);
      if (!has_next.ok() || !*has_next) next.clear();
      DLPIPE_ASSIGN_OR_RETURN(const bool is_head, read_head(cells, next, line, listing));
      if (is_head) continue;
    }
    if (read++ % options_.every == 0) DLPIPE_RETURN_IF_ERROR(add_line(cells, line, listing));
  }
}

Status ManifestSource::read_json(std::string_view text, SourceListing& listing) {
  head_ = take_field_line(text);
  if (head_ && typed_.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(typed_, parse_typed_columns(head_->fields));
  }
  const auto table = read_json_lines(text);
  if (!table.ok()) return table.status().with_context(concat("[ingest] ", printable(list_), " "));
  if (table->rows.empty()) return {};
  const int64_t first = table->rows.front().line;
  if (!find_path_column(table->columns))
    return wrong(first, concat("no key 'path'", printable(suggestion("path", table->columns))));
  DLPIPE_ASSIGN_OR_RETURN(const bool is_head, read_head(table->columns, {}, first, listing));
  if (!is_head)
    return wrong(first,
                 "its keys are names of pictures; write {\"path\": ..., \"label\": ...} on every line");
  for (const JsonTable::Row& row : table->rows)
    DLPIPE_RETURN_IF_ERROR(add_line(row.cells, row.line, listing));
  return {};
}

Status ManifestSource::take_read(SourceListing& listing) {
  const JsonTable& table = read_->table;
  columns_ = {};
  columns_.count = table.columns.size();
  columns_.path = read_->path;
  columns_.label = read_->label;
  if (columns_.label) columns_.label_name = table.columns[*columns_.label];
  columns_.split = read_->split;
  columns_.label_is_named = true;
  DLPIPE_RETURN_IF_ERROR(add_extras(table.columns, listing));
  for (const JsonTable::Row& row : table.rows) DLPIPE_RETURN_IF_ERROR(add_line(row.cells, row.line, listing));
  return {};
}

Result<SourceListing> ManifestSource::list() {
  DLPIPE_ASSIGN_OR_RETURN(SourceListing listing, list_below_root());
  const bool is_lost =
      std::all_of(listing.entries.begin(), listing.entries.end(), [](const SourceEntry& entry) {
        return !entry.problem.empty() && entry.modified_ns == 0;  // there is no such file
      });
  if (!is_lost || read_ || !options_.images.empty()) return listing;
  std::optional<Places> places = find_places(listing);
  if (!places) {
    listing.warnings.insert(
        listing.warnings.begin(),
        concat("[ingest] ", printable(list_), ": none of its files is below ", printable(root_),
               ", nor in just one of the folders there; name their folder with --images"));
    return listing;
  }
  root_ = std::move(places->root);
  parts_ = std::move(places->parts);
  DLPIPE_ASSIGN_OR_RETURN(listing, list_below_root());
  listing.warnings.insert(listing.warnings.begin(),
                          concat("[ingest] ", printable(list_), ": its files are below ", printable(root_),
                                 parts_.empty() ? std::string() : concat(", in ", quoted_names(parts_, 3))));
  return listing;
}

Result<SourceListing> ManifestSource::list_below_root() {
  DLPIPE_ASSIGN_OR_RETURN(typed_, parse_typed_columns(options_.fields));
  head_.reset();
  names_.clear();
  class_of_entry_.clear();
  line_of_entry_.clear();
  line_of_path_.clear();
  SourceListing listing;
  uint64_t text_bytes = 0;
  if (read_) {
    text_bytes = read_->text_bytes;
    DLPIPE_RETURN_IF_ERROR(take_read(listing));
  } else {
    DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_list_text(list_));
    text_bytes = text.size();
    DLPIPE_RETURN_IF_ERROR(is_json_lines(list_) ? read_json(text, listing) : read_lines(text, listing));
  }
  if (listing.entries.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(list_), " lists no file"));
  DLPIPE_RETURN_IF_ERROR(
      ReadBudget(options_, list_, text_bytes).take_entries(listing.entries.size(), listing.fields.size()));
  write_whole_labels();
  DLPIPE_RETURN_IF_ERROR(check_labels());
  DLPIPE_RETURN_IF_ERROR(check_one_hot(listing));
  DLPIPE_RETURN_IF_ERROR(check_label_is_known());
  DLPIPE_RETURN_IF_ERROR(check_labels_repeat());
  DLPIPE_RETURN_IF_ERROR(number(listing));
  warn_of_split_columns(listing);
  warn_of_pictures_as_text(listing);
  warn_of_decimal_commas(listing);
  warn_of_rounded_numbers(listing);
  if (options_.alone && columns_.label) warn_of_classes(listing);
  if (!columns_.label) warn_of_no_class(list_, listing);
  return listing;
}

extern const SourceRecord manifest_source;
const SourceRecord manifest_source = {"manifest",
                                      "a .csv, .tsv or .jsonl list with path, label[, split, ...] on every "
                                      "line, or --manifest LIST beside a folder",
                                      recognizes_manifest, open_manifest, "--label --field --images"};

}  // namespace dlpipe::data
