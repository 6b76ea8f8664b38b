#include "io/data/sources/bytes/protobuf_wire.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace dlpipe::data {

namespace {

Status damaged_message() {
  return Status(ErrorCode::kCorrupt, "the protocol buffer is inconsistent");
}

}  // namespace

Result<uint64_t> WireCursor::varint() {
  constexpr size_t kMost = 10;
  std::array<std::byte, kMost> bytes{};
  const uint64_t left = at_ < end_ ? end_ - at_ : 0;
  DLPIPE_ASSIGN_OR_RETURN(const size_t count,
                          read_(at_, std::span(bytes).first(std::min<uint64_t>(kMost, left))));
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint64_t>(bytes[i]);
    value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      at_ += i + 1;
      return value;
    }
  }
  return damaged_message();
}

Result<std::optional<WireField>> WireCursor::next() {
  if (at_end()) return std::optional<WireField>();
  DLPIPE_ASSIGN_OR_RETURN(const uint64_t tag, varint());
  WireField field;
  field.number = static_cast<uint32_t>(tag >> 3);
  if (tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return damaged_message();
  const uint64_t kind = tag & 7;
  if (kind == 0) {
    DLPIPE_ASSIGN_OR_RETURN(field.value, varint());
    return std::optional(field);
  }
  if (kind == 2) {
    DLPIPE_ASSIGN_OR_RETURN(field.size, varint());
    field.has_bytes = true;
    field.begin = at_;
    if (field.size > end_ - at_) return damaged_message();
    at_ += field.size;
    return std::optional(field);
  }
  const uint64_t size = kind == 1 ? 8 : kind == 5 ? 4 : 0;
  if (size == 0 || size > end_ - at_) return damaged_message();
  std::array<std::byte, 8> bytes{};
  DLPIPE_ASSIGN_OR_RETURN(const size_t count, read_(at_, std::span(bytes).first(size)));
  if (count < size) return damaged_message();
  for (size_t i = 0; i < size; ++i) field.value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  at_ += size;
  return std::optional(field);
}

Result<std::string> WireCursor::text(const WireField& field, uint64_t most) const {
  if (!field.has_bytes || field.size > most) return damaged_message();
  std::string text(field.size, '\0');
  DLPIPE_ASSIGN_OR_RETURN(const size_t count, read_(field.begin, std::as_writable_bytes(std::span(text))));
  if (count < text.size()) return damaged_message();
  return text;
}

ReadAt read_memory(std::span<const std::byte> bytes) {
  return [bytes](uint64_t at, std::span<std::byte> to) -> Result<size_t> {
    if (at >= bytes.size()) return size_t{0};
    const size_t count = std::min<uint64_t>(to.size(), bytes.size() - at);
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), count, to.begin());
    return count;
  };
}

}  // namespace dlpipe::data
