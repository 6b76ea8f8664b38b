#include "dlpipe/pipeline/stages/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "dlpipe/base/text.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older C library headers lack the name
#endif

namespace dlpipe::pipeline {

namespace {

// The address at which the mapping around `inside` would have the file's first byte; null when there is none.
const std::byte* find_map(const std::byte* inside) {
  const auto address = reinterpret_cast<uintptr_t>(inside);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uintptr_t offset = 0;
    // "7f1c8a600000-7f1c8a800000 r--s 00001000 fe:01 1234 /path"
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNxPTR, &begin, &end, &offset) != 3)
      continue;
    if (address >= begin && address < end) return reinterpret_cast<const std::byte*>(begin - offset);
  }
  return nullptr;
}

}  // namespace

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path, const std::byte* inside,
                                                     Method method) {
  const std::byte* map = find_map(inside);
  if (map == nullptr)
    return Status(ErrorCode::kInternal, concat("[loader] ", path, " is not mapped where it was read"));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return status_from_errno("loader", concat("cannot open ", path), errno);
  struct stat stat {};
  if (::fstat(file, &stat) != 0) {
    const int error = errno;
    ::close(file);
    return status_from_errno("loader", concat("cannot read the size of ", path), error);
  }
  const std::span<const std::byte> whole(map, static_cast<size_t>(stat.st_size));
  return std::unique_ptr<MappedFile>(new MappedFile(path, whole, file, method));
}

MappedFile::MappedFile(std::string path, std::span<const std::byte> map, int file, Method method)
    : path_(std::move(path)),
      map_(map),
      file_(file),
      method_(method),
      page_size_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
  // Asking once for the first page tells whether this kernel knows the advice.
  if (method_ == Method::kPopulate && !map_.empty() &&
      ::madvise(const_cast<std::byte*>(map_.data()), page_size_, MADV_POPULATE_READ) != 0 &&
      errno == EINVAL) {
    method_ = Method::kRead;
  }
}

MappedFile::~MappedFile() {
  ::close(file_);
}

void MappedFile::prefetch(std::span<const std::byte> range) const noexcept {
  const auto offset = static_cast<size_t>(range.data() - map_.data());
  ::posix_fadvise(file_, static_cast<off_t>(offset), static_cast<off_t>(range.size()), POSIX_FADV_WILLNEED);
}

void MappedFile::evict(std::span<const std::byte> range) const noexcept {
  const auto offset = static_cast<size_t>(range.data() - map_.data());
  ::posix_fadvise(file_, static_cast<off_t>(offset), static_cast<off_t>(range.size()), POSIX_FADV_DONTNEED);
}

void MappedFile::forget() const noexcept {
  ::madvise(const_cast<std::byte*>(map_.data()), map_.size(), MADV_DONTNEED);
}

Status MappedFile::populate(std::span<const std::byte> range) const {
  if (range.empty()) return {};
  const auto offset = static_cast<size_t>(range.data() - map_.data());
  if (range.data() < map_.data() || offset > map_.size() || range.size() > map_.size() - offset) {
    return Status(ErrorCode::kInternal, concat("[loader] a record outside the map of ", path_));
  }
  const size_t begin = offset / page_size_ * page_size_;
  const size_t size = offset + range.size() - begin;
  if (method_ == Method::kRead) return read_pages(begin, size);
  auto* pages = const_cast<std::byte*>(map_.data()) + begin;
  while (::madvise(pages, size, MADV_POPULATE_READ) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    return io_error(begin, size, errno == EFAULT ? EIO : errno);  // EFAULT: the page would be SIGBUS
  }
  return {};
}

Status MappedFile::read_pages(size_t offset, size_t size) const {
  constexpr size_t kPiece = size_t{1} << 18;
  std::vector<char> scratch(std::min(size, kPiece));
  while (size > 0) {
    const ssize_t got = ::pread(file_, scratch.data(), std::min(size, kPiece), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return io_error(offset, size, got == 0 ? EIO : errno);
    offset += static_cast<size_t>(got);
    size -= static_cast<size_t>(got);
  }
  return {};
}

Status MappedFile::io_error(size_t offset, size_t size, int error_number) const {
  return status_from_errno("loader", concat("cannot read ", size, " bytes at ", offset, " of ", path_),
                           error_number);
}

}  // namespace dlpipe::pipeline
