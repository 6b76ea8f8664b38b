#include "dlpipe/io/formats/npy.h"

#include <array>
#include <utility>

#include "dlpipe/base/npy_header.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/atomic_file.h"

namespace dlpipe::formats {

namespace {

constexpr std::array<std::pair<std::string_view, DType>, 6> kNames = {{{"<f4", DType::kF32},
                                                                       {"<f8", DType::kF64},
                                                                       {"<f2", DType::kF16},
                                                                       {"|u1", DType::kU8},
                                                                       {"<i4", DType::kI32},
                                                                       {"<i8", DType::kI64}}};

Result<DType> dtype_of(const NpyHeader& header, const std::string& file) {
  for (const auto& [known, dtype] : kNames) {
    if (known == header.dtype) return dtype;
  }
  return Status(ErrorCode::kUnsupported, concat("[npy] ", file, " has elements '", printable(header.dtype),
                                                "'; save x.astype('float32'), or uint8, int32, int64"));
}

// Elements whose first axis changes fastest (Fortran's order), with the last one fastest.
std::string row_major(std::string_view data, const NpyArray& array) {
  const size_t element = dtype_size(array.dtype);
  std::vector<size_t> index(array.shape.size()), step(array.shape.size());
  size_t stride = element;
  for (size_t axis = 0; axis < step.size(); ++axis) {
    step[axis] = stride;
    stride *= static_cast<size_t>(array.shape[axis]);
  }
  std::string rows;
  rows.reserve(data.size());
  for (size_t from = 0; rows.size() < data.size();) {
    rows.append(data.substr(from, element));
    for (size_t axis = index.size(); axis-- > 0;) {
      from += step[axis];
      if (++index[axis] < static_cast<size_t>(array.shape[axis])) break;
      from -= step[axis] * index[axis];
      index[axis] = 0;
    }
  }
  return rows;
}

}  // namespace

Result<NpyArray> parse_npy(std::string_view bytes, const std::string& file) {
  if (bytes.starts_with("PK")) {
    return Status(ErrorCode::kUnsupported,
                  concat("[npy] ", file,
                         " is an archive of arrays (.npz); save the one that is meant with numpy.save"));
  }
  const auto header = parse_npy_header(std::as_bytes(std::span(bytes)), bytes.size());
  if (!header.ok()) {
    const bool is_corrupt = header.status().code() == ErrorCode::kCorrupt;
    return header.status().with_context(concat("[npy] ", file, is_corrupt ? " is no .npy file: " : ": "));
  }
  NpyArray array;
  DLPIPE_ASSIGN_OR_RETURN(array.dtype, dtype_of(*header, file));
  array.shape.assign(header->shape.begin(), header->shape.end());
  const std::string_view data = bytes.substr(header->data_begin);
  array.bytes = header->is_fortran ? row_major(data, array) : std::string(data);
  return array;
}

Result<NpyArray> read_npy(const std::string& path) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 36;
  DLPIPE_ASSIGN_OR_RETURN(const std::string bytes, read_file(path, kMostBytes));
  return parse_npy(bytes, path);
}

Status write_npy(const std::string& path, DType dtype, std::span<const int64_t> shape,
                 std::span<const std::byte> bytes) {
  std::string_view name;
  for (const auto& [known, of] : kNames) {
    if (of == dtype) name = known;
  }
  if (name.empty())
    return {ErrorCode::kUnsupported,
            concat("[npy] NumPy has no ", dtype_name(dtype), "; cast it to f32 first")};
  std::string sizes;
  for (const int64_t size : shape) sizes += concat(size, ",");
  std::string header = concat("{'descr': '", name, "', 'fortran_order': False, 'shape': (", sizes, "), }");
  constexpr size_t kAlignment = 64;
  constexpr std::string_view kBegin("\x93NUMPY\x01\0", 8);  // version 1
  const size_t before = kBegin.size() + sizeof(uint16_t);
  header.append(kAlignment - (before + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  std::string start(kBegin);
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  DLPIPE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  DLPIPE_RETURN_IF_ERROR(file.append(start + header));
  DLPIPE_RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

}  // namespace dlpipe::formats
