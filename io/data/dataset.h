// Reading a dataset: a directory with one immutable LMDB environment (FORMAT.md gives every byte).
//
// A Dataset is opened once and shared; it owns the map and must outlive every Reader and every span read
// through one. Dataset's const functions may be called from any thread. A Reader keeps scratch and belongs to
// one thread at a time. Any bytes on disk give records or kCorrupt. Reading a record copies nothing: spans
// point into the map.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/dtype.h"
#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/base/shape.h"
#include "dlpipe/io/data/codec/image_layout.h"

namespace dlpipe::data {

/// What a field holds. Values stand in files.
enum class FieldKind : uint8_t {
  kImage = 0,
  kTensor = 1,
  kTokens = 2,
  kAudio = 3,
  kBytes = 4,
  kLabel = 5,
  kLabels = 6,  // any number of class indices, i64
  kBoxes =
      7,  // any number of rows of `shape` [4]: x_min, y_min, x_max, y_max in pixels of the picture as seen, f32
  // any number of rows of `shape` [3] or [k, 3]: x, y in these pixels, and whether it is visible, f32
  kPoints = 8,
  kMask =
      9  // a picture of class indices, as large as its picture as seen (codec/mask.h); no bytes: there is none
};

struct Field {
  std::string name;
  FieldKind kind = FieldKind::kBytes;
  DType dtype = DType::kU8;
  Shape shape;  // fixed shape where the kind has one; of boxes and points, that of one row
  /// The boxes field that this one says something about: it has one row for each box. Empty: none.
  std::string of = {};
};

/// One row of the dense header table: all that a plan needs, without touching the record's page.
struct RecordHeader {
  int32_t width = 0;   // oriented, in pixels
  int32_t height = 0;  // oriented, in pixels
  uint8_t channels = 0;
  Orientation orientation = 1;
  ImageLayout layout = ImageLayout::kNone;
  uint32_t size_bytes = 0;  // of the record, as Reader::record answers it (decompressed)
  int64_t label = -1;
  uint64_t checksum = 0;  // xxHash3-64 of those bytes; where checksums are late, of what they begin with
};

/// Statistics of all pixels at ingest, per channel, of values scaled to [0, 1].
struct PixelStats {
  int channels = 0;
  std::array<double, 4> mean{};
  std::array<double, 4> std{};
};

class CoefficientCache;  // coefficient_cache.h

class Dataset {
 public:
  /// What open() does about header rows, classes, counts or statistics that are not those of the id.
  enum class IdCheck : uint8_t {
    kRefuse,
    kLater  // nothing: check_id() tells
  };
  /// Opens DIR, or DIR/SPLIT when DIR holds splits and `split` names one ("train", "val"). Checks version,
  /// file size against LMDB's last page, schema, counts and id; messages name DIR. Reads the header table
  /// once: 32 bytes per sample.
  static Result<std::shared_ptr<const Dataset>> open(const std::string& directory,
                                                     std::string_view split = {},
                                                     IdCheck check = IdCheck::kRefuse);
  ~Dataset();

  const std::string& directory() const;
  int64_t size() const;
  std::span<const Field> fields() const;
  std::span<const std::string> classes() const;
  /// Samples of each class, as many as classes().
  std::span<const int64_t> class_counts() const;
  const PixelStats& pixel_stats() const;
  /// Records packed into one LMDB value, and whether each is a zstd frame.
  int64_t records_per_value() const;
  bool compressed() const;
  /// The folder of the files that records' pictures lie in (`dlpipe ingest --store link`); nothing where they lie in the
  /// records.
  const std::optional<std::string>& links() const;
  /// Whether header rows have checksums of what pictures begin with, and those of whole records are taken when these are
  /// read for the first time (FORMAT.md, Late checksums).
  bool has_late_checksums() const;
  /// Records whose checksum is known: all, but where checksums are late.
  Result<int64_t> known_checksums() const;
  /// Hash over header rows, schema, class counts and pixel statistics, hex; equal datasets have equal ids
  /// wherever they lie. (Of format version 1: header rows and schema alone.)
  const std::string& id() const;
  /// kCorrupt where the id is another than that of what stands in the file.
  Status check_id() const;
  int format_version() const;
  /// Bytes of the data file.
  uint64_t file_bytes() const;
  /// One row of the header table: two loads from the map, no lock, no B-tree. kMisuse past size().
  Result<RecordHeader> header(int64_t sample) const;
  /// Starts loading the row of a sample that header() will be asked for soon; nothing past size().
  void prefetch_header(int64_t sample) const;
  /// Files that ingest left out, with its reasons, in its order.
  struct Skipped {
    std::string path;
    std::string reason;
    uint64_t place = 0;  // in ingest's list
  };
  Result<std::vector<Skipped>> skipped() const;

  class Reader {
   public:
    virtual ~Reader() = default;
    /// The bytes of one record: in the map, or, if the dataset is compressed or linked, in this object's scratch
    /// until the next call. No checksum is computed, but of a linked record: ask is_intact().
    virtual Result<std::span<const std::byte>> record(int64_t sample) = 0;
    /// Whether the bytes of the record that record() just answered have the checksum of their row; of a linked one record()
    /// has seen to that.
    virtual bool is_intact(std::span<const std::byte> record, const RecordHeader& header) = 0;
    /// Bytes in the map that record() will touch (for madvise), without touching them: the record, or, where
    /// records are packed and compressed or linked, the value that holds it.
    virtual Result<std::span<const std::byte>> stored(int64_t sample) = 0;
    /// The record alone as it is stored: a zstd frame where the dataset is compressed, with a link where it is linked.
    virtual Result<std::span<const std::byte>> stored_record(int64_t sample) = 0;
    /// Compares how the record is found with the offsets beside it; `verify` does, nobody else needs to.
    virtual Status check_packing(int64_t sample) = 0;
    /// record(sample), given what stored(sample) of this or another reader of the dataset answered, and the
    /// header's size_bytes: saves both look-ups.
    virtual Result<std::span<const std::byte>> record_in(std::span<const std::byte> stored, int64_t sample,
                                                         uint32_t size_bytes) = 0;
    /// Has what record_in() will read outside of the map, where there is anything, read into the page cache, given
    /// what stored() answered and its pages are there. An error where the disk can't be read.
    virtual Status load(std::span<const std::byte> stored, int64_t sample) = 0;
    /// The file that the record's picture lies in; "" where it lies in the record.
    virtual Result<std::string> linked_file(int64_t sample) = 0;
    /// How many records this reader took from a cache.
    virtual int64_t from_cache() const = 0;
  };
  /// Of a linked dataset, `cache` may have pictures as coefficient records, which its reader takes in their files' place
  /// (coefficient_cache.h); it outlives the reader.
  Result<std::unique_ptr<Reader>> reader(CoefficientCache* cache = nullptr) const;

  struct Impl;
  explicit Dataset(std::unique_ptr<Impl> impl);
  const Impl& impl() const { return *impl_; }  // this folder's

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
/// The image field alone, without an allocation; empty when the schema has none.
Result<std::span<const std::byte>> image_bytes(const Dataset& dataset, std::span<const std::byte> record);
/// The bytes of the field called `name` ("path" is the file it came from); kNotFound when there is none.
Result<std::span<const std::byte>> field_bytes(const Dataset& dataset, std::span<const std::byte> record,
                                               std::string_view name);

/// Names of the datasets directly in `directory` ("train", "val"), sorted; empty when it is one itself or no
/// directory. An error when it can't be looked into: then nobody knows whether there is a "val".
Result<std::vector<std::string>> split_names(const std::string& directory);
/// Whether `path` is a dataset or a folder of them. Errors as split_names.
Result<bool> holds_dataset(const std::string& path);

/// xxHash3-64 of `bytes`, the checksum of records and, chained through `seed`, of larger things.
uint64_t checksum64(std::span<const std::byte> bytes, uint64_t seed = 0);

}  // namespace dlpipe::data
