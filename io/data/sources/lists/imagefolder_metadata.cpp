#include "dlpipe/io/data/sources/lists/imagefolder_metadata.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/lists/csv.h"
#include "dlpipe/io/data/sources/lists/json_lines.h"
#include "dlpipe/io/data/sources/picture_folder.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data::imagefolder {

namespace {

namespace fs = std::filesystem;

constexpr const char* kCsv = kMetadataNames[0];
constexpr const char* kJsonLines = kMetadataNames[1];
constexpr const char* kParquet = kMetadataNames[2];

/// Whether the first line has a column of files. (Others call their lists metadata.csv, too.)
bool names_pictures(const fs::path& file) {
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

bool has_metadata(const fs::path& folder) {
  return names_pictures(folder / kCsv) || names_pictures(folder / kJsonLines) || is_file(folder / kParquet);
}

/// Whether a metadata file lies in the folder, in one directly below it, or in a class folder of a split.
bool is_root(const fs::path& root) {
  if (has_metadata(root)) return true;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || is_system_folder(name) || !entry.is_directory(ignored)) continue;
    if (has_metadata(entry.path())) return true;
    if (split_of_name(name).empty()) continue;
    for (const auto& below : fs::directory_iterator(entry.path(), ignored)) {
      if (has_metadata(below.path())) return true;
    }
  }
  return false;
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
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] ", printable(path), " line ", row.line, ": ", row.cells.size(),
                           " columns, the first line has ", table.columns.size()));
    table.rows.push_back(std::move(row));
  }
}

/// Puts the rows of `one`, whose files lie below `folder`, behind the others: `count` with them.
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

}  // namespace

bool names_files(std::string_view column) {
  return column == kFileName || column.ends_with("_file_name");
}

std::string root_in(const std::string& path) {
  if (is_root(path)) return path;
  const std::string data = (fs::path(path) / "data").string();
  std::error_code ignored;
  return fs::is_directory(data, ignored) && is_root(data) ? data : std::string();
}

Status check_metadata_files(const std::string& root, std::vector<std::string>& files,
                            std::vector<std::string>& warnings) {
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path file(files[i]);
    const fs::path folder = file.parent_path();
    if (file.filename() == kParquet)
      return Status(
          ErrorCode::kUnsupported,
          concat("[ingest] ", printable(root), "/", printable(file.string()),
                 " isn't read here; write it as metadata.jsonl, or let Hugging Face's library read it: "
                 "dlpipe.from_dataset(datasets.load_dataset(\"imagefolder\", data_dir=...), DST)"));
    if (i > 0 && fs::path(files[i - 1]).parent_path() == folder)
      return misuse("ingest", printable((root / folder).lexically_normal().string()), " holds both ", kCsv,
                    " and ", kJsonLines, "; keep one of them");
  }
  std::erase_if(files, [&](const std::string& file) {
    if (names_pictures(fs::path(root) / file)) return false;
    warnings.push_back(concat("[ingest] left aside: ", printable(file), ", which has no column 'file_name'"));
    return true;
  });
  return {};
}

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

}  // namespace dlpipe::data::imagefolder
