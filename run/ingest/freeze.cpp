#include "dlpipe/run/ingest/freeze.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "dlpipe/base/aside_file.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/shell_word.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/codec/image_codec.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/sources/class_numbers.h"
#include "dlpipe/io/data/sources/source_file.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/ingest/draw.h"
#include "dlpipe/run/ingest/mask_values.h"
#include "dlpipe/run/ingest/options.h"

namespace dlpipe::ingest {

namespace {

using data::SourceEntry;
using data::SourceListing;

Result<std::vector<std::string>> classes_of_dataset(const std::string& directory) {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> splits, data::split_names(directory));
  DLPIPE_ASSIGN_OR_RETURN(const auto dataset,
                          data::Dataset::open(directory, splits.empty() ? std::string() : splits.front()));
  return std::vector<std::string>(dataset->classes().begin(), dataset->classes().end());
}

Result<std::vector<std::string>> classes_in_file(const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> classes, data::lines_in_file(file));
  std::set<std::string_view> known;
  for (const std::string& name : classes) {
    if (!known.insert(name).second)
      return misuse("ingest", "--classes-from ", printable(file), " names ", in_quotes(name),
                    " twice; give each class one line");
  }
  return classes;
}

Status take_class_table(const IngestOptions& options, SourceListing& listing) {
  const std::string& from = options.classes_from;
  std::error_code ignored;
  const bool is_file = std::filesystem::is_regular_file(from, ignored);
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> classes,
                          is_file ? classes_in_file(from) : classes_of_dataset(from));
  const std::set<std::string_view> known(classes.begin(), classes.end());
  for (const std::string& name : listing.classes) {
    if (!known.contains(name))
      return misuse("ingest", "class ", in_quotes(name), " is not in --classes-from ", printable(from),
                    printable(suggestion(name, classes)));
  }
  DLPIPE_RETURN_IF_ERROR(data::ClassNumbers(classes).give_to(
      sources_text(options), "masks are stored as they are, so leave --classes-from out", listing));
  listing.classes = classes;
  return {};
}

// Classes that are called by numbers, but not by those that become their labels: what was trained with the numbers
// would take one class for another.
void warn_of_other_numbers(const SourceListing& listing, FrozenList& list) {
  const std::vector<std::string>& names = listing.classes;
  int64_t number = 0;
  if (listing.tokens > 0 || names.size() < 2 ||
      !std::all_of(names.begin(), names.end(),
                   [&](const std::string& name) { return parse_int(name, &number); }))
    return;
  for (size_t i = 0; i < names.size(); ++i) {
    parse_int(names[i], &number);
    if (number == static_cast<int64_t>(i)) continue;
    const bool is_sorted_as_text = listing.classes_are_folders && names != data::sorted_class_names(names);
    list.warnings.push_back(concat(
        "[ingest] the classes are called by numbers that aren't their labels: class '", printable(names[i]),
        "' becomes label ", i,
        number < 0 ? ", a class as the others (leave its samples out if it means that they have none)" : "",
        is_sorted_as_text
            ? ", as folders are sorted as texts, by torchvision's ImageFolder, too; for the order of the "
              "numbers: --classes-from FILE, with the names in that order, one per line"
            : ", and so on; --classes-from DATASET takes another dataset's labels"));
    return;
  }
}

// What --limit leaves, with the splits of --split.
Status draw_entries(const IngestOptions& options, SourceListing& listing) {
  if (options.limit < 0 && options.split.empty()) return {};
  std::vector<std::string_view> names;
  std::vector<int64_t> classes;
  for (const SourceEntry& entry : listing.entries) {
    names.emplace_back(entry.path);
    classes.push_back(entry.label);
  }
  DLPIPE_ASSIGN_OR_RETURN(const auto drawn, draw_samples({names, classes, options.limit, options.split,
                                                          options.seed, listing.in_sequence}));
  std::vector<SourceEntry> taken;
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (!drawn[i]) continue;
    SourceEntry& entry = taken.emplace_back(std::move(listing.entries[i]));
    if (!options.split.empty()) entry.split = kDrawnSplits[*drawn[i]];
  }
  listing.entries = std::move(taken);
  return {};
}

// Sources say so themselves where they know more of it; whatever they hold, an empty dataset is none.
Status check_any_entry(const IngestOptions& options, const SourceListing& listing) {
  if (!listing.entries.empty()) return {};
  constexpr size_t kShown = 3;
  std::string notes;
  for (size_t i = 0; i < std::min(listing.warnings.size(), kShown); ++i)
    notes += concat("; ", without_area(listing.warnings[i]));
  return Status(ErrorCode::kNotFound,
                concat("[ingest] there is nothing to ingest in ", sources_text(options), notes));
}

// Files are made of these names, and the list of skipped ones ends them at a zero byte. (Classes are texts: export has names for
// their folders.)
Status check_names(const SourceListing& listing) {
  for (const SourceEntry& entry : listing.entries) {
    if (entry.path.find('\0') != std::string::npos)
      return Status(ErrorCode::kCorrupt, concat("[ingest] the name ", in_quotes(entry.path),
                                                " holds a zero byte, as no file's does; correct it"));
  }
  return {};
}

// SRC says what its splits are, and so does --split.
Status check_split_once(const IngestOptions& options, const SourceListing& listing) {
  if (options.split.empty() || listing.entries.front().split.empty()) return {};
  std::set<std::string> own;
  for (const SourceEntry& entry : listing.entries) own.insert(entry.split);
  return misuse("ingest", "--split, and ", sources_text(options),
                " has splits of its own: ", quoted_names(std::vector<std::string>(own.begin(), own.end())),
                "; leave out --split, or ingest one of them alone with it");
}

// A split's metrics say nothing about the classes that it has no sample of.
void warn_of_missing_classes(const IngestOptions& options, FrozenList& list) {
  if (list.splits.size() < 2 || list.schema.fields.front().kind != data::FieldKind::kImage) return;
  const size_t classes = list.schema.classes.size();
  std::vector<int64_t> everywhere(classes);
  std::vector<std::vector<int64_t>> counts;
  for (const FrozenSplit& split : list.splits) {
    std::vector<int64_t>& of_split = counts.emplace_back(classes);
    for (const SourceEntry& entry : split.entries) {
      if (!entry.problem.empty() || entry.label < 0) continue;
      ++of_split[static_cast<size_t>(entry.label)];
      ++everywhere[static_cast<size_t>(entry.label)];
    }
  }
  for (size_t s = 0; s < counts.size(); ++s) {
    std::vector<std::string> missing;
    for (size_t c = 0; c < classes; ++c) {
      if (counts[s][c] == 0 && everywhere[c] > 0) missing.push_back(list.schema.classes[c]);
    }
    if (missing.empty()) continue;
    list.warnings.push_back(concat("[ingest] ", list.splits[s].name, " has no sample of ", missing.size(),
                                   " of ", classes, " classes: ", quoted_names(missing),
                                   options.split.empty() ? "" : "; they have too few files for --split"));
  }
}

// Each class is rounded to whole samples: many small ones make splits of another size than was asked for.
void warn_of_shares(const IngestOptions& options, FrozenList& list) {
  constexpr double kMuch = 1.0 / 3;  // of the share
  size_t total = 0;
  for (const FrozenSplit& split : list.splits) total += split.entries.size();
  for (size_t s = 0; s < options.split.size(); ++s) {
    const auto found = std::ranges::find(list.splits, kDrawnSplits[s], &FrozenSplit::name);
    if (found == list.splits.end()) continue;
    const double share = static_cast<double>(found->entries.size()) / static_cast<double>(total);
    if (std::abs(share / options.split[s] - 1) <= kMuch) continue;
    list.warnings.push_back(concat(
        "[ingest] ", found->name, " has ", fixed(100 * share, 1), " % of the samples, and --split asked for ",
        fixed(100 * options.split[s], 1), " %: each class is divided by itself, and to whole samples"));
  }
}

// The splits that --limit left without a file.
void warn_of_lost_splits(const std::set<std::string>& before, FrozenList& list) {
  for (const std::string& name : before) {
    const bool is_there = std::any_of(list.splits.begin(), list.splits.end(),
                                      [&](const FrozenSplit& split) { return split.name == name; });
    if (!is_there)
      list.warnings.push_back(
          concat("[ingest] --limit left no file for ", name, ": there will be no such split"));
  }
}

std::vector<FrozenSplit> make_splits(SourceListing& listing) {
  std::map<std::string, FrozenSplit> by_name;
  for (SourceEntry& entry : listing.entries) by_name[entry.split].entries.push_back(std::move(entry));
  std::vector<FrozenSplit> splits;
  for (auto& [name, split] : by_name) {
    split.name = name;
    std::sort(split.entries.begin(), split.entries.end(),
              [](const SourceEntry& a, const SourceEntry& b) { return a.path < b.path; });
    splits.push_back(std::move(split));
  }
  return splits;
}

// Class names stand in the dataset as UTF-8: two that differ only in other bytes would be one name there.
Status check_class_names(const std::vector<std::string>& classes) {
  std::map<std::string, const std::string*> by_stored_name;
  for (const std::string& name : classes) {
    const auto [other, fresh] = by_stored_name.emplace(formats::Json(name).dump(), &name);
    if (fresh) continue;
    const std::vector<std::string> both = {*other->second, name};
    return misuse("ingest", "the classes ", quoted_names(both),
                  " differ in bytes that are no UTF-8; rename one of them");
  }
  return {};
}

// The dataset says what its classes are called as JSON does, which has no place for other bytes.
void warn_of_replaced_bytes(const std::vector<std::string>& classes, FrozenList& list) {
  std::vector<std::string> replaced;
  std::copy_if(classes.begin(), classes.end(), std::back_inserter(replaced),
               [](const std::string& name) { return !is_utf8(name); });
  if (!replaced.empty())
    list.warnings.push_back(
        concat("[ingest] names of classes that aren't UTF-8: ", quoted_names(replaced, 3),
               "; what isn't is stored as U+FFFD. Save the list as UTF-8, or rename the folders"));
}

// SRC, or the folder that it lies in; "" of several, whose links are absolute. The root stands in JSON, which has no
// place for paths that aren't UTF-8.
std::string root_of_links(const IngestOptions& options) {
  namespace fs = std::filesystem;
  if (options.sources.size() != 1) return {};
  std::error_code ignored;
  fs::path root = fs::absolute(options.sources[0], ignored).lexically_normal();
  if (!root.has_filename() || !fs::is_directory(root, ignored)) root = root.parent_path();
  return is_utf8(root.string()) ? root.string() : std::string();
}

Result<data::Schema> make_schema(const IngestOptions& options, const SourceListing& listing) {
  data::Schema schema;
  schema.classes = listing.classes;
  schema.zstd = options.zstd;
  if (options.store == Store::kLink) schema.links = root_of_links(options);
  schema.late_checksums = options.late_checksums;
  if (listing.tokens > 0) {
    schema.fields = {{"tokens", data::FieldKind::kTensor, DType::kU8, {listing.tokens}}};
    return schema;
  }
  schema.fields = {{"image", data::FieldKind::kImage, DType::kU8, {}},
                   {"label", data::FieldKind::kLabel, DType::kI64, {}},
                   {"path", data::FieldKind::kBytes, DType::kU8, {}}};
  if (schema.fields.size() + listing.fields.size() > data::kMostFields)
    return misuse("ingest", "the manifest has ", listing.fields.size() + 2, " columns, a dataset at most ",
                  data::kMostFields, " fields; leave some out");
  for (const data::Field& own : listing.fields) {
    const std::string& name = own.name;
    const bool taken = std::any_of(schema.fields.begin(), schema.fields.end(),
                                   [&](const data::Field& field) { return field.name == name; });
    if (taken || name.empty())
      return misuse("ingest", "the manifest's column '", printable(name),
                    "' is empty or there already; rename it");
    schema.fields.push_back(own);
  }
  return schema;
}

// Before anything is stored. (Each picture is asked again when it is read.)
Status check_can_be_linked(const IngestOptions& options, const data::Source& source,
                           const std::vector<FrozenSplit>& splits) {
  for (const FrozenSplit& split : splits) {
    for (const SourceEntry& entry : split.entries) {
      if (!entry.problem.empty()) continue;
      Status status = source.where(entry).status();
      if (status.ok()) return status;
      const std::string advice = options.late_checksums  // by training, which was given no --store
                                     ? concat("`dlpipe ingest ", shell_word(options.sources.front()),
                                              " DST` makes a dataset of it, which can be trained on")
                                     : "leave --store link out";
      return {status.code(), concat(status.message(), "; ", advice)};
    }
  }
  return {};
}

// Bytes that one file will take in its record, from its header.
double estimate_record(const IngestOptions& options, std::span<const std::byte> bytes) {
  const auto info = data::probe_image(bytes);
  if (!info.ok() || !data::check_pixels(*info, options.max_pixels).ok())
    return static_cast<double>(bytes.size());
  double pixels = static_cast<double>(info->width) * info->height;
  const int longer = std::max(info->width, info->height);
  const bool resized = options.resize_max > 0 && longer > options.resize_max;
  if (resized) pixels *= std::pow(static_cast<double>(options.resize_max) / longer, 2);
  const bool raw = options.store == Store::kRaw ||
                   (options.store == Store::kAuto && info->layout == data::ImageLayout::kRaw);
  if (raw) return pixels * info->channels;
  const bool recoded = resized || (options.store == Store::kJpeg && info->layout != data::ImageLayout::kJpeg);
  constexpr double kJpegBytesPerPixel = 0.5;  // generous for quality 90 and 4:2:0
  return recoded ? pixels * kJpegBytesPerPixel : static_cast<double>(bytes.size());
}

// A link is little more than the picture's path.
double estimate_links(const std::vector<FrozenSplit>& splits) {
  double file_bytes = 0;
  double record_bytes = 0;
  for (const FrozenSplit& split : splits) {
    for (const SourceEntry& entry : split.entries) {
      constexpr double kFixed = 64;
      file_bytes += static_cast<double>(entry.size_bytes);
      record_bytes += kFixed + 2 * static_cast<double>(entry.path.size());
      for (const std::string& extra : entry.extra) record_bytes += static_cast<double>(extra.size());
    }
  }
  return file_bytes > 0 ? record_bytes / file_bytes : 1;
}

double estimate_stored_ratio(const IngestOptions& options, const data::Source& source,
                             const std::vector<FrozenSplit>& splits) {
  if (options.store == Store::kLink) return estimate_links(splits);
  constexpr size_t kProbes = 48;
  double file_bytes = 0;
  double record_bytes = 0;
  for (const FrozenSplit& split : splits) {
    const size_t step = std::max<size_t>(1, split.entries.size() / kProbes);
    for (size_t i = 0; i < split.entries.size(); i += step) {
      if (!split.entries[i].problem.empty()) continue;
      if (split.entries[i].size_bytes > data::kMostPictureBytes) continue;  // it will be skipped
      const auto bytes = source.read(split.entries[i]);
      if (!bytes.ok() || bytes->empty()) continue;  // what is wrong with it is found when its turn comes
      file_bytes += static_cast<double>(bytes->size());
      record_bytes += estimate_record(options, *bytes);
    }
  }
  return file_bytes > 0 ? record_bytes / file_bytes : 1;
}

}  // namespace

Result<FrozenList> freeze(const IngestOptions& options, const data::Source& source, SourceListing listing) {
  DLPIPE_RETURN_IF_ERROR(check_any_entry(options, listing));
  DLPIPE_RETURN_IF_ERROR(check_names(listing));
  FrozenList list;
  list.options = canonical_options(options);
  list.warnings = listing.warnings;
  if (options.classes_from.empty())
    warn_of_other_numbers(listing, list);
  else
    DLPIPE_RETURN_IF_ERROR(take_class_table(options, listing));
  DLPIPE_RETURN_IF_ERROR(check_class_names(listing.classes));
  warn_of_replaced_bytes(listing.classes, list);
  DLPIPE_ASSIGN_OR_RETURN(list.schema, make_schema(options, listing));
  DLPIPE_RETURN_IF_ERROR(check_split_once(options, listing));
  std::set<std::string> given;
  for (const SourceEntry& entry : listing.entries) given.insert(entry.split);
  DLPIPE_RETURN_IF_ERROR(draw_entries(options, listing));
  list.splits = make_splits(listing);
  if (options.split.empty()) warn_of_lost_splits(given, list);
  warn_of_missing_classes(options, list);
  warn_of_shares(options, list);
  if (options.store == Store::kLink)
    DLPIPE_RETURN_IF_ERROR(check_can_be_linked(options, source, list.splits));
  if (listing.mask_numbers != data::MaskNumbers::kDrawn) {
    for (std::string& warning : warnings_of_masks(source, listing.fields, list.splits))
      list.warnings.push_back(std::move(warning));
  }
  list.stored_ratio = estimate_stored_ratio(options, source, list.splits);

  double bytes = 0;
  for (const FrozenSplit& split : list.splits) {
    for (const SourceEntry& entry : split.entries) {
      if (entry.size_bytes <= data::kMostPictureBytes) bytes += static_cast<double>(entry.size_bytes);
    }
  }
  const auto count = static_cast<double>(list.entry_count());
  const double record = bytes * list.stored_ratio / count + 64;
  list.schema.records_per_value = records_per_value(record);
  const double page_loss = list.schema.records_per_value == 1 ? 2048 : 0;
  const double estimate = bytes * list.stored_ratio * 1.03 + count * (128 + page_loss) + (1 << 20);
  list.estimated_bytes = static_cast<uint64_t>(estimate);
  constexpr uint64_t kGigabyte = uint64_t{1} << 30;
  list.map_bytes =
      options.map_bytes != 0 ? options.map_bytes : (16 + 8 * list.estimated_bytes / kGigabyte) * kGigabyte;
  return list;
}

// Below 8 KB too much of a value's pages would be air.
int64_t records_per_value(double record_bytes) {
  constexpr double kSmallRecord = 8192;
  constexpr double kPackedValue = 65536;
  return record_bytes < kSmallRecord ? static_cast<int64_t>(kPackedValue / std::max(record_bytes, 1.0)) : 1;
}

Status check_free_space(const std::string& destination, uint64_t needed_bytes) {
  const std::string directory = folder_of(destination);
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0)
    return status_from_errno("ingest", concat("cannot look at ", directory), errno);
  const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free_bytes >= needed_bytes) return {};
  // Where both are rounded to one number, what is missing tells them apart.
  const std::string needed = human_bytes(needed_bytes);
  const std::string missing =
      needed == human_bytes(free_bytes) ? concat(" (", needed_bytes - free_bytes, " bytes too few)") : "";
  return Status(ErrorCode::kNoSpace,
                concat("[ingest] no space: ", needed, " needed, ", human_bytes(free_bytes), " free in ",
                       directory, missing, "; choose another directory or --limit"));
}

}  // namespace dlpipe::ingest
