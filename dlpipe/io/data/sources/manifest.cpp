// A CSV or TSV list: path,label[,...]. Paths are relative to SRC (or to the list itself, when it is SRC).
// A first line whose first cell is "path", "file" or "filename" names the columns; further columns become
// fields of the records.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unordered_map>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

// One record of RFC 4180: cells may be quoted, quotes inside are doubled, quoted cells may span lines.
class CsvReader {
 public:
  CsvReader(std::string_view text, char separator) : text_(text), separator_(separator) {}

  /// False at the end. `line` is where the record began, from 1.
  Result<bool> next(std::vector<std::string>& cells, int64_t& line) {
    cells.clear();
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) advance();  // blank lines
    if (at_ >= text_.size()) return false;
    line = line_;
    while (true) {
      DLPIPE_ASSIGN_OR_RETURN(std::string cell, read_cell());
      cells.push_back(std::move(cell));
      if (at_ < text_.size() && text_[at_] == separator_) {
        advance();
        continue;
      }
      if (at_ < text_.size() && text_[at_] == '\r') advance();
      if (at_ < text_.size() && text_[at_] == '\n') advance();
      return true;
    }
  }

 private:
  void advance() {
    if (text_[at_++] == '\n') ++line_;
  }
  Result<std::string> read_cell() {
    std::string cell;
    if (at_ < text_.size() && text_[at_] == '"') {
      const int64_t begin = line_;
      advance();
      while (true) {
        if (at_ >= text_.size())
          return Status(ErrorCode::kCorrupt, concat("line ", begin, ": a quote is never closed"));
        if (text_[at_] == '"') {
          advance();
          if (at_ >= text_.size() || text_[at_] != '"') return cell;
        }
        cell += text_[at_];
        advance();
      }
    }
    while (at_ < text_.size() && text_[at_] != separator_ && text_[at_] != '\n' && text_[at_] != '\r') {
      cell += text_[at_];
      advance();
    }
    return std::string(trim(cell));
  }

  std::string_view text_;
  char separator_;
  size_t at_ = 0;
  int64_t line_ = 1;
};

class ManifestSource final : public Source {
 public:
  ManifestSource(std::string list, std::string root) : list_(std::move(list)), root_(std::move(root)) {}

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return read_stamped_file(root_ + "/" + entry.path, {entry.size_bytes, entry.modified_ns});
  }

 private:
  Status add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing);
  Status wrong(int64_t line, std::string_view what) const {
    return Status(ErrorCode::kCorrupt, concat("[ingest] ", list_, " line ", line, ": ", what));
  }

  std::string list_;
  std::string root_;
  size_t columns_ = 0;
  std::vector<std::string> class_of_entry_;
  std::unordered_map<std::string, int64_t> line_of_path_;
};

Status ManifestSource::add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing) {
  if (cells.size() != columns_)
    return wrong(line, concat(cells.size(), " columns, the first line has ", columns_,
                              "; write path,label[,...] on every line"));
  if (cells[0].empty() || cells[1].empty()) return wrong(line, "an empty path or label; fill it in");
  const std::filesystem::path path(cells[0]);
  if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end())
    return wrong(line, concat(cells[0], " leads out of ", root_, "; give paths below it"));
  const auto [former, fresh] = line_of_path_.emplace(cells[0], line);
  if (!fresh)
    return wrong(line, concat(cells[0], " was listed on line ", former->second, " already; list it once"));
  SourceEntry entry;
  entry.path = cells[0];
  const auto stamp = stamp_file(root_ + "/" + entry.path);
  if (!stamp.ok()) return stamp.status().with_context(concat("[ingest] ", list_, " line ", line, ": "));
  entry.size_bytes = stamp->size_bytes;
  entry.modified_ns = stamp->modified_ns;
  entry.extra.assign(cells.begin() + 2, cells.end());
  listing.entries.push_back(std::move(entry));
  class_of_entry_.push_back(cells[1]);
  return {};
}

Result<SourceListing> ManifestSource::list() {
  columns_ = 0;
  class_of_entry_.clear();
  line_of_path_.clear();
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(list_));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(list_, stamp));
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, 3) == "\xef\xbb\xbf") text.remove_prefix(3);  // UTF-8's byte order mark
  CsvReader reader(text, ends_with(list_, ".tsv") ? '\t' : ',');
  SourceListing listing;
  std::vector<std::string> cells;
  int64_t line = 0;
  while (true) {
    auto more = reader.next(cells, line);
    if (!more.ok()) return more.status().with_context(concat("[ingest] ", list_, " "));
    if (!*more) break;
    if (columns_ == 0) {
      if (cells.size() < 2) return wrong(line, "no label; write path,label[,...] on every line");
      columns_ = cells.size();
      static constexpr std::array<std::string_view, 3> kHeads = {"path", "file", "filename"};
      if (std::find(kHeads.begin(), kHeads.end(), cells[0]) != kHeads.end()) {
        listing.extra_fields.assign(cells.begin() + 2, cells.end());
        continue;
      }
      for (size_t i = 2; i < columns_; ++i) listing.extra_fields.push_back(concat("column", i + 1));
    }
    DLPIPE_RETURN_IF_ERROR(add_line(cells, line, listing));
  }
  if (listing.entries.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] ", list_, " lists no file"));
  number_classes(class_of_entry_, listing);
  if (listing.classes.size() == 1)
    listing.warnings.push_back(concat("[ingest] only one class, '", listing.classes[0],
                                      "': a classifier has nothing to learn from it"));
  return listing;
}

int recognizes_manifest(const SourceOptions& options) {
  if (!options.manifest.empty()) return 3;
  const bool list = ends_with(options.path, ".csv") || ends_with(options.path, ".tsv");
  return list && std::filesystem::is_regular_file(options.path) ? 2 : 0;
}

Result<std::unique_ptr<Source>> open_manifest(const SourceOptions& options) {
  const bool alone = options.manifest.empty();
  std::string list = alone ? options.path : options.manifest;
  std::string root = alone ? std::filesystem::path(options.path).parent_path().string() : options.path;
  if (root.empty()) root = ".";
  return std::unique_ptr<Source>(std::make_unique<ManifestSource>(std::move(list), std::move(root)));
}

}  // namespace

extern const SourceRecord manifest_source;
const SourceRecord manifest_source = {
    "manifest", "a .csv or .tsv list with path,label[,...] on every line, or --manifest LIST beside a folder",
    recognizes_manifest, open_manifest};

}  // namespace dlpipe::data
