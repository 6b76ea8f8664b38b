// What a dataset says about itself: fields, classes, counts, statistics, and how records lie in LMDB. Stands
// as JSON under the key "dataset" (FORMAT.md). Value types, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::data {

inline constexpr int kFormatVersion = 1;
inline constexpr size_t kMostFields = 1024;

std::string_view field_kind_name(FieldKind kind);
Result<FieldKind> parse_field_kind(std::string_view name);
/// Bytes of a field whose size doesn't vary (a label, a tensor of fixed shape); nothing for the others.
std::optional<size_t> fixed_field_bytes(const Field& field);

struct Schema {
  std::vector<Field> fields;
  std::vector<std::string> classes;  // index = label
  int64_t records_per_value = 1;     // K: records packed into one LMDB value
  bool zstd = false;                 // each record is one zstd frame
};

struct DatasetInfo {
  Schema schema;
  int64_t samples = 0;
  std::vector<int64_t> class_counts;
  PixelStats pixel_stats;
  std::string id;
};

std::string to_json(const DatasetInfo& info);
/// Checks every value; kUnsupported for a newer version.
Result<DatasetInfo> parse_dataset_info(std::string_view json);
/// The text whose hash, seeded with the hash of all header rows, is the dataset id.
std::string identity_json(const Schema& schema);

}  // namespace dlpipe::data
