// The head of a .npy file (numpy.lib.format, versions 1.0 to 3.0): dtype, order and shape of the array that follows. Ingest
// and the engine's arrays read it here. Pure functions.
//
//   bytes 0..5   "\x93NUMPY"     6, 7  version
//   8..          length of the header: u16 of version 1, u32 of later ones, little endian
//   then         a Python literal {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, blanks, a newline
//   then         the elements
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe {

struct NpyHeader {
  std::string dtype;      // as it stands there: "|u1", "<f4", "<U12"
  char kind = 0;          // b, u, i, f, S, U: the letter of dtype
  bool is_big = false;    // the most significant byte first
  size_t item_bytes = 0;  // of one element
  bool is_fortran = false;
  std::vector<uint64_t> shape;
  uint64_t data_begin = 0;

  uint64_t elements() const;  // fits, times item_bytes, in 63 bits; 0 where a size is
};

/// Of the first bytes of a file of `file_bytes` bytes: kNpyHeadBytes of them, or all. The rest of the file is as long as
/// the header says. kCorrupt for what is no .npy or is cut short; kUnsupported names dtypes that hold objects or several
/// fields. Messages begin with "it" or "its", for the file that callers name.
inline constexpr size_t kNpyHeadBytes = 65'536;
Result<NpyHeader> parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes);

}  // namespace dlpipe
