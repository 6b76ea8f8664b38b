#include "dlpipe/base/npy_header.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "dlpipe/base/bytes.h"
#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

Status wrong(std::string_view what) {
  return Status(ErrorCode::kCorrupt, concat(what, "; write it again with numpy.save"));
}

/// The header is a dict as Python writes it: {'descr': '<f4', 'fortran_order': False, 'shape': (10, 3), }
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
  if (!text.take('(')) return wrong("its 'shape' is no tuple");
  constexpr size_t kMostDimensions = 32;
  header.shape.clear();  // of a key that stands there twice, Python takes the last
  while (!text.take(')')) {
    std::string word = text.word().value_or("");
    if (word.ends_with('L')) word.pop_back();  // Python 2
    int64_t size = 0;
    if (!parse_int(word, &size) || size < 0)
      return wrong(concat("its 'shape' holds '", printable(word), "'"));
    header.shape.push_back(static_cast<uint64_t>(size));
    if (header.shape.size() > kMostDimensions) return wrong("its 'shape' has too many dimensions");
    if (!text.take(',') && !text.next_is(')')) return wrong("its 'shape' is no tuple");
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
               ? no("objects are pickled, and loading a pickle runs what it holds")
               : no("no order of bytes, kind and size");
  header.is_big = dtype[0] == '>';
  header.kind = dtype[1];
  int64_t size = 0;
  constexpr int64_t kMostItem = 1 << 20;
  if (header.kind == 'O') return no("objects are pickled, and loading a pickle runs what it holds");
  if (std::string_view("buifSU").find(header.kind) == std::string_view::npos)
    return no("bool, integers, floats and texts are read");
  if (!parse_int(std::string_view(dtype).substr(2), &size) || size < 1 || size > kMostItem)
    return no("no size");
  header.item_bytes = static_cast<size_t>(size) * (header.kind == 'U' ? 4 : 1);
  const bool is_number = header.kind != 'S' && header.kind != 'U';
  const bool is_float = header.kind == 'f';
  const bool fits =
      header.kind == 'b' ? size == 1 : size == 2 || size == 4 || size == 8 || (size == 1 && !is_float);
  if (is_number && !fits) return no("numbers have 1, 2, 4 or 8 bytes");
  return {};
}

Result<NpyHeader> parse_dict(std::string_view dict) {
  NpyHeader header;
  Literal text(dict);
  bool has_order = false;
  bool has_shape = false;
  if (!text.take('{')) return wrong("its header is no dict");
  while (!text.take('}')) {
    const auto key = text.quoted();
    if (!key || !text.take(':')) return wrong("its header is no dict");
    if (*key == "descr") {
      if (text.next_is('['))
        return Status(ErrorCode::kUnsupported,
                      "its dtype has several fields (records); save one array per field");
      header.dtype = text.quoted().value_or("");
      if (header.dtype.empty()) return wrong("its 'descr' is no text");
    } else if (*key == "fortran_order") {
      const std::string order = text.word().value_or("");
      if (order != "True" && order != "False") return wrong("its 'fortran_order' is neither True nor False");
      header.is_fortran = order == "True";
      has_order = true;
    } else if (*key == "shape") {
      DLPIPE_RETURN_IF_ERROR(read_shape(text, header));
      has_shape = true;
    } else {
      return wrong(concat("its header has the key '", printable(*key), "'"));
    }
    if (!text.take(',') && !text.next_is('}')) return wrong("its header is no dict");
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
  if (!text.starts_with(kMagic) || begin.size() < 12) return wrong("it doesn't begin as .npy files do");
  const int version = load_u8(begin, 6);
  if (version < 1 || version > 3)
    return wrong(concat("it says version ", version, " of .npy, and there are 1 to 3"));
  const size_t dict_begin = version == 1 ? 10 : 12;
  const size_t dict_bytes = version == 1 ? load_le<uint16_t>(begin, 8) : load_le<uint32_t>(begin, 8);
  if (dict_bytes > begin.size() - std::min(begin.size(), dict_begin)) return wrong("its header is cut short");
  DLPIPE_ASSIGN_OR_RETURN(NpyHeader header, parse_dict(text.substr(dict_begin, dict_bytes)));
  header.data_begin = dict_begin + dict_bytes;
  const uint64_t left = file_bytes - std::min(file_bytes, header.data_begin);
  const bool is_empty =
      std::find(header.shape.begin(), header.shape.end(), uint64_t{0}) != header.shape.end();
  uint64_t bytes = is_empty ? 0 : header.item_bytes;
  for (const uint64_t size : header.shape) {
    if (!is_empty && bytes > left / size)
      return wrong(concat("it is cut short: ", human_bytes(left), " are too few for its shape"));
    bytes *= size;
  }
  if (bytes != left)
    return wrong(concat("it holds ", left, " bytes behind its header, its shape and dtype ask for ", bytes));
  return header;
}

}  // namespace dlpipe
