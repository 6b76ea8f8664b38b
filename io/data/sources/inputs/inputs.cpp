// SRC as words, wildcards and lists: first the inputs and their splits, then several inputs as one source.
#include "io/data/sources/inputs/inputs.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_set>

#include "base/messages.h"
#include "base/text.h"
#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/file_name.h"
#include "io/data/schema.h"
#include "io/data/sources/bytes/remote.h"
#include "io/data/sources/classes.h"
#include "io/data/sources/image_folder.h"
#include "io/data/sources/layouts.h"
#include "io/data/sources/lists/caffe_list.h"
#include "io/data/sources/source_file.h"
#include "io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostInputs = 1'000'000;

/// The numbers of "000..127", with as many digits as the longer end; nullopt for anything else.
std::optional<std::vector<std::string>> range_of(std::string_view text) {
  const size_t dots = text.find("..");
  int64_t first = 0;
  int64_t last = 0;
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view left = text.substr(0, dots);
  const std::string_view right = text.substr(dots + 2);
  if (!parse_int(left, &first) || !parse_int(right, &last) || first < 0 || last < 0) return std::nullopt;
  const auto count = static_cast<uint64_t>(std::abs(last - first)) + 1;
  if (count > kMostInputs) return std::vector<std::string>(kMostInputs + 1);
  const bool padded = (left.size() > 1 && left[0] == '0') || (right.size() > 1 && right[0] == '0');
  const size_t width = padded ? std::max(left.size(), right.size()) : 0;
  std::vector<std::string> numbers;
  for (uint64_t i = 0; i < count; ++i) {
    const int64_t number = last >= first ? first + static_cast<int64_t>(i) : first - static_cast<int64_t>(i);
    std::string digits = std::to_string(number);
    if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
    numbers.push_back(std::move(digits));
  }
  return numbers;
}

/// The alternatives of "a,b" or "1..3" between braces; nullopt if it has neither comma nor dots.
std::optional<std::vector<std::string>> alternatives(std::string_view inside) {
  if (inside.find(',') != std::string_view::npos) return split(inside, ',');
  return range_of(inside);
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::sort(paths.begin(), paths.end());
  return paths;
}

Result<std::vector<std::string>> expand_one(const std::string& given) {
  if (given == "-" || is_there(given)) return std::vector<std::string>{given};
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, expand_braces(given));
  if (is_address(given)) {
    if (shown_address(given).find('*') != std::string::npos)
      return misuse("ingest", printable(shown_address(given)),
                    ": an address can't be listed; name the files, such as shards-{000..127}.tar");
    return names;
  }
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (is_there(name)) {
      paths.push_back(name);
      continue;
    }
    const bool is_pattern = name.find_first_of("*?[") != std::string::npos;
    const std::vector<std::string> found = is_pattern ? matches(name) : std::vector<std::string>();
    if (found.empty())
      return Status(ErrorCode::kNotFound, concat("[ingest] no file or folder ", printable(name),
                                                 name == given ? "" : concat(", of ", printable(given))));
    paths.insert(paths.end(), found.begin(), found.end());
  }
  return paths;
}

Result<std::vector<std::string>> lines_of(const std::string& list) {
  if (kind_of_image_list(list, {}) != ImageListKind::kNone)
    return misuse("ingest", "--list expects a file that lists folders, archives and manifests, but ",
                  printable(list), " lists images; give it as SRC");
  DLPIPE_ASSIGN_OR_RETURN(std::vector<std::string> paths, lines_in_file(list));
  const fs::path folder = fs::path(list).parent_path();
  for (std::string& path : paths) {
    if (!is_address(path)) path = (folder / path).string();
  }
  if (paths.empty())
    return Status(ErrorCode::kNotFound, concat("[ingest] --list ", printable(list), " is empty"));
  return paths;
}

bool is_archive(const std::string& path) {
  return has_tar_name(path) || has_tfrecord_name(path) || lower_ending(path) == "beton";
}

/// The direct contents of a folder, as far as they distinguish a folder of archives from one of images.
struct FolderContents {
  std::vector<std::string> archives;
  std::vector<std::string> devkits;  // ImageNet's, which hold no images
  std::vector<std::string> folders;
  size_t images = 0;
};

FolderContents look_into(const std::string& folder) {
  FolderContents contents;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] == '.' || is_system_folder(name)) continue;
    if (entry.is_directory(ignored)) {
      contents.folders.push_back(name);
    } else if (is_archive(name) && (entry.is_regular_file(ignored) || is_dead_link(entry.path().string()))) {
      (lower_text(name).find("devkit") == std::string::npos ? contents.archives : contents.devkits)
          .push_back(name);
    } else if (has_image_name(name)) {
      ++contents.images;
    }
  }
  std::sort(contents.archives.begin(), contents.archives.end());
  std::sort(contents.folders.begin(), contents.folders.end());
  return contents;
}

Status check_not_mixed(const std::string& folder, const FolderContents& contents) {
  if (contents.archives.empty() || (contents.folders.empty() && contents.images == 0)) return {};
  const std::string others = contents.folders.empty()
                                 ? counted(static_cast<int64_t>(contents.images), "image")
                                 : concat("the folders ", quoted_names(contents.folders, 3));
  return misuse("ingest", printable(folder), " contains both the archives ",
                quoted_names(contents.archives, 3), " and ", others, "; give only one kind: '",
                printable(folder), "/*.tar' or ",
                contents.folders.empty() ? "a folder of the images"
                                         : concat(printable(folder), "/", printable(contents.folders[0])));
}

/// Adds the archives of a folder, or of its train, val and test folders; false if it is not a folder of archives.
Result<bool> add_archives(const std::string& folder, bool splits, SourceInputs& all) {
  const FolderContents contents = look_into(folder);
  DLPIPE_RETURN_IF_ERROR(check_not_mixed(folder, contents));
  for (const std::string& name : contents.archives) all.inputs.push_back({concat(folder, "/", name)});
  if (!contents.archives.empty()) {
    if (!contents.devkits.empty())
      all.notes.push_back(
          concat("[ingest] ignored because they are not images: ", quoted_names(contents.devkits)));
    return true;
  }
  bool found = false;
  for (const std::string& name : contents.folders) {
    const std::string split(split_of_name(name));
    if (split.empty()) continue;
    const std::string below = concat(folder, "/", name);
    const FolderContents inside = look_into(below);
    DLPIPE_RETURN_IF_ERROR(check_not_mixed(below, inside));
    for (const std::string& archive : inside.archives) {
      all.inputs.push_back({concat(below, "/", archive), splits ? split : ""});
      found = true;
    }
  }
  return found;
}

/// "file", "archive", "folder", or "input" for several kinds.
std::string kind_of_inputs(const std::vector<SourceInput>& inputs) {
  std::set<std::string> kinds;
  for (const SourceInput& input : inputs) {
    kinds.insert(is_archive(input.path) ? "archive" : is_folder(input.path) ? "folder" : "file");
  }
  return kinds.size() == 1 ? *kinds.begin() : "input";
}

/// For each input, the split that its own name or its folder's name indicates; "" for none.
std::vector<std::string> splits_by_names(const std::vector<SourceInput>& inputs, bool of_folders) {
  std::vector<std::string> splits;
  for (const SourceInput& input : inputs) {
    fs::path path(input.path);
    if (!path.has_filename()) path = path.parent_path();  // FOLDER/
    splits.push_back(
        split_in_words(of_folders ? path.parent_path().filename().string() : tar_stem(path.string())));
  }
  return splits;
}

/// For each input, its split in a published dataset; "" for none.
std::vector<std::string> published_splits(const std::vector<SourceInput>& inputs) {
  std::vector<std::string> splits;
  for (const SourceInput& input : inputs) {
    std::string& split = splits.emplace_back();
    if (!is_file(input.path)) continue;
    for (const SourceRecord* record : source_table()) {
      if (split.empty() && record->published_split != nullptr) split = record->published_split(input.path);
    }
  }
  return splits;
}

std::map<std::string, int64_t> counts_of(const std::vector<std::string>& splits) {
  std::map<std::string, int64_t> counts;
  for (const std::string& split : splits) ++counts[split];
  return counts;
}

bool tell_splits(const std::vector<std::string>& splits) {
  const std::map<std::string, int64_t> counts = counts_of(splits);
  return counts.size() > 1 && !counts.contains("");
}

/// Adds a note if only some of the inputs are named like splits.
void note_half_splits(const std::vector<std::string>& splits, SourceInputs& all) {
  std::vector<std::string> called;
  for (const auto& [split, count] : counts_of(splits)) {
    if (!split.empty()) called.push_back(split);
  }
  const auto other = std::find(splits.begin(), splits.end(), "");
  if (called.empty() || other == splits.end()) return;
  all.notes.push_back(concat("[ingest] all inputs become one dataset: some are named like the split",
                             called.size() == 1 ? " " : "s ", quoted_names(called), ", but ",
                             printable(all.inputs[other - splits.begin()].path),
                             " is not; name all of them like splits, or ingest each split separately"));
}

/// Splits, if all inputs belong to published datasets, or if all inputs or all their folders are named like splits, with at
/// least two different ones.
void split_by_names(SourceInputs& all) {
  const std::string kind = kind_of_inputs(all.inputs);
  std::vector<std::string> splits = published_splits(all.inputs);
  if (!tell_splits(splits)) splits = splits_by_names(all.inputs, false);
  std::string what = concat("the ", kind, "s' names determine");
  if (!tell_splits(splits)) {
    const std::vector<std::string> of_folders = splits_by_names(all.inputs, true);
    if (!tell_splits(of_folders)) return note_half_splits(splits, all);
    splits = of_folders;
    what = concat("the folders of the ", kind, "s determine");
  }
  std::string text;
  for (const auto& [split, count] : counts_of(splits))
    text += concat(text.empty() ? "" : ", ", count, " ", kind, count == 1 ? " of " : "s of ", split);
  all.notes.push_back(concat("[ingest] ", what, " the splits: ", text, "; --no-splits makes one dataset"));
  for (size_t i = 0; i < splits.size(); ++i) all.inputs[i].split = std::move(splits[i]);
}

Status check_each_once(const std::vector<SourceInput>& inputs) {
  std::map<FileId, std::string> seen;
  int64_t streams = 0;
  for (const SourceInput& input : inputs) {
    if (input.path == "-") {
      if (++streams > 1) return misuse("ingest", "SRC is - twice, but there is only one standard input");
      continue;
    }
    if (!input.address.empty()) continue;
    struct stat stat {};
    if (::stat(input.path.c_str(), &stat) != 0) continue;  // opening it says why
    const auto [former, fresh] = seen.emplace(id_of(stat), input.path);
    if (!fresh)
      return misuse("ingest", printable(input.path),
                    former->second == input.path
                        ? std::string()
                        : concat(" is the same as ", printable(former->second), " and"),
                    " is given twice; give it once");
  }
  return {};
}

// Several sources as one.

/// The prefixes that distinguish the inputs in samples' paths: each input's path below the folder that they all share.
std::vector<std::string> names_of(const std::vector<SourceInput>& inputs) {
  std::vector<std::vector<std::string>> parts;
  for (const SourceInput& input : inputs) {
    std::error_code ignored;
    std::vector<std::string> one;
    const fs::path full = input.path == "-" || !input.address.empty()
                              ? fs::path(input.path)
                              : fs::absolute(input.path, ignored).lexically_normal();
    for (const fs::path& part : full) {
      if (!part.empty()) one.push_back(part.string());
    }
    parts.push_back(std::move(one));
  }
  size_t shared = 0;
  const auto is_shared = [&] {
    return std::all_of(parts.begin(), parts.end(), [&](const std::vector<std::string>& one) {
      return one.size() > shared + 1 && one[shared] == parts.front()[shared];
    });
  };
  while (is_shared()) ++shared;
  std::vector<std::string> names;
  for (const std::vector<std::string>& one : parts) {
    std::string name;
    for (size_t i = shared; i < one.size(); ++i) {
      if (one[i] != "/") name += concat(name.empty() ? "" : "/", one[i]);
    }
    names.push_back(std::move(name));
  }
  return names;
}

/// Whether any image has a class of its own. Lists with only boxes or masks are not checked, as with a single input.
bool has_labels(const SourceListing& listing) {
  return std::any_of(listing.entries.begin(), listing.entries.end(),
                     [](const SourceEntry& entry) { return entry.label >= 0; });
}

class ManySources final : public Source {
 public:
  ManySources(SourceInputs inputs, std::vector<std::unique_ptr<Source>> sources,
              std::shared_ptr<uint64_t> budget)
      : inputs_(std::move(inputs)),
        names_(names_of(inputs_.inputs)),
        sources_(std::move(sources)),
        budget_(std::move(budget)) {
    for (const SourceInput& input : inputs_.inputs) ++times_split_[input.split];
  }

  Result<SourceListing> list() override;
  Result<std::vector<std::byte>> read(const SourceEntry& entry) const override {
    return sources_[entry.input]->read(own_entry(entry));
  }
  Result<Link> where(const SourceEntry& entry) const override {
    return sources_[entry.input]->where(own_entry(entry));
  }

 private:
  /// The entry as its own source listed it.
  SourceEntry own_entry(const SourceEntry& entry) const {
    SourceEntry own;
    const size_t shift = names_[entry.input].size() + 1;
    own.path = entry.path.substr(shift);
    own.name_begin = entry.name_begin - std::min<uint64_t>(entry.name_begin, shift);
    own.size_bytes = entry.size_bytes;
    own.modified_ns = entry.modified_ns;
    own.label = entry.label;
    own.place = entry.place;
    own.annotated = entry.annotated;
    for (const size_t place : place_of_[entry.input])
      own.extra.push_back(place < entry.extra.size() ? entry.extra[place] : std::string());
    return own;
  }
  Result<std::vector<std::byte>> read_referred(const SourceEntry& entry,
                                               std::string_view reference) const override {
    return sources_[entry.input]->read_referred(own_entry(entry), reference);
  }

  Status number_classes(std::vector<SourceListing>& listings, SourceListing& all) const;
  void say_class_order(std::span<const SourceListing> listings, SourceListing& all) const;
  void warn_of_numbers_and_names(std::span<const SourceListing> listings, SourceListing& all) const;
  Status add(size_t input, SourceListing one, SourceListing& all);
  void take_warnings(size_t input, std::vector<std::string> warnings, SourceListing& all);
  /// An entry that can't be read, for a corrupt input among others.
  void add_lost(size_t input, std::string_view problem, SourceListing& all) const;
  static Status take_fields(const std::string& path, const SourceListing& one, SourceListing& all);
  Status check_splits(const SourceListing& all) const;
  std::string path_of(size_t input) const { return printable(inputs_.inputs[input].path); }
  /// Whether samples' names can omit the input, because its split comes from no other input.
  bool is_split_alone(size_t input) const;

  SourceInputs inputs_;
  std::vector<std::string> names_;
  std::map<std::string, int64_t> times_split_;  // of how many inputs
  std::vector<std::unique_ptr<Source>> sources_;
  std::shared_ptr<uint64_t> budget_;           // of all of them
  std::vector<std::vector<size_t>> place_of_;  // of each input's fields among those of all
  static constexpr int64_t kMostAlike = 3;
  std::unordered_set<std::string> said_;       // warnings
  std::map<std::string, int64_t> times_said_;  // of each warning, what comes after the input's name
};

Status ManySources::take_fields(const std::string& path, const SourceListing& one, SourceListing& all) {
  const auto missing = [&](const Field& field, const std::vector<Field>& in) {
    return std::none_of(in.begin(), in.end(), [&](const Field& other) { return other.name == field.name; });
  };
  const auto unfit = [&](const Field& field) {
    return misuse("ingest", "the field '", printable(field.name), "' of ", printable(path),
                  " is missing in an earlier input, or has another kind or type there; give all "
                  "inputs the same --field columns");
  };
  const bool is_first = std::all_of(all.entries.begin(), all.entries.end(),
                                    [](const SourceEntry& entry) { return entry.is_rest; });
  for (const Field& field : all.fields) {
    if (missing(field, one.fields) && fixed_field_bytes(field)) return unfit(field);
  }
  const size_t before = all.fields.size();
  for (const Field& field : one.fields) {
    const auto it = std::find_if(all.fields.begin(), all.fields.end(),
                                 [&](const Field& other) { return other.name == field.name; });
    if (it == all.fields.end() ? !is_first && fixed_field_bytes(field).has_value()
                               : it->kind != field.kind || it->dtype != field.dtype ||
                                     it->shape != field.shape || it->of != field.of)
      return unfit(field);
    if (it == all.fields.end()) all.fields.push_back(field);
  }
  if (all.fields.size() == before) return {};
  DLPIPE_RETURN_IF_ERROR(check_field_count("all inputs together", all.fields.size()));
  for (SourceEntry& entry : all.entries) entry.extra.resize(all.fields.size());
  return {};
}

bool ManySources::is_split_alone(size_t input) const {
  const std::string& split = inputs_.inputs[input].split;
  return !split.empty() && times_split_.at(split) == 1;
}

Status ManySources::add(size_t input, SourceListing one, SourceListing& all) {
  DLPIPE_RETURN_IF_ERROR(take_fields(inputs_.inputs[input].path, one, all));
  const std::vector<std::string> names = field_names(all);
  std::vector<size_t>& place_of = place_of_[input];
  for (const Field& field : one.fields)
    place_of.push_back(
        static_cast<size_t>(std::find(names.begin(), names.end(), field.name) - names.begin()));
  const size_t shift = names_[input].size() + 1;
  const bool is_alone = is_split_alone(input);
  for (SourceEntry& entry : one.entries) {
    entry.path.insert(0, names_[input] + "/");
    if (entry.name_begin > 0 || is_alone) entry.name_begin += shift;
    entry.input = static_cast<uint32_t>(input);
    if (entry.split.empty()) entry.split = inputs_.inputs[input].split;
    std::vector<std::string> extra(all.fields.size());
    for (size_t i = 0; i < entry.extra.size(); ++i) extra[place_of[i]] = std::move(entry.extra[i]);
    entry.extra = std::move(extra);
    all.entries.push_back(std::move(entry));
  }
  take_warnings(input, std::move(one.warnings), all);
  return {};
}

// The first few of a hundred similar shards are enough.
void ManySources::take_warnings(size_t input, std::vector<std::string> warnings, SourceListing& all) {
  const std::string name = path_of(input);
  for (std::string& warning : warnings) {
    std::string rest = warning;
    if (const size_t at = rest.find(name); at != std::string::npos) rest.erase(0, at + name.size());
    if (said_.insert(warning).second && ++times_said_[rest] <= kMostAlike)
      all.warnings.push_back(std::move(warning));
  }
}

void ManySources::add_lost(size_t input, std::string_view problem, SourceListing& all) const {
  SourceEntry lost;
  lost.path = names_[input];
  lost.problem = without_area(problem);
  lost.is_rest = true;
  lost.split = inputs_.inputs[input].split;
  lost.input = static_cast<uint32_t>(input);
  lost.extra.resize(all.fields.size());
  all.entries.push_back(std::move(lost));
}

Status ManySources::check_splits(const SourceListing& all) const {
  const SourceEntry* with = nullptr;
  const SourceEntry* without = nullptr;
  for (const SourceEntry& entry : all.entries) (entry.split.empty() ? without : with) = &entry;
  if (with == nullptr || without == nullptr) return {};
  return misuse("ingest", printable(inputs_.inputs[with->input].path), " has splits, but ",
                printable(inputs_.inputs[without->input].path),
                " does not; ingest them separately, or make one dataset with --no-splits");
}

// Names of classes from a list of numbers (Caffe's, IDX) are numbers; another input may use words for the same classes.
void ManySources::warn_of_numbers_and_names(std::span<const SourceListing> listings,
                                            SourceListing& all) const {
  const auto are_numbers = [](const SourceListing& listing) {
    int64_t number = 0;
    return std::all_of(listing.classes.begin(), listing.classes.end(),
                       [&](const std::string& name) { return parse_int(name, &number); });
  };
  const SourceListing* numbers = nullptr;
  const SourceListing* names = nullptr;
  for (const SourceListing& listing : listings) {
    if (!listing.classes.empty()) (are_numbers(listing) ? numbers : names) = &listing;
  }
  if (numbers == nullptr || names == nullptr) return;
  const auto text = [&](const SourceListing* listing) {
    return concat(path_of(static_cast<size_t>(listing - listings.data())), " calls its classes ",
                  quoted_names(listing->classes, 2));
  };
  all.warnings.push_back(concat("[ingest] ", text(numbers), ", and ", text(names),
                                ": they become different classes; if they are the same, use the same "
                                "names in all inputs"));
}

void ManySources::say_class_order(std::span<const SourceListing> listings, SourceListing& all) const {
  size_t same = 0;
  const SourceListing* first = nullptr;
  for (const SourceListing& listing : listings) {
    if (!listing.has_class_order || listing.classes.empty()) continue;
    if (first == nullptr) first = &listing;
    same += listing.classes == all.classes ? 1 : 0;
  }
  if (first == nullptr || listings.size() < 2) return;
  const std::string count = counted(static_cast<int64_t>(all.classes.size()), "class", "classes");
  if (same == listings.size()) {
    all.warnings.push_back(
        concat("[ingest] all ", same, " inputs list the ", count, " in the same order, which is kept"));
    return;
  }
  const std::vector<std::string> added(
      all.classes.begin() + static_cast<std::ptrdiff_t>(first->classes.size()), all.classes.end());
  all.warnings.push_back(concat("[ingest] the order of the ", count, " is that of ",
                                path_of(static_cast<size_t>(first - listings.data())),
                                added.empty() ? std::string() : concat(", followed by ", quoted_names(added)),
                                "; labels of the other inputs are matched by the names of their classes"));
}

Status ManySources::number_classes(std::vector<SourceListing>& listings, SourceListing& all) const {
  std::vector<const SourceListing*> each;
  std::vector<std::string> unknown;  // inputs whose masks hold numbers without names
  size_t with_masks = 0;
  for (size_t i = 0; i < listings.size(); ++i) {
    const SourceListing& listing = listings[i];
    each.push_back(&listing);
    const bool has_mask = std::any_of(listing.fields.begin(), listing.fields.end(),
                                      [](const Field& field) { return field.kind == FieldKind::kMask; });
    with_masks += has_mask ? 1 : 0;
    if (has_mask && listing.mask_numbers == MaskNumbers::kOwn) unknown.push_back(inputs_.inputs[i].path);
  }
  all.classes = merged_classes(each);
  say_class_order(listings, all);
  warn_of_numbers_and_names(listings, all);
  if (with_masks > 1 && !unknown.empty())
    all.warnings.push_back(concat(
        "[ingest] masks are stored unchanged, and the class numbers in those of ", quoted_names(unknown, 3),
        " have no names: make sure that they mean the same in all ", with_masks, " inputs with masks"));
  const ClassNumbers numbers(all.classes);
  for (size_t i = 0; i < listings.size(); ++i)
    DLPIPE_RETURN_IF_ERROR(numbers.give_to(path_of(i),
                                           "inputs with masks must have the same classes in the same "
                                           "order; ingest this one separately, or give it first "
                                           "if the others have no masks",
                                           listings[i]));
  return {};
}

/// Columns of 0 and 1 are the field 'labels' if a line of the list has several classes or none, otherwise the class. If one
/// list needs the field, all lists of the same columns get it.
static void unite_one_hot(std::vector<SourceListing>& listings, std::vector<std::string>& warnings) {
  const auto is_one_hot = [](const SourceListing& one) {
    return one.has_class_order && one.mask_numbers == MaskNumbers::kOwn && !one.entries.empty();
  };
  const auto several = std::ranges::find_if(listings, [&](const SourceListing& one) {
    return is_one_hot(one) && one.fields.size() == 1 && one.fields[0].name == "labels";
  });
  if (several == listings.end()) return;
  size_t changed = 0;
  for (SourceListing& one : listings) {
    if (!is_one_hot(one) || !one.fields.empty() || one.classes != several->classes) continue;
    one.fields = several->fields;
    for (SourceEntry& entry : one.entries) {
      entry.extra = {entry.label < 0 ? std::string() : encode_labels({&entry.label, 1})};
      entry.label = -1;
    }
    ++changed;
  }
  if (changed > 0)
    warnings.push_back(
        "[ingest] the classes of all these lists become the field 'labels', because a line has not one "
        "class");
}

Result<SourceListing> ManySources::list() {
  *budget_ = ReadBudget::kBase;
  place_of_.assign(sources_.size(), {});
  times_said_.clear();
  said_.clear();
  std::vector<SourceListing> listings(sources_.size());
  std::vector<Status> failures(sources_.size());
  for (size_t i = 0; i < sources_.size(); ++i) {
    auto one = sources_[i]->list();
    if (!one.ok() && one.status().code() != ErrorCode::kCorrupt) return one.status();
    failures[i] = one.status();
    if (one.ok()) listings[i] = std::move(*one);
    if (listings[i].tokens > 0)
      return misuse("ingest", path_of(i), " is one text among ", sources_.size(),
                    " inputs; join texts into one file");
  }
  SourceListing all;
  all.warnings = inputs_.notes;
  unite_one_hot(listings, all.warnings);
  DLPIPE_RETURN_IF_ERROR(number_classes(listings, all));
  if (std::all_of(listings.begin(), listings.end(),
                  [](const SourceListing& listing) { return listing.mask_numbers == MaskNumbers::kDrawn; }))
    all.mask_numbers = MaskNumbers::kDrawn;
  const auto failure =
      std::find_if(failures.begin(), failures.end(), [](const Status& status) { return !status.ok(); });
  if (all.classes.empty() && failure != failures.end()) return *failure;
  for (size_t i = 0; i < listings.size(); ++i) {
    if (!failures[i].ok())
      add_lost(i, failures[i].message(), all);
    else
      DLPIPE_RETURN_IF_ERROR(add(i, std::move(listings[i]), all));
  }
  DLPIPE_RETURN_IF_ERROR(check_splits(all));
  for (const auto& [what, times] : times_said_) {
    if (times > kMostAlike)
      all.warnings.push_back(concat("[ingest] and ", times - kMostAlike, " more inputs: ... ", trim(what)));
  }
  if (sources_.size() > 1 && has_labels(all)) warn_of_classes(all);
  return all;
}

/// Opens each input with `options`. list() fails for an input that cannot be listed, except for a corrupt one among others, which
/// becomes an entry that cannot be read.
Result<std::unique_ptr<Source>> open_many(SourceInputs inputs, const SourceOptions& options) {
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<const SourceRecord*> records;
  const auto budget = std::make_shared<uint64_t>(ReadBudget::kBase);
  for (const SourceInput& input : inputs.inputs) {
    SourceOptions one = options;
    one.path = input.path;
    one.address = input.address;
    one.alone = inputs.inputs.size() == 1;
    one.shared_budget = budget;
    DLPIPE_ASSIGN_OR_RETURN(const SourceRecord* const record, find_source(one));
    DLPIPE_ASSIGN_OR_RETURN(auto source, record->open(one));
    records.push_back(record);
    sources.push_back(std::move(source));
  }
  SourceOptions all = options;
  all.path = inputs.inputs.size() == 1 ? inputs.inputs.front().path
                                       : concat("any of the ", inputs.inputs.size(), " inputs");
  DLPIPE_RETURN_IF_ERROR(check_taken(all, records));
  return std::unique_ptr<Source>(
      std::make_unique<ManySources>(std::move(inputs), std::move(sources), budget));
}

}  // namespace

Result<std::vector<std::string>> expand_braces(const std::string& text) {
  std::vector<std::string> done = {""};
  size_t at = 0;
  while (at < text.size()) {
    const size_t open = text.find('{', at);
    const size_t close = open == std::string::npos ? open : text.find('}', open);
    const auto choices = close == std::string::npos
                             ? std::nullopt
                             : alternatives(std::string_view(text).substr(open + 1, close - open - 1));
    const size_t end = close == std::string::npos ? text.size() : close + 1;
    const std::string before = text.substr(at, (choices ? open : end) - at);
    const std::vector<std::string> pieces = choices ? *choices : std::vector<std::string>{""};
    if (done.size() * pieces.size() > kMostInputs)
      return misuse("ingest", printable(text), " expands to more than ", human_count(kMostInputs),
                    " files; name fewer, or their folder");
    std::vector<std::string> next;
    for (const std::string& head : done) {
      for (const std::string& piece : pieces) next.push_back(concat(head, before, piece));
    }
    done = std::move(next);
    at = end;
  }
  return done;
}

Result<SourceInputs> expand_inputs(std::span<const std::string> given, const std::string& list, bool splits) {
  std::vector<std::string> all_given(given.begin(), given.end());
  if (!list.empty()) {
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> lines, lines_of(list));
    all_given.insert(all_given.end(), lines.begin(), lines.end());
  }
  SourceInputs all;
  for (const std::string& one : all_given) {
    DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> paths, expand_one(one));
    for (const std::string& path : paths) {
      if (is_address(path)) {
        all.inputs.push_back({shown_address(path), "", path});
        continue;
      }
      if (path != "-" && is_folder(path)) {
        DLPIPE_ASSIGN_OR_RETURN(const bool has_archives, add_archives(path, splits, all));
        if (has_archives) continue;
      }
      all.inputs.push_back({path});
    }
  }
  DLPIPE_RETURN_IF_ERROR(check_each_once(all.inputs));
  const bool has_splits = std::any_of(all.inputs.begin(), all.inputs.end(),
                                      [](const SourceInput& input) { return !input.split.empty(); });
  if (splits && !has_splits) split_by_names(all);
  return all;
}

Result<std::unique_ptr<Source>> open_sources(std::span<const std::string> given, const std::string& list,
                                             const SourceOptions& options) {
  if (!options.manifest.empty() && (given.size() != 1 || !list.empty()))
    return misuse("ingest", "--manifest needs exactly one SRC, the folder that its paths are relative to");
  if (!options.manifest.empty()) {
    SourceOptions one = options;
    one.path = given.front();
    return open_source(one);
  }
  DLPIPE_ASSIGN_OR_RETURN(SourceInputs all, expand_inputs(given, list, options.splits));
  if (all.inputs.size() == 1 && all.inputs.front().split.empty() && all.notes.empty()) {
    SourceOptions one = options;
    one.path = all.inputs.front().path;
    one.address = all.inputs.front().address;
    return open_source(one);
  }
  return open_many(std::move(all), options);
}

}  // namespace dlpipe::data
