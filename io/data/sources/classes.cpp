#include "io/data/sources/classes.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

/// Whether masks hold class numbers, which don't change when the classes are renumbered.
bool has_fixed_masks(const SourceListing& listing) {
  return listing.mask_numbers == MaskNumbers::kClasses &&
         std::any_of(listing.fields.begin(), listing.fields.end(),
                     [](const Field& field) { return field.kind == FieldKind::kMask; });
}

}  // namespace

bool parse_whole(std::string_view text, int64_t* number) {
  if (parse_int(text, number)) return true;
  constexpr double kExact = 9007199254740992;  // 2^53: every whole number below is one double
  double value = 0;
  if (!parse_double(text, &value) || value != std::floor(value) || std::fabs(value) > kExact) return false;
  *number = static_cast<int64_t>(value);
  return true;
}

void write_whole_numbers(std::span<std::string* const> names) {
  int64_t number = 0;
  const auto is_whole = [&](const std::string* name) { return name->empty() || parse_whole(*name, &number); };
  if (!std::all_of(names.begin(), names.end(), is_whole)) return;
  for (std::string* name : names) {
    if (!name->empty() && !parse_int(*name, &number) && parse_whole(*name, &number))
      *name = std::to_string(number);
  }
}

Status check_class_names(const SourceListing& listing, const std::string& source) {
  const auto is_long = [](const std::string& name) { return name.size() > kMostClassNameBytes; };
  const auto found = std::find_if(listing.classes.begin(), listing.classes.end(), is_long);
  if (found == listing.classes.end()) return {};
  const auto of_it = std::find_if(
      listing.entries.begin(), listing.entries.end(),
      [label = found - listing.classes.begin()](const SourceEntry& entry) { return entry.label == label; });
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(source), ": the name of a class has ", found->size(),
                       " bytes; the limit is ", kMostClassNameBytes, ": ", in_quotes(*found),
                       of_it == listing.entries.end() ? "" : concat(", of ", short_name(of_it->path)),
                       "; is it a caption, or is a quote not closed? Use short class names"));
}

std::vector<std::string> merged_classes(std::span<const SourceListing* const> listings) {
  std::vector<std::string> merged;
  std::unordered_set<std::string_view> known;
  std::vector<std::string> others;
  for (const SourceListing* listing : listings) {
    for (const std::string& name : listing->classes) {
      if (!listing->has_class_order)
        others.push_back(name);
      else if (known.insert(name).second)
        merged.push_back(name);
    }
  }
  for (std::string& name : sorted_class_names(std::move(others))) {
    if (!known.contains(name)) merged.push_back(std::move(name));
  }
  return merged;
}

ClassNumbers::ClassNumbers(const std::vector<std::string>& classes) {
  for (size_t i = 0; i < classes.size(); ++i) number_of_[classes[i]] = static_cast<int64_t>(i);
}

Status ClassNumbers::give_to(std::string_view name, std::string_view instead, SourceListing& listing) const {
  std::vector<int64_t> numbers;
  for (const std::string& one : listing.classes) numbers.push_back(number_of_.at(one));
  for (size_t i = 0; i < numbers.size() && has_fixed_masks(listing); ++i) {
    if (numbers[i] == static_cast<int64_t>(i)) continue;
    return misuse("ingest", name, " has masks whose pixels are class numbers, and its class ",
                  in_quotes(listing.classes[i]), " would get number ", numbers[i], " instead of ", i, "; ",
                  instead);
  }
  const auto renumber = [&](int64_t label) {
    return label < 0 ? label : numbers[static_cast<size_t>(label)];
  };
  for (SourceEntry& entry : listing.entries) {
    entry.label = renumber(entry.label);
    renumber_labels(listing.fields, entry, renumber);
  }
  listing.classes.clear();
  return {};
}

namespace {

constexpr std::string_view kBetween = " \t,;";
constexpr std::string_view kForm =
    "; write only the class on each line, in the order of the images' names, or a .csv with the first "
    "line path,label for --manifest";

/// Refuses lists of another kind: NAME.jpg CLASS on each line, or a first line that names columns.
Status check_form(const std::string& file, const std::vector<std::string>& lines, size_t images) {
  const auto begins_with_image = [](const std::string& line) {
    const size_t end = line.find_first_of(kBetween);
    return end != std::string::npos && has_image_name(line.substr(0, end));
  };
  if (!lines.empty() && std::all_of(lines.begin(), lines.end(), begins_with_image))
    return misuse("ingest", "--labels ", printable(file),
                  ": its lines have an image's name before the class (", in_quotes(lines.front()), ")",
                  kForm);
  if (lines.size() == images + 1 && lines.front().find_first_of("\t,;") != std::string::npos)
    return misuse("ingest", "--labels ", printable(file), " has ",
                  counted(static_cast<int64_t>(lines.size()), "line"), " for ",
                  counted(static_cast<int64_t>(images), "image"), ": its first line (",
                  in_quotes(lines.front()), ") looks like column names", kForm);
  return {};
}

}  // namespace

Result<std::vector<std::string>> read_labels(const SourceOptions& options, size_t images) {
  const std::string& file = options.labels;
  DLPIPE_ASSIGN_OR_RETURN(const FileStamp stamp, stamp_file(file));
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, read_stamped_file(file, stamp));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::vector<std::string> classes;
  for (const std::string& line : split(without_mark(text), '\n')) classes.emplace_back(trim(line));
  while (!classes.empty() && classes.back().empty()) classes.pop_back();
  DLPIPE_RETURN_IF_ERROR(check_form(file, classes, images));
  if (classes.size() != images) {
    return misuse("ingest", "--labels ", printable(file), " has ",
                  counted(static_cast<int64_t>(classes.size()), "line"), " for ",
                  counted(static_cast<int64_t>(images), "image"),
                  "; it needs one class per image, in the order of "
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
  names.reserve(classes.size());
  for (std::string& name : classes) names.push_back(&name);
  write_whole_numbers(names);
  std::sort(listing.entries.begin(), listing.entries.end(),
            [](const SourceEntry& a, const SourceEntry& b) { return a.path < b.path; });
  number_classes(classes, listing);
  if (options.alone) warn_of_classes(listing);
  return {};
}

Status no_classes(const std::string& source, int64_t images) {
  return Status(ErrorCode::kNotFound,
                concat("[ingest] ", printable(source), " holds ", counted(images, "image"),
                       " but no folders, so the classes are unknown; make one folder for each class, or "
                       "give --labels FILE with a class per line, in the order of the images' names"));
}

}  // namespace dlpipe::data
