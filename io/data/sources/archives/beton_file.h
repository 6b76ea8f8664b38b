// The structure of FFCV's .beton files, version 2: a header, a descriptor for each field, a row of metadata for each sample,
// pages of bytes, and a table of the pieces that were allocated in them. All numbers are little-endian. A BetonFile may be
// read from any number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/io/data/sources/bytes/archive_bytes.h"

namespace dlpipe::data {

/// FFCV's numbers.
enum class BetonKind : uint8_t {
  kFloat = 0,
  kInt = 1,
  kPicture = 2,
  kBytes = 3,
  kArray = 4,
  kJson = 5,
  kTensor = 6
};

struct BetonField {
  BetonKind kind = BetonKind::kBytes;
  std::string name;
  size_t begin = 0;             // in a sample's metadata
  std::string dtype;            // of arrays: "<f4"
  std::vector<uint64_t> shape;  // of arrays
};

/// Where a value lies.
struct BetonPiece {
  uint64_t begin = 0;
  uint64_t size = 0;
};
struct BetonPicture {
  bool is_raw = false;  // else a JPEG
  int width = 0;
  int height = 0;
  BetonPiece bytes;
};

class BetonFile {
 public:
  /// kCorrupt for what is no .beton or is cut short; kUnsupported names other versions and fields of a program's own.
  static Result<BetonFile> open(const std::string& path);

  const std::vector<BetonField>& fields() const { return fields_; }
  uint64_t samples() const { return samples_; }
  uint64_t size_bytes() const { return bytes_.size_bytes(); }
  int64_t modified_ns() const { return bytes_.modified_ns(); }

  /// The metadata of one sample; `scan` is this file's.
  Result<std::vector<std::byte>> row(ArchiveBytes::Scan& scan, uint64_t sample) const;
  ArchiveBytes::Scan scan() const { return bytes_.scan(); }
  /// kCorrupt where a picture isn't where the file holds a piece, or raw and of another size.
  Result<BetonPicture> picture(const BetonField& field, std::span<const std::byte> row) const;
  /// Of bytes, JSON and arrays.
  Result<BetonPiece> piece(const BetonField& field, std::span<const std::byte> row) const;
  Result<std::vector<std::byte>> read(const BetonPiece& piece) const {
    return bytes_.read(piece.begin, piece.size);
  }

 private:
  Status read_fields(uint64_t count);
  Status read_pieces(uint64_t begin);

  ArchiveBytes bytes_;
  std::vector<BetonField> fields_;
  uint64_t samples_ = 0;
  uint64_t rows_begin_ = 0;
  uint64_t row_bytes_ = 0;
  std::vector<BetonPiece> pieces_;  // by begin, then by size
};

}  // namespace dlpipe::data
