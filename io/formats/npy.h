// NumPy's .npy files (numpy.lib.format, versions 1.0 to 3.0): one array each. Ingest reads the header here; the engine reads and
// writes whole arrays.
//
//   bytes 0..5   "\x93NUMPY"     6, 7  version
//   8..          length of the header: u16 of version 1, u32 of later ones, little endian
//   then         a Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, blanks, a newline
//   then         the elements
//
// Reading accepts any bytes: sizes are checked against the file's before memory is allocated. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/dtype.h"
#include "dlpipe/error.h"

namespace dlpipe::formats {

struct NpyHeader {
  std::string dtype;      // as written: "|u1", "<f4", "<U12"
  char kind = 0;          // b, u, i, f, S, U: the letter of dtype
  bool is_big = false;    // the most significant byte first
  size_t item_bytes = 0;  // of one element
  bool is_fortran = false;
  std::vector<uint64_t> shape;
  uint64_t data_begin = 0;

  uint64_t elements() const;  // times item_bytes, fits in 63 bits; 0 if a size is 0
};

/// Parses the first bytes of a file of `file_bytes` bytes: kNpyHeadBytes of them, or all, and checks that the rest is as long
/// as the header says. kCorrupt if it is not a .npy file or truncated; kUnsupported for dtypes of objects or several
/// fields. Messages begin with "it" or "its", for the file that callers name.
inline constexpr size_t kNpyHeadBytes = 65'536;
Result<NpyHeader> parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes);

struct NpyArray {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;  // row-major, little endian
};

/// The array in a file's bytes, in C or Fortran order; `file` is named in errors. kUnsupported, with advice for NumPy, for
/// big-endian elements and types that dlpipe does not support; kCorrupt if it is not a .npy file.
Result<NpyArray> parse_npy(std::string_view bytes, const std::string& file);
Result<NpyArray> read_npy(const std::string& path);
/// Writes the file whole or not at all. kUnsupported for bf16, which NumPy does not have.
Status write_npy(const std::string& path, DType dtype, std::span<const int64_t> shape,
                 std::span<const std::byte> bytes);

}  // namespace dlpipe::formats
