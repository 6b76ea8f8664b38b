#include "dlpipe/io/formats/npy.h"

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "dlpipe/base/text.h"
#include "dlpipe/io/formats/atomic_file.h"

namespace dlpipe::formats {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::array<std::pair<std::string_view, DType>, 6> kNames = {{{"<f4", DType::kF32},
                                                                       {"<f8", DType::kF64},
                                                                       {"<f2", DType::kF16},
                                                                       {"|u1", DType::kU8},
                                                                       {"<i4", DType::kI32},
                                                                       {"<i8", DType::kI64}}};

class Header {
 public:
  Header(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  // What follows 'key': in the literal.
  Result<std::string_view> after(std::string_view key) const {
    const std::string quoted = concat("'", key, "'");
    const size_t at = text_.find(quoted);
    const size_t colon = at == std::string_view::npos ? at : text_.find(':', at + quoted.size());
    if (colon == std::string_view::npos) return corrupt(concat("its header has no ", quoted));
    const size_t begin = text_.find_first_not_of(' ', colon + 1);
    if (begin == std::string_view::npos) return corrupt(concat("its header ends after ", quoted));
    return text_.substr(begin);
  }

  Status corrupt(std::string_view what) const {
    return {ErrorCode::kCorrupt,
            concat("[npy] ", file_, " is no .npy file: ", what, "; write it with numpy.save")};
  }

 private:
  std::string_view text_;
  const std::string& file_;
};

Result<DType> dtype_of(const Header& header, const std::string& file) {
  DLPIPE_ASSIGN_OR_RETURN(const std::string_view rest, header.after("descr"));
  const size_t end = rest.empty() ? std::string_view::npos : rest.find('\'', 1);
  if (rest.front() != '\'' || end == std::string_view::npos)
    return Status(ErrorCode::kUnsupported,
                  concat("[npy] ", file, " holds records, not numbers; save one field"));
  const std::string_view name = rest.substr(1, end - 1);
  for (const auto& [known, dtype] : kNames) {
    if (known == name) return dtype;
  }
  return Status(ErrorCode::kUnsupported, concat("[npy] ", file, " has elements '", name,
                                                "'; save x.astype('float32'), or uint8, int32, int64"));
}

Result<std::vector<int64_t>> shape_of(const Header& header) {
  DLPIPE_ASSIGN_OR_RETURN(std::string_view rest, header.after("shape"));
  const size_t end = rest.find(')');
  if (rest.front() != '(' || end == std::string_view::npos) return header.corrupt("its shape is no tuple");
  rest = rest.substr(1, end - 1);
  std::vector<int64_t> shape;
  while (true) {
    const size_t begin = rest.find_first_not_of(" ,");
    if (begin == std::string_view::npos) return shape;
    rest = rest.substr(begin);
    int64_t size = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc() || size < 0 || shape.size() == 32)
      return header.corrupt("its shape has no sizes");
    shape.push_back(size);
    rest = rest.substr(static_cast<size_t>(stop - rest.data()));
  }
}

// The product, where it is at most `most`.
std::optional<uint64_t> bounded_product(std::span<const int64_t> shape, uint64_t element, uint64_t most) {
  uint64_t product = element;
  for (const int64_t size : shape) {
    if (size == 0) return 0;
  }
  for (const int64_t size : shape) {
    if (product > most / static_cast<uint64_t>(size)) return std::nullopt;
    product *= static_cast<uint64_t>(size);
  }
  return product;
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
  const Header whole(bytes, file);
  if (bytes.starts_with("PK")) {
    return Status(ErrorCode::kUnsupported,
                  concat("[npy] ", file,
                         " is an archive of arrays (.npz); save the one that is meant with numpy.save"));
  }
  if (bytes.size() < 10 || !bytes.starts_with(kMagic)) return whole.corrupt("it doesn't begin as one");
  const auto byte = [&](size_t at) { return static_cast<uint64_t>(static_cast<uint8_t>(bytes[at])); };
  const bool is_long = byte(6) > 1;
  if (byte(6) < 1 || byte(6) > 3 || (is_long && bytes.size() < 12))
    return whole.corrupt("its version is unknown");
  const uint64_t length = byte(8) | byte(9) << 8 | (is_long ? byte(10) << 16 | byte(11) << 24 : 0);
  const size_t begin = is_long ? 12 : 10;
  if (length > bytes.size() - begin) return whole.corrupt("its header is longer than the file");
  const Header header(bytes.substr(begin, length), file);
  NpyArray array;
  DLPIPE_ASSIGN_OR_RETURN(array.dtype, dtype_of(header, file));
  DLPIPE_ASSIGN_OR_RETURN(array.shape, shape_of(header));
  DLPIPE_ASSIGN_OR_RETURN(const std::string_view order, header.after("fortran_order"));
  const std::string_view data = bytes.substr(begin + length);
  const auto size = bounded_product(array.shape, dtype_size(array.dtype), data.size());
  if (!size || *size != data.size())
    return whole.corrupt("it has more or fewer elements than its shape says");
  if (!order.starts_with("False") && !order.starts_with("True"))
    return header.corrupt("its order is neither C's nor Fortran's");
  array.bytes = order.starts_with("False") ? std::string(data) : row_major(data, array);
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
  const size_t before = kMagic.size() + 4;
  header.append(kAlignment - (before + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  std::string start(kMagic);
  start += '\x01';
  start += '\0';
  start += static_cast<char>(header.size() & 0xff);
  start += static_cast<char>(header.size() >> 8);
  DLPIPE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  DLPIPE_RETURN_IF_ERROR(file.append(start + header));
  DLPIPE_RETURN_IF_ERROR(file.append(bytes));
  return file.commit();
}

}  // namespace dlpipe::formats
