// NumPy's .npy files: one array each. base/npy_header.h has the form of their head and reads it; the elements follow.
//
// Reading takes any bytes: sizes are checked against the file's before memory is asked for. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dlpipe/base/dtype.h"
#include "dlpipe/base/error.h"

namespace dlpipe::formats {

struct NpyArray {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::string bytes;  // row-major, little endian
};

/// The array of a file's bytes, of Fortran's order, too; `file` is named in errors. kUnsupported for element types that dlpipe has
/// none for and big-endian ones, with what to do in NumPy; kCorrupt for what is no .npy.
Result<NpyArray> parse_npy(std::string_view bytes, const std::string& file);
Result<NpyArray> read_npy(const std::string& path);
/// Writes aside and renames. kUnsupported for bf16, which NumPy doesn't have.
Status write_npy(const std::string& path, DType dtype, std::span<const int64_t> shape,
                 std::span<const std::byte> bytes);

}  // namespace dlpipe::formats
