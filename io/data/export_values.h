// The values in the list that `dlpipe export` writes: each as JSON, and what of it ingest can't read back as it was.
// Pure functions and a tally. Internal to io/data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

/// Whether the list has the field; files and names of samples hold the others.
bool is_listed(const Field& field);
/// A field's value as a list of JSON lines has it (sources/lists/manifest.cpp reads it back).
nlohmann::ordered_json value_json(const Field& field, std::span<const std::byte> bytes,
                                  std::span<const std::string> classes);
/// The field as --field names it: what `value_json` writes of it is read back with that.
std::string column_of(const Field& field);

/// Counts the samples whose values come back changed: lists hold one row of numbers, of boxes f32, and texts that
/// are UTF-8.
class ListLosses {
 public:
  explicit ListLosses(std::span<const Field> fields) : fields_(fields), counts_(fields.size()) {}
  void see(size_t field, std::span<const std::byte> bytes);
  /// "'id' as f32, not i64, rounded in 2 samples" of each field that doesn't come back as it is.
  std::vector<std::string> texts() const;

 private:
  struct Counts {
    int64_t rounded = 0;
    int64_t no_number = 0;
    int64_t no_utf8 = 0;
  };
  std::span<const Field> fields_;
  std::vector<Counts> counts_;
};

}  // namespace dlpipe::data
