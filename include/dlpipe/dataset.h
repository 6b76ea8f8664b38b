// Reading a dataset: a directory with one immutable LMDB environment (io/data/FORMAT.md describes every byte).
//
// Ownership: a Dataset is opened once and shared. It owns the memory map and must outlive every Reader and every span read
// through one. Threads: Dataset's const functions may be called from any thread; a Reader has scratch memory and belongs to one
// thread at a time. Cost: open() reads the header table, 32 bytes per sample; reading a record copies nothing: spans point into
// the map. Corrupt files are safe to read: a call returns a record or kCorrupt.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"

namespace dlpipe::data {

/// What a field holds. The values are stored in files.
enum class FieldKind : uint8_t {
  kImage = 0,
  kTensor = 1,
  kTokens = 2,
  kAudio = 3,
  kBytes = 4,
  kLabel = 5,
  kLabels = 6,  // any number of class indices, i64
  // any number of rows of `shape` [4]: x_min, y_min, x_max, y_max in pixels of the oriented image, f32
  kBoxes = 7,
  // any number of rows of `shape` [3] or [k, 3]: x and y in the same pixels, then the visibility, f32
  kPoints = 8,
  // an image of class indices with the size of the oriented image; zero bytes: the sample has no mask
  kMask = 9
};

/// The field that cross-validation splits by: each value is left out in turn. Made by `ingest --folds`, or a column of this name.
inline constexpr const char* kFoldField = "fold";

struct Field {
  std::string name;
  FieldKind kind = FieldKind::kBytes;
  DType dtype = DType::kU8;
  Shape shape;  // the fixed shape, if the kind has one; for boxes and points, the shape of one row
  /// The boxes field that this field describes, with one row per box. Empty: none.
  std::string of = {};
};

/// One row of the dense header table: everything that planning needs, without touching the record's page.
struct RecordHeader {
  int32_t width = 0;   // oriented, in pixels
  int32_t height = 0;  // oriented, in pixels
  uint8_t channels = 0;
  Orientation orientation = 1;
  ImageLayout layout = ImageLayout::kNone;
  uint32_t size_bytes = 0;  // of the record, as Reader::record returns it (decompressed)
  int64_t label = -1;
  uint64_t checksum = 0;  // xxHash3-64 of those bytes; with late checksums, of their beginning only
};

/// Statistics over all pixels at ingest, per channel, of values scaled to [0, 1].
struct PixelStats {
  int channels = 0;
  std::array<double, 4> mean{};
  std::array<double, 4> std{};

  /// The statistics of the same images with 1 (grey) or 3 channels. The std of grey from colour assumes that
  /// the channels vary together, which gives the largest possible value.
  PixelStats of_channels(int wanted) const;
};

/// Where an image's bytes are, for datasets that leave images in their files or tar archives (`dlpipe ingest --store link`).
struct Link {
  std::string file;  // relative to Dataset::links(), or absolute
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  bool is_whole = false;  // the file contains the image and nothing else
  /// When the file was last modified. Set only with late checksums (FORMAT.md, Late checksums).
  std::optional<int64_t> modified_ns = {};
};

class CoefficientCache;

class Dataset {
 public:
  /// What open() does if header rows, classes, counts or statistics do not match the dataset's id.
  enum class IdCheck : uint8_t {
    kRefuse,
    kLater  // opens the dataset anyway; check_id() reports the mismatch
  };
  /// Opens DIR, or DIR/SPLIT if DIR holds splits and `split` names one ("train", "val"). Checks the version, the
  /// file size against LMDB's last page, the schema, the counts and the id; messages name DIR. Reads the header
  /// table once: 32 bytes per sample.
  static Result<std::shared_ptr<const Dataset>> open(const std::string& directory,
                                                     std::string_view split = {},
                                                     IdCheck check = IdCheck::kRefuse);
  ~Dataset();

  const std::string& directory() const;
  int64_t size() const;
  std::span<const Field> fields() const;
  std::span<const std::string> classes() const;
  /// The number of samples of each class, in the order of classes().
  std::span<const int64_t> class_counts() const;
  const PixelStats& pixel_stats() const;
  /// Records packed into one LMDB value, and whether each is a zstd frame.
  int64_t records_per_value() const;
  bool compressed() const;
  /// The folder of the image files that the records link to (`dlpipe ingest --store link`); nullopt if the records contain
  /// the images.
  const std::optional<std::string>& links() const;
  /// Whether header rows have checksums of the beginnings of images only. The checksum of a whole record is then computed
  /// when the record is read for the first time (FORMAT.md, Late checksums).
  bool has_late_checksums() const;
  /// The number of records with a known checksum: all of them, unless checksums are late.
  Result<int64_t> known_checksums() const;
  /// Hash over header rows, schema, class counts and pixel statistics, hex. Equal datasets have equal ids,
  /// wherever they are stored. (Format version 1: header rows and schema only.)
  const std::string& id() const;
  /// kCorrupt if the id does not match the file's contents.
  Status check_id() const;
  int format_version() const;
  /// Bytes of the data file.
  uint64_t file_bytes() const;
  /// One row of the header table: two loads from the map, no lock, no B-tree. kMisuse past size().
  Result<RecordHeader> header(int64_t sample) const;
  /// Prefetches a sample's row before a call of header(). Does nothing past size().
  void prefetch_header(int64_t sample) const;
  /// The files that ingest skipped and why, in the order of ingest's list.
  struct Skipped {
    std::string path;
    std::string reason;
    uint64_t place = 0;  // the file's index in ingest's list
  };
  Result<std::vector<Skipped>> skipped() const;

  class Reader {
   public:
    virtual ~Reader() = default;
    /// The bytes of one record: in the map, or, if the dataset is compressed or linked, in this reader's scratch
    /// memory until the next call. Verifies the checksum of linked records only; for others call is_intact().
    virtual Result<std::span<const std::byte>> record(int64_t sample) = 0;
    /// Whether the bytes that record() just returned match the checksum in the header row. Always true for a linked record,
    /// which record() has already verified.
    virtual bool is_intact(std::span<const std::byte> record, const RecordHeader& header) = 0;
    /// The bytes in the map that record() will touch (for madvise), without touching them: the record, or, if
    /// records are packed and also compressed or linked, the LMDB value that contains it.
    virtual Result<std::span<const std::byte>> stored(int64_t sample) = 0;
    /// Only the record, as stored: a zstd frame if the dataset is compressed, with a link if it is linked.
    virtual Result<std::span<const std::byte>> stored_record(int64_t sample) = 0;
    /// Compares the record's computed position with the stored offsets; only `verify` needs this.
    virtual Status check_packing(int64_t sample) = 0;
    /// Like record(sample), given the result of stored(sample) from this or another reader of the dataset, and the
    /// header's size_bytes: saves both look-ups.
    virtual Result<std::span<const std::byte>> record_in(std::span<const std::byte> stored, int64_t sample,
                                                         uint32_t size_bytes) = 0;
    /// Reads whatever record_in() will read outside of the map, if anything, into the page cache. `stored` is the result
    /// of stored(), with its pages in memory. Returns an error if the disk can't be read.
    virtual Status load(std::span<const std::byte> stored, int64_t sample) = 0;
    /// The file that contains the record's image; "" if the record contains it.
    virtual Result<std::string> linked_file(int64_t sample) = 0;
    /// How many records this reader has read from a cache.
    virtual int64_t from_cache() const = 0;
  };
  /// Creates a reader. For a linked dataset, `cache` may hold images as coefficient records, which the reader then uses
  /// instead of the files. The cache must outlive the reader.
  Result<std::unique_ptr<Reader>> reader(CoefficientCache* cache = nullptr) const;

  struct Impl;
  explicit Dataset(std::unique_ptr<Impl> impl);
  const Impl& impl() const { return *impl_; }  // io/data's own

 private:
  std::unique_ptr<Impl> impl_;
};

/// The image field's bytes within a record's bytes, and the label(s). Fields are found by the schema's
/// offsets.
struct RecordView {
  std::span<const std::byte> image;  // empty if there is none
  int64_t label = -1;
  std::vector<std::span<const std::byte>> fields;  // in schema order
};
Result<RecordView> parse_record(const Dataset& dataset, std::span<const std::byte> record);
/// Only the image field, without an allocation; empty if the schema has none.
Result<std::span<const std::byte>> image_bytes(const Dataset& dataset, std::span<const std::byte> record);
/// The bytes of the field called `name` ("path" is the file that the sample came from); kNotFound if there is none.
Result<std::span<const std::byte>> field_bytes(const Dataset& dataset, std::span<const std::byte> record,
                                               std::string_view name);

/// Names of the datasets directly in `directory` ("train", "val"), sorted; empty if it is itself a dataset or not
/// a directory. Returns an error if the directory can't be listed: an empty list would hide a "val".
Result<std::vector<std::string>> split_names(const std::string& directory);
/// Whether `path` is a dataset or a folder of datasets. Errors as for split_names.
Result<bool> holds_dataset(const std::string& path);

/// xxHash3-64 of `bytes`: the checksum of a record, or, chained through `seed`, of larger data.
uint64_t checksum64(std::span<const std::byte> bytes, uint64_t seed = 0);

}  // namespace dlpipe::data
