// A dataset's description of itself (FORMAT.md): the description, JSON under the key "dataset", with fields, classes, counts,
// statistics, and how records are stored in LMDB; the header table, one row per sample; and the id, a hash of both. Value
// types, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"

namespace dlpipe::data {

/// The newest version. Version 1 can also be read; its id covers neither class counts nor pixel statistics.
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
/// Bytes of a field of fixed size (a label, a tensor of fixed shape); nullopt for others.
std::optional<size_t> fixed_field_bytes(const Field& field);
/// Bytes of one row of a field with any number of rows (labels, boxes, points, or a tensor without a shape); nullopt for
/// others.
std::optional<size_t> field_row_bytes(const Field& field);
/// kCorrupt if a field's type or shape does not match its kind, or it is `of` a field that is not boxes. The message has no
/// area.
Status check_forms(std::span<const Field> fields);
/// Checks one record's values: rows are whole, and as many as boxes if the field is `of` boxes; numbers are finite; boxes do
/// not end before they begin. Labels must be 0 or more and below `classes`; -1: the number of classes is unknown.
Status check_values(std::span<const Field> fields, std::span<const std::span<const std::byte>> values,
                    int64_t classes);

struct Schema {
  std::vector<Field> fields;
  std::vector<std::string> classes;  // index = label
  int64_t records_per_value = 1;     // K: records packed into one LMDB value
  bool zstd = false;                 // each record is one zstd frame
  /// Images are in files, and records have links to them (linked_records.h): the folder that links are relative to. nullopt:
  /// images are in records.
  std::optional<std::string> links = {};
  /// For links: header rows have checksums of the beginning of images; those of whole records are computed when they are first
  /// read (LateChecksums, linked_records.h).
  bool late_checksums = false;
  /// Whether the bytes of a record are stored unchanged.
  bool is_plain() const { return !zstd && !links; }
};

/// The lowest version that can express the schema, which is the one written: 6 for late checksums, 5 for linked images, 4 for a
/// field that is `of` another, a mask, or points in rows of several, 3 for fields of boxes or points or an image that is WebP,
/// BMP or PNM, else 2.
int version_for(const Schema& schema, ImageLayout newest);

/// The number of skipped files and a hash of each place and value, in order.
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
  std::optional<SkippedSum> skipped = {};  // absent in datasets from before 2026-11-29
  bool is_whole = true;  // parse_dataset_info() read what was written, as far as that can be checked
};

std::string to_json(const DatasetInfo& info);
/// Checks every value; kUnsupported for another version.
Result<DatasetInfo> parse_dataset_info(std::string_view json);
/// The part of the description that the id covers.
std::string identity_json(const DatasetInfo& info);

// The dense header table: 32 bytes per sample, kRowsPerChunk rows to an LMDB value.

inline constexpr size_t kRowBytes = 32;
// 511 rows and LMDB's 16-byte page header fill four 4 KB pages except for 16 bytes.
inline constexpr int64_t kRowsPerChunk = 511;

inline void store_row(std::byte* to, const RecordHeader& header) {
  store_le(to, static_cast<uint32_t>(header.width));
  store_le(to + 4, static_cast<uint32_t>(header.height));
  store_le(to + 8, header.size_bytes);
  store_le(to + 12, header.channels);
  store_le(to + 13, header.orientation);
  store_le(to + 14, static_cast<uint8_t>(header.layout));
  store_le(to + 15, uint8_t{0});
  store_le(to + 16, header.label);
  store_le(to + 24, header.checksum);
}

inline RecordHeader load_row(std::span<const std::byte> row) {
  RecordHeader header;
  header.width = load_le<int32_t>(row, 0);
  header.height = load_le<int32_t>(row, 4);
  header.size_bytes = load_le<uint32_t>(row, 8);
  header.channels = load_le<uint8_t>(row, 12);
  header.orientation = load_le<uint8_t>(row, 13);
  header.layout = static_cast<ImageLayout>(load_le<uint8_t>(row, 14));
  header.label = load_le<int64_t>(row, 16);
  header.checksum = load_le<uint64_t>(row, 24);
  return header;
}

/// The dataset id: a hash of all that a dataset says about its records (FORMAT.md, "Id"). Reads all header rows in order, in
/// pieces of any size, then returns the id. Throws std::bad_alloc.
class DatasetIdHash {
 public:
  DatasetIdHash();
  ~DatasetIdHash();
  void add_rows(std::span<const std::byte> rows);
  /// Uses the format version of `info`; ignores info.id.
  std::string id(const DatasetInfo& info);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlpipe::data
