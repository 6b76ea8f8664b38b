// safetensors: named tensors in one file, a common format of PyTorch and other tools.
//
//   bytes 0..7    u64, little endian: length N of the header
//   bytes 8..8+N  JSON: {"name": {"dtype": "F32", "shape": [2,3], "data_offsets": [begin, end]},
//                 "__metadata__": {..}}
//   the rest      the tensors' bytes, row-major, little endian; offsets count from here and leave no gap
//
// Reading accepts any bytes: every length and offset is checked before it is used, and no more memory is allocated than the
// file's size. A SafetensorsFile owns its descriptor; its const functions may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpipe/dtype.h"
#include "dlpipe/error.h"

namespace dlpipe::formats {

/// One tensor in a file.
struct SafetensorsEntry {
  std::string name;
  std::string dtype_text;      // "F32", "BF16", "F16", "I64", ... as the file says
  std::optional<DType> dtype;  // empty for types that dlpipe does not have (BOOL, I8, ...)
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // of its bytes, from the end of the header
  uint64_t end = 0;
  uint64_t size_bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Parses and checks a header (only the JSON) of a file with `data_bytes` bytes after it. kCorrupt says what is wrong.
Result<SafetensorsHeader> parse_safetensors_header(std::string_view json, uint64_t data_bytes);

class SafetensorsFile {
 public:
  /// kUnsupported for another kind of weights file, with the command that converts it
  /// (weights_file.h).
  static Result<SafetensorsFile> open(const std::string& path);
  SafetensorsFile(SafetensorsFile&& other) noexcept
      : path_(std::move(other.path_)),
        fd_(std::exchange(other.fd_, -1)),
        data_begin_(other.data_begin_),
        header_(std::move(other.header_)) {}
  SafetensorsFile& operator=(SafetensorsFile&&) = delete;
  ~SafetensorsFile();

  const std::string& path() const { return path_; }
  std::span<const SafetensorsEntry> entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  const SafetensorsEntry* find(std::string_view name) const;
  /// Copies one tensor's bytes; `to` has entry.size_bytes().
  Status read(const SafetensorsEntry& entry, std::span<std::byte> to) const;

 private:
  SafetensorsFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_ = -1;
  uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

/// A tensor to write: contiguous, row-major.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

/// Writes to a temporary name and renames. Tensors with wide elements come first, otherwise in the given order, so that every
/// tensor is aligned to its element. Returns the bytes written.
Result<uint64_t> write_safetensors(const std::string& path, std::span<const SafetensorsTensor> tensors,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace dlpipe::formats
