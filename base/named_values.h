// The few values that an option may have, each with its name: one table for parsing, errors and --help.
//
//   constexpr Named<Views> kViewNames[] = {{"none", Views::kOne}, {"flip", Views::kFlip}};
//   auto names = names_of(kViewNames);                            // {"none", "flip"}
//   auto views = value_named(kViewNames, text, "eval", "--tta");  // or "[eval] --tta flipp; did you mean 'flip'?"
//
// Pure functions.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

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

/// misuse("eval", "--tta ", name, ...) where no value has this name, with the nearest one.
template <class Value, size_t N>
Result<Value> value_named(const Named<Value> (&table)[N], std::string_view name, std::string_view area,
                          std::string_view option) {
  for (const Named<Value>& one : table) {
    if (one.name == name) return one.value;
  }
  return misuse(area, option, " ", name, suggestion(name, names_of(table)));
}

/// The value's name; every value that a program can have stands in the table.
template <class Value, size_t N>
const char* name_of(const Named<Value> (&table)[N], Value value) {
  return std::find_if(table, table + N - 1, [&](const Named<Value>& one) { return one.value == value; })
      ->name;
}

}  // namespace dlpipe
