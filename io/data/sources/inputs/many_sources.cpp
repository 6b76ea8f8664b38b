#include "dlpipe/io/data/sources/inputs/many_sources.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <span>
#include <unordered_set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/io/data/sources/class_numbers.h"
#include "dlpipe/io/data/sources/read_budget.h"

namespace dlpipe::data {

namespace {

namespace fs = std::filesystem;

/// What tells the inputs apart in samples' paths: each path below the folder that all share.
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

/// Whether any picture has a class of its own. A list of boxes or masks alone is not judged, in one input neither.
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
  /// As its own source listed it.
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
  /// An entry that can't be read, for a damaged input among others.
  void add_lost(size_t input, std::string_view problem, SourceListing& all) const;
  static Status take_fields(const std::string& path, const SourceListing& one, SourceListing& all);
  Status check_splits(const SourceListing& all) const;
  std::string path_of(size_t input) const { return printable(inputs_.inputs[input].path); }
  /// Whether names of samples needn't say the input: no other makes its split.
  bool is_split_alone(size_t input) const;

  SourceInputs inputs_;
  std::vector<std::string> names_;
  std::map<std::string, int64_t> times_split_;  // of how many inputs
  std::vector<std::unique_ptr<Source>> sources_;
  std::shared_ptr<uint64_t> budget_;           // of all of them
  std::vector<std::vector<size_t>> place_of_;  // of each input's fields among those of all
  static constexpr int64_t kMostAlike = 3;
  std::unordered_set<std::string> said_;       // warnings
  std::map<std::string, int64_t> times_said_;  // of each warning, what stands behind the input's name
};

Status ManySources::take_fields(const std::string& path, const SourceListing& one, SourceListing& all) {
  const auto missing = [&](const Field& field, const std::vector<Field>& in) {
    return std::none_of(in.begin(), in.end(), [&](const Field& other) { return other.name == field.name; });
  };
  const auto unfit = [&](const Field& field) {
    return misuse("ingest", "the field '", printable(field.name), "' of ", printable(path),
                  " is missing in an input before it, or of another kind or type there; give all "
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
  DLPIPE_RETURN_IF_ERROR(check_field_count("what all inputs have", all.fields.size()));
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

// Of a hundred shards that are alike the first few are enough.
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
  return misuse("ingest", printable(inputs_.inputs[with->input].path), " makes splits and ",
                printable(inputs_.inputs[without->input].path),
                " does not; ingest them apart, or --no-splits makes one dataset of all");
}

// Names of classes from a list of numbers (Caffe's, IDX) are numbers; another input may call the same classes by words.
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
                                ": they become different classes; where they are the same, call them by one "
                                "name in all inputs"));
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
  const std::string count = concat(all.classes.size(), all.classes.size() == 1 ? " class" : " classes");
  if (same == listings.size()) {
    all.warnings.push_back(
        concat("[ingest] all ", same, " inputs give the ", count, " in one order, which they keep"));
    return;
  }
  const std::vector<std::string> added(
      all.classes.begin() + static_cast<std::ptrdiff_t>(first->classes.size()), all.classes.end());
  all.warnings.push_back(concat("[ingest] the order of the ", count, " is that of ",
                                path_of(static_cast<size_t>(first - listings.data())),
                                added.empty() ? std::string() : concat(", behind them ", quoted_names(added)),
                                "; labels of the other inputs follow by the names of their classes"));
}

Status ManySources::number_classes(std::vector<SourceListing>& listings, SourceListing& all) const {
  std::vector<const SourceListing*> each;
  std::vector<std::string> unknown;  // inputs whose masks hold numbers that nobody names
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
    all.warnings.push_back(
        concat("[ingest] masks are taken as they are, and the numbers in those of ", quoted_names(unknown, 3),
               " have no names: see that they mean the same in all ", with_masks, " inputs with masks"));
  const ClassNumbers numbers(all.classes);
  for (size_t i = 0; i < listings.size(); ++i)
    DLPIPE_RETURN_IF_ERROR(numbers.give_to(path_of(i),
                                           "inputs with masks must have the same classes in the same "
                                           "order; ingest this one apart, or give it first "
                                           "where the others have no masks",
                                           listings[i]));
  return {};
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
      return misuse("ingest", path_of(i), " is a text among ", sources_.size(),
                    " inputs; put texts together into one file");
  }
  SourceListing all;
  all.warnings = inputs_.notes;
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
      all.warnings.push_back(
          concat("[ingest] so it is with ", times - kMostAlike, " more inputs: ... ", trim(what)));
  }
  if (sources_.size() > 1 && has_labels(all)) warn_of_classes(all);
  return all;
}

}  // namespace

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

}  // namespace dlpipe::data
