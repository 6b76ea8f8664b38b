// The parts of an LMDB 0.9 file, for lmdb_file.cpp and lmdb_check.cpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "dlpipe/base/bytes.h"
#include "dlpipe/io/data/lmdb_file.h"

namespace dlpipe::data {

namespace lmdb {

using Bytes = LmdbFile::Bytes;

// Page: u64 number, u16 unused, u16 flags, u16 end of the entries' offsets, u16 begin of the entries; then
// u16 offsets. A large value's first page has u32 pages instead of the last two.
inline constexpr size_t kPageHeader = 16;
inline constexpr uint16_t kBranch = 1;
inline constexpr uint16_t kLeaf = 2;
inline constexpr uint16_t kOverflow = 4;
inline constexpr uint16_t kMeta = 8;
// Entry: u32 bytes of the value (in a branch: the lower bits of the child's number), u16 flags (the upper
// bits), u16 bytes of the key; key, value. A large value's entry holds the number of its first page.
inline constexpr size_t kEntryHeader = 8;
inline constexpr uint16_t kLarge = 1;
inline constexpr uint16_t kTree = 2;
// Description of a tree: u32 page size (in the first), u16 flags, u16 depth, u64 branch, leaf and overflow
// pages, u64 entries, u64 root.
inline constexpr size_t kTreeBytes = 48;
inline constexpr uint16_t kIntegerKeys = 8;
inline constexpr uint64_t kNoPage = ~uint64_t{0};
inline constexpr int kMaxDepth = 32;  // LMDB's own limit
// Meta page, behind the header: u32 magic, u32 version, u64 address, u64 map size, two trees (free pages,
// main), u64 last page, u64 transaction.
inline constexpr uint32_t kMagic = 0xbeefc0de;
inline constexpr uint32_t kVersion = 1;
inline constexpr size_t kMetaTrees = 24;
inline constexpr size_t kMetaBytes = kMetaTrees + 2 * kTreeBytes + 16;

inline LmdbFile::Tree parse_tree(Bytes bytes) {
  LmdbFile::Tree tree;
  tree.flags = load_le<uint16_t>(bytes, 4);
  tree.depth = load_le<uint16_t>(bytes, 6);
  tree.branch_pages = load_le<uint64_t>(bytes, 8);
  tree.leaf_pages = load_le<uint64_t>(bytes, 16);
  tree.overflow_pages = load_le<uint64_t>(bytes, 24);
  tree.entries = load_le<uint64_t>(bytes, 32);
  tree.root = load_le<uint64_t>(bytes, 40);
  return tree;
}

/// Negative, 0 or positive as `a` comes before `b`, is equal, or comes after it. False: no such key.
inline bool compare(uint64_t a, Bytes b, int* order) {
  if (b.size() != sizeof a) return false;
  const auto other = load_le<uint64_t>(b, 0);
  *order = a < other ? -1 : a > other ? 1 : 0;
  return true;
}
inline bool compare(std::string_view a, Bytes b, int* order) {
  const size_t both = std::min(a.size(), b.size());
  const int begin = both == 0 ? 0 : std::memcmp(a.data(), b.data(), both);
  *order = begin != 0 ? begin : a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  return true;
}

inline std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Of two keys of one tree.
inline bool follows(const LmdbFile::Tree& tree, Bytes before, Bytes key) {
  int order = 0;
  if (!tree.has_integer_keys()) return compare(text_of(before), key, &order) && order < 0;
  return before.size() == sizeof(uint64_t) && compare(load_le<uint64_t>(before, 0), key, &order) && order < 0;
}

}  // namespace lmdb

/// One entry of a page, inside it.
struct LmdbFile::Entry {
  Bytes key;
  size_t rest = 0;  // place behind the key
  uint32_t low = 0;
  uint16_t flags = 0;
  uint64_t child() const { return low | uint64_t{flags} << 32; }
};

/// A branch or leaf page whose header is sound.
struct LmdbFile::Page {
  uint64_t number = 0;
  Bytes bytes;
  bool is_leaf = false;
  size_t count = 0;
  size_t upper = 0;

  size_t offset(size_t i) const { return load_le<uint16_t>(bytes, lmdb::kPageHeader + 2 * i); }
  /// Nothing where the entry leaves the page.
  std::optional<Entry> entry(size_t i) const {
    const size_t at = offset(i);
    if (at < upper || at + lmdb::kEntryHeader > bytes.size()) return {};
    Entry entry;
    entry.low = load_le<uint32_t>(bytes, at);
    entry.flags = load_le<uint16_t>(bytes, at + 4);
    const size_t key_bytes = load_le<uint16_t>(bytes, at + 6);
    entry.rest = at + lmdb::kEntryHeader + key_bytes;
    if (entry.rest > bytes.size()) return {};
    entry.key = bytes.subspan(at + lmdb::kEntryHeader, key_bytes);
    return entry;
  }
};

}  // namespace dlpipe::data
