// The data behind a PNG's pixels: what its IDAT chunks hold, decompressed at once, and its rows' filters undone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dlpipe/base/error.h"

struct libdeflate_decompressor;

namespace dlpipe::data {

/// Keeps its memory between pictures, but for very large ones; belongs to one thread.
class PngData {
 public:
  PngData();

  /// Joins the IDAT chunks, of which the first stands at `at` in the file, and decompresses them to exactly `bytes` bytes. Their
  /// checksums and the zlib stream's are compared, and the file must go on to its end chunk. kCorrupt says what is wrong.
  Status read(std::span<const std::byte> file, size_t at, size_t bytes);
  /// What read() left: each row with the number of its filter before it, to be undone in place.
  std::span<uint8_t> rows() { return rows_; }
  /// Gives memory back that only few pictures need.
  void let_go();
  size_t scratch_bytes() const { return joined_.capacity() + rows_.capacity(); }

 private:
  struct Free {
    void operator()(libdeflate_decompressor* decompressor) const;
  };
  std::unique_ptr<libdeflate_decompressor, Free> decompressor_;
  std::vector<std::byte> joined_;  // of several chunks
  std::vector<uint8_t> rows_;
};

/// Undoes filter 0 to 4 (PNG, 9.2) of `row` in place. `above` is the row above without its filter, of zeros for the first row; a
/// pixel takes 1, 2, 3, 4, 6 or 8 bytes, or 1 where several share a byte. False for another filter.
bool undo_filter(int filter, std::span<uint8_t> row, const uint8_t* above, int pixel_bytes);

}  // namespace dlpipe::data
