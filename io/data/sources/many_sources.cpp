#include "dlpipe/io/data/sources/many_sources.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/schema.h"
#include "dlpipe/io/data/sources/typed_columns.h"

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

class ManySources final : public Source {
 public:
  ManySources(SourceInputs inputs, std::vector<std::unique_ptr<Source>> sources)
      : inputs_(std::move(inputs)), names_(names_of(inputs_.inputs)), sources_(std::move(sources)) {}

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

  Status add(size_t input, SourceListing one, SourceListing& all);
  static Status take_fields(const std::string& path, const SourceListing& one, SourceListing& all);
  Status check_splits(const SourceListing& all) const;

  SourceInputs inputs_;
  std::vector<std::string> names_;
  std::vector<std::unique_ptr<Source>> sources_;
  std::vector<std::string> classes_;           // of all inputs, some many times
  std::vector<std::string> class_of_entry_;    // "": none
  std::vector<size_t> first_class_;            // of each input, in classes_
  std::vector<std::vector<size_t>> place_of_;  // of each input's fields among those of all
};

Status ManySources::take_fields(const std::string& path, const SourceListing& one, SourceListing& all) {
  const auto missing = [&](const Field& field, const std::vector<Field>& in) {
    return std::none_of(in.begin(), in.end(), [&](const Field& other) { return other.name == field.name; });
  };
  const auto unfit = [&](const Field& field) {
    return misuse("ingest", "the field '", printable(field.name), "' of ", printable(path),
                  " is missing in an input before it, or of another kind there; give all "
                  "inputs the same --field columns");
  };
  const bool is_first = all.entries.empty();
  for (const Field& field : all.fields) {
    if (missing(field, one.fields) && fixed_field_bytes(field)) return unfit(field);
  }
  for (const Field& field : one.fields) {
    const auto it = std::find_if(all.fields.begin(), all.fields.end(),
                                 [&](const Field& other) { return other.name == field.name; });
    if (it == all.fields.end() ? !is_first && fixed_field_bytes(field).has_value()
                               : it->kind != field.kind || it->shape != field.shape || it->of != field.of)
      return unfit(field);
    if (it == all.fields.end()) all.fields.push_back(field);
  }
  for (SourceEntry& entry : all.entries) entry.extra.resize(all.fields.size());
  return {};
}

Status ManySources::add(size_t input, SourceListing one, SourceListing& all) {
  const std::string& path = inputs_.inputs[input].path;
  if (one.tokens > 0)
    return misuse("ingest", printable(path), " is a text among ", sources_.size(),
                  " inputs; put texts together into one file");
  DLPIPE_RETURN_IF_ERROR(take_fields(path, one, all));
  const std::vector<std::string> names = field_names(all);
  std::vector<size_t>& place_of = place_of_[input];
  for (const Field& field : one.fields)
    place_of.push_back(
        static_cast<size_t>(std::find(names.begin(), names.end(), field.name) - names.begin()));
  for (SourceEntry& entry : one.entries) {
    const size_t shift = names_[input].size() + 1;
    entry.path.insert(0, names_[input] + "/");
    if (entry.name_begin > 0) entry.name_begin += shift;
    entry.input = static_cast<uint32_t>(input);
    if (entry.split.empty()) entry.split = inputs_.inputs[input].split;
    std::vector<std::string> extra(all.fields.size());
    for (size_t i = 0; i < entry.extra.size(); ++i) extra[place_of[i]] = std::move(entry.extra[i]);
    entry.extra = std::move(extra);
    class_of_entry_.push_back(entry.label < 0 ? "" : one.classes[static_cast<size_t>(entry.label)]);
    all.entries.push_back(std::move(entry));
  }
  const bool is_first = input == 0;
  all.has_class_order =
      one.has_class_order && (is_first || (all.has_class_order && all.classes == one.classes));
  if (is_first) all.classes = one.classes;
  first_class_[input] = classes_.size();
  classes_.insert(classes_.end(), one.classes.begin(), one.classes.end());
  for (std::string& warning : one.warnings) {
    if (std::find(all.warnings.begin(), all.warnings.end(), warning) == all.warnings.end())
      all.warnings.push_back(std::move(warning));
  }
  return {};
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

Result<SourceListing> ManySources::list() {
  classes_.clear();
  first_class_.assign(sources_.size(), 0);
  place_of_.assign(sources_.size(), {});
  class_of_entry_.clear();
  SourceListing all;
  all.warnings = inputs_.notes;
  Status first_failure;
  for (size_t i = 0; i < sources_.size(); ++i) {
    auto one = sources_[i]->list();
    if (!one.ok() && one.status().code() != ErrorCode::kCorrupt) return one.status();
    if (!one.ok()) {
      if (first_failure.ok()) first_failure = one.status();
      SourceEntry lost;
      lost.path = names_[i];
      lost.problem = without_area(one.status().message());
      lost.is_rest = true;
      lost.split = inputs_.inputs[i].split;
      lost.input = static_cast<uint32_t>(i);
      lost.extra.resize(all.fields.size());
      all.entries.push_back(std::move(lost));
      class_of_entry_.emplace_back();
      continue;
    }
    DLPIPE_RETURN_IF_ERROR(add(i, std::move(*one), all));
  }
  if (classes_.empty() && !first_failure.ok()) return first_failure;
  if (!all.has_class_order) all.classes = sorted_class_names(classes_);
  std::unordered_map<std::string_view, int64_t> label_of;
  for (size_t i = 0; i < all.classes.size(); ++i) label_of[all.classes[i]] = static_cast<int64_t>(i);
  for (size_t i = 0; i < all.entries.size(); ++i) {
    SourceEntry& entry = all.entries[i];
    entry.label = class_of_entry_[i].empty() ? -1 : label_of.at(class_of_entry_[i]);
    renumber_labels(all.fields, entry, [&](int64_t label) {
      return label_of.at(classes_[first_class_[entry.input] + static_cast<size_t>(label)]);
    });
  }
  DLPIPE_RETURN_IF_ERROR(check_splits(all));
  if (sources_.size() > 1) warn_of_classes(all);
  return all;
}

}  // namespace

Result<std::unique_ptr<Source>> open_many(SourceInputs inputs, const SourceOptions& options) {
  std::vector<std::unique_ptr<Source>> sources;
  std::vector<const SourceRecord*> records;
  for (const SourceInput& input : inputs.inputs) {
    SourceOptions one = options;
    one.path = input.path;
    one.address = input.address;
    one.alone = inputs.inputs.size() == 1;
    DLPIPE_ASSIGN_OR_RETURN(const SourceRecord* const record, find_source(one));
    DLPIPE_ASSIGN_OR_RETURN(auto source, record->open(one));
    records.push_back(record);
    sources.push_back(std::move(source));
  }
  SourceOptions all = options;
  all.path = inputs.inputs.size() == 1 ? inputs.inputs.front().path
                                       : concat("any of the ", inputs.inputs.size(), " inputs");
  DLPIPE_RETURN_IF_ERROR(check_taken(all, records));
  return std::unique_ptr<Source>(std::make_unique<ManySources>(std::move(inputs), std::move(sources)));
}

}  // namespace dlpipe::data
