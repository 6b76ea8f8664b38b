// One record's bytes: fields of fixed size in schema order, then where each other field ends, then those
// fields (FORMAT.md). Building is the writer's side; parse_record (dataset.h) the reader's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/image.h"
#include "dlpipe/io/data/codec/zstd.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/data/schema.h"

namespace dlpipe::data {

/// Sums over pixels of 8-bit values: integers, so that their order doesn't matter.
struct PixelSums {
  uint64_t pixels = 0;
  uint64_t color_pixels = 0;  // of pictures with 3 channels
  std::array<uint64_t, 3> sum{};
  std::array<uint64_t, 3> sum_of_squares{};

  void add(const PixelSums& other);
  /// Adds every pixel of an image of 1 (counted into all three sums) or 3 channels.
  void add_image(const ConstImageView& image);
  /// One channel when no picture had colour.
  PixelStats stats() const;
};

/// A record ready to be stored.
struct PackedRecord {
  RecordHeader header;
  PixelSums pixel_sums;
  std::vector<std::byte> stored;  // compressed where the dataset is
  uint64_t image_checksum = 0;    // duplicates.h; 0: not known. Where checksums are late, of size and begin
};

/// So much of each picture has a checksum from the start where checksums are late (FORMAT.md).
inline constexpr size_t kLateBegin = 4096;

/// Where the fields of one schema lie in its records.
class RecordLayout {
 public:
  explicit RecordLayout(std::span<const Field> fields);

  /// `values` in schema order; kMisuse when one has not its fixed size. `label` is that of the label field.
  Result<std::vector<std::byte>> build(std::span<const std::span<const std::byte>> values) const;
  /// What build() would answer, without building it: of a large picture that is copied nowhere else.
  struct Summary {
    uint32_t size_bytes = 0;
    uint64_t checksum = 0;
  };
  Result<Summary> summary(std::span<const std::span<const std::byte>> values) const;
  /// The size of a record of which the image's value has the first bytes alone, at least kLateBegin of `picture_bytes`, and
  /// its begin_checksum().
  Result<Summary> late_summary(std::span<const std::span<const std::byte>> values,
                               uint64_t picture_bytes) const;
  /// The checksum of a record without the picture's bytes behind the first kLateBegin.
  Result<uint64_t> begin_checksum(std::span<const std::byte> record) const;
  /// The bytes of field `index`; kCorrupt when the record contradicts itself.
  Result<std::span<const std::byte>> field(std::span<const std::byte> record, size_t index) const;
  size_t field_count() const { return places_.size(); }
  /// Of a record whose fields of varying size are all empty.
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
                    std::optional<uint64_t> picture_bytes = {}) const;

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
  /// kCorrupt where check_values finds something wrong. Fills header.size_bytes, checksum and label; the caller has filled
  /// what describes the image. `link`: where datasets are linked, what is stored instead of the image (link.h). Where
  /// checksums are late, the image's value has its first bytes, and `picture_bytes` is the size of all of it.
  Result<PackedRecord> pack(std::span<const std::span<const std::byte>> values, const RecordHeader& header,
                            std::span<const std::byte> link = {}, uint64_t picture_bytes = 0);

 private:
  std::vector<Field> fields_;
  RecordLayout layout_;
  bool zstd_;
  bool late_checksums_;
  ZstdCompressor compressor_;
};

}  // namespace dlpipe::data
