// A line of a list as an entry.
#include <algorithm>
#include <array>
#include <filesystem>

#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/lists/csv.h"
#include "dlpipe/io/data/sources/lists/manifest_source.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/data/sources/split_layout.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

/// How programs write that a cell has no value; as a class it would be a mistake.
bool is_no_value(std::string_view cell) {
  constexpr std::array<std::string_view, 4> kWritten = {"nan", "NaN", "NAN", "<NA>"};
  return std::find(kWritten.begin(), kWritten.end(), cell) != kWritten.end();
}

bool leads_out(const fs::path& path) {
  return std::find(path.begin(), path.end(), "..") != path.end();
}

}  // namespace

uint64_t ManifestSource::name_begin(const std::string& path) const {
  if (!path.starts_with('/')) return part_size(path);
  std::error_code ignored;
  const std::string root = fs::absolute(root_, ignored).lexically_normal().string();
  const std::string below = root.ends_with('/') ? root : root + "/";
  if (path.size() > below.size() && path.starts_with(below)) return below.size();
  return std::min(path.find_first_not_of('/'), path.size());
}

uint64_t ManifestSource::name_begin(const std::string& path, const std::string& name) const {
  // Where the ending had to change, or a number was added, the file's own name is the right one.
  const bool is_end = !name.empty() && path.size() > name.size() && path.ends_with(concat("/", name));
  return is_end ? path.size() - name.size() : name_begin(path);
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
                                 parts_.empty() ? "" : ", nor is it in just one of the folders there")
                        : std::string(without_area(stamp.status().message())),
                is_gone && has_backslash ? "; write / between folders" : "");
}

std::string ManifestSource::with_ending(const std::string& path, const std::string& root) {
  std::error_code ignored;
  if (path.empty() || has_image_name(path) || fs::exists(full(path, root), ignored)) return path;
  for (const std::string_view ending :
       {".jpg", ".png", ".jpeg", ".JPEG", ".JPG", ".PNG", ".webp", ".bmp", ".ppm", ".pgm", ".WEBP", ".BMP"}) {
    if (std::string file = concat(path, ending); fs::exists(full(file, root), ignored)) return file;
  }
  return path;
}

Status ManifestSource::add_line(const std::vector<std::string>& cells, int64_t line, SourceListing& listing) {
  if (cells.size() != columns_.count)
    return wrong(line, concat(cells.size(), " columns, the first line has ", columns_.count,
                              "; write path,label[,...] on every line"));
  const std::string path = placed(cells[columns_.path]);
  std::string label = columns_.label ? cells[*columns_.label] : std::string();
  if (path.empty()) return wrong(line, "an empty path; fill it in");
  if (leads_out(path))
    return wrong(line, concat(printable(path), " leads out of ", printable(root_),
                              "; give paths below it, or absolute ones"));
  const auto [former, fresh] = line_of_path_.emplace(fs::path(full(path)).lexically_normal().string(), line);
  if (!fresh)
    return wrong(line, concat(printable(path), " was listed on ",
                              read_ && read_->files.size() > 1 ? place_of(former->second)
                                                               : concat("line ", former->second),
                              " already; list it once. A list with a line per box calls its columns "
                              "filename,class,xmin,ymin,xmax,ymax, and is read without --label and --field"));
  SourceEntry entry;
  entry.path = path;
  entry.name_begin = name_begin(path, columns_.name ? cells[*columns_.name] : std::string());
  entry.problem = problem_of(entry, line);
  const bool needs_label = columns_.label && !columns_.is_question && !read_ && !head_;
  if (needs_label && (label.empty() || is_no_value(label))) {
    if (entry.problem.empty())
      entry.problem = concat(place_of(line), ": its label is ",
                             label.empty() ? std::string("empty") : concat(in_quotes(label), ", no value"),
                             "; write its class");
    label.clear();
  }
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
    return Status(
        ErrorCode::kCorrupt,
        concat("line ", extra.line_with_comma, " has a decimal comma and line ", extra.line_with_point,
               " a point; write all of the column's numbers with one of them"));
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
            Status(ErrorCode::kCorrupt, concat(printable(cell), " leads out of ", printable(root_))));
      entry.extra.push_back(refer_to(cell, line, entry));
    } else if (extra.column.kind == ColumnKind::kLabels) {
      auto names = names_in_cell(cell);
      if (!names.ok()) return in_column(names.status());
      names_.push_back(std::move(*names));
      entry.extra.emplace_back();
    } else {
      const bool is_one = extra.column.kind == ColumnKind::kNumber;
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

}  // namespace dlpipe::data
