// What .npy and .npz files contain: the members of a zip archive, stored or deflated (Zip64 is supported; encryption and other
// compression methods are rejected by name), and an array read sample by sample. A header is read without its elements, so that
// only arrays that are used are unpacked. zip_members(), open() and load() belong to one thread; a loaded array may be read
// from any number of threads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/source.h"
#include "io/data/sources/bytes/archive_bytes.h"
#include "io/formats/npy.h"

namespace dlpipe::data {

struct ZipMember {
  std::string name;
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t crc = 0;
  uint64_t packed_bytes = 0;
  uint64_t size_bytes = 0;
  uint64_t header_at = 0;

  /// Its size in the scratch file: 0 if it is stored uncompressed.
  uint64_t unpacked_bytes() const { return method == 0 ? 0 : size_bytes; }
};

/// In the order of the archive's directory. kCorrupt if it is not a zip file or is truncated, or if two members share bytes, so
/// that all members together unpack to at most what deflate can make of the file.
Result<std::vector<ZipMember>> zip_members(const ArchiveBytes& file, const std::string& name);
/// An array of a .npy file or of a member of an .npz; samples are its first dimension.
class NpyArray {
 public:
  /// Reads the header. `file`: the bytes of the whole .npy; `name` is for messages.
  static Result<NpyArray> open(const ArchiveBytes& file, const std::string& name);
  /// The same for a member of a zip archive; only its beginning is unpacked.
  static Result<NpyArray> open(const ArchiveBytes& zip, const ZipMember& member, const std::string& name);
  /// Makes the elements readable, once: a compressed member is unpacked to a scratch file, and an array in Fortran order is
  /// rewritten there in C order, so that the bytes of a sample are contiguous. kCorrupt if a member's checksum differs.
  Status load(const SourceOptions& options);

  const std::string& name() const { return name_; }
  /// The number of bytes that load() will unpack to disk.
  uint64_t packed_size_bytes() const { return member_ && !is_loaded_ ? member_->unpacked_bytes() : 0; }
  const formats::NpyHeader& header() const { return header_; }
  int64_t modified_ns() const { return data_.modified_ns(); }
  uint64_t samples() const { return header_.shape.empty() ? 1 : header_.shape[0]; }
  uint64_t sample_elements() const { return header_.elements() / samples(); }
  /// [10, 28, 28] of uint8
  std::string form() const;
  /// The bytes of one sample, in C order.
  Result<std::vector<std::byte>> read(uint64_t sample) const;
  /// All numbers, or all strings. For arrays of labels: kUnsupported if they do not fit into memory twice.
  Result<std::vector<double>> numbers() const;
  Result<std::vector<std::string>> texts() const;

 private:
  static Result<NpyArray> parse(const std::string& name, std::span<const std::byte> begin, uint64_t size);
  Status reorder(const SourceOptions& options);
  Result<std::vector<std::byte>> all() const;

  std::string name_;
  formats::NpyHeader header_;
  ArchiveBytes data_;                // after load(): only the elements; before: the whole .npy or zip archive
  std::optional<ZipMember> member_;  // of the zip archive
  bool is_loaded_ = false;
};

}  // namespace dlpipe::data
