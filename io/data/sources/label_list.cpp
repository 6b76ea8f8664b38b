#include "dlpipe/io/data/sources/label_list.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/file_name.h"
#include "dlpipe/io/data/sources/class_numbers.h"
#include "dlpipe/io/data/sources/source_file.h"

namespace dlpipe::data {

namespace {

constexpr std::string_view kBetween = " \t,;";
constexpr std::string_view kForm =
    "; write the class alone on each line, in the order of the pictures' names, or a .csv with the first "
    "line path,label for --manifest";

/// Lists of another kind: NAME.jpg CLASS on each line, or a first line that names columns.
Status check_form(const std::string& file, const std::vector<std::string>& lines, size_t pictures) {
  const auto begins_with_picture = [](const std::string& line) {
    const size_t end = line.find_first_of(kBetween);
    return end != std::string::npos && has_image_name(line.substr(0, end));
  };
  if (!lines.empty() && std::all_of(lines.begin(), lines.end(), begins_with_picture))
    return misuse("ingest", "--labels ", printable(file),
                  ": its lines have a picture's name before the class (", in_quotes(lines.front()), ")",
                  kForm);
  if (lines.size() == pictures + 1 && lines.front().find_first_of("\t,;") != std::string::npos)
    return misuse("ingest", "--labels ", printable(file), " has ", lines.size(), " lines for ", pictures,
                  " pictures: its first line (", in_quotes(lines.front()), ") looks like names of columns",
                  kForm);
  return {};
}

}  // namespace

Result<std::vector<std::string>> read_labels(const SourceOptions& options, size_t pictures) {
  const std::string& file = options.labels;
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(file));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(file, stamp));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> classes;
  for (const std::string& line : split(without_mark(text), '\n')) classes.emplace_back(trim(line));
  while (!classes.empty() && classes.back().empty()) classes.pop_back();
  DLPIPE_RETURN_IF_ERROR(check_form(file, classes, pictures));
  if (classes.size() != pictures) {
    return misuse("ingest", "--labels ", printable(file), " has ", classes.size(), " lines for ", pictures,
                  " pictures; it needs one class per picture, in the order of "
                  "their names");
  }
  const auto empty = std::find(classes.begin(), classes.end(), "");
  if (empty != classes.end())
    return misuse("ingest", "--labels ", printable(file), " line ", empty - classes.begin() + 1,
                  " is empty; write a class");
  return classes;
}

Status take_labels(const SourceOptions& options, SourceListing& listing) {
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> classes, read_labels(options, listing.entries.size()));
  std::vector<std::string*> names;
  for (std::string& name : classes) names.push_back(&name);
  write_whole_numbers(names);
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const SourceEntry& a, const SourceEntry& b) { return a.path < b.path; });
  number_classes(classes, listing);
  if (options.alone) warn_of_classes(listing);
  return {};
}

Status no_classes(const std::string& source, int64_t pictures) {
  return Status(
      ErrorCode::kNotFound,
      concat("[ingest] ", printable(source), " holds ", human_count(pictures),
             " pictures but no folders: nothing tells their classes; make one folder for each class, or "
             "give --labels FILE with a class per line, in the order of the pictures' names"));
}

}  // namespace dlpipe::data
