// Names that the user gives for an option with a few values. Errors suggest the nearest name. (Names of
// records: dlpipe/registry.h.)
//
//   constexpr Named<Views> kViewNames[] = {{"none", Views::kOne}, {"flip", Views::kFlip}};
//   auto names = names_of(kViewNames);                            // {"none", "flip"}
//   auto views = value_named(kViewNames, text, "eval", "--tta");  // or "[eval] --tta flipp; did you mean 'flip'?"
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe {

// One table for parsing, errors and --help. Pure functions.

template <class Value>
struct Named {
  const char* name;
  Value value;
};

/// The names, in the table's order.
template <class Value, size_t N>
std::vector<std::string> names_of(const Named<Value> (&table)[N]) {
  std::vector<std::string> names;
  for (const Named<Value>& one : table) names.emplace_back(one.name);
  return names;
}

/// misuse("eval", "--tta ", name, ...) if no value has this name, with the nearest one.
template <class Value, size_t N>
Result<Value> value_named(const Named<Value> (&table)[N], std::string_view name, std::string_view area,
                          std::string_view option) {
  for (const Named<Value>& one : table) {
    if (one.name == name) return one.value;
  }
  return misuse(area, option, " ", name, suggestion(name, names_of(table)));
}

/// The value's name. The table must contain the value.
template <class Value, size_t N>
const char* name_of(const Named<Value> (&table)[N], Value value) {
  return std::find_if(table, table + N - 1, [&](const Named<Value>& one) { return one.value == value; })
      ->name;
}

/// The parts "cat=2" and "dog=0.5" of "cat=2,dog=0.5"; names may contain commas. A part without "=" is invalid.
std::vector<std::string> assignments_in(std::string_view text);

/// Parses "cat=2,dog=0.5" into a weight for each of `classes`, 1 for those that aren't named. The kMisuse error of `option`
/// also lists `words`, the words that the option accepts instead; `owner` is the file or dataset that has the classes.
Result<std::vector<double>> class_weights_in(std::string_view area, std::string_view option,
                                             std::string_view text, std::string_view words,
                                             std::span<const std::string> classes, std::string_view owner);

}  // namespace dlpipe
