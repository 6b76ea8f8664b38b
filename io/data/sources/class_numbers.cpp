#include "dlpipe/io/data/sources/class_numbers.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/sources/typed_columns.h"

namespace dlpipe::data {

namespace {

/// Whether masks hold numbers of classes that stay as they are when these are numbered anew.
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
    return misuse("ingest", name, " has masks, whose pixels hold the numbers of its classes, and its class ",
                  in_quotes(listing.classes[i]), " would become number ", numbers[i], " in place of ", i,
                  "; ", instead);
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

}  // namespace dlpipe::data
