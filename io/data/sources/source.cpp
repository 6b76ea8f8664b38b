#include "dlpipe/source.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <unordered_map>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "io/data/file_name.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace fs = std::filesystem;

Result<Link> Source::where(const SourceEntry& entry) const {
  return misuse("ingest", "only images in files and tar archives can be linked, but ", printable(entry.path),
                " is in neither");
}

std::span<const SourceRecord* const> SourceRecord::built_in() {
  return source_table();
}

Result<std::vector<std::byte>> Source::read_referred(const SourceEntry& entry, std::string_view) const {
  return Status(ErrorCode::kInternal,
                concat("[ingest] ", printable(entry.path), ": its source has no other files"));
}

/// The command that unpacks a file with this extension if dlpipe itself can't read it; "": unknown.
static std::string_view unpacking_command(std::string_view ending) {
  if (ending == "xz" || ending == "txz") return "xz -dc";
  if (ending == "bz2" || ending == "tbz2" || ending == "tbz") return "bzip2 -dc";
  return {};
}

Result<std::unique_ptr<Source>> open_source(const SourceOptions& options) {
  DLPIPE_ASSIGN_OR_RETURN(const SourceRecord* const record, find_source(options));
  DLPIPE_RETURN_IF_ERROR(check_taken(options, std::span(&record, 1)));
  return record->open(options);
}

Status check_taken(const SourceOptions& options, std::span<const SourceRecord* const> records) {
  std::string kinds;
  for (const SourceRecord* record : records) {
    if (kinds.find(record->name) == std::string::npos)
      kinds += concat(kinds.empty() ? "" : ", ", record->name);
  }
  for (const auto& [name, is_given] :
       {std::pair("--label", !options.label.empty()), std::pair("--field", !options.fields.empty()),
        std::pair("--labels", !options.labels.empty()), std::pair("--images", !options.images.empty())}) {
    const auto takes_it = [name =
                               name](const SourceRecord* record) {  // clang 14 captures no structured binding
      const std::vector<std::string> taken = split(record->takes, ' ');
      return std::find(taken.begin(), taken.end(), name) != taken.end();
    };
    if (is_given && std::none_of(records.begin(), records.end(), takes_it))
      return misuse("ingest", name, " has no effect on ", printable(options.path),
                    ", which is read as: ", kinds, "; leave it out, or see `dlpipe help sources`");
  }
  return {};
}

Result<const SourceRecord*> find_source(const SourceOptions& options) {
  const SourceRegistry& sources = options.known != nullptr ? *options.known : SourceRegistry::builtin();
  std::error_code error;
  const auto status = std::filesystem::status(options.path, error);
  if (error && error != std::errc::no_such_file_or_directory)
    return status_from_errno("ingest", concat("cannot stat ", options.path), error.value());
  if (!std::filesystem::exists(status) && options.path != "-" && options.address.empty())
    return Status(ErrorCode::kNotFound,
                  is_dead_link(options.path)
                      ? concat("[ingest] ", printable(options.path),
                               " is a broken link; restore its target, or remove it")
                      : concat("[ingest] there is no file or folder ", printable(options.path)));
  const SourceRecord* best = nullptr;
  int surest = 0;
  for (const SourceRecord* record : sources.records()) {
    const int sure = record->recognizes(options);
    if (sure > surest) {
      best = record;
      surest = sure;
    }
  }
  const PublishedLayout* const foreign =
      options.manifest.empty() ? find_foreign_layout(options.path) : nullptr;
  if (foreign != nullptr && foreign->sure >= surest)
    return Status(ErrorCode::kUnsupported, concat("[ingest] ", printable(options.path), " is ",
                                                  foreign->means, "; ", foreign->command));
  if (best != nullptr && !options.address.empty() && !best->takes_address)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(options.path),
                         ": from an address, only archives can be read (.tar, .tar.gz, "
                         ".tar.zst, .tfrecord); download it and ingest the file"));
  if (best != nullptr) return best;
  const std::string ending = lower_ending(options.path);
  if (ending == "zip" || ending == "7z" || ending == "rar")
    return Status(ErrorCode::kUnsupported, concat("[ingest] ", printable(options.path), " is a .", ending,
                                                  " archive; unpack it and ingest the folder"));
  if (const std::string_view unpack = unpacking_command(ending); !unpack.empty()) {
    const bool is_tar = ending[0] == 't' || lower_ending(fs::path(options.path).stem().string()) == "tar";
    return Status(
        ErrorCode::kUnsupported,
        concat("[ingest] ", printable(options.path), " is compressed in a format that dlpipe can't unpack; ",
               is_tar && options.address.empty()
                   ? concat("`", unpack, " ", shell_word(options.path), " | dlpipe ingest - DST`")
                   : std::string("unpack it")));
  }
  if (has_image_name(options.path))
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(options.path),
                         " is one image; give a folder with one folder of images per class"));
  std::string known;
  for (const SourceRecord* record : sources.records())
    known += concat("\n  ", record->name, ": ", record->help);
  return Status(ErrorCode::kUnsupported,
                concat("[ingest] ", printable(options.path), " can't be ingested; supported:", known));
}

std::vector<std::string> field_names(const SourceListing& listing) {
  std::vector<std::string> names;
  for (const Field& field : listing.fields) names.push_back(field.name);
  return names;
}

std::vector<std::string> sorted_class_names(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  int64_t number = 0;
  const bool numbers = std::all_of(names.begin(), names.end(),
                                   [&](const std::string& name) { return parse_int(name, &number); });
  if (numbers) {
    std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      int64_t left = 0;
      int64_t right = 0;
      parse_int(a, &left);
      parse_int(b, &right);
      return left < right;
    });
  }
  return names;
}

void number_classes(const std::vector<std::string>& class_of_entry, SourceListing& listing) {
  std::vector<std::string> names;
  std::copy_if(class_of_entry.begin(), class_of_entry.end(), std::back_inserter(names),
               [](const std::string& name) { return !name.empty(); });
  names = sorted_class_names(std::move(names));
  std::unordered_map<std::string_view, int64_t> label_of;
  for (size_t i = 0; i < names.size(); ++i) label_of[names[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < listing.entries.size(); ++i)
    listing.entries[i].label = class_of_entry[i].empty() ? -1 : label_of.at(class_of_entry[i]);
  listing.classes = std::move(names);
}

void warn_of_no_class(const std::string& path, SourceListing& listing) {
  listing.warnings.push_back(concat("[ingest] ", printable(path),
                                    listing.classes.empty()
                                        ? " has fields for its images, but no classes"
                                        : " has classes of boxes, masks or labels, but not one per image",
                                    "; `dlpipe train --task` learns labels, numbers, masks and boxes"));
}

void drop_empty_classes(SourceListing& listing) {
  std::vector<int64_t> numbers(listing.classes.size(), -1);
  for (const SourceEntry& entry : listing.entries) {
    if (entry.label >= 0 && entry.problem.empty()) numbers[static_cast<size_t>(entry.label)] = 0;
  }
  std::vector<std::string> kept, dropped;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == 0) numbers[i] = static_cast<int64_t>(kept.size());
    (numbers[i] < 0 ? dropped : kept).push_back(listing.classes[i]);
  }
  if (dropped.empty() || kept.empty()) return;
  for (SourceEntry& entry : listing.entries) {
    if (entry.label >= 0) entry.label = numbers[static_cast<size_t>(entry.label)];
  }
  listing.classes = std::move(kept);
  listing.warnings.push_back(
      concat("[ingest] ",
             counted(static_cast<int64_t>(dropped.size()), "folder has no image and does not become a class",
                     "folders have no images and do not become classes"),
             ": ", quoted_names(dropped), "; to keep ", dropped.size() == 1 ? "it" : "them",
             ", list all classes with --classes-from FILE"));
}

void warn_of_classes(SourceListing& listing, const std::string& hint) {
  // If nothing can be read, that is the error that is reported.
  if (std::none_of(listing.entries.begin(), listing.entries.end(),
                   [](const SourceEntry& entry) { return entry.problem.empty(); }))
    return;
  std::vector<int64_t> counts(listing.classes.size());
  std::vector<bool> is_used(counts.size());  // by boxes or other labels of an image
  for (const SourceEntry& entry : listing.entries) {
    if (!entry.problem.empty()) continue;
    if (entry.label >= 0) ++counts[static_cast<size_t>(entry.label)];
    for (size_t i = 0; i < listing.fields.size() && i < entry.extra.size(); ++i) {
      if (listing.fields[i].kind != FieldKind::kLabels) continue;
      for (const int64_t label : decode_labels(entry.extra[i])) {
        if (label >= 0) is_used[static_cast<size_t>(label)] = true;
      }
    }
  }
  constexpr size_t kShown = 10;
  size_t empty = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0 || is_used[i]) continue;
    if (++empty <= kShown)
      listing.warnings.push_back(
          concat("[ingest] class ", in_quotes(listing.classes[i]), " has no image; it keeps its label ", i));
  }
  if (empty > kShown)
    listing.warnings.push_back(concat("[ingest] ", empty - kShown, " more classes have no image"));
  if (std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count > 0; }) != 1) return;
  const auto only = static_cast<size_t>(
      std::find_if(counts.begin(), counts.end(), [](int64_t count) { return count > 0; }) - counts.begin());
  listing.warnings.push_back(concat("[ingest] only one class, ", in_quotes(listing.classes[only]),
                                    ": a classifier has nothing to learn from it", hint));
}

std::string numbered_path(const std::string& prefix, size_t number, size_t digits) {
  const std::string text = std::to_string(number);
  return concat(prefix, "-", std::string(digits - std::min(digits, text.size()), '0'), text);
}

}  // namespace dlpipe::data
