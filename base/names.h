// What a name that the user gives means, of an option's few values. Errors suggest the nearest name. (Names of records:
// dlpipe/registry.h.)
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

/// In the table's order.
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

/// The value's name; every value that a program can have is in the table.
template <class Value, size_t N>
const char* name_of(const Named<Value> (&table)[N], Value value) {
  return std::find_if(table, table + N - 1, [&](const Named<Value>& one) { return one.value == value; })
      ->name;
}

/// The parts "cat=2" and "dog=0.5" of "cat=2,dog=0.5", whose names may contain commas. A part without "=" is wrong.
std::vector<std::string> assignments_in(std::string_view text);

/// "cat=2,dog=0.5" as the weight of each of `classes`, 1 for those that aren't named. kMisuse of `option` lists the `words` that the
/// option takes as well; `owner` has the classes.
Result<std::vector<double>> class_weights_in(std::string_view area, std::string_view option,
                                             std::string_view text, std::string_view words,
                                             std::span<const std::string> classes, std::string_view owner);

}  // namespace dlpipe
