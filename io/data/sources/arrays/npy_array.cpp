#include "dlpipe/io/data/sources/arrays/npy_array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "dlpipe/base/printable.h"
#include "dlpipe/base/text.h"

namespace dlpipe::data {

namespace {

constexpr uint64_t kMostLabelBytes = uint64_t{1} << 30;

/// An element's bytes, the least significant one first.
uint64_t bits_of(const std::byte* at, size_t bytes, bool is_big) {
  uint64_t bits = 0;
  for (size_t i = 0; i < bytes; ++i) {
    const size_t place = is_big ? bytes - 1 - i : i;
    bits |= static_cast<uint64_t>(at[place]) << (8 * i);
  }
  return bits;
}

template <class To, class From>
To same_bits(From from) {
  To to;
  static_assert(sizeof(To) == sizeof(From));
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

/// IEEE 754 binary16.
double half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double size = exponent == 0    ? mantissa / 16777216.0
                      : exponent == 31 ? std::numeric_limits<double>::quiet_NaN()
                                       : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

double number_of(const std::byte* at, const NpyHeader& header) {
  const size_t bytes = header.item_bytes;
  const uint64_t bits = bits_of(at, bytes, header.is_big);
  if (header.kind == 'f') {
    if (bytes == 2) return half_value(static_cast<uint16_t>(bits));
    return bytes == 4 ? double{same_bits<float>(static_cast<uint32_t>(bits))} : same_bits<double>(bits);
  }
  if (header.kind != 'i') return static_cast<double>(bits);
  const uint64_t sign = uint64_t{1} << (8 * bytes - 1);
  return static_cast<double>(static_cast<int64_t>((bits ^ sign) - sign));
}

}  // namespace

Result<NpyArray> NpyArray::open(const ArchiveBytes& file, const std::string& name,
                                const SourceOptions& options) {
  NpyArray array;
  array.name_ = name;
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> begin,
                          file.read(0, std::min<uint64_t>(kNpyHeadBytes, file.size_bytes())));
  auto header = parse_npy_header(begin, file.size_bytes());
  if (!header.ok()) return header.status().with_context(concat("[ingest] ", printable(name), ": "));
  array.header_ = std::move(*header);
  if (array.header_.elements() == 0)
    return Status(ErrorCode::kCorrupt,
                  concat("[ingest] ", printable(name), ": it is empty; write it again with numpy.save"));
  array.data_ = file.part(array.header_.data_begin, file.size_bytes() - array.header_.data_begin);
  if (array.header_.is_fortran && array.header_.shape.size() > 1)
    DLPIPE_RETURN_IF_ERROR(array.reorder(options));
  return array;
}

// Fortran's [N, H, W, C] is C's [C, W, H, N]: a place of all samples lies together. Bands of samples are gathered from
// all places.
Status NpyArray::reorder(const SourceOptions& options) {
  if (options.scratch == nullptr)
    return Status(ErrorCode::kUnsupported, concat("[ingest] ", printable(name_),
                                                  " is in Fortran's order; save numpy.ascontiguousarray(x)"));
  DLPIPE_ASSIGN_OR_RETURN(auto scratch, options.scratch->file());
  const uint64_t begin = scratch->size_bytes();
  const uint64_t places = sample_elements();
  const uint64_t item = header_.item_bytes;
  constexpr uint64_t kBandBytes = uint64_t{32} << 20;
  const uint64_t band = std::clamp<uint64_t>(kBandBytes / (places * item), 1, samples());
  std::vector<uint64_t> sizes(header_.shape.begin() + 1, header_.shape.end());
  std::vector<std::byte> row;
  std::vector<std::byte> gathered;
  ArchiveBytes::Scan scan = data_.scan();
  for (uint64_t first = 0; first < samples(); first += band) {
    const uint64_t count = std::min(band, samples() - first);
    gathered.resize(count * places * item);
    row.resize(count * item);
    std::vector<uint64_t> at(sizes.size());  // the place in each dimension, the first one running fastest
    for (uint64_t p = 0; p < places; ++p) {
      if (options.stop_requested && options.stop_requested())
        return Status(ErrorCode::kCancelled,
                      concat("[ingest] stopped while ", printable(name_), " was read"));
      DLPIPE_ASSIGN_OR_RETURN(const size_t got, scan.read((p * samples() + first) * item, row));
      if (got < row.size())
        return Status(ErrorCode::kIo,
                      concat("[ingest] ", printable(name_), " became shorter; download or make it again"));
      uint64_t to = 0;
      for (size_t d = 0; d < sizes.size(); ++d) to = to * sizes[d] + at[d];
      for (uint64_t n = 0; n < count; ++n)
        std::memcpy(gathered.data() + (n * places + to) * item, row.data() + n * item, item);
      for (size_t d = 0; d < sizes.size() && ++at[d] == sizes[d]; ++d) at[d] = 0;
    }
    DLPIPE_RETURN_IF_ERROR(scratch->append(gathered));
  }
  data_ = data_.rewritten(std::move(scratch), begin);
  return {};
}

std::string NpyArray::form() const {
  std::string sizes;
  for (const uint64_t size : header_.shape) sizes += concat(sizes.empty() ? "" : ", ", size);
  std::string type;
  for (const auto& [kind, name] : {std::pair('u', "uint"), std::pair('i', "int"), std::pair('f', "float")}) {
    if (header_.kind == kind) type = concat(name, 8 * header_.item_bytes);
  }
  return concat("[", sizes, "] of ", header_.kind == 'b' ? "bool" : !type.empty() ? type : header_.dtype);
}

Result<std::vector<std::byte>> NpyArray::read(uint64_t sample) const {
  const uint64_t bytes = sample_elements() * header_.item_bytes;
  return data_.read(sample * bytes, bytes);
}

Result<std::vector<std::byte>> NpyArray::all() const {
  if (data_.size_bytes() > kMostLabelBytes)
    return Status(ErrorCode::kUnsupported,
                  concat("[ingest] ", printable(name_), " has ", human_bytes(data_.size_bytes()),
                         ", too many for labels; name the array of labels with --label"));
  return data_.read(0, data_.size_bytes());
}

Result<std::vector<double>> NpyArray::numbers() const {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, all());
  std::vector<double> values;
  values.reserve(header_.elements());
  for (size_t at = 0; at < bytes.size(); at += header_.item_bytes)
    values.push_back(number_of(bytes.data() + at, header_));
  return values;
}

Result<std::vector<std::string>> NpyArray::texts() const {
  DLPIPE_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, all());
  std::vector<std::string> values;
  const bool is_unicode = header_.kind == 'U';
  const size_t step = is_unicode ? 4 : 1;
  for (size_t at = 0; at < bytes.size(); at += header_.item_bytes) {
    std::string& text = values.emplace_back();
    for (size_t i = 0; i < header_.item_bytes; i += step) {
      const auto code = static_cast<uint32_t>(bits_of(bytes.data() + at + i, step, header_.is_big));
      if (code == 0) break;
      constexpr uint32_t kLastCode = 0x10ffff;
      if (is_unicode && code <= kLastCode)
        append_utf8(code, text);
      else
        text += is_unicode ? '?' : static_cast<char>(code);
    }
  }
  return values;
}

}  // namespace dlpipe::data
