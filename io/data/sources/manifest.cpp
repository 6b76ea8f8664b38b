// A CSV or TSV list, path,label[,...], or one of JSON lines. Paths are relative to SRC (or to the list itself, when it
// is SRC), or absolute. A first line that names the columns (path, label, split, others) may give them in any order; the
// column split makes splits, others become fields of the records: text, or what --field says. The label is one class
// for each picture: several classes and numbers with fractions are fields.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <sstream>
#include <unordered_map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/csv.h"
#include "dlpipe/io/data/sources/json_lines.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> kPathNames = {
    "path",       "file",       "filename",   "file_name", "filepath", "file_path", "image",
    "image_path", "image_file", "image_name", "img",       "img_path", "picture"};
constexpr std::array<std::string_view, 8> kLabelNames = {"label",     "labels",   "class",  "class_name",
                                                         "classname", "category", "target", "targets"};

/// Which cell of a line is what.
struct Columns {
  struct Extra {
    size_t cell = 0;
    TypedColumn column;
    int64_t numbers = 0;  // in each cell of ColumnKind::kNumbers
  };
  size_t count = 0;
  size_t path = 0;
  std::optional<size_t> label = 1;
  std::optional<size_t> split;
  std::vector<Extra> extra;
  bool label_is_named = false;
};

template <size_t N>
std::optional<size_t> find_column(const std::vector<std::string>& names,
                                  const std::array<std::string_view, N>& wanted) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(wanted.begin(), wanted.end(), lower_text(names[i])) != wanted.end()) return i;
  }
  return std::nullopt;
}

std::string in_quotes(std::string_view text) {
  return concat("'", printable(text), "'");
}

bool is_json_lines(const std::string& path) {
  const std::string ending = lower_ending(path);
  return ending == "jsonl" || ending == "ndjson";
}

bool leads_out(const fs::path& path) {
  return std::find(path.begin(), path.end(), "..") != path.end();
}

class ManifestSource final : public Source {
 public:
  ManifestSource(std::string list, std::string root, const SourceOptions& options)
      : list_(std::move(list)), root_(std::move(root)), options_(options) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return read_stamped_file(full(entry.path), {entry.size_bytes, entry.modified_ns});
  }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override;
  Result<Link> where(const SourceEntry& entry) const override {
    return Link{full(entry.path), 0, entry.size_bytes, true};
  }

 private:
  std::string full(const std::string& path) const {
    return path.starts_with('/') ? path : root_ + "/" + path;
  }
  Result<std::string> read_text() const;
  Status read_lines(std::string_view text, SourceListing& listing);
  Status read_json(std::string_view text, SourceListing& listing);
  Status find_label(const std::vector<std::string>& cells, int64_t line);
  /// Of the column in cell `i`, of that name.
  void add_extra(size_t i, const std::string& name, SourceListing& listing);
  Status check_typed_columns() const;
  /// What read_referred() takes, of a mask in a cell; what is wrong with it becomes the entry's problem.
  std::string refer_to(const std::string& file, int64_t line, SourceEntry& entry) const;
  Status add_values(const std::vector<std::string>& cells, int64_t line, SourceEntry& entry);
  void number(SourceListing& listing) const;
  /// Finds the columns by the first line. Answers whether that names them, else it is a picture's.
  Result<bool> read_head(const std::vector<std::string>& cells, int64_t line, SourceListing& listing);
  Status add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing);
  std::string problem_of(SourceEntry& entry, int64_t line) const;
  /// Where the name of a sample begins in its path: absolute ones lose what leads to SRC, or at least the slash.
  uint64_t name_begin(const std::string& path) const;
  Status check_labels() const;
  Status check_one_hot(const SourceListing& listing) const;
  void warn_of_split_columns(SourceListing& listing) const;
  Status wrong(int64_t line, std::string_view what) const {
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", printable(list_), " line ", line, ": ", what));
  }

  std::string list_;
  std::string root_;
  SourceOptions options_;
  std::vector<TypedColumn> typed_;
  Columns columns_;
  std::vector<std::string> class_of_entry_;
  std::vector<std::vector<std::string>> names_;  // of the cells of ColumnKind::kLabels, entry by entry
  std::vector<int64_t> line_of_entry_;
  std::unordered_map<std::string, int64_t> line_of_path_;
};

Result<std::string> ManifestSource::read_text() const {
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(list_));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(list_, stamp));
  std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // UTF-8's byte order mark
  const bool is_utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff");
  if (is_utf16 || text.find('\0') != std::string::npos) {
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(list_), is_utf16 ? " is UTF-16" : " holds zero bytes",
                         "; save it as UTF-8 text"));
  }
  return text;
}

Result<bool> ManifestSource::read_head(const std::vector<std::string>& cells, int64_t line,
                                       SourceListing& listing) {
  columns_ = {};
  columns_.count = cells.size();
  if (cells.size() < 2) {
    return wrong(line, concat("no label; write path,label[,...] on every line",
                              cells[0].find(';') == std::string::npos ? "" : ", with commas instead of ';'"));
  }
  const bool has_picture =
      std::any_of(cells.begin(), cells.end(), has_image_name);  // a class may be called 'image'
  const std::optional<size_t> path = has_picture ? std::nullopt : find_column(cells, kPathNames);
  if (!path) {
    if (std::error_code ignored;
        !has_picture && cells[0].find('/') == std::string::npos && !fs::exists(full(cells[0]), ignored)) {
      return wrong(line, concat(in_quotes(cells[0]),
                                " is no file; if this line names the columns, call that of the "
                                "files 'path' and that of the classes 'label'"));
    }
    for (size_t i = 2; i < cells.size(); ++i) add_extra(i, concat("column", i + 1), listing);
    if (!options_.label.empty())
      return wrong(line,
                   concat("--label ", in_quotes(options_.label), ", but the first line names no columns"));
    DLPIPE_RETURN_IF_ERROR(check_typed_columns());
    return false;
  }
  columns_.path = *path;
  const std::optional<size_t> split = find_column(cells, std::array<std::string_view, 1>{"split"});
  if (options_.splits) columns_.split = split;
  DLPIPE_RETURN_IF_ERROR(find_label(cells, line));
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i == *path || i == columns_.label || i == columns_.split) continue;
    if (cells[i].empty()) {
      listing.warnings.push_back(
          concat("[ingest] column ", i + 1, " of ", printable(list_), " has no name and is left out"));
      continue;
    }
    add_extra(i, cells[i], listing);
  }
  DLPIPE_RETURN_IF_ERROR(check_typed_columns());
  return true;
}

// The column that --label names, or that is called so; else the first one, unless other columns are what is to be
// learnt.
Status ManifestSource::find_label(const std::vector<std::string>& cells, int64_t line) {
  const auto is_typed = [&](size_t i) {
    return std::any_of(typed_.begin(), typed_.end(),
                       [&](const TypedColumn& one) { return one.name == cells[i]; });
  };
  columns_.label.reset();
  if (!options_.label.empty()) {
    const auto it = std::find(cells.begin(), cells.end(), options_.label);
    if (it == cells.end())
      return wrong(line, concat("no column ", in_quotes(options_.label), ", which --label names",
                                printable(suggestion(options_.label, cells))));
    columns_.label = static_cast<size_t>(it - cells.begin());
  } else if (const auto named = find_column(cells, kLabelNames); named && !is_typed(*named)) {
    columns_.label = named;
  }
  columns_.label_is_named = columns_.label.has_value();
  if (columns_.label || !typed_.empty()) return {};
  for (size_t i = 0; i < cells.size() && !columns_.label; ++i) {
    if (i != columns_.path && i != columns_.split && !cells[i].empty() && lower_text(cells[i]) != "split")
      columns_.label = i;
  }
  return columns_.label ? Status() : wrong(line, "no column of labels; call it 'label'");
}

void ManifestSource::add_extra(size_t i, const std::string& name, SourceListing& listing) {
  TypedColumn column{name, ColumnKind::kText};
  for (const TypedColumn& typed : typed_) {
    if (typed.name == name) column = typed;
  }
  columns_.extra.push_back({i, column, 0});
  // Records have a field of that name.
  if (column.kind != ColumnKind::kText && name == "label")
    column.name = column.kind == ColumnKind::kLabels ? "labels" : "target";
  if (column.of == "label") column.of = "target";
  listing.fields.push_back(field_of(column, 0));
}

Status ManifestSource::check_typed_columns() const {
  std::vector<std::string> names;
  for (const Columns::Extra& extra : columns_.extra) names.push_back(extra.column.name);
  for (const TypedColumn& typed : typed_) {
    if (std::find(names.begin(), names.end(), typed.name) == names.end())
      return Status(ErrorCode::kMisuse,
                    concat("[ingest] --field ", printable(typed.name), ": ", printable(list_),
                           " has no such column beside path, label and split",
                           printable(suggestion(typed.name, names))));
  }
  return {};
}

uint64_t ManifestSource::name_begin(const std::string& path) const {
  if (!path.starts_with('/')) return 0;
  std::error_code ignored;
  const std::string root = fs::absolute(root_, ignored).lexically_normal().string();
  const std::string below = root.ends_with('/') ? root : root + "/";
  if (path.size() > below.size() && path.starts_with(below)) return below.size();
  return std::min(path.find_first_not_of('/'), path.size());
}

std::string ManifestSource::refer_to(const std::string& file, int64_t line, SourceEntry& entry) const {
  if (file.empty()) return {};
  SourceEntry mask;
  mask.path = file;
  const std::string problem = problem_of(mask, line);
  if (entry.problem.empty()) entry.problem = problem;
  return concat(mask.size_bytes, " ", mask.modified_ns, " ", file);
}

Result<std::vector<std::byte>> ManifestSource::read_referred(const SourceEntry&,
                                                             std::string_view reference) const {
  FileStamp stamp;
  std::istringstream words{std::string(reference)};
  std::string file;
  words >> stamp.size_bytes >> stamp.modified_ns;
  words.get();
  std::getline(words, file, '\0');
  return read_stamped_file(full(file), stamp);
}

std::string ManifestSource::problem_of(SourceEntry& entry, int64_t line) const {
  const auto stamp = stamp_file(full(entry.path));
  if (stamp.ok()) {
    entry.size_bytes = stamp->size_bytes;
    entry.modified_ns = stamp->modified_ns;
    return {};
  }
  const bool is_gone = stamp.status().code() == ErrorCode::kNotFound;
  const bool has_backslash = entry.path.find('\\') != std::string::npos;
  return concat(printable(list_), " line ", line, ": ",
                is_gone ? "there is no file " + printable(full(entry.path))
                        : std::string(without_area(stamp.status().message())),
                is_gone && has_backslash ? "; write / between folders" : "");
}

Status ManifestSource::add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing) {
  if (cells.size() != columns_.count)
    return wrong(line, concat(cells.size(), " columns, the first line has ", columns_.count,
                              "; write path,label[,...] on every line"));
  const std::string& path = cells[columns_.path];
  const std::string label = columns_.label ? cells[*columns_.label] : std::string();
  if (path.empty() || (columns_.label && label.empty()))
    return wrong(line, "an empty path or label; fill it in");
  if (leads_out(path))
    return wrong(line, concat(printable(path), " leads out of ", printable(root_),
                              "; give paths below it, or absolute ones"));
  const auto [former, fresh] = line_of_path_.emplace(fs::path(full(path)).lexically_normal().string(), line);
  if (!fresh)
    return wrong(line,
                 concat(printable(path), " was listed on line ", former->second, " already; list it once"));
  SourceEntry entry;
  entry.path = path;
  entry.name_begin = name_begin(path);
  entry.problem = problem_of(entry, line);
  if (columns_.split) {
    const std::string& split = cells[*columns_.split];
    entry.split = split_of_name(split);
    if (entry.split.empty())
      return wrong(line, concat("the split ", in_quotes(split),
                                " is none of train, val and test; --no-splits takes the "
                                "column as a field"));
  }
  DLPIPE_RETURN_IF_ERROR(add_values(cells, line, entry));
  listing.entries.push_back(std::move(entry));
  class_of_entry_.push_back(label);
  line_of_entry_.push_back(line);
  return {};
}

Status ManifestSource::add_values(const std::vector<std::string>& cells, int64_t line, SourceEntry& entry) {
  for (Columns::Extra& extra : columns_.extra) {
    const std::string& cell = cells[extra.cell];
    const auto in_column = [&](const Status& status) {
      return wrong(line, concat("column ", in_quotes(extra.column.name), ": ", status.message()));
    };
    if (extra.column.kind == ColumnKind::kText) {
      entry.extra.push_back(cell);
    } else if (extra.column.kind == ColumnKind::kMask) {
      if (leads_out(cell))
        return in_column(
            Status(ErrorCode::kCorrupt, concat(printable(cell), " leads out of ", printable(root_))));
      entry.extra.push_back(refer_to(cell, line, entry));
    } else if (extra.column.kind == ColumnKind::kLabels) {
      auto names = names_in_cell(cell);
      if (!names.ok()) return in_column(names.status());
      names_.push_back(std::move(*names));
      entry.extra.emplace_back();
    } else {
      auto bytes = encode_cell(extra.column, cell, &extra.numbers);
      if (!bytes.ok()) return in_column(bytes.status());
      entry.extra.push_back(std::move(*bytes));
    }
  }
  return {};
}

// One table of classes for the label and for all columns of labels.
void ManifestSource::number(SourceListing& listing) const {
  std::vector<std::string> all;
  for (const std::string& name : class_of_entry_) {
    if (!name.empty()) all.push_back(name);
  }
  for (const std::vector<std::string>& names : names_) all.insert(all.end(), names.begin(), names.end());
  listing.classes = sorted_class_names(std::move(all));
  std::unordered_map<std::string_view, int64_t> label_of;
  for (size_t i = 0; i < listing.classes.size(); ++i) label_of[listing.classes[i]] = static_cast<int64_t>(i);
  auto names = names_.begin();
  for (size_t e = 0; e < listing.entries.size(); ++e) {
    SourceEntry& entry = listing.entries[e];
    entry.label = class_of_entry_[e].empty() ? -1 : label_of.at(class_of_entry_[e]);
    for (size_t i = 0; i < columns_.extra.size(); ++i) {
      if (columns_.extra[i].column.kind != ColumnKind::kLabels) continue;
      std::vector<int64_t> labels;
      for (const std::string& name : *names) labels.push_back(label_of.at(name));
      entry.extra[i] = encode_labels(labels);
      ++names;
    }
  }
  for (size_t i = 0; i < columns_.extra.size(); ++i) {
    if (columns_.extra[i].column.kind == ColumnKind::kNumbers && listing.fields[i].of.empty())
      listing.fields[i].shape = {std::max<int64_t>(1, columns_.extra[i].numbers)};
  }
}

Status ManifestSource::check_labels() const {
  if (!columns_.label) return {};
  bool all_numbers = true;
  std::optional<size_t> fraction;
  for (size_t i = 0; i < class_of_entry_.size(); ++i) {
    const std::string& label = class_of_entry_[i];
    if (label.find_first_of("|;") != std::string::npos) {
      return wrong(line_of_entry_[i],
                   concat("the label ", in_quotes(label),
                          " names several classes; give each picture one, or make it a field with "
                          "--field COLUMN:labels (dlpipe has no multi-label training yet)"));
    }
    double number = 0;
    int64_t whole = 0;
    all_numbers = all_numbers && parse_double(label, &number);
    if (!fraction && !parse_int(label, &whole)) fraction = i;
  }
  if (!all_numbers || !fraction) return {};
  return wrong(line_of_entry_[*fraction],
               concat("the label ", in_quotes(class_of_entry_[*fraction]),
                      " is a number, but no whole one; dlpipe trains "
                      "classes and predicts no quantities: give names or whole numbers, or make it a "
                      "field with --field COLUMN:number"));
}

// path,cat,dog,bird with ones and zeros: the first of these columns would be taken as the label.
Status ManifestSource::check_one_hot(const SourceListing& listing) const {
  if (columns_.label_is_named || !columns_.label || listing.fields.empty() || columns_.split) return {};
  const auto is_bit = [](const std::string& cell) { return cell == "0" || cell == "1"; };
  if (!std::all_of(class_of_entry_.begin(), class_of_entry_.end(), is_bit)) return {};
  for (const SourceEntry& entry : listing.entries) {
    if (!std::all_of(entry.extra.begin(), entry.extra.end(), is_bit)) return {};
  }
  return wrong(
      1,
      "the columns hold nothing but 0 and 1, as if each were a class; write the class's name in one column "
      "'label'");
}

void ManifestSource::warn_of_split_columns(SourceListing& listing) const {
  for (size_t i = 0; i < listing.fields.size(); ++i) {
    const bool holds_splits =
        std::all_of(listing.entries.begin(), listing.entries.end(),
                    [&](const SourceEntry& entry) { return !split_of_name(entry.extra[i]).empty(); });
    if (holds_splits && options_.splits)
      listing.warnings.push_back(
          concat("[ingest] the column ", in_quotes(listing.fields[i].name),
                 " holds names of splits and becomes a field; to make splits of it, name it "
                 "split in the list's first line"));
  }
}

Status ManifestSource::read_lines(std::string_view text, SourceListing& listing) {
  const std::string_view first = text.substr(0, text.find_first_of("\r\n"));
  const bool has_tabs =
      first.find('\t') != std::string_view::npos && first.find(',') == std::string_view::npos;
  CsvReader reader(text, has_tabs || lower_ending(list_) == "tsv" ? '\t' : ',');
  std::vector<std::string> cells;
  int64_t line = 0;
  bool is_first = true;
  while (true) {
    const auto more = reader.next(cells, line);
    if (!more.ok()) return more.status().with_context(concat("[ingest] ", printable(list_), " "));
    if (!*more) return {};
    if (is_first) {
      is_first = false;
      DLPIPE_ASSIGN_OR_RETURN(const bool is_head, read_head(cells, line, listing));
      if (is_head) continue;
    }
    DLPIPE_RETURN_IF_ERROR(add_line(cells, line, listing));
  }
}

Status ManifestSource::read_json(std::string_view text, SourceListing& listing) {
  const auto table = read_json_lines(text);
  if (!table.ok()) return table.status().with_context(concat("[ingest] ", printable(list_), " "));
  if (table->rows.empty()) return {};
  const int64_t first = table->rows.front().line;
  if (!find_column(table->columns, kPathNames))
    return wrong(first, concat("no key 'path'", printable(suggestion("path", table->columns))));
  DLPIPE_ASSIGN_OR_RETURN(const bool is_head, read_head(table->columns, first, listing));
  if (!is_head) return wrong(first, "its keys are names of pictures");
  for (const JsonTable::Row& row : table->rows)
    DLPIPE_RETURN_IF_ERROR(add_line(row.cells, row.line, listing));
  return {};
}

Result<SourceListing> ManifestSource::list() {
  DLPIPE_ASSIGN_OR_RETURN(typed_, parse_typed_columns(options_.fields));
  names_.clear();
  class_of_entry_.clear();
  line_of_entry_.clear();
  line_of_path_.clear();
  DLPIPE_ASSIGN_OR_RETURN(const std::string text, read_text());
  SourceListing listing;
  const bool is_json = is_json_lines(list_);
  DLPIPE_RETURN_IF_ERROR(is_json ? read_json(text, listing) : read_lines(text, listing));
  if (listing.entries.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] ", printable(list_), " lists no file"));
  DLPIPE_RETURN_IF_ERROR(check_labels());
  DLPIPE_RETURN_IF_ERROR(check_one_hot(listing));
  number(listing);
  warn_of_split_columns(listing);
  if (options_.alone && columns_.label) warn_of_classes(listing);
  if (!columns_.label) warn_of_no_class(list_, listing);
  return listing;
}

int recognizes_manifest(const SourceOptions& options) {
  if (!options.manifest.empty()) return 3;
  const std::string ending = lower_ending(options.path);
  const bool is_list = ending == "csv" || ending == "tsv" || is_json_lines(options.path);
  return is_list && fs::is_regular_file(options.path) ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_manifest(const SourceOptions& options) {
  const bool alone = options.manifest.empty();
  std::string list = alone ? options.path : options.manifest;
  std::string root = alone ? fs::path(options.path).parent_path().string() : options.path;
  if (root.empty()) root = ".";
  return std::unique_ptr<Source>(std::make_unique<ManifestSource>(std::move(list), std::move(root), options));
}

}  // namespace

extern const SourceRecord manifest_source;
const SourceRecord manifest_source = {"manifest",
                                      "a .csv, .tsv or .jsonl list with path, label[, split, ...] on every "
                                      "line, or --manifest LIST beside a folder",
                                      recognizes_manifest, open_manifest, "--label --field"};

}  // namespace dlpipe::data
