#include "dlpipe/io/data/lmdb_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "dlpipe/base/machine.h"
#include "dlpipe/base/regular_file.h"
#include "dlpipe/base/text.h"
#include "dlpipe/io/data/lmdb_page.h"

namespace dlpipe::data {

namespace {

using namespace lmdb;

struct Meta {
  uint32_t page_bytes = 0;
  LmdbFile::Tree free;
  LmdbFile::Tree main;
  uint64_t last_page = 0;
  uint64_t transaction = 0;
};

/// Nothing where no meta page stands at `at`.
std::optional<Meta> parse_meta(Bytes map, uint64_t at) {
  if (at > map.size() || map.size() - at < kPageHeader + kMetaBytes) return {};
  if (load_le<uint16_t>(map, at + 10) != kMeta) return {};
  const Bytes bytes = map.subspan(at + kPageHeader, kMetaBytes);
  if (load_le<uint32_t>(bytes, 0) != kMagic || load_le<uint32_t>(bytes, 4) != kVersion) return {};
  Meta meta;
  meta.page_bytes = load_le<uint32_t>(bytes, kMetaTrees);
  meta.free = parse_tree(bytes.subspan(kMetaTrees));
  meta.main = parse_tree(bytes.subspan(kMetaTrees + kTreeBytes));
  meta.last_page = load_le<uint64_t>(bytes, kMetaTrees + 2 * kTreeBytes);
  meta.transaction = load_le<uint64_t>(bytes, kMetaTrees + 2 * kTreeBytes + 8);
  return meta;
}

}  // namespace

bool LmdbFile::Tree::has_integer_keys() const {
  return (flags & kIntegerKeys) != 0;
}

Status LmdbFile::damaged(uint64_t page, std::string_view what) const {
  return Status(ErrorCode::kCorrupt,
                concat("[dataset] ", directory_, ": page ", page, " of data.mdb is damaged (", what,
                       "); copy or ingest the dataset again"));
}

Result<std::unique_ptr<const LmdbFile>> LmdbFile::open(const std::string& directory) {
  DLPIPE_ASSIGN_OR_RETURN(const RegularFile file, RegularFile::open("dataset", directory + "/data.mdb"));
  const uint64_t size = file.stamp().size_bytes;
  if (size == 0)
    return Status(ErrorCode::kCorrupt,
                  concat("[dataset] ", directory, ": data.mdb is empty; copy or ingest the dataset again"));
  void* const map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (map == MAP_FAILED)
    return status_from_errno("dataset", concat("cannot map ", directory, "/data.mdb"), errno);
  std::unique_ptr<LmdbFile> opened(new LmdbFile(directory, {static_cast<const std::byte*>(map), size}));
  // Readahead around random records evicts useful pages once the file doesn't fit the memory.
  if (size > available_memory_bytes()) ::madvise(map, size, MADV_RANDOM);
  DLPIPE_RETURN_IF_ERROR(opened->load_meta());
  return std::unique_ptr<const LmdbFile>(std::move(opened));
}

LmdbFile::~LmdbFile() {
  ::munmap(const_cast<std::byte*>(map_.data()), map_.size());
}

Status LmdbFile::load_meta() {
  const auto no_dataset = [&](std::string_view what) {
    return Status(ErrorCode::kCorrupt,
                  concat("[dataset] ", directory_, "/data.mdb is damaged or not a dataset: ", what,
                         "; copy or ingest it again"));
  };
  const std::optional<Meta> first = parse_meta(map_, 0);
  if (!first) return no_dataset("it has no LMDB 0.9 header");
  const uint64_t size = first->page_bytes;
  if (size < 512 || size > 65'536 || (size & (size - 1)) != 0)
    return no_dataset("its page size is impossible");
  const std::optional<Meta> second = parse_meta(map_, size);
  if (!second) return no_dataset("its second meta page is missing");
  const Meta& newer = second->transaction > first->transaction ? *second : *first;
  if (newer.page_bytes != size) return no_dataset("its two meta pages contradict each other");
  page_bytes_ = size;
  // The last page is compared as a count of pages: the product might not fit 64 bits.
  if (newer.last_page >= map_.size() / size) {
    return Status(ErrorCode::kCorrupt, concat("[dataset] ", directory_, ": data.mdb has ", map_.size(),
                                              " bytes, fewer than its ", newer.last_page, " pages of ", size,
                                              ": it was cut short; copy or ingest the dataset again"));
  }
  page_count_ = newer.last_page + 1;
  free_ = newer.free;
  main_ = newer.main;
  return {};
}

Result<LmdbFile::Page> LmdbFile::page(uint64_t number) const {
  if (number < 2 || number >= page_count_) return damaged(number, "there is no such page");
  Page page;
  page.number = number;
  page.bytes = map_.subspan(number * page_bytes_, page_bytes_);
  const auto flags = load_le<uint16_t>(page.bytes, 10);
  const size_t lower = load_le<uint16_t>(page.bytes, 12);
  page.upper = load_le<uint16_t>(page.bytes, 14);
  page.is_leaf = flags == kLeaf;
  if (load_le<uint64_t>(page.bytes, 0) != number || (flags != kLeaf && flags != kBranch) ||
      lower < kPageHeader || lower % 2 != 0 || lower > page.upper || page.upper > page_bytes_)
    return damaged(number, "its header is impossible");
  page.count = (lower - kPageHeader) / 2;
  return page;
}

Result<Bytes> LmdbFile::value(const Page& page, const Entry& entry) const {
  const uint64_t size = entry.low;
  if ((entry.flags & kLarge) == 0) {
    if (size > page.bytes.size() - entry.rest) return damaged(page.number, "a value leaves it");
    return page.bytes.subspan(entry.rest, size);
  }
  if (page.bytes.size() - entry.rest < sizeof(uint64_t)) return damaged(page.number, "a value leaves it");
  const auto first = load_le<uint64_t>(page.bytes, entry.rest);
  if (first < 2 || first >= page_count_ || size > (page_count_ - first) * page_bytes_ - kPageHeader)
    return damaged(page.number, "a value lies outside the file");
  return map_.subspan(first * page_bytes_ + kPageHeader, size);
}

/// The entry under `key`, with the leaf that holds it.
template <class Key>
Result<std::optional<LmdbFile::Entry>> LmdbFile::find_entry(const Tree& tree, Key key, Page* leaf) const {
  if (tree.root == kNoPage) return std::optional<Entry>();
  uint64_t number = tree.root;
  for (int level = 1; level <= kMaxDepth; ++level) {
    DLPIPE_ASSIGN_OR_RETURN(Page page, this->page(number));
    if (page.is_leaf != (level == tree.depth))
      return damaged(number, "it lies at another depth than its tree says");
    // The last entry whose key isn't beyond; a branch's first counts as smallest.
    size_t begin = page.is_leaf ? 0 : 1;
    size_t end = page.count;
    if (end < begin) return damaged(number, "a branch without entries");
    std::optional<Entry> found;
    while (begin < end) {
      const size_t middle = begin + (end - begin) / 2;
      const std::optional<Entry> entry = page.entry(middle);
      int order = 0;
      if (!entry || !compare(key, entry->key, &order)) return damaged(number, "an entry is impossible");
      if (order == 0 && page.is_leaf) {
        *leaf = page;
        return entry;
      }
      if (order < 0) {
        end = middle;
      } else {
        begin = middle + 1;
        found = entry;
      }
    }
    if (page.is_leaf) return std::optional<Entry>();
    if (!found) found = page.entry(0);
    if (!found) return damaged(number, "an entry is impossible");
    number = found->child();
  }
  return damaged(number, "its tree is too deep");
}

template <class Key>
Result<std::optional<Bytes>> LmdbFile::find_value(const Tree& tree, Key key) const {
  Page leaf;
  DLPIPE_ASSIGN_OR_RETURN(const std::optional<Entry> entry, find_entry(tree, key, &leaf));
  if (!entry) return std::optional<Bytes>();
  DLPIPE_ASSIGN_OR_RETURN(const Bytes bytes, value(leaf, *entry));
  return std::optional<Bytes>(bytes);
}
Result<std::optional<Bytes>> LmdbFile::find(const Tree& tree, uint64_t key) const {
  return find_value(tree, key);
}
Result<std::optional<Bytes>> LmdbFile::find(const Tree& tree, std::string_view key) const {
  return find_value(tree, key);
}

Result<std::optional<LmdbFile::Tree>> LmdbFile::tree(std::string_view name) const {
  Page leaf;
  DLPIPE_ASSIGN_OR_RETURN(const std::optional<Entry> entry, find_entry(main_, name, &leaf));
  if (!entry) return std::optional<Tree>();
  DLPIPE_ASSIGN_OR_RETURN(const Bytes bytes, value(leaf, *entry));
  if (entry->flags != kTree || bytes.size() != kTreeBytes)
    return damaged(leaf.number, concat("'", name, "' is no database"));
  return std::optional<Tree>(parse_tree(bytes));
}

Status LmdbFile::walk_page(uint64_t number, int levels, const std::function<Status(Bytes, Bytes)>& sink,
                           uint64_t* pages_left) const {
  if ((*pages_left)-- == 0) return damaged(number, "its tree has more pages than the file");
  DLPIPE_ASSIGN_OR_RETURN(const Page page, this->page(number));
  if (page.is_leaf != (levels == 1)) return damaged(number, "it lies at another depth than its tree says");
  for (size_t i = 0; i < page.count; ++i) {
    const std::optional<Entry> entry = page.entry(i);
    if (!entry) return damaged(number, "an entry is impossible");
    if (page.is_leaf) {
      DLPIPE_ASSIGN_OR_RETURN(const Bytes bytes, value(page, *entry));
      DLPIPE_RETURN_IF_ERROR(sink(entry->key, bytes));
    } else {
      DLPIPE_RETURN_IF_ERROR(walk_page(entry->child(), levels - 1, sink, pages_left));
    }
  }
  return {};
}

Status LmdbFile::walk(const Tree& tree, const std::function<Status(Bytes, Bytes)>& sink) const {
  if (tree.root == kNoPage) return {};
  if (tree.depth < 1 || tree.depth > kMaxDepth) return damaged(tree.root, "its tree is too deep");
  uint64_t pages_left = page_count_;
  return walk_page(tree.root, tree.depth, sink, &pages_left);
}

}  // namespace dlpipe::data
