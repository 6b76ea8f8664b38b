// Records by name: built-in ones, from a table that CMake generates, and those that a program adds. Used for augmentations,
// models, optimizers, losses, metrics, ops and sources.
//
//   auto models = engine::ModelRegistry::builtin();  // a copy
//   models.add(kMine);
//   const engine::ModelRecord* record = value_or_throw(models.find("mine"));  // an unknown name: the error suggests the nearest
//
// Ownership: a Registry is a value that refers to records, which must outlive it. Threads: reading takes no lock; don't add
// while other threads read. Cost: a look-up is a linear search over the names.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/error.h"

namespace dlpipe {

/// "[model] 'mlp' is registered already; choose another name".
Status name_is_taken(const char* kind, std::string_view name);
/// "[model] no model 'mpl'; did you mean 'mlp'?".
Status name_is_unknown(const char* kind, std::string_view name, std::span<const std::string> known);

/// A list of records. To use your own records, copy builtin(), add to the copy and pass it on.
///
/// A Record has `name` or name(), `static constexpr const char* kKind`, which is its kind in error messages, and, for
/// builtin(), `static std::span<const Record> built_in()` or the same with pointers.
template <class Record>
class Registry {
 public:
  /// The records that this program was built with.
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

  /// Throws Error (kMisuse) if there already is a record with this name.
  void add(const Record& record) {
    if (get(name_of(record)) != nullptr) throw Error(name_is_taken(Record::kKind, name_of(record)));
    records_.push_back(&record);
  }

  /// Null if there is none.
  const Record* get(std::string_view name) const {
    const auto found =
        std::ranges::find_if(records_, [&](const Record* record) { return name_of(*record) == name; });
    return found == records_.end() ? nullptr : *found;
  }

  /// kMisuse with the nearest name if there is none.
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
