// Reads an LMDB 0.9 data file without LMDB, which trusts its pages: one wrong bit in a page's header crashes a program that
// reads through it. Here each number of a page is checked against the page and the file before it is used, at each look-up, so
// that any bytes yield values inside the map or kCorrupt. Checksums decide whether the values are right.
//
// An LmdbFile owns its map. After open() it does not change, so any thread may call it. open() reads the two meta pages; a
// look-up reads one page for each level of the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dlpipe/error.h"

namespace dlpipe::data {

class LmdbFile {
 public:
  using Bytes = std::span<const std::byte>;

  /// One B-tree, from its description (48 bytes, at any address).
  struct Tree {
    uint16_t flags = 0;
    uint16_t depth = 0;
    uint64_t branch_pages = 0;
    uint64_t leaf_pages = 0;
    uint64_t overflow_pages = 0;
    uint64_t entries = 0;
    uint64_t root = 0;
    bool has_integer_keys() const;
  };

  /// Maps DIR/data.mdb and uses the newer of its two meta pages. kCorrupt when the file is shorter than that page says, or is
  /// not an LMDB file.
  static Result<std::unique_ptr<const LmdbFile>> open(const std::string& directory);
  ~LmdbFile();
  LmdbFile(const LmdbFile&) = delete;
  LmdbFile& operator=(const LmdbFile&) = delete;

  uint64_t size_bytes() const { return map_.size(); }
  /// The unnamed database, where other programs store their records.
  const Tree& main_tree() const { return main_; }
  /// The named database; nothing when there is none.
  Result<std::optional<Tree>> tree(std::string_view name) const;
  /// The value under a key, in the map; nothing when there is none. A large value's own page is not touched.
  Result<std::optional<Bytes>> find(const Tree& tree, uint64_t key) const;
  Result<std::optional<Bytes>> find(const Tree& tree, std::string_view key) const;
  /// All entries in the order of their keys, until `sink` returns an error.
  Status walk(const Tree& tree, const std::function<Status(Bytes key, Bytes value)>& sink) const;

  /// Checks every page of every tree and of the list of free pages, for code that writes through LMDB: structure, order of
  /// keys, counts, no page used twice. Of large values, only the last of each tree is checked, because no others are rewritten.
  Status check_all() const;

 private:
  class Checker;
  struct Page;
  struct Entry;
  LmdbFile(std::string directory, Bytes map) : directory_(std::move(directory)), map_(map) {}

  Status load_meta();
  Status damaged(uint64_t page, std::string_view what) const;
  Result<Page> page(uint64_t number) const;
  Result<Bytes> value(const Page& page, const Entry& entry) const;
  template <class Key>
  Result<std::optional<Entry>> find_entry(const Tree& tree, Key key, Page* leaf) const;
  template <class Key>
  Result<std::optional<Bytes>> find_value(const Tree& tree, Key key) const;
  Status walk_page(uint64_t number, int levels, const std::function<Status(Bytes, Bytes)>& sink,
                   uint64_t* pages_left) const;

  std::string directory_;
  Bytes map_;
  uint64_t page_bytes_ = 0;
  uint64_t page_count_ = 0;  // according to the meta page
  Tree free_;
  Tree main_;
};

}  // namespace dlpipe::data
