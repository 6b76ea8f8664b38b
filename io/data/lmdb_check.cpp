#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/io/data/lmdb_file.h"
#include "dlpipe/io/data/lmdb_page.h"

namespace dlpipe::data {

using namespace lmdb;

class LmdbFile::Checker {
 public:
  explicit Checker(const LmdbFile& file) : file_(file), used_(file.page_count_) {
    for (uint64_t number = 0; number < 2; ++number) used_[number] = true;  // the meta pages
  }

  Status check() {
    // Bit 0 of the first tree's flags would make LMDB map the file at an address that the file names.
    if (file_.free_.flags != kIntegerKeys || file_.main_.flags != 0)
      return file_.damaged(0, "a tree has impossible flags");
    std::vector<Tree> trees;
    DLPIPE_RETURN_IF_ERROR(check_tree(file_.main_, [&](const Entry& entry, Bytes value) -> Status {
      if (entry.flags != kTree || value.size() != kTreeBytes)
        return file_.damaged(file_.main_.root, "it holds something other than databases");
      trees.push_back(parse_tree(value));
      return {};
    }));
    for (const Tree& tree : trees) {
      if (tree.flags != 0 && tree.flags != kIntegerKeys)
        return file_.damaged(file_.main_.root, "a tree has impossible flags");
      DLPIPE_RETURN_IF_ERROR(check_tree(tree, [](const Entry&, Bytes) { return Status(); }));
    }
    return check_tree(file_.free_, [&](const Entry&, Bytes value) { return check_free(value); });
  }

 private:
  using Sink = std::function<Status(const Entry&, Bytes)>;

  /// What a tree turns out to have.
  struct Walk {
    const Tree& tree;
    const Sink& sink;
    Tree found;
    Bytes last_key;
    bool has_key = false;
    uint64_t last_large = 0;  // page and size of the last entry's value; 0: it is a small one
    uint64_t last_size = 0;
  };

  Status use(uint64_t first, uint64_t count, uint64_t blame) {
    if (first < 2 || first >= file_.page_count_ || count > file_.page_count_ - first)
      return file_.damaged(blame, "it names a page outside the file");
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
      return file_.damaged(tree.root == kNoPage ? 0 : tree.root, "its tree has other counts than it says");
    return {};
  }

  /// `least`: no key of the page may come before it; null for none.
  Status check_page(uint64_t number, int levels, const Bytes* least, Walk& walk) {
    DLPIPE_RETURN_IF_ERROR(use(number, 1, number));
    DLPIPE_ASSIGN_OR_RETURN(const Page page, file_.page(number));
    if (page.is_leaf != (levels == 1) || page.count == 0)
      return file_.damaged(number, "it lies at another depth than its tree says, or is empty");
    ++(page.is_leaf ? walk.found.leaf_pages : walk.found.branch_pages);
    size_t entry_bytes = 0;
    for (size_t i = 0; i < page.count; ++i) {
      const std::optional<Entry> entry = page.entry(i);
      if (!entry) return file_.damaged(number, "an entry is impossible");
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
    if ((entry.flags & ~(kLarge | kTree)) != 0) return file_.damaged(page.number, "an entry is impossible");
    if (walk.has_key && !follows(walk.tree, walk.last_key, entry.key))
      return file_.damaged(page.number, "its keys are out of order");
    if (walk.tree.has_integer_keys() && entry.key.size() != sizeof(uint64_t))
      return file_.damaged(page.number, "a key is no number");
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
    return file_.damaged(walk.last_large, "the header of a large value is impossible");
  }

  /// u64 count, then the numbers of so many free pages, descending.
  Status check_free(Bytes value) {
    const uint64_t root = file_.free_.root;
    const uint64_t room = value.size() / sizeof(uint64_t);
    if (room < 1 || load_le<uint64_t>(value, 0) > room - 1)
      return file_.damaged(root, "a list of free pages is impossible");
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
