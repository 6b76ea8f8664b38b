// A list of images: CSV or TSV, path,label[,...] or path;label[;...] (with which numbers may have decimal commas), or JSON lines.
// Paths are relative to SRC (or to the list itself if it is SRC), or absolute. A first line that names the columns (path, label,
// split, others) may have them in any order; the column split makes splits, others become fields of the records: text, or what
// --field says. The label is one class per image: several classes and numbers with fractions are fields.
//
// Here: the file, the folder of its images, and its lines. manifest_columns.cpp: its first line, and what the labels mean.
#include "io/data/sources/lists/manifest.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "base/messages.h"
#include "io/data/file_name.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/lists/caffe_list.h"
#include "io/data/sources/lists/tables.h"
#include "io/data/sources/source_file.h"

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
  const ImageListKind kind = kind_of_image_list(options.manifest, options.path);
  if (kind == ImageListKind::kCounted) return true;
  if (kind != ImageListKind::kLabelled && kind != ImageListKind::kWithoutEnding) return false;
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

constexpr size_t kMostFolders = 256;

/// The folders in `root` and the folders in those, in the order of their names, without hidden ones.
std::vector<fs::path> folders_in(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(root, fs::directory_options::skip_permission_denied, ignored), end;
       at != end && folders.size() < kMostFolders; at.increment(ignored)) {
    if (!at->is_directory(ignored)) continue;
    const bool is_hidden = at->path().filename().string().starts_with('.');
    if (at.depth() == 1 || is_hidden) at.disable_recursion_pending();
    if (!is_hidden) folders.push_back(at->path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

/// The path of the entry's file: a restored name (set_name) may follow it.
std::string file_part(const SourceEntry& entry) {
  return entry.place > 0 ? entry.path.substr(0, entry.place) : entry.path;
}

/// A sample of the files that is large enough to decide, taken from the whole list, because the files of one folder may be
/// adjacent in it.
std::vector<std::string> some_paths(const SourceListing& listing) {
  const size_t count = std::min(kFilesThatDecide, listing.entries.size());
  std::vector<std::string> paths;
  for (size_t i = 0; i < count; ++i) {
    std::string path = file_part(listing.entries[i * listing.entries.size() / count]);
    if (!path.starts_with('/')) paths.push_back(std::move(path));
  }
  return paths;
}

/// The ways in which programs write that a cell has no value; using them as a class would be a mistake.
bool is_no_value(std::string_view cell) {
  constexpr std::array<std::string_view, 4> kWritten = {"nan", "NaN", "NAN", "<NA>"};
  return std::find(kWritten.begin(), kWritten.end(), cell) != kWritten.end();
}

bool leads_out(const fs::path& path) {
  return std::find(path.begin(), path.end(), "..") != path.end();
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
  return read_stamped_file(full(file_part(entry)), {entry.size_bytes, entry.modified_ns});
}

Result<Link> ManifestSource::where(const SourceEntry& entry) const {
  return Link{full(file_part(entry)), 0, entry.size_bytes, true};
}

Result<std::string_view> list_text(const std::string& path, std::span<const std::byte> bytes) {
  const std::string_view text = without_mark({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const bool is_utf16 = text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff") ||
                        (text.size() > 1 && (text[0] == '\0') != (text[1] == '\0'));  // ASCII without a mark
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
  // The separator of spreadsheets in languages with decimal commas. Cells may contain the other one.
  const auto names_images = [&](char separator) {
    const std::vector<std::string> cells = split(first, separator);
    return find_path_column(cells) || has_image_name(cells.front());
  };
  return !has(',') || (names_images(';') && !names_images(',')) ? ';' : ',';
}

Status ManifestSource::read_lines(std::string_view text, SourceListing& listing) {
  separator_ = separator_of(list_, text);
  CsvReader reader(text, separator_);
  std::vector<std::string> cells;
  int64_t line = 0;
  int64_t read = 0;  // after the head
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
    return wrong(first, concat("there is no key 'path'", printable(suggestion("path", table->columns))));
  DLPIPE_ASSIGN_OR_RETURN(const bool is_head, read_head(table->columns, {}, first, listing));
  if (!is_head)
    return wrong(first, "its keys are image names; write {\"path\": ..., \"label\": ...} on every line");
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
  if (!is_lost || read_) return listing;
  std::optional<Places> places = options_.images.empty() ? find_places(listing) : std::nullopt;
  if (!places) {
    places = find_places_by_name(listing);
    by_last_name_ = places.has_value();
  }
  if (!places && !options_.images.empty()) return listing;
  if (!places) {
    listing.warnings.insert(
        listing.warnings.begin(),
        concat("[ingest] ", printable(list_), ": none of its files is below ", printable(root_),
               ", nor in exactly one of the folders there; give their folder with --images"));
    return listing;
  }
  root_ = std::move(places->root);
  parts_ = std::move(places->parts);
  DLPIPE_ASSIGN_OR_RETURN(listing, list_below_root());
  listing.warnings.insert(listing.warnings.begin(),
                          concat("[ingest] ", printable(list_), ": its files are below ", printable(root_),
                                 parts_.empty() ? std::string() : concat(", in ", quoted_names(parts_, 3)),
                                 by_last_name_ ? ", and are found by the last names of its paths" : ""));
  return listing;
}

Result<SourceListing> ManifestSource::list_below_root() {
  DLPIPE_ASSIGN_OR_RETURN(typed_, parse_typed_columns(options_.fields));
  head_.reset();
  names_.clear();
  one_hot_.clear();
  class_of_entry_.clear();
  line_of_entry_.clear();
  line_of_path_.clear();
  stems_.clear();
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
  DLPIPE_RETURN_IF_ERROR(take_one_hot(listing));
  write_whole_labels();
  DLPIPE_RETURN_IF_ERROR(check_labels());
  DLPIPE_RETURN_IF_ERROR(check_label_is_known());
  DLPIPE_RETURN_IF_ERROR(check_labels_repeat());
  DLPIPE_RETURN_IF_ERROR(number(listing));
  warn_of_split_columns(listing);
  warn_of_images_as_text(listing);
  warn_of_decimal_commas(listing);
  warn_of_rounded_numbers(listing);
  if (options_.alone && columns_.label) warn_of_classes(listing);
  if (!columns_.label) warn_of_no_class(list_, listing);
  return listing;
}

// The folder that a list's paths begin in, if it is not the list's own: images/ next to labels.csv, train/ next to train.csv, part_1/
// and part_2/ next to metadata.csv.

std::optional<ManifestSource::Places> ManifestSource::find_places(const SourceListing& listing) const {
  struct Candidate {
    fs::path folder;
    size_t found = 0;
  };
  const std::string stem = fs::path(list_).stem().string();
  const std::vector<std::string> paths = some_paths(listing);
  std::vector<size_t> times(paths.size());  // in how many folders each is
  std::vector<Candidate> some;              // that have any
  size_t most = 0;
  for (const fs::path& folder : folders_in(root_)) {
    Candidate candidate{folder};
    for (size_t i = 0; i < paths.size(); ++i) {
      std::error_code ignored;
      if (!fs::is_regular_file(folder / with_ending(paths[i], folder.string()), ignored)) continue;
      ++times[i];
      ++candidate.found;
    }
    most = std::max(most, candidate.found);
    if (candidate.found > 0) some.push_back(std::move(candidate));
  }
  const size_t looked = std::min(kFilesThatDecide, listing.entries.size());
  const auto there = static_cast<size_t>(
      std::count_if(times.begin(), times.end(), [](size_t in_folders) { return in_folders > 0; }));
  if (2 * there <= looked) return std::nullopt;
  // Using several folders gains the paths that the fullest one lacks, but paths that are in several of them are unclear.
  const auto unclear =
      static_cast<size_t>(std::count_if(times.begin(), times.end(), [](size_t n) { return n > 1; }));
  if (there > most + unclear) {
    Places places{root_, {}};
    for (const Candidate& one : some) places.parts.push_back(fs::relative(one.folder, root_).string());
    return places;
  }
  if (2 * most <= looked) return std::nullopt;
  std::erase_if(some, [&](const Candidate& one) { return one.found < most; });
  if (some.size() > 1)
    std::erase_if(some, [&](const Candidate& one) {
      const std::string name = one.folder.filename().string();
      return name != stem && name != split_in_words(stem);
    });
  if (some.size() != 1) return std::nullopt;
  return Places{some.front().folder.string(), {}};
}

std::optional<ManifestSource::Places> ManifestSource::find_places_by_name(SourceListing listing) const {
  std::vector<std::string> names;
  bool have_folders = false;
  for (SourceEntry& entry : listing.entries) {
    const std::string path = file_part(entry);
    names.push_back(last_name(path));
    have_folders = have_folders || names.back() != path;
    entry.path = names.back();
    entry.place = 0;
  }
  if (!have_folders || !have_last_names(names)) return std::nullopt;
  names = some_paths(listing);
  const auto there = std::ranges::count_if(names, [&](const std::string& name) {
    std::error_code ignored;
    return fs::is_regular_file(full(with_ending(name, root_)), ignored);
  });
  if (2 * static_cast<size_t>(there) > names.size()) return Places{root_, {}};
  return find_places(listing);
}

std::string ManifestSource::placed(const std::string& path) const {
  if (parts_.empty() || path.starts_with('/')) return with_ending(path, root_);
  std::string found;
  for (const std::string& part : parts_) {
    const std::string file = concat(part, "/", with_ending(path, full(part)));
    std::error_code ignored;
    if (!fs::is_regular_file(full(file), ignored)) continue;
    if (!found.empty()) return path;  // it is unclear which one is meant
    found = file;
  }
  return found.empty() ? path : found;
}

uint64_t ManifestSource::part_size(const std::string& placed) const {
  const auto part = std::find_if(parts_.begin(), parts_.end(),
                                 [&](const std::string& one) { return placed.starts_with(one + "/"); });
  return part == parts_.end() ? 0 : part->size() + 1;
}

// A line of a list as an entry.

uint64_t ManifestSource::name_begin(const std::string& path) const {
  if (!path.starts_with('/')) return part_size(path);
  std::error_code ignored;
  const std::string root = fs::absolute(root_, ignored).lexically_normal().string();
  const std::string below = root.ends_with('/') ? root : root + "/";
  if (path.size() > below.size() && path.starts_with(below)) return below.size();
  return std::min(path.find_first_not_of('/'), path.size());
}

void ManifestSource::set_name(const std::string& name, SourceEntry& entry) const {
  const bool is_end =
      !name.empty() && entry.path.size() > name.size() && entry.path.ends_with(concat("/", name));
  entry.name_begin = is_end ? entry.path.size() - name.size() : name_begin(entry.path);
  // If the extension was changed or a number was added, the file's own name is the right one. But a name without an extension
  // is not a file's: it follows the file in the path.
  if (is_end || name.empty() || has_image_name(name)) return;
  entry.place = entry.path.size();
  entry.path += concat("#", name);
  entry.name_begin = entry.place + 1;
}

std::string ManifestSource::refer_to(const std::string& file, int64_t line, SourceEntry& entry) const {
  if (file.empty()) return {};
  SourceEntry mask;
  mask.path = parts_.empty() ? file : placed(file);
  const std::string problem = problem_of(mask, line);
  if (entry.problem.empty()) entry.problem = problem;
  return data::refer_to({mask.size_bytes, mask.modified_ns}, mask.path);
}

Result<std::vector<std::byte>> ManifestSource::read_referred(const SourceEntry&,
                                                             std::string_view reference) const {
  DLPIPE_ASSIGN_OR_RETURN(const Referred file, referred(reference));
  return read_stamped_file(full(file.path), file.stamp);
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
  return concat(place_of(line), ": ",
                is_gone ? concat("there is no file ", printable(full(entry.path)),
                                 parts_.empty() ? "" : ", and it is not in exactly one of the folders there")
                        : std::string(without_area(stamp.status().message())),
                is_gone && has_backslash ? "; write / between folders" : "");
}

constexpr std::array<std::string_view, 12> kEndings = {".jpg",  ".png", ".jpeg", ".JPEG", ".JPG",  ".PNG",
                                                       ".webp", ".bmp", ".ppm",  ".pgm",  ".WEBP", ".BMP"};

std::string ManifestSource::with_ending(const std::string& path, const std::string& root) {
  std::error_code ignored;
  if (path.empty() || has_image_name(path) || fs::exists(full(path, root), ignored)) return path;
  for (const std::string_view ending : kEndings) {
    if (std::string file = concat(path, ending); fs::exists(full(file, root), ignored)) return file;
  }
  return path;
}

std::vector<std::string> ManifestSource::same_with_ending(const std::string& cell, const std::string& path) {
  if (path == cell || path.ends_with(concat("/", cell))) return {};
  const fs::path whole(full(path));
  const std::string folder = whole.parent_path().string();
  const auto [known, is_new] = stems_.try_emplace(folder);
  if (is_new) {
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const fs::path name = entry.path().filename();
      if (std::ranges::find(kEndings, name.extension().string()) != kEndings.end())
        known->second.emplace(name.stem().string(), name.string());
    }
  }
  std::vector<std::string> files;
  for (auto [at, end] = known->second.equal_range(whole.stem().string()); at != end; ++at)
    files.push_back(at->second);
  std::ranges::sort(files);
  return files;
}

Status ManifestSource::add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing) {
  if (cells.size() != columns_.count)
    return wrong(line,
                 concat(counted(static_cast<int64_t>(cells.size()), "column"), ", but the first line has ",
                        columns_.count, "; write path,label[,...] on every line"));
  const std::string cell = by_last_name_ ? last_name(cells[columns_.path]) : cells[columns_.path];
  const std::string path = placed(cell);
  std::string label = columns_.label ? cells[*columns_.label] : std::string();
  if (path.empty()) return wrong(line, "the path is empty; fill it in");
  if (leads_out(path))
    return wrong(line, concat(printable(path), " leads outside of ", printable(root_),
                              "; use paths below it, or absolute ones"));
  const auto [former, fresh] = line_of_path_.emplace(fs::path(full(path)).lexically_normal().string(), line);
  if (!fresh)
    return wrong(line, concat(printable(path), " is already listed on ",
                              read_ && read_->files.size() > 1 ? place_of(former->second)
                                                               : concat("line ", former->second),
                              "; list it once. A list with a line per box has the columns "
                              "filename,class,xmin,ymin,xmax,ymax and is read without --label and --field"));
  SourceEntry entry;
  entry.path = path;
  entry.problem = problem_of(entry, line);
  if (const std::vector<std::string> files = same_with_ending(cell, path);
      files.size() > 1 && entry.problem.empty())
    entry.problem = concat(place_of(line), ": ", in_quotes(cell), " may be any of ", quoted_names(files),
                           "; write its ending");
  set_name(columns_.name ? cells[*columns_.name] : std::string(), entry);
  const bool needs_label = columns_.label && !columns_.is_question && !read_ && !head_;
  if (read_ && is_no_value(label)) label.clear();  // imagefolder.cpp decides
  if (needs_label && (label.empty() || is_no_value(label))) {
    if (entry.problem.empty())
      entry.problem =
          concat(place_of(line), ": its label is ",
                 label.empty() ? std::string("empty") : concat(in_quotes(label), ", which is not a value"),
                 "; write its class");
    label.clear();
  }
  if (columns_.split) {
    const std::string& split = cells[*columns_.split];
    entry.split = split_of_name(split);
    if (entry.split.empty())
      return wrong(line, concat("the split ", in_quotes(split),
                                " is not train, val or test; --no-splits stores the "
                                "column as a field"));
  }
  DLPIPE_RETURN_IF_ERROR(add_values(cells, line, entry));
  listing.entries.push_back(std::move(entry));
  class_of_entry_.push_back(label);
  line_of_entry_.push_back(line);
  return {};
}

Result<std::string> ManifestSource::with_point(const std::string& cell, int64_t line,
                                               Columns::Extra& extra) const {
  if (separator_ != ';') return cell;
  const std::string number = with_decimal_point(cell);
  if (!number.empty())
    extra.line_with_comma = line;
  else if (cell.find('.') != std::string::npos)
    extra.line_with_point = line;
  if (extra.line_with_comma > 0 &&
      extra.line_with_point > 0)  // 1.234 may be 1,234 or a thousand times as much
    return Status(ErrorCode::kCorrupt,
                  concat("line ", extra.line_with_comma, " has a decimal comma and line ",
                         extra.line_with_point, " a point; use the same one in all of the column's numbers"));
  return number.empty() ? cell : number;
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
            Status(ErrorCode::kCorrupt, concat(short_name(cell), " leads outside of ", printable(root_))));
      entry.extra.push_back(refer_to(cell, line, entry));
    } else if (extra.column.kind == ColumnKind::kLabels) {
      auto names = names_in_cell(is_no_value(cell) ? std::string_view() : cell);
      if (!names.ok()) return in_column(names.status());
      names_.push_back(std::move(*names));
      entry.extra.emplace_back();
    } else {
      const bool is_one = extra.column.kind == ColumnKind::kNumber;
      if (is_one && (trim(cell).empty() || is_no_value(cell))) {
        if (entry.problem.empty())
          entry.problem = concat(place_of(line), ": the column ", in_quotes(extra.column.name),
                                 " has no number; write one, or keep the column as text");
        entry.extra.emplace_back();
        continue;
      }
      const auto number = is_one ? with_point(cell, line, extra) : Result<std::string>(cell);
      if (!number.ok()) return in_column(number.status());
      auto bytes = encode_cell(extra.column, *number, &extra.numbers);
      if (!bytes.ok()) return in_column(bytes.status());
      entry.extra.push_back(std::move(*bytes));
      if (extra.line_rounded == 0 && field_of(extra.column, 0).dtype == DType::kF32 &&
          has_rounded_number(*number))
        extra.line_rounded = line;
      if (extra.column.kind == ColumnKind::kNumbers && separator_ == ';' && !with_decimal_point(cell).empty())
        ++extra.maybe_decimal;
    }
  }
  return {};
}

extern const SourceRecord manifest_source;
const SourceRecord manifest_source = {"manifest",
                                      "a .csv, .tsv or .jsonl list with path, label[, split, ...] on every "
                                      "line, or --manifest LIST next to a folder",
                                      recognizes_manifest, open_manifest, "--label --field --images"};

}  // namespace dlpipe::data
