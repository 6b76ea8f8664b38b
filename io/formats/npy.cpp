#include "io/formats/npy.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "base/bytes.h"
#include "base/messages.h"
#include "base/text.h"
#include "io/formats/atomic_file.h"

namespace dlpipe::formats {

// ---- the header

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat(what, "; write it again with numpy.save"));
}

/// The header is a dict in Python's notation: {'descr': '<f4', 'fortran_order': False, 'shape': (10, 3), }
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  bool take(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<std::string> quoted() {
    skip_blanks();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string inside(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return inside;
  }
  std::optional<std::string> word() {
    skip_blanks();
    const size_t end = std::min(text_.find_first_of(",(){}[]: \n", at_), text_.size());
    if (end == at_) return std::nullopt;
    std::string inside(text_.substr(at_, end - at_));
    at_ = end;
    return inside;
  }
  bool next_is(char c) {
    skip_blanks();
    return at_ < text_.size() && text_[at_] == c;
  }
  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  std::string_view text_;
  size_t at_ = 0;
};

Status read_shape(Literal& text, NpyHeader& header) {
  if (!text.take('(')) return wrong("its 'shape' is not a tuple");
  constexpr size_t kMostDimensions = 32;
  header.shape.clear();  // Python uses the last of two equal keys
  while (!text.take(')')) {
    std::string word = text.word().value_or("");
    if (word.ends_with('L')) word.pop_back();  // Python 2
    int64_t size = 0;
    if (!parse_int(word, &size) || size < 0)
      return wrong(concat("its 'shape' holds '", printable(word), "'"));
    header.shape.push_back(static_cast<uint64_t>(size));
    if (header.shape.size() > kMostDimensions) return wrong("its 'shape' has too many dimensions");
    if (!text.take(',') && !text.next_is(')')) return wrong("its 'shape' is not a tuple");
  }
  return {};
}

Status read_dtype(NpyHeader& header) {
  const std::string& dtype = header.dtype;
  const auto no = [&](std::string_view why) {
    return Status(ErrorCode::kUnsupported,
                  concat("its dtype is '", printable(dtype), "': ", why, "; save it with another dtype"));
  };
  if (dtype.size() < 3 || std::string_view("<>|=").find(dtype[0]) == std::string_view::npos)
    return dtype == "O" || dtype.ends_with("O")
               ? no("objects are pickled, and loading a pickle can run any code")
               : no("it does not state byte order, kind and size");
  header.is_big = dtype[0] == '>';
  header.kind = dtype[1];
  int64_t size = 0;
  constexpr int64_t kMostItem = 1 << 20;
  if (header.kind == 'O') return no("objects are pickled, and loading a pickle can run any code");
  if (std::string_view("buifSU").find(header.kind) == std::string_view::npos)
    return no("only bool, integers, floats and strings are supported");
  if (!parse_int(std::string_view(dtype).substr(2), &size) || size < 1 || size > kMostItem)
    return no("it has no size");
  header.item_bytes = static_cast<size_t>(size) * (header.kind == 'U' ? 4 : 1);
  const bool is_number = header.kind != 'S' && header.kind != 'U';
  const bool is_float = header.kind == 'f';
  const bool fits =
      header.kind == 'b' ? size == 1 : size == 2 || size == 4 || size == 8 || (size == 1 && !is_float);
  if (is_number && !fits) return no("numbers must have 1, 2, 4 or 8 bytes");
  return {};
}

Result<NpyHeader> parse_dict(std::string_view dict) {
  NpyHeader header;
  Literal text(dict);
  bool has_order = false;
  bool has_shape = false;
  if (!text.take('{')) return wrong("its header is not a dict");
  while (!text.take('}')) {
    const auto key = text.quoted();
    if (!key || !text.take(':')) return wrong("its header is not a dict");
    if (*key == "descr") {
      if (text.next_is('['))
        return Status(ErrorCode::kUnsupported,
                      "its dtype has several fields (records); save one array per field");
      header.dtype = text.quoted().value_or("");
      if (header.dtype.empty()) return wrong("its 'descr' is not a string");
    } else if (*key == "fortran_order") {
      const std::string order = text.word().value_or("");
      if (order != "True" && order != "False") return wrong("its 'fortran_order' is neither True nor False");
      header.is_fortran = order == "True";
      has_order = true;
    } else if (*key == "shape") {
      DLPIPE_RETURN_IF_ERROR(read_shape(text, header));
      has_shape = true;
    } else {
      return wrong(concat("its header has the unknown key '", printable(*key), "'"));
    }
    if (!text.take(',') && !text.next_is('}')) return wrong("its header is not a dict");
  }
  if (!text.at_end() || header.dtype.empty() || !has_order || !has_shape)
    return wrong("its header lacks 'descr', 'fortran_order' or 'shape'");
  DLPIPE_RETURN_IF_ERROR(read_dtype(header));
  return header;
}

}  // namespace

uint64_t NpyHeader::elements() const {
  uint64_t count = 1;
  for (const uint64_t size : shape) count *= size;
  return count;
}

Result<NpyHeader> parse_npy_header(std::span<const std::byte> begin, uint64_t file_bytes) {
  const std::string_view text(reinterpret_cast<const char*>(begin.data()), begin.size());
  if (!text.starts_with(kMagic) || begin.size() < 12) return wrong("it does not begin like a .npy file");
  const int version = load_u8(begin, 6);
  if (version < 1 || version > 3)
    return wrong(concat("it has version ", version, " of .npy, but only 1 to 3 exist"));
  const size_t dict_begin = version == 1 ? 10 : 12;
  const size_t dict_bytes = version == 1 ? load_le<uint16_t>(begin, 8) : load_le<uint32_t>(begin, 8);
  if (dict_bytes > begin.size() - std::min(begin.size(), dict_begin)) return wrong("its header is truncated");
  DLPIPE_ASSIGN_OR_RETURN(NpyHeader header, parse_dict(text.substr(dict_begin, dict_bytes)));
  header.data_begin = dict_begin + dict_bytes;
  const uint64_t left = file_bytes - std::min(file_bytes, header.data_begin);
  const bool is_empty =
      std::find(header.shape.begin(), header.shape.end(), uint64_t{0}) != header.shape.end();
  uint64_t bytes = is_empty ? 0 : header.item_bytes;
  for (const uint64_t size : header.shape) {
    if (!is_empty && bytes > left / size)
      return wrong(concat("it is truncated: ", human_bytes(left), " are too few for its shape"));
    bytes *= size;
  }
  if (bytes != left)
    return wrong(concat("it has ", left, " bytes after its header, but its shape and dtype need ", bytes));
  return header;
}

// ---- whole arrays

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
  return Status(ErrorCode::kUnsupported, concat("[npy] ", file, " has dtype '", printable(header.dtype),
                                                "'; save x.astype('float32'), or uint8, int32, int64"));
}

// Reorders elements from Fortran order (first axis fastest) to row-major order (last axis fastest).
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
                         " is an archive of arrays (.npz); save the array that you want with numpy.save"));
  }
  const auto header = parse_npy_header(std::as_bytes(std::span(bytes)), bytes.size());
  if (!header.ok()) {
    const bool is_corrupt = header.status().code() == ErrorCode::kCorrupt;
    return header.status().with_context(concat("[npy] ", file, is_corrupt ? " is not a .npy file: " : ": "));
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
