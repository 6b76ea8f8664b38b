// Records by name: those that are built in, from a table that CMake generates, and those that a program adds.
// A value: copy builtin(), add to the copy and hand it on. It refers to records, which outlive it. Reading it
// is free of locks; nobody adds while others read.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe {

/// "[model] 'mlp' is registered already; choose another name".
Status name_is_taken(const char* kind, std::string_view name);
/// "[model] no model 'mpl'; did you mean 'mlp'?".
Status name_is_unknown(const char* kind, std::string_view name, std::span<const std::string> known);

/// A Record has `name` or name(), `static constexpr const char* kKind`, what errors call it, and, for builtin(),
/// `static std::span<const Record> built_in()` or the same of pointers.
template <class Record>
class Registry {
 public:
  /// What this program was built with.
  static const Registry& builtin() {
    static const Registry registry(Record::built_in());
    return registry;
  }

  Registry() = default;
  explicit Registry(std::span<const Record> records) {
    for (const Record& record : records) add(record);
  }
  explicit Registry(std::span<const Record* const> records) {
    for (const Record* record : records) add(*record);
  }

  /// Error (kMisuse) where there is one of this name.
  void add(const Record& record) {
    if (get(name_of(record)) != nullptr) throw Error(name_is_taken(Record::kKind, name_of(record)));
    records_.push_back(&record);
  }

  /// Null where there is none.
  const Record* get(std::string_view name) const {
    const auto found =
        std::ranges::find_if(records_, [&](const Record* record) { return name_of(*record) == name; });
    return found == records_.end() ? nullptr : *found;
  }

  /// kMisuse with the nearest name where there is none.
  Result<const Record*> find(std::string_view name) const {
    if (const Record* const record = get(name); record != nullptr) return record;
    return name_is_unknown(Record::kKind, name, names());
  }

  std::span<const Record* const> records() const { return records_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Record* record : records_) names.emplace_back(name_of(*record));
    return names;
  }

 private:
  static std::string_view name_of(const Record& record) {
    if constexpr (requires { record.name(); }) {
      return record.name();
    } else {
      return record.name;
    }
  }

  std::vector<const Record*> records_;
};

}  // namespace dlpipe
