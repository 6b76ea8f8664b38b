// One record's bytes: fields of fixed size in schema order, then where each other field ends, then those fields (FORMAT.md).
// Writers build records; readers use parse_record (dataset.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "dlpipe/image.h"
#include "io/data/codec/zstd.h"
#include "io/data/look_alike.h"
#include "io/data/schema.h"

namespace dlpipe::data {

/// Sums over pixels of 8-bit values: integers, so that the order does not matter.
struct PixelSums {
  uint64_t pixels = 0;
  uint64_t color_pixels = 0;  // of images with 3 channels
  std::array<uint64_t, 3> sum{};
  std::array<uint64_t, 3> sum_of_squares{};

  void add(const PixelSums& other);
  /// Adds every pixel of an image of 1 (counted into all three sums) or 3 channels.
  void add_image(const ConstImageView& image);
  /// One channel if no image has colour.
  PixelStats stats() const;
};

/// A record ready to be stored.
struct PackedRecord {
  RecordHeader header;
  PixelSums pixel_sums;
  std::vector<std::byte> stored;  // compressed if the dataset is
  uint64_t image_checksum = 0;    // verify.h; 0: unknown. With late checksums, of size and beginning
  ImageLook look;                 // of the decoded image; unknown if it was not decoded
};

/// With late checksums, this much of each image has a checksum from the start (FORMAT.md).
inline constexpr size_t kLateBegin = 4096;

/// Where the fields of one schema are in its records.
class RecordLayout {
 public:
  explicit RecordLayout(std::span<const Field> fields);

  /// `values` in schema order; kMisuse if one does not have its fixed size. `label` is that of the label field.
  Result<std::vector<std::byte>> build(std::span<const std::span<const std::byte>> values) const;
  /// Describes what build() would return, without building it, which would copy a large image.
  struct Summary {
    uint32_t size_bytes = 0;
    uint64_t checksum = 0;
  };
  Result<Summary> summary(std::span<const std::span<const std::byte>> values) const;
  /// The size of a record and its begin_checksum() if the image's value has only its first bytes, at least kLateBegin of
  /// `image_bytes`.
  Result<Summary> late_summary(std::span<const std::span<const std::byte>> values,
                               uint64_t image_bytes) const;
  /// The checksum of a record without the image's bytes after the first kLateBegin.
  Result<uint64_t> begin_checksum(std::span<const std::byte> record) const;
  /// The bytes of field `index`; kCorrupt if the record is inconsistent.
  Result<std::span<const std::byte>> field(std::span<const std::byte> record, size_t index) const;
  size_t field_count() const { return places_.size(); }
  /// The size of a record whose fields of varying size are all empty.
  size_t least_bytes() const { return fixed_bytes_ + 4 * varying_; }
  int image_field() const { return image_field_; }  // -1: none
  int label_field() const { return label_field_; }  // -1: none

 private:
  struct Place {
    bool fixed = false;
    size_t at = 0;     // offset of a fixed field
    size_t bytes = 0;  // its size
    size_t index = 0;  // number among the fields of varying size
  };
  /// A record up to its first field of varying size, and the size of all of it.
  struct Head {
    std::vector<std::byte> bytes;
    uint64_t record_bytes = 0;
  };
  Result<Head> head(std::span<const std::span<const std::byte>> values,
                    std::optional<uint64_t> image_bytes = {}) const;

  std::vector<Place> places_;
  size_t fixed_bytes_ = 0;
  size_t varying_ = 0;
  int image_field_ = -1;
  int label_field_ = -1;
};

/// Builds, checksums and compresses records of one schema. Belongs to one thread.
class RecordPacker {
 public:
  explicit RecordPacker(const Schema& schema);
  /// kCorrupt if check_values finds an error. Fills header.size_bytes, checksum and label; the caller has filled what describes
  /// the image. `link`: for linked datasets, what is stored instead of the image (linked_records.h). With late checksums, the
  /// image's value has its first bytes, and `image_bytes` is its full size.
  Result<PackedRecord> pack(std::span<const std::span<const std::byte>> values, const RecordHeader& header,
                            std::span<const std::byte> link = {}, uint64_t image_bytes = 0);

 private:
  std::vector<Field> fields_;
  RecordLayout layout_;
  bool zstd_;
  bool late_checksums_;
  ZstdCompressor compressor_;
};

}  // namespace dlpipe::data
