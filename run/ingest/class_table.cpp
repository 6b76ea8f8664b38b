#include "run/ingest/class_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"
#include "io/data/file_name.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"
#include "io/formats/json.h"

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
                    " twice; list each class once");
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
      sources_text(options), "masks are stored unchanged, so leave --classes-from out", listing));
  listing.classes = classes;
  return {};
}

// Warns about classes whose names are numbers other than their labels: a model trained with the numbers would confuse classes.
void warn_of_other_numbers(const SourceListing& listing, std::vector<std::string>& warnings) {
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
    warnings.push_back(concat(
        "[ingest] the classes are named by numbers that differ from their labels: class '",
        printable(names[i]), "' becomes label ", i,
        number < 0 ? ", like the other classes (leave its samples out if it means that they have no class)"
                   : "",
        is_sorted_as_text ? ", because folders are sorted as strings, as torchvision's ImageFolder does; for "
                            "the order of the "
                            "numbers, use --classes-from FILE with the names in that order, one per line"
                          : ", and so on; --classes-from DATASET uses another dataset's labels"));
    return;
  }
}

// Class names are UTF-8 in the dataset, so two names that differ only in other bytes would be equal there.
Status check_class_names(const std::vector<std::string>& classes) {
  std::map<std::string, const std::string*> by_stored_name;
  for (const std::string& name : classes) {
    const auto [other, fresh] = by_stored_name.emplace(formats::Json(name).dump(), &name);
    if (fresh) continue;
    const std::vector<std::string> both = {*other->second, name};
    return misuse("ingest", "the classes ", quoted_names(both),
                  " differ only in bytes that are not UTF-8; rename one of them");
  }
  return {};
}

// The dataset stores its class names in JSON, which can't represent other bytes.
void warn_of_replaced_bytes(const std::vector<std::string>& classes, std::vector<std::string>& warnings) {
  std::vector<std::string> replaced;
  std::copy_if(classes.begin(), classes.end(), std::back_inserter(replaced),
               [](const std::string& name) { return !is_utf8(name); });
  if (!replaced.empty())
    warnings.push_back(
        concat("[ingest] names of classes that are not UTF-8: ", quoted_names(replaced, 3),
               "; invalid bytes are stored as U+FFFD. Save the list as UTF-8, or rename the folders"));
}

// "cat" and "Cat" are usually the same class in two spellings. Tokens are letters, which do differ in case.
void warn_of_case(const SourceListing& listing, std::vector<std::string>& warnings) {
  if (listing.tokens > 0) return;
  std::map<std::string, const std::string*> by_lower;
  std::vector<std::string> first;
  int64_t more = 0;
  for (const std::string& name : listing.classes) {
    const auto [other, fresh] = by_lower.emplace(data::lower_text(name), &name);
    if (fresh) continue;
    if (first.empty())
      first = {*other->second, name};
    else
      ++more;
  }
  if (first.empty()) return;
  warnings.push_back(concat("[ingest] the classes ", quoted_names(first),
                            " differ only in case and become two classes",
                            more == 0 ? "" : concat(", as are ", more, " more"),
                            "; if they are the same class, give them the same name"));
}

/// Whether names look like lists such as "cat,sea": how often they have the same parts.
struct JoinedNames {
  size_t names = 0, joined = 0;
  std::string example = {};
  std::map<std::string, size_t> parts = {};  // the number of names that contain each part
  bool are_of_others = true;                 // each part of a joined name is itself a name

  JoinedNames(const std::vector<std::string>& all, char separator) : names(all.size()) {
    const std::set<std::string_view> known(all.begin(), all.end());
    for (const std::string& name : all) {
      std::set<std::string> own;
      for (const std::string& part : split(name, separator)) own.emplace(trim(part));
      own.erase("");
      if (own.size() > 1 && joined++ == 0) example = name;
      for (const std::string& part : own) {
        ++parts[part];
        if (own.size() > 1) are_of_others = are_of_others && known.contains(part);
      }
    }
  }
  bool are_likely(size_t names_a_part) const {
    const bool recur = parts.size() * names_a_part < names &&
                       std::ranges::all_of(parts, [](const auto& part) { return part.second > 1; });
    return joined > 0 && (are_of_others || recur);
  }
};

/// Warns about fields of labels that have no label, or that have labels that look like lists but are not read as lists.
void warn_of_labels(const SourceListing& listing, std::vector<std::string>& warnings) {
  for (size_t f = 0; f < listing.fields.size(); ++f) {
    const data::Field& field = listing.fields[f];
    if (field.kind != data::FieldKind::kLabels || !field.of.empty()) continue;
    std::set<int64_t> used;
    for (const SourceEntry& entry : listing.entries) {
      if (!entry.problem.empty()) continue;
      for (const int64_t label : data::decode_labels(entry.extra[f])) used.insert(label);
    }
    if (used.empty()) {
      warnings.push_back(concat("[ingest] no sample has a label in the field ", in_quotes(field.name)));
      continue;
    }
    std::vector<std::string> names;
    names.reserve(used.size());
    for (const int64_t label : used) names.push_back(listing.classes[static_cast<size_t>(label)]);
    // Names may have words in common, so lists with blanks need twice as many names per part.
    for (const auto& [separator, what, names_a_part] :
         {std::tuple{',', "commas", size_t{1}}, std::tuple{' ', "blanks", size_t{2}}}) {
      const JoinedNames joined(names, separator);
      if (!joined.are_likely(names_a_part)) continue;
      warnings.push_back(concat("[ingest] labels of ", in_quotes(field.name), " look like lists with ", what,
                                ", such as ", in_quotes(joined.example),
                                ", and each list is a class; write cat|sea, cat;sea or [\"cat\",\"sea\"]"));
      break;
    }
  }
}

/// Warns if fields share the list of classes but one lacks a class of another: a model of either field has an output for every
/// class of the list.
void warn_of_shared_classes(const SourceListing& listing, std::vector<std::string>& warnings) {
  struct Use {
    std::string field;
    std::vector<bool> classes;  // those that it has
  };
  const std::vector<bool> none(listing.classes.size());
  std::vector<Use> uses = {{"label", none}};
  std::vector<size_t> columns;  // of uses[1], uses[2], ...
  for (size_t f = 0; f < listing.fields.size(); ++f) {
    if (listing.fields[f].kind != data::FieldKind::kLabels) continue;
    uses.push_back({listing.fields[f].name, none});
    columns.push_back(f);
  }
  const bool has_label =
      std::ranges::any_of(listing.entries, [](const SourceEntry& entry) { return entry.label >= 0; });
  if (columns.size() + (has_label ? 1 : 0) < 2) return;
  for (const SourceEntry& entry : listing.entries) {
    if (!entry.problem.empty()) continue;
    if (entry.label >= 0) uses[0].classes[static_cast<size_t>(entry.label)] = true;
    for (size_t i = 0; i < columns.size(); ++i) {
      for (const int64_t label : data::decode_labels(entry.extra[columns[i]]))
        uses[i + 1].classes[static_cast<size_t>(label)] = true;
    }
  }
  const auto count = [](const Use& use) { return std::ranges::count(use.classes, true); };
  std::erase_if(uses, [&](const Use& use) { return count(use) == 0; });
  int64_t all = 0;
  for (size_t c = 0; c < none.size(); ++c)
    all += std::ranges::any_of(uses, [&](const Use& use) { return use.classes[c]; }) ? 1 : 0;
  if (std::ranges::all_of(uses, [&](const Use& use) { return count(use) == all; })) return;
  std::string text;
  for (const Use& use : uses)
    text += concat(text.empty() ? "" : " and ", in_quotes(use.field), " (", count(use), ")");
  warnings.push_back(concat(
      "[ingest] the classes of ", text, " are one list of ", all,
      ", so a model trained on one of these fields has outputs for the classes of the others, too; for a "
      "model of one of them, ingest that one alone"));
}

/// An entry's path without the folder of its class and without its ending.
std::string stem_of(const SourceEntry& entry, const std::string& folder) {
  std::string stem;
  for (const std::string& part : split(entry.path, '/'))
    if (part != folder) stem += "/" + part;
  return stem.substr(0, stem.rfind('.'));
}

/// Pairs of entries of two folders whose names differ only in an ending that all names of one folder have, like _L of CamVid's
/// masks. Empty if there are other entries.
using Pairs = std::vector<std::array<const SourceEntry*, 2>>;

Pairs pairs_of_folders(const SourceListing& listing) {
  using Stems = std::vector<std::pair<std::string, const SourceEntry*>>;
  const auto count_of = [&](int64_t label) {
    return std::ranges::count_if(listing.entries, [&](const SourceEntry& entry) {
      return entry.label == label && entry.problem.empty();
    });
  };
  if (count_of(0) < 2 || count_of(0) != count_of(1)) return {};
  std::array<Stems, 2> stems;
  for (const SourceEntry& entry : listing.entries) {
    if (entry.label < 0 || !entry.problem.empty()) continue;
    const auto label = static_cast<size_t>(entry.label);
    stems[label].emplace_back(stem_of(entry, listing.classes[label]), &entry);
  }
  for (Stems& own : stems) std::ranges::sort(own);
  const size_t longer = stems[0][0].first.size() > stems[1][0].first.size() ? 0 : 1;
  const std::string& first = stems[1 - longer][0].first;
  if (!stems[longer][0].first.starts_with(first)) return {};
  const std::string ending = stems[longer][0].first.substr(first.size());
  Pairs pairs;
  for (size_t i = 0; i < stems[0].size(); ++i) {
    if (stems[longer][i].first != stems[1 - longer][i].first + ending) return {};
    pairs.push_back({stems[0][i].second, stems[1][i].second});
  }
  return pairs;
}

/// The number of colours of an image, at most `most` + 1, and its size; nullopt if it can't be decoded or is too large.
struct Colours {
  size_t count = 0;
  int width = 0, height = 0;
};
std::optional<Colours> colours_of(const IngestOptions& options, const data::Source& source,
                                  const SourceEntry& entry, size_t most) {
  if (entry.size_bytes > data::kMostImageBytes) return std::nullopt;
  const auto bytes = source.read(entry);
  const auto info = bytes.ok() ? data::probe_image(*bytes) : Result<data::ImageInfo>(bytes.status());
  if (!info.ok() || !data::check_pixels(*info, options.max_pixels).ok()) return std::nullopt;
  std::vector<uint8_t> pixels(static_cast<size_t>(info->width) * static_cast<size_t>(info->height) * 3);
  const ImageView out{pixels.data(), info->width, info->height, 3, ptrdiff_t{info->width} * 3};
  if (!data::ImageDecoder().decode(*bytes, {0, 0, info->width, info->height}, out).ok()) return std::nullopt;
  std::set<std::array<uint8_t, 3>> colours;
  for (size_t i = 0; i < pixels.size() && colours.size() <= most; i += 3)
    colours.insert({pixels[i], pixels[i + 1], pixels[i + 2]});
  return Colours{colours.size(), info->width, info->height};
}

/// kMisuse if two folders have images of the same names and sizes and those of one have few colours: they are images and masks.
Status check_are_no_masks(const IngestOptions& options, const data::Source& source,
                          const SourceListing& listing) {
  constexpr size_t kLooked = 4;  // pairs
  constexpr size_t kFew = 64;
  if (!listing.classes_are_folders || listing.classes.size() != 2 || options.no_splits) return {};
  Pairs pairs = pairs_of_folders(listing);
  if (pairs.empty()) return {};
  pairs.resize(std::min(pairs.size(), kLooked));
  std::array<bool, 2> has_few{true, true}, has_many{true, true};
  for (const auto& pair : pairs) {
    std::array<std::optional<Colours>, 2> seen;
    for (const size_t side : {0, 1}) {
      seen[side] = colours_of(options, source, *pair[side], kFew);
      if (!seen[side]) return {};
      (seen[side]->count <= kFew ? has_many : has_few)[side] = false;
    }
    if (seen[0]->width != seen[1]->width || seen[0]->height != seen[1]->height) return {};
  }
  for (const size_t masks : {0, 1}) {
    if (!has_few[masks] || !has_many[1 - masks]) continue;
    return misuse("ingest", sources_text(options), ": the folders ", quoted_names(listing.classes),
                  " have files of the same names and sizes, and those of ", in_quotes(listing.classes[masks]),
                  " have few colours: these look like images and their masks, not like two classes; call the "
                  "folders 'images' and 'masks' (links suffice). --no-splits makes each folder a class");
  }
  return {};
}

/// Warns about a class such as "NA" or "null": it may be a real class (Namibia), or what pandas writes for a missing value.
void warn_of_no_value(const SourceListing& listing, std::vector<std::string>& warnings) {
  if (listing.tokens > 0 || listing.classes_are_folders) return;
  constexpr std::array<std::string_view, 7> kNoValue = {"NA", "N/A", "n/a", "#N/A", "NULL", "null", "None"};
  std::vector<std::string> found;
  std::ranges::copy_if(listing.classes, std::back_inserter(found), [&](const std::string& name) {
    return std::ranges::find(kNoValue, name) != kNoValue.end();
  });
  if (!found.empty())
    warnings.push_back(
        concat("[ingest] ", found.size() == 1 ? "the class " : "the classes ", quoted_names(found),
               ", which pandas reads as a missing value; if that is meant, leave the cell empty"));
}

}  // namespace

Status settle_classes(const IngestOptions& options, const data::Source& source, SourceListing& listing,
                      std::vector<std::string>& warnings) {
  if (options.classes_from.empty())
    warn_of_other_numbers(listing, warnings);
  else
    DLPIPE_RETURN_IF_ERROR(take_class_table(options, listing));
  DLPIPE_RETURN_IF_ERROR(check_class_names(listing.classes));
  warn_of_replaced_bytes(listing.classes, warnings);
  warn_of_case(listing, warnings);
  warn_of_labels(listing, warnings);
  warn_of_no_value(listing, warnings);
  warn_of_shared_classes(listing, warnings);
  return check_are_no_masks(options, source, listing);
}

}  // namespace dlpipe::ingest
