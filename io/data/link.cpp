#include "dlpipe/io/data/link.h"

#include <cstring>

#include "dlpipe/io/data/bytes.h"

namespace dlpipe::data {

namespace {
constexpr size_t kLinkHead = 17;  // offset, size, flags
constexpr uint8_t kWhole = 1;
}  // namespace

std::vector<std::byte> encode_link(const Link& link) {
  std::vector<std::byte> bytes(kLinkHead + link.file.size());
  store_le(bytes.data(), link.offset);
  store_le(bytes.data() + 8, link.size_bytes);
  bytes[16] = std::byte{link.is_whole ? kWhole : uint8_t{0}};
  std::memcpy(bytes.data() + kLinkHead, link.file.data(), link.file.size());
  return bytes;
}

Result<Link> parse_link(std::span<const std::byte> bytes) {
  if (bytes.size() <= kLinkHead || load_u8(bytes, 16) > kWhole)
    return Status(ErrorCode::kCorrupt, "[dataset] a link is malformed");
  Link link;
  link.offset = load_le<uint64_t>(bytes, 0);
  link.size_bytes = load_le<uint64_t>(bytes, 8);
  link.is_whole = load_u8(bytes, 16) == kWhole;
  link.file.assign(reinterpret_cast<const char*>(bytes.data()) + kLinkHead, bytes.size() - kLinkHead);
  if (link.file.find('\0') != std::string::npos)
    return Status(ErrorCode::kCorrupt, "[dataset] a link is malformed");
  return link;
}

}  // namespace dlpipe::data
