// The head of a .npy file (NumPy Enhancement Proposal 1): dtype, order and shape of the array that follows. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

struct NpyHeader {
  std::string dtype;      // as it stands there: "|u1", "<f4", "<U12"
  char kind = 0;          // b, u, i, f, S, U: the letter of dtype
  bool is_big = false;    // the most significant byte first
  size_t item_bytes = 0;  // of one element
  bool is_fortran = false;
  std::vector<uint64_t> shape;
  uint64_t data_begin = 0;

  uint64_t elements() const;  // fits, times item_bytes, in 63 bits
};

/// Of the first bytes of a file of `file_bytes` bytes: kNpyHeadBytes of them, or all. kCorrupt for what is no .npy or is
/// cut short; kUnsupported names dtypes that hold objects or several fields.
inline constexpr size_t kNpyHeadBytes = 65'536;
Result<NpyHeader> parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes);

}  // namespace dlpipe::data
