// Reading a dataset: a directory with one immutable LMDB environment (FORMAT.md gives every byte).
//
// A Dataset is opened once and shared; it owns the map and must outlive every Reader and every span read
// through one. Dataset's const functions may be called from any thread. A Reader holds one read-only
// transaction and belongs to one thread at a time. Reading a record copies nothing: spans point into the map.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/dtype.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/shape.h"

namespace dlpipe::data {

/// How an image's bytes stand in the record. Values stand in files.
enum class ImageLayout : uint8_t { kNone = 0, kJpeg = 1, kPng = 2, kRaw = 3 };
std::string_view image_layout_name(ImageLayout layout);

/// What a field holds. Values stand in files.
enum class FieldKind : uint8_t {
  kImage = 0,
  kTensor = 1,
  kTokens = 2,
  kAudio = 3,
  kBytes = 4,
  kLabel = 5,
  kLabels = 6
};

struct Field {
  std::string name;
  FieldKind kind = FieldKind::kBytes;
  DType dtype = DType::kU8;
  Shape shape;  // fixed shape where the kind has one
};

/// One row of the dense header table: all that a plan needs, without touching the record's page.
struct RecordHeader {
  int32_t width = 0;   // oriented, in pixels
  int32_t height = 0;  // oriented, in pixels
  uint8_t channels = 0;
  Orientation orientation = 1;
  ImageLayout layout = ImageLayout::kNone;
  uint32_t size_bytes = 0;  // of the record's stored bytes
  int64_t label = -1;
  uint64_t checksum = 0;  // xxHash3-64 of the record's stored bytes
};

/// Statistics of all pixels at ingest, per channel, of values scaled to [0, 1].
struct PixelStats {
  int channels = 0;
  std::array<double, 4> mean{};
  std::array<double, 4> std{};
};

class Dataset {
 public:
  /// Opens DIR, or DIR/train when DIR is a split and `split` names it. Checks version, file size against
  /// LMDB's last page, schema and counts; messages name DIR.
  static Result<std::shared_ptr<const Dataset>> open(const std::string& directory);
  ~Dataset();

  const std::string& directory() const;
  int64_t size() const;
  std::span<const Field> fields() const;
  std::span<const std::string> classes() const;
  const PixelStats& pixel_stats() const;
  /// Hash over the records and the schema, hex; equal datasets have equal ids wherever they lie.
  const std::string& id() const;
  /// Bytes of the data file.
  uint64_t file_bytes() const;
  /// All rows, [size()], valid as long as the Dataset (they lie in the map or in memory of the Dataset's).
  Result<RecordHeader> header(int64_t sample) const;

  class Reader {
   public:
    virtual ~Reader() = default;
    /// The stored bytes of one record (after zstd, if the dataset uses it, valid until the next call). No
    /// checksum is computed: see record_checksum.
    virtual Result<std::span<const std::byte>> record(int64_t sample) = 0;
    /// Bytes in the map that hold the record as stored (for madvise); does not touch them.
    virtual Result<std::span<const std::byte>> stored(int64_t sample) = 0;
  };
  Result<std::unique_ptr<Reader>> reader() const;

  struct Impl;
  explicit Dataset(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

/// The image field's bytes inside a record's bytes, and the label(s). Fields are found by the schema's
/// offsets.
struct RecordView {
  std::span<const std::byte> image;  // empty when there is none
  int64_t label = -1;
  std::vector<std::span<const std::byte>> fields;  // in schema order
};
Result<RecordView> parse_record(const Dataset& dataset, std::span<const std::byte> record);

/// xxHash3-64 of `bytes`, the checksum of records and, chained through `seed`, of larger things.
uint64_t checksum64(std::span<const std::byte> bytes, uint64_t seed = 0);

}  // namespace dlpipe::data
