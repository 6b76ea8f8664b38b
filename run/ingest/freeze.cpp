// The plan of an ingest: groups, splits and folds, the schema, the space. freeze() calls the steps in order.

#include "run/ingest/freeze.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "dlpipe/source.h"
#include "io/data/codec/mask.h"
#include "io/data/sources/typed_columns.h"
#include "run/ingest/class_table.h"
#include "run/ingest/dedup.h"
#include "run/ingest/draw.h"
#include "run/ingest/options.h"

namespace dlpipe::ingest {

namespace {

using data::SourceEntry;
using data::SourceListing;

constexpr size_t kLooked = 16;
constexpr size_t kNotKnown = 255;

/// The numbers in the first masks of a field, and the number of these masks.
struct Seen {
  std::bitset<256> numbers;
  size_t masks = 0;
};

Seen look(const data::Source& source, size_t f, const std::vector<FrozenSplit>& splits) {
  Seen seen;
  data::MaskDecoder decoder;
  for (const FrozenSplit& split : splits) {
    for (const data::SourceEntry& entry : split.entries) {
      if (seen.masks == kLooked) return seen;
      if (!entry.problem.empty() || f >= entry.extra.size() || entry.extra[f].empty()) continue;
      const auto bytes = source.read_referred(entry, entry.extra[f]);
      if (!bytes.ok()) continue;
      const auto mask = decoder.decode(*bytes);
      if (!mask.ok() || mask->height == 0) continue;
      ++seen.masks;
      for (int y = 0; y < mask->height; ++y) {
        for (int x = 0; x < mask->width; ++x) seen.numbers.set(mask->row(y)[x]);
      }
      std::bitset<256> others = seen.numbers;
      if (others.reset(0).reset(kNotKnown).any()) return seen;
    }
  }
  return seen;
}

/// A warning for each field of masks whose first files contain only 0 and 255: such masks are made for viewing, but 255 usually
/// means "unknown". `fields` are those after image, label and path. Reads a few masks; unreadable ones are skipped.
std::vector<std::string> warnings_of_masks(const data::Source& source, const std::vector<data::Field>& fields,
                                           const std::vector<FrozenSplit>& splits) {
  std::vector<std::string> warnings;
  for (size_t f = 0; f < fields.size(); ++f) {
    if (fields[f].kind != data::FieldKind::kMask) continue;
    const Seen seen = look(source, f, splits);
    std::bitset<256> others = seen.numbers;
    if (!seen.numbers[kNotKnown] || others.reset(0).reset(kNotKnown).any()) continue;
    warnings.push_back(
        concat("[ingest] the masks of the field ", in_quotes(fields[f].name), " contain only 0 and 255 (",
               counted(seen.masks, "was", "were"),
               " checked) and are stored unchanged; 255 usually means 'unknown': if it is a class, "
               "replace it with the class's number, such as 1"));
  }
  return warnings;
}

/// The number of each entry's group, by --group; -1 if its value is empty. Empty without --group.
Result<std::vector<int64_t>> groups_of(const IngestOptions& options, const SourceListing& listing) {
  std::vector<int64_t> groups;
  if (options.group.empty()) return groups;
  const std::vector<std::string> names = data::field_names(listing);
  const auto field = std::ranges::find(names, options.group);
  const bool is_folder = field == names.end() && options.group == "folder" && listing.tokens == 0;
  if (field == names.end() && !is_folder)
    return misuse("ingest", "--group ", printable(options.group), ": ", sources_text(options),
                  " has no such field; it has ", names.empty() ? "none" : quoted_names(names),
                  listing.tokens == 0 ? ", and --group folder uses the folder that an image is in" : "");
  std::unordered_map<std::string_view, int64_t> numbers;
  for (const SourceEntry& entry : listing.entries) {
    std::string_view path = entry.path;
    if (const size_t name = entry.name_begin; name > 0 && path[name - 1] == '#')
      path = path.substr(0, name);  // the name in a list of `dlpipe export` follows the file
    const auto f = static_cast<size_t>(field - names.begin());
    const size_t slash = path.rfind('/');
    const std::string_view value = is_folder ? slash == path.npos ? "/" : path.substr(0, slash + 1)
                                   : f < entry.extra.size() ? std::string_view(entry.extra[f])
                                                            : std::string_view();
    groups.push_back(
        value.empty() ? -1 : numbers.emplace(value, static_cast<int64_t>(numbers.size())).first->second);
  }
  return groups;
}

/// kMisuse if a group is in two of the source's own splits or folds, or if there are no splits and no folds at all.
Status check_groups_of_source(const IngestOptions& options, const SourceListing& listing,
                              const std::vector<int64_t>& groups) {
  if (options.group.empty()) return {};
  const auto field = std::ranges::find(listing.fields, data::kFoldField, &data::Field::name);
  const bool has_folds = field != listing.fields.end();
  const auto column = static_cast<size_t>(field - listing.fields.begin());
  const auto fold_of = [&](const SourceEntry& entry) {
    return has_folds && column < entry.extra.size() ? std::string_view(entry.extra[column])
                                                    : std::string_view();
  };
  const bool has_splits =
      std::ranges::any_of(listing.entries, [](const SourceEntry& entry) { return !entry.split.empty(); });
  if (!has_splits && !has_folds && options.split.empty() && options.folds == 0)
    return misuse("ingest", "--group ", printable(options.group),
                  " keeps samples together in splits and folds, and ", sources_text(options),
                  " has none; add --split or --folds, or leave --group out");
  std::unordered_map<int64_t, const SourceEntry*> first;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] < 0) continue;
    const SourceEntry& own = listing.entries[i];
    const SourceEntry& other = *first.emplace(groups[i], &own).first->second;
    if (fold_of(own) != fold_of(other))
      return misuse("ingest", printable(other.path), " and ", printable(own.path),
                    " have the same value of --group ", printable(options.group),
                    ", but different values of the field '", data::kFoldField,
                    "'; correct that field, or rename it and give --folds");
    if (own.split != other.split)
      return misuse("ingest", printable(other.path), " in split ", in_quotes(other.split), " and ",
                    printable(own.path), " in split ", in_quotes(own.split),
                    " have the same value of --group ", printable(options.group),
                    "; correct the splits, or make others of them with --no-splits "
                    "--split");
  }
  return {};
}

/// Applies --limit.
Status limit_entries(const IngestOptions& options, SourceListing& listing) {
  if (options.limit < 0) return {};
  std::vector<std::string_view> names;
  for (const SourceEntry& entry : listing.entries) names.emplace_back(entry.path);
  DLPIPE_ASSIGN_OR_RETURN(
      const auto drawn,
      draw_samples({.names = names, .classes = {}, .limit = options.limit, .seed = options.seed}));
  std::vector<SourceEntry> taken;
  for (size_t i = 0; i < drawn.size(); ++i) {
    if (drawn[i]) taken.push_back(std::move(listing.entries[i]));
  }
  listing.entries = std::move(taken);
  return {};
}

/// The groups that --split and --folds keep together: those of --group, joined with the alike images of --dedup group.
Result<std::vector<int64_t>> joined_groups(const IngestOptions& options, const SourceListing& listing,
                                           const AlikeEntries& alike) {
  DLPIPE_ASSIGN_OR_RETURN(std::vector<int64_t> groups, groups_of(options, listing));
  if (options.dedup != Dedup::kGroup) return groups;
  std::vector<data::AlikePair> pairs = alike.pairs;
  std::unordered_map<int64_t, uint32_t> first;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    if (groups[i] >= 0) pairs.push_back({first.emplace(groups[i], i).first->second, i});
  }
  return data::alike_groups(listing.entries.size(), pairs);
}

/// The entries that are stored, as --split and --folds draw them: without the copies that --dedup drop leaves out.
struct StoredEntries {
  StoredEntries(const SourceListing& listing, const std::vector<int64_t>& groups_in) {
    for (size_t i = 0; i < listing.entries.size(); ++i) {
      if (is_copy(listing.entries[i])) continue;
      places.push_back(i);
      names.emplace_back(listing.entries[i].path);
      classes.push_back(listing.entries[i].label);
      if (!groups_in.empty()) groups.push_back(groups_in[i]);
    }
  }
  std::vector<size_t> places;
  std::vector<std::string_view> names;
  std::vector<int64_t> classes, groups;
};

/// Applies --split. Copies that are left out get the split of the image that is stored.
Status draw_splits(const IngestOptions& options, SourceListing& listing, const std::vector<int64_t>& groups,
                   const AlikeEntries& alike) {
  if (options.split.empty()) return {};
  std::vector<SourceEntry>& entries = listing.entries;
  const StoredEntries stored(listing, groups);
  const SampleDraw draw{stored.names, stored.classes,      -1,           options.split,
                        options.seed, listing.in_sequence, stored.groups};
  DLPIPE_ASSIGN_OR_RETURN(const auto drawn, draw_samples(draw));
  for (size_t i = 0; i < drawn.size(); ++i) entries[stored.places[i]].split = kDrawnSplits[*drawn[i]];
  for (size_t i = 0; i < alike.copy_of.size(); ++i) {
    if (alike.copy_of[i] >= 0) entries[i].split = entries[static_cast<size_t>(alike.copy_of[i])].split;
  }
  return {};
}

/// Warns about classes with all samples in one fold: the run that validates on that fold does not learn them.
void warn_of_classes_in_one_fold(const SourceListing& listing, std::span<const size_t> folds,
                                 std::span<const size_t> places, FrozenList& list) {
  constexpr int64_t kSeveral = -1;
  std::map<int64_t, int64_t> fold_of;
  for (size_t i = 0; i < folds.size(); ++i) {
    const int64_t label = listing.entries[places[i]].label;
    if (label < 0) continue;
    const auto own = static_cast<int64_t>(folds[i]);
    const auto [known, is_new] = fold_of.emplace(label, own);
    if (!is_new && known->second != own) known->second = kSeveral;
  }
  std::vector<std::string> alone;
  for (const auto& [label, fold] : fold_of)
    if (fold != kSeveral) alone.push_back(listing.classes[static_cast<size_t>(label)]);
  if (!alone.empty())
    list.warnings.push_back(concat("[ingest] all samples of ", alone.size(), " of ", fold_of.size(),
                                   " classes are in one fold: ", quoted_names(alone),
                                   "; the run that leaves it out does not learn them"));
}

/// Adds the field `fold` to `listing`, with values from 1 to options.folds.
Status add_folds(const IngestOptions& options, SourceListing& listing, const std::vector<int64_t>& groups,
                 FrozenList& list) {
  if (options.folds == 0) return {};
  if (listing.tokens > 0) return misuse("ingest", "--folds is for images; leave it out");
  const std::vector<std::string> fields = data::field_names(listing);
  if (std::ranges::find(fields, data::kFoldField) != fields.end())
    return misuse("ingest", sources_text(options), " has a field '", data::kFoldField,
                  "' of its own, which train --fold uses; leave --folds out");
  for (SourceEntry& entry : listing.entries) {
    if (!entry.split.empty())
      return misuse("ingest", "--folds numbers the samples of one dataset, and ", sources_text(options),
                    " has splits; ingest one of them with --folds, or all with --no-splits");
    entry.extra.resize(listing.fields.size() + 1);
  }
  const StoredEntries stored(listing, groups);
  const SampleDraw draw{
      .names = stored.names, .classes = stored.classes, .seed = options.seed, .groups = stored.groups};
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<size_t> folds,
                          draw_folds(draw, static_cast<size_t>(options.folds)));
  for (size_t i = 0; i < folds.size(); ++i) {
    listing.entries[stored.places[i]].extra.back() =
        data::encode_labels(std::array{static_cast<int64_t>(folds[i]) + 1});
  }
  listing.fields.push_back({data::kFoldField, data::FieldKind::kTensor, DType::kI64, {1}});
  warn_of_classes_in_one_fold(listing, folds, stored.places, list);
  return {};
}

// Sources report this themselves if they know more; in any case, an empty dataset is not allowed.
Status check_any_entry(const IngestOptions& options, const SourceListing& listing) {
  if (!listing.entries.empty()) return {};
  constexpr size_t kShown = 3;
  std::string notes;
  for (size_t i = 0; i < std::min(listing.warnings.size(), kShown); ++i)
    notes += concat("; ", without_area(listing.warnings[i]));
  return Status(ErrorCode::kNotFound,
                concat("[ingest] there is nothing to ingest in ", sources_text(options), notes));
}

// Entries' names become file names, and in the list of skipped files a zero byte ends a name. (Class names may be any text,
// because export chooses the names of their folders.)
Status check_names(const SourceListing& listing) {
  for (const SourceEntry& entry : listing.entries) {
    if (entry.path.find('\0') != std::string::npos)
      return Status(ErrorCode::kCorrupt,
                    concat("[ingest] the name ", in_quotes(entry.path),
                           " contains a zero byte, which no file name can have; correct it"));
  }
  return {};
}

// kMisuse if both SRC and --split define splits.
Status check_split_once(const IngestOptions& options, const SourceListing& listing) {
  if (options.split.empty() || listing.entries.front().split.empty()) return {};
  std::set<std::string> own;
  for (const SourceEntry& entry : listing.entries) own.insert(entry.split);
  return misuse("ingest", "--split, and ", sources_text(options),
                " has its own splits: ", quoted_names(std::vector<std::string>(own.begin(), own.end())),
                "; leave out --split, or ingest only one of them with it");
}

// Metrics on a split say nothing about classes without a sample in it.
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
                                   " of ", counted(static_cast<int64_t>(classes), "class", "classes"), ": ",
                                   quoted_names(missing),
                                   options.split.empty() ? "" : "; they have too few files for --split"));
  }
}

// Each class is divided into whole samples, so with many small classes the sizes of splits differ from those requested.
void warn_of_shares(const IngestOptions& options, FrozenList& list) {
  constexpr double kMuch = 1.0 / 3;  // of the share
  size_t total = 0;
  for (const FrozenSplit& split : list.splits) total += split.entries.size();
  for (size_t s = 0; s < options.split.size(); ++s) {
    const auto found = std::ranges::find(list.splits, kDrawnSplits[s], &FrozenSplit::name);
    if (found == list.splits.end()) continue;
    const double share = static_cast<double>(found->entries.size()) / static_cast<double>(total);
    if (std::abs(share / options.split[s] - 1) <= kMuch) continue;
    list.warnings.push_back(concat("[ingest] ", found->name, " has ", fixed(100 * share, 1),
                                   " % of the samples, but --split is ", fixed(100 * options.split[s], 1),
                                   " %: each class is divided separately, into whole samples"));
  }
}

// Warns about splits that --limit left without a file.
void warn_of_lost_splits(const std::set<std::string>& before, FrozenList& list) {
  for (const std::string& name : before) {
    const bool is_there = std::any_of(list.splits.begin(), list.splits.end(),
                                      [&](const FrozenSplit& split) { return split.name == name; });
    if (!is_there)
      list.warnings.push_back(
          concat("[ingest] --limit leaves no file for ", name, ", so that split is not made"));
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

// SRC if it is a folder, else the folder that contains it; "" for several sources, which get absolute links. "" also for a path
// that is not UTF-8, because JSON can't represent it.
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
    return misuse("ingest", "the manifest has ", listing.fields.size() + 2,
                  " columns, but a dataset has at most ", data::kMostFields, " fields; leave some out");
  for (const data::Field& own : listing.fields) {
    const std::string& name = own.name;
    const bool taken = std::any_of(schema.fields.begin(), schema.fields.end(),
                                   [&](const data::Field& field) { return field.name == name; });
    if (taken || name.empty())
      return misuse("ingest", "the manifest's column '", printable(name),
                    "' is empty or used twice; rename it");
    schema.fields.push_back(own);
  }
  return schema;
}

// Checked before anything is stored. (Each image is checked again when it is read.)
Status check_can_be_linked(const IngestOptions& options, const data::Source& source,
                           const std::vector<FrozenSplit>& splits) {
  for (const FrozenSplit& split : splits) {
    for (const SourceEntry& entry : split.entries) {
      if (!entry.problem.empty()) continue;
      Status status = source.where(entry).status();
      if (status.ok()) return status;
      const std::string advice = options.late_checksums  // called by training, which has no --store
                                     ? concat("`dlpipe ingest ", shell_word(options.sources.front()),
                                              " DST` makes a dataset from it that can be trained on")
                                     : "leave --store link out";
      return {status.code(), concat(status.message(), "; ", advice)};
    }
  }
  return {};
}

// Estimates the bytes of a file in its record from the file's header.
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

// A link is little more than the image's path.
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
      if (split.entries[i].size_bytes > data::kMostImageBytes) continue;  // it will be skipped
      const auto bytes = source.read(split.entries[i]);
      if (!bytes.ok() || bytes->empty()) continue;  // errors are reported when it is processed
      file_bytes += static_cast<double>(bytes->size());
      record_bytes += estimate_record(options, *bytes);
    }
  }
  return file_bytes > 0 ? record_bytes / file_bytes : 1;
}

}  // namespace

Result<FrozenList> freeze(const IngestOptions& options, const data::Source& source, SourceListing listing,
                          const std::function<void(const IngestProgress&)>& progress) {
  DLPIPE_RETURN_IF_ERROR(check_any_entry(options, listing));
  DLPIPE_RETURN_IF_ERROR(check_names(listing));
  FrozenList list;
  list.options = canonical_options(options);
  list.warnings = listing.warnings;
  DLPIPE_RETURN_IF_ERROR(settle_classes(options, source, listing, list.warnings));
  DLPIPE_RETURN_IF_ERROR(check_split_once(options, listing));
  std::set<std::string> given;
  for (const SourceEntry& entry : listing.entries) given.insert(entry.split);
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<int64_t> given_groups, groups_of(options, listing));
  DLPIPE_RETURN_IF_ERROR(check_groups_of_source(options, listing, given_groups));
  DLPIPE_RETURN_IF_ERROR(limit_entries(options, listing));
  DLPIPE_ASSIGN_OR_RETURN(const AlikeEntries alike, find_alike(options, source, listing, progress));
  list.warnings.insert(list.warnings.end(), alike.warnings.begin(), alike.warnings.end());
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<int64_t> groups, joined_groups(options, listing, alike));
  DLPIPE_RETURN_IF_ERROR(draw_splits(options, listing, groups, alike));
  DLPIPE_RETURN_IF_ERROR(add_folds(options, listing, groups, list));
  DLPIPE_ASSIGN_OR_RETURN(list.schema, make_schema(options, listing));
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
      if (entry.size_bytes <= data::kMostImageBytes) bytes += static_cast<double>(entry.size_bytes);
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

// Records below 8 KB share a value, because otherwise too much of each value's pages would be unused.
int64_t records_per_value(double record_bytes) {
  constexpr double kSmallRecord = 8192;
  constexpr double kPackedValue = 65536;
  return record_bytes < kSmallRecord ? static_cast<int64_t>(kPackedValue / std::max(record_bytes, 1.0)) : 1;
}

Status check_free_space(const std::string& destination, uint64_t needed_bytes) {
  const std::string directory = folder_of(destination);
  struct statvfs disk {};
  if (statvfs(directory.c_str(), &disk) != 0)
    return status_from_errno("ingest", concat("cannot stat ", directory), errno);
  const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free_bytes >= needed_bytes) return {};
  // If both are rounded to the same number, the message also has the difference.
  const std::string needed = human_bytes(needed_bytes);
  const std::string missing =
      needed == human_bytes(free_bytes) ? concat(" (", needed_bytes - free_bytes, " bytes too few)") : "";
  return Status(ErrorCode::kNoSpace,
                concat("[ingest] not enough space: ", needed, " needed, ", human_bytes(free_bytes),
                       " free in ", directory, missing, "; choose another directory or --limit"));
}

}  // namespace dlpipe::ingest
