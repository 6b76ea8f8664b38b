#include "io/formats/protobuf.h"

#include <bit>
#include <cstring>
#include <optional>

#include "base/text.h"

namespace dlpipe::formats {

namespace {

// Walks over bytes; at() returns the position.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes, size_t at = 0) : bytes_(bytes), at_(at) {}
  size_t at() const { return at_; }
  bool at_end() const { return at_ == bytes_.size(); }

  std::optional<uint64_t> varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_end()) return std::nullopt;
      const auto byte = static_cast<uint8_t>(bytes_[at_++]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }
  std::optional<uint64_t> fixed(size_t size) {
    if (bytes_.size() - at_ < size) return std::nullopt;
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i)
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[at_ + i])) << (8 * i);
    at_ += size;
    return value;
  }
  std::optional<std::string_view> take(uint64_t size) {
    if (bytes_.size() - at_ < size) return std::nullopt;
    const std::string_view taken = bytes_.substr(at_, size);
    at_ += size;
    return taken;
  }
  Status corrupt(std::string_view what) const {
    return {ErrorCode::kCorrupt, concat("[protobuf] ", what, " at byte ", at_, " of ", bytes_.size(),
                                        "; the file is corrupt, or not a protocol buffer")};
  }

 private:
  std::string_view bytes_;
  size_t at_;
};

}  // namespace

float ProtobufField::as_float() const {
  return std::bit_cast<float>(static_cast<uint32_t>(value));
}
double ProtobufField::as_double() const {
  return std::bit_cast<double>(value);
}

Result<ProtobufField> ProtobufReader::next() {
  Cursor cursor(message_, at_);
  const auto tag = cursor.varint();
  if (!tag || *tag >> 3 == 0 || *tag >> 3 > 0x1fffffff) return cursor.corrupt("not a field tag");
  ProtobufField field;
  field.number = static_cast<uint32_t>(*tag >> 3);
  field.type = static_cast<WireType>(*tag & 7);
  std::optional<uint64_t> value;
  switch (field.type) {
    case WireType::kVarint:
      value = cursor.varint();
      break;
    case WireType::kFixed64:
      value = cursor.fixed(8);
      break;
    case WireType::kFixed32:
      value = cursor.fixed(4);
      break;
    case WireType::kBytes: {
      value = cursor.varint();
      const auto bytes = value ? cursor.take(*value) : std::nullopt;
      if (!bytes) return cursor.corrupt("a length beyond the end");
      field.bytes = *bytes;
      break;
    }
    default:
      return cursor.corrupt("a field of unknown type");
  }
  if (!value) return cursor.corrupt("a value beyond the end");
  field.value = *value;
  at_ = cursor.at();
  return field;
}

Status append_varints(const ProtobufField& field, std::vector<int64_t>& to) {
  if (field.type == WireType::kVarint) {
    to.push_back(field.as_int());
    return {};
  }
  Cursor cursor(field.bytes);
  if (field.type != WireType::kBytes) return cursor.corrupt("numbers of another type");
  while (!cursor.at_end()) {
    const auto value = cursor.varint();
    if (!value) return cursor.corrupt("a number beyond the end");
    to.push_back(static_cast<int64_t>(*value));
  }
  return {};
}

Status append_floats(const ProtobufField& field, std::vector<float>& to) {
  if (field.type == WireType::kFixed32) {
    to.push_back(field.as_float());
    return {};
  }
  Cursor cursor(field.bytes);
  if (field.type != WireType::kBytes || field.bytes.size() % 4 != 0)
    return cursor.corrupt("numbers of another type");
  while (!cursor.at_end()) to.push_back(std::bit_cast<float>(static_cast<uint32_t>(*cursor.fixed(4))));
  return {};
}

Status append_doubles(const ProtobufField& field, std::vector<double>& to) {
  if (field.type == WireType::kFixed64) {
    to.push_back(field.as_double());
    return {};
  }
  Cursor cursor(field.bytes);
  if (field.type != WireType::kBytes || field.bytes.size() % 8 != 0)
    return cursor.corrupt("numbers of another type");
  while (!cursor.at_end()) to.push_back(std::bit_cast<double>(*cursor.fixed(8)));
  return {};
}

void ProtobufWriter::add_varint(uint64_t value) {
  while (value >= 0x80) {
    bytes_ += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  bytes_ += static_cast<char>(value);
}

void ProtobufWriter::add_fixed(uint64_t bits, int size) {
  for (int i = 0; i < size; ++i) bytes_ += static_cast<char>(bits >> (8 * i));
}

void ProtobufWriter::add_tag(uint32_t number, WireType type) {
  add_varint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(type));
}

void ProtobufWriter::add_int(uint32_t number, int64_t value) {
  add_tag(number, WireType::kVarint);
  add_varint(static_cast<uint64_t>(value));
}

void ProtobufWriter::add_float(uint32_t number, float value) {
  add_tag(number, WireType::kFixed32);
  add_fixed(std::bit_cast<uint32_t>(value), sizeof value);
}

void ProtobufWriter::add_double(uint32_t number, double value) {
  add_tag(number, WireType::kFixed64);
  add_fixed(std::bit_cast<uint64_t>(value), sizeof value);
}

void ProtobufWriter::add_bytes(uint32_t number, std::string_view bytes) {
  add_tag(number, WireType::kBytes);
  add_varint(bytes.size());
  bytes_ += bytes;
}

void ProtobufWriter::add_ints(uint32_t number, std::span<const int64_t> values) {
  ProtobufWriter packed;
  for (const int64_t value : values) packed.add_varint(static_cast<uint64_t>(value));
  add_bytes(number, packed.bytes_);
}

void ProtobufWriter::add_floats(uint32_t number, std::span<const float> values) {
  ProtobufWriter packed;
  for (const float value : values) packed.add_fixed(std::bit_cast<uint32_t>(value), sizeof value);
  add_bytes(number, packed.bytes_);
}

}  // namespace dlpipe::formats
