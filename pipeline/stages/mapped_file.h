// A dataset's file in memory, and the one safe way to touch it first: asking the kernel for pages and getting
// an error as a value. Reading a mapped page that the disk can't give is SIGBUS instead.
//
// Thread-safe. Cost: one system call per range, and the reading where pages aren't in memory yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "dlpipe/base/error.h"

namespace dlpipe::pipeline {

class MappedFile {
 public:
  enum class Method : uint8_t {
    kPopulate,  // madvise(MADV_POPULATE_READ), Linux 5.14; falls back to kRead where the kernel has none
    kRead       // pread into scratch: fills the page cache, the map then finds the pages there
  };

  /// `inside` is any address in the process's map of the file at `path`; where the map begins is looked up in
  /// /proc/self/maps. The map must outlive this.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path, const std::byte* inside,
                                                  Method method = Method::kPopulate);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Starts reading the pages of `range` and returns; errors show in populate.
  void prefetch(std::span<const std::byte> range) const noexcept;
  /// All pages of `range` are in memory; kIo names file and offset when they can't be read.
  Status populate(std::span<const std::byte> range) const;
  /// Takes the pages of `range`, which begins at a page, out of the page cache unless somebody uses them.
  void evict(std::span<const std::byte> range) const noexcept;
  /// Takes all pages out of the process; those in the page cache come back at a touch, for a minor fault.
  void forget() const noexcept;
  std::span<const std::byte> map() const { return map_; }

 private:
  MappedFile(std::string path, std::span<const std::byte> map, int file, Method method);
  Status read_pages(size_t offset, size_t size) const;
  Status io_error(size_t offset, size_t size, int error_number) const;

  std::string path_;
  std::span<const std::byte> map_;
  int file_;
  Method method_;
  size_t page_size_;
};

}  // namespace dlpipe::pipeline
