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

/// The newest version. Version 1 is read too: its id covers neither class counts nor pixel statistics.
inline constexpr int kFormatVersion = 6;
inline constexpr size_t kMostFields = 1024;

// Named databases of a dataset's environment and keys of "meta" (FORMAT.md).
inline constexpr const char* kRecordsDb = "records";
inline constexpr const char* kHeadersDb = "headers";
inline constexpr const char* kMetaDb = "meta";
inline constexpr const char* kSkippedDb = "skipped";
inline constexpr std::string_view kDatasetKey = "dataset";
inline constexpr std::string_view kProgressKey = "progress";

std::string_view field_kind_name(FieldKind kind);
Result<FieldKind> parse_field_kind(std::string_view name);
/// Bytes of a field whose size doesn't vary (a label, a tensor of fixed shape); nothing for the others.
std::optional<size_t> fixed_field_bytes(const Field& field);
/// Bytes of one of the rows that a labels, boxes or points field, or a tensor without a shape, has any number of; nothing
/// for the others.
std::optional<size_t> field_row_bytes(const Field& field);
/// kCorrupt where a field has another form than its kind, or is `of` what is no boxes field. Says what, and no area.
Status check_forms(std::span<const Field> fields);
/// What can be known of one record's values: rows are whole, as many as boxes where the field is `of` boxes, numbers are
/// finite, and boxes end where they begin or behind that. Labels below 0 or not below `classes` are refused; -1: nobody knows how many there are.
Status check_values(std::span<const Field> fields, std::span<const std::span<const std::byte>> values,
                    int64_t classes);

struct Schema {
  std::vector<Field> fields;
  std::vector<std::string> classes;  // index = label
  int64_t records_per_value = 1;     // K: records packed into one LMDB value
  bool zstd = false;                 // each record is one zstd frame
  /// Pictures lie in files, and records have links to them (link.h): the folder that links begin at. Nothing: in records.
  std::optional<std::string> links = {};
  /// Of links: header rows have checksums of what pictures begin with; those of whole records are taken when these are
  /// read for the first time (late_checksums.h).
  bool late_checksums = false;
  /// Whether the bytes of a record are stored as they are.
  bool is_plain() const { return !zstd && !links; }
};

/// The lowest version that can say it, which is what is written: 6 where checksums are late, 5 where pictures are linked, 4 where a field is `of` another or a mask or points stand in rows of
/// several, 3 where fields are boxes or points or an image is WebP, BMP or PNM, else 2.
int version_for(const Schema& schema, ImageLayout newest);

/// What is known of the list of skipped files: hash of each place and value, one after another.
struct SkippedSum {
  uint64_t files = 0;
  uint64_t hash = 0;
  void add(std::span<const std::byte> place, std::span<const std::byte> value) {
    ++files;
    hash = checksum64(value, checksum64(place, hash));
  }
  friend bool operator==(const SkippedSum&, const SkippedSum&) = default;
};

struct DatasetInfo {
  int version = 2;
  Schema schema;
  int64_t samples = 0;
  std::vector<int64_t> class_counts;
  PixelStats pixel_stats;
  std::string id;
  std::optional<SkippedSum> skipped = {};  // none in datasets of before 2026-11-29
  bool is_whole = true;  // what parse_dataset_info() read is what was written, where that can be told
};

std::string to_json(const DatasetInfo& info);
/// Checks every value; kUnsupported for another version.
Result<DatasetInfo> parse_dataset_info(std::string_view json);
/// The text of the dataset id (dataset_id.h).
std::string identity_json(const DatasetInfo& info);

}  // namespace dlpipe::data
