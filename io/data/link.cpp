#include "dlpipe/io/data/link.h"

#include <cstring>

#include "dlpipe/base/bytes.h"

namespace dlpipe::data {

namespace {
constexpr size_t kLinkHead = 17;  // offset, size, flags
constexpr size_t kTimeBytes = 8;  // behind it, where there is a time
constexpr uint8_t kWhole = 1;
constexpr uint8_t kHasTime = 2;
}  // namespace

std::vector<std::byte> encode_link(const Link& link) {
  const size_t head = kLinkHead + (link.modified_ns ? kTimeBytes : 0);
  std::vector<std::byte> bytes(head + link.file.size());
  store_le(bytes.data(), link.offset);
  store_le(bytes.data() + 8, link.size_bytes);
  store_le(bytes.data() + 16,
           static_cast<uint8_t>((link.is_whole ? kWhole : 0) | (link.modified_ns ? kHasTime : 0)));
  if (link.modified_ns) store_le(bytes.data() + kLinkHead, *link.modified_ns);
  std::memcpy(bytes.data() + head, link.file.data(), link.file.size());
  return bytes;
}

Result<Link> parse_link(std::span<const std::byte> bytes) {
  const auto malformed = [] {
    return Status(ErrorCode::kCorrupt, "[dataset] a link is malformed; ingest anew");
  };
  if (bytes.size() <= kLinkHead) return malformed();
  const uint8_t flags = load_u8(bytes, 16);
  const size_t head = kLinkHead + ((flags & kHasTime) != 0 ? kTimeBytes : 0);
  if (flags > (kWhole | kHasTime) || bytes.size() <= head) return malformed();
  Link link;
  link.offset = load_le<uint64_t>(bytes, 0);
  link.size_bytes = load_le<uint64_t>(bytes, 8);
  link.is_whole = (flags & kWhole) != 0;
  if ((flags & kHasTime) != 0) link.modified_ns = load_le<int64_t>(bytes, kLinkHead);
  link.file.assign(reinterpret_cast<const char*>(bytes.data()) + head, bytes.size() - head);
  if (link.file.find('\0') != std::string::npos) return malformed();
  return link;
}

}  // namespace dlpipe::data
