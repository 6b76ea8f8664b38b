// An array of a .npy file or of a member of an .npz, read sample by sample: samples are its first dimension. An array in
// Fortran's order is written to a scratch file in C's once, so that a sample lies in one piece.
//
// Threads: open() belongs to one; read() may be called from any number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"
#include "dlpipe/base/npy_header.h"
#include "dlpipe/io/data/sources/bytes/archive_bytes.h"
#include "dlpipe/io/data/sources/source.h"

namespace dlpipe::data {

class NpyArray {
 public:
  /// `file`: the bytes of the whole .npy; `name` is for messages.
  static Result<NpyArray> open(const ArchiveBytes& file, const std::string& name,
                               const SourceOptions& options);

  const std::string& name() const { return name_; }
  const NpyHeader& header() const { return header_; }
  int64_t modified_ns() const { return data_.modified_ns(); }
  uint64_t samples() const { return header_.shape.empty() ? 1 : header_.shape[0]; }
  uint64_t sample_elements() const { return header_.elements() / samples(); }
  /// [10, 28, 28] of uint8
  std::string form() const;
  /// The bytes of one sample, C's order.
  Result<std::vector<std::byte>> read(uint64_t sample) const;
  /// All numbers, or all texts. For arrays of labels: kUnsupported where they don't fit into memory twice.
  Result<std::vector<double>> numbers() const;
  Result<std::vector<std::string>> texts() const;

 private:
  Status reorder(const SourceOptions& options);
  Result<std::vector<std::byte>> all() const;

  std::string name_;
  NpyHeader header_;
  ArchiveBytes data_;  // of the elements alone
};

}  // namespace dlpipe::data
