#include "io/data/lmdb_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/text.h"

namespace dlpipe::data {

namespace {

using Bytes = LmdbFile::Bytes;

// Page: u64 number, u16 unused, u16 flags, u16 end of the entries' offsets, u16 start of the entries; then
// u16 offsets. A large value's first page has u32 pages instead of the last two.
constexpr size_t kPageHeader = 16;
constexpr uint16_t kBranch = 1;
constexpr uint16_t kLeaf = 2;
constexpr uint16_t kOverflow = 4;
constexpr uint16_t kMeta = 8;
// Entry: u32 bytes of the value (in a branch: the lower bits of the child's number), u16 flags (the upper
// bits), u16 bytes of the key; key, value. A large value's entry holds the number of its first page.
constexpr size_t kEntryHeader = 8;
constexpr uint16_t kLarge = 1;
constexpr uint16_t kTree = 2;
// Description of a tree: u32 page size (in the first), u16 flags, u16 depth, u64 branch, leaf and overflow
// pages, u64 entries, u64 root.
constexpr size_t kTreeBytes = 48;
constexpr uint16_t kIntegerKeys = 8;
constexpr uint64_t kNoPage = ~uint64_t{0};
constexpr int kMaxDepth = 32;  // LMDB's own limit
// Meta page, after the header: u32 magic, u32 version, u64 address, u64 map size, two trees (free pages, main), u64 last page,
// u64 transaction.
constexpr uint32_t kMagic = 0xbeefc0de;
constexpr uint32_t kVersion = 1;
constexpr size_t kMetaTrees = 24;
constexpr size_t kMetaBytes = kMetaTrees + 2 * kTreeBytes + 16;

LmdbFile::Tree parse_tree(Bytes bytes) {
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

struct Meta {
  uint32_t page_bytes = 0;
  LmdbFile::Tree free;
  LmdbFile::Tree main;
  uint64_t last_page = 0;
  uint64_t transaction = 0;
};

/// nullopt if there is not a meta page at `at`.
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

/// Negative, 0 or positive as `a` comes before `b`, is equal, or comes after it. False: the key is invalid.
bool compare(uint64_t a, Bytes b, int* order) {
  if (b.size() != sizeof a) return false;
  const auto other = load_le<uint64_t>(b, 0);
  *order = a < other ? -1 : a > other ? 1 : 0;
  return true;
}
bool compare(std::string_view a, Bytes b, int* order) {
  const size_t both = std::min(a.size(), b.size());
  const int begin = both == 0 ? 0 : std::memcmp(a.data(), b.data(), both);
  *order = begin != 0 ? begin : a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  return true;
}

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Compares two keys of one tree.
bool follows(const LmdbFile::Tree& tree, Bytes before, Bytes key) {
  int order = 0;
  if (!tree.has_integer_keys()) return compare(text_of(before), key, &order) && order < 0;
  return before.size() == sizeof(uint64_t) && compare(load_le<uint64_t>(before, 0), key, &order) && order < 0;
}

}  // namespace

/// One entry of a page, inside it.
struct LmdbFile::Entry {
  Bytes key;
  size_t rest = 0;  // position after the key
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

  size_t offset(size_t i) const { return load_le<uint16_t>(bytes, kPageHeader + 2 * i); }
  /// nullopt if the entry extends beyond the page.
  std::optional<Entry> entry(size_t i) const {
    const size_t at = offset(i);
    if (at < upper || at + kEntryHeader > bytes.size()) return {};
    Entry entry;
    entry.low = load_le<uint32_t>(bytes, at);
    entry.flags = load_le<uint16_t>(bytes, at + 4);
    const size_t key_bytes = load_le<uint16_t>(bytes, at + 6);
    entry.rest = at + kEntryHeader + key_bytes;
    if (entry.rest > bytes.size()) return {};
    entry.key = bytes.subspan(at + kEntryHeader, key_bytes);
    return entry;
  }
};

bool LmdbFile::Tree::has_integer_keys() const {
  return (flags & kIntegerKeys) != 0;
}

Status LmdbFile::damaged(uint64_t page, std::string_view what) const {
  return Status(ErrorCode::kCorrupt,
                concat("[dataset] ", directory_, ": ",
                       page < page_count_ ? concat("page ", page, " of data.mdb is corrupt (")
                                          : "data.mdb is corrupt (a page number in it is beyond its end: ",
                       what, "); copy or ingest the dataset again"));
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
  // Readahead around random records evicts useful pages if the file does not fit into memory.
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
                  concat("[dataset] ", directory_, "/data.mdb is corrupt or not a dataset: ", what,
                         "; copy or ingest it again"));
  };
  const std::optional<Meta> first = parse_meta(map_, 0);
  if (!first) return no_dataset("it has no LMDB 0.9 header");
  const uint64_t size = first->page_bytes;
  if (size < 512 || size > 65'536 || (size & (size - 1)) != 0) return no_dataset("its page size is invalid");
  const std::optional<Meta> second = parse_meta(map_, size);
  if (!second) return no_dataset("its second meta page is missing");
  const Meta& newer = second->transaction > first->transaction ? *second : *first;
  if (newer.page_bytes != size) return no_dataset("its two meta pages are inconsistent");
  page_bytes_ = size;
  // The last page is compared as a count of pages: the product might not fit 64 bits.
  if (newer.last_page >= map_.size() / size) {
    return Status(ErrorCode::kCorrupt, concat("[dataset] ", directory_, ": data.mdb has ", map_.size(),
                                              " bytes, fewer than its ", newer.last_page, " pages of ", size,
                                              ": it was truncated; copy or ingest the dataset again"));
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
    return damaged(number, "its header is invalid");
  page.count = (lower - kPageHeader) / 2;
  return page;
}

Result<Bytes> LmdbFile::value(const Page& page, const Entry& entry) const {
  const uint64_t size = entry.low;
  if ((entry.flags & kLarge) == 0) {
    if (size > page.bytes.size() - entry.rest) return damaged(page.number, "a value crosses its end");
    return page.bytes.subspan(entry.rest, size);
  }
  if (page.bytes.size() - entry.rest < sizeof(uint64_t))
    return damaged(page.number, "a value crosses its end");
  const auto first = load_le<uint64_t>(page.bytes, entry.rest);
  if (first < 2 || first >= page_count_ || size > (page_count_ - first) * page_bytes_ - kPageHeader)
    return damaged(page.number, "a value is outside the file");
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
      return damaged(number, "its depth differs from what its tree says");
    // The last entry whose key is not greater; a branch's first entry counts as smallest.
    size_t begin = page.is_leaf ? 0 : 1;
    size_t end = page.count;
    if (end < begin) return damaged(number, "a branch has no entries");
    std::optional<Entry> found;
    while (begin < end) {
      const size_t middle = begin + (end - begin) / 2;
      const std::optional<Entry> entry = page.entry(middle);
      int order = 0;
      if (!entry || !compare(key, entry->key, &order)) return damaged(number, "an entry is invalid");
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
    if (!found) return damaged(number, "an entry is invalid");
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
    return damaged(leaf.number, concat("'", name, "' is not a database"));
  return std::optional<Tree>(parse_tree(bytes));
}

Status LmdbFile::walk_page(uint64_t number, int levels, const std::function<Status(Bytes, Bytes)>& sink,
                           uint64_t* pages_left) const {
  if ((*pages_left)-- == 0) return damaged(number, "its tree has more pages than the file");
  DLPIPE_ASSIGN_OR_RETURN(const Page page, this->page(number));
  if (page.is_leaf != (levels == 1)) return damaged(number, "its depth differs from what its tree says");
  for (size_t i = 0; i < page.count; ++i) {
    const std::optional<Entry> entry = page.entry(i);
    if (!entry) return damaged(number, "an entry is invalid");
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

/// Implements check_all().
class LmdbFile::Checker {
 public:
  explicit Checker(const LmdbFile& file) : file_(file), used_(file.page_count_) {
    for (uint64_t number = 0; number < 2; ++number) used_[number] = true;  // the meta pages
  }

  Status check() {
    // Bit 0 of the first tree's flags would make LMDB map the file at an address that the file names.
    if (file_.free_.flags != kIntegerKeys || file_.main_.flags != 0)
      return file_.damaged(0, "a tree has invalid flags");
    std::vector<Tree> trees;
    DLPIPE_RETURN_IF_ERROR(check_tree(file_.main_, [&](const Entry& entry, Bytes value) -> Status {
      if (entry.flags != kTree || value.size() != kTreeBytes)
        return file_.damaged(file_.main_.root, "it holds something other than databases");
      trees.push_back(parse_tree(value));
      return {};
    }));
    for (const Tree& tree : trees) {
      if (tree.flags != 0 && tree.flags != kIntegerKeys)
        return file_.damaged(file_.main_.root, "a tree has invalid flags");
      DLPIPE_RETURN_IF_ERROR(check_tree(tree, [](const Entry&, Bytes) { return Status(); }));
    }
    return check_tree(file_.free_, [&](const Entry&, Bytes value) { return check_free(value); });
  }

 private:
  using Sink = std::function<Status(const Entry&, Bytes)>;

  /// A walk over a tree: the counts so far and the last entry.
  struct Walk {
    const Tree& tree;
    const Sink& sink;
    Tree found;
    Bytes last_key;
    bool has_key = false;
    uint64_t last_large = 0;  // page and size of the last entry's value; 0: it is in the leaf
    uint64_t last_size = 0;
  };

  Status use(uint64_t first, uint64_t count, uint64_t blame) {
    if (first < 2 || first >= file_.page_count_ || count > file_.page_count_ - first)
      return file_.damaged(blame, "it refers to a page outside the file");
    for (uint64_t number = first; number < first + count; ++number) {
      if (used_[number]) return file_.damaged(number, "it is used twice");
      used_[number] = true;
    }
    return {};
  }

  Status check_tree(const Tree& tree, const Sink& sink) {
    Walk walk{tree, sink, {}, {}};
    if (tree.root != kNoPage) {
      if (tree.depth < 1 || tree.depth > kMaxDepth) return file_.damaged(tree.root, "its tree is too deep");
      DLPIPE_RETURN_IF_ERROR(check_page(tree.root, tree.depth, nullptr, walk));
      if (walk.last_large != 0) DLPIPE_RETURN_IF_ERROR(check_large(walk));
    }
    const Tree& found = walk.found;
    if (found.entries != tree.entries || found.leaf_pages != tree.leaf_pages ||
        found.branch_pages != tree.branch_pages || found.overflow_pages != tree.overflow_pages)
      return file_.damaged(tree.root == kNoPage ? 0 : tree.root, "its tree's counts are wrong");
    return {};
  }

  /// `least`: lower limit of the page's keys; null: no limit.
  Status check_page(uint64_t number, int levels, const Bytes* least, Walk& walk) {
    DLPIPE_RETURN_IF_ERROR(use(number, 1, number));
    DLPIPE_ASSIGN_OR_RETURN(const Page page, file_.page(number));
    if (page.is_leaf != (levels == 1) || page.count == 0)
      return file_.damaged(number, "it is empty, or its depth differs from what its tree says");
    ++(page.is_leaf ? walk.found.leaf_pages : walk.found.branch_pages);
    size_t entry_bytes = 0;
    for (size_t i = 0; i < page.count; ++i) {
      const std::optional<Entry> entry = page.entry(i);
      if (!entry) return file_.damaged(number, "an entry is invalid");
      size_t size = kEntryHeader + entry->key.size();
      if (page.is_leaf) {
        size += (entry->flags & kLarge) != 0 ? sizeof(uint64_t) : entry->low;
        if (least != nullptr && i == 0 && follows(walk.tree, entry->key, *least))
          return file_.damaged(number, "its keys are out of order");
        DLPIPE_RETURN_IF_ERROR(check_entry(page, *entry, walk));
      } else {
        DLPIPE_RETURN_IF_ERROR(check_page(entry->child(), levels - 1, i == 0 ? least : &entry->key, walk));
      }
      entry_bytes += (size + 1) / 2 * 2;
    }
    if (entry_bytes != page.bytes.size() - page.upper) return file_.damaged(number, "its entries overlap");
    return {};
  }

  Status check_entry(const Page& page, const Entry& entry, Walk& walk) {
    if ((entry.flags & ~(kLarge | kTree)) != 0) return file_.damaged(page.number, "an entry is invalid");
    if (walk.has_key && !follows(walk.tree, walk.last_key, entry.key))
      return file_.damaged(page.number, "its keys are out of order");
    if (walk.tree.has_integer_keys() && entry.key.size() != sizeof(uint64_t))
      return file_.damaged(page.number, "a key is not a number");
    walk.last_key = entry.key;
    walk.has_key = true;
    ++walk.found.entries;
    DLPIPE_ASSIGN_OR_RETURN(const Bytes value, file_.value(page, entry));
    walk.last_large = 0;
    if ((entry.flags & kLarge) != 0) {
      const uint64_t pages = pages_of(value.size());
      walk.last_large = load_le<uint64_t>(page.bytes, entry.rest);
      walk.last_size = value.size();
      walk.found.overflow_pages += pages;
      DLPIPE_RETURN_IF_ERROR(use(walk.last_large, pages, page.number));
    }
    return walk.sink(entry, value);
  }

  uint64_t pages_of(uint64_t value_bytes) const {
    return (kPageHeader + value_bytes + file_.page_bytes_ - 1) / file_.page_bytes_;
  }

  Status check_large(const Walk& walk) const {
    const Bytes page = file_.map_.subspan(walk.last_large * file_.page_bytes_, kPageHeader);
    if (load_le<uint64_t>(page, 0) == walk.last_large && load_le<uint16_t>(page, 10) == kOverflow &&
        load_le<uint32_t>(page, 12) == pages_of(walk.last_size))
      return {};
    return file_.damaged(walk.last_large, "the header of a large value is invalid");
  }

  /// u64 count, then as many numbers of free pages, descending.
  Status check_free(Bytes value) {
    const uint64_t root = file_.free_.root;
    const uint64_t room = value.size() / sizeof(uint64_t);
    if (room < 1 || load_le<uint64_t>(value, 0) > room - 1)
      return file_.damaged(root, "a list of free pages is invalid");
    const uint64_t count = load_le<uint64_t>(value, 0);
    uint64_t before = kNoPage;
    for (uint64_t i = 1; i <= count; ++i) {
      const auto number = load_le<uint64_t>(value, i * sizeof(uint64_t));
      if (number >= before) return file_.damaged(root, "a list of free pages is out of order");
      DLPIPE_RETURN_IF_ERROR(use(number, 1, root));
      before = number;
    }
    return {};
  }

  const LmdbFile& file_;
  std::vector<bool> used_;
};

Status LmdbFile::check_all() const {
  return Checker(*this).check();
}

}  // namespace dlpipe::data
