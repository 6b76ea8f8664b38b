#include "pipeline/stages/prefault.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine.h"
#include "base/text.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14; older C library headers lack the name
#endif

namespace dlpipe::pipeline {

namespace {
constexpr size_t kGranuleBytes = size_t{1} << 18;
// How long a prefaulted granule counts as in memory. The file is small compared with the memory, and the kernel drops pages
// that were used seconds ago only when memory is short; a separately prefaulted record could be dropped just as well before it
// is read.
constexpr int64_t kGranuleFreshNs = 5'000'000'000;
}  // namespace

Prefault::Prefault(const Setup& setup, const MappedFile& file, data::Dataset::Reader& reader,
                   PipelineCounters& counters)
    : setup_(setup), file_(file), reader_(reader), counters_(counters[Stage::kPrefault]), window_(file) {
  const size_t bytes = file.map().size();
  const auto ceiling = static_cast<uint64_t>(setup.options.memory_bytes);
  const uint64_t memory =
      ceiling > 0 ? std::min(ceiling, available_memory_bytes()) : available_memory_bytes();
  if (bytes < memory / 4) granule_touched_ns_.resize(bytes / kGranuleBytes + 1);
}

void Prefault::make_room(std::span<SamplePlan> plans, int64_t sequence, int64_t live, int64_t most_bytes) {
  if (!granule_touched_ns_.empty()) return;  // the whole file is small compared with the ceiling
  for (const SamplePlan& plan : plans) {
    for (size_t k = 0; k < plan.records(); ++k) {
      const auto stored = reader_.stored(plan.record(k).sample);
      if (stored.ok()) window_.enter(sequence, *stored);  // touch() reports errors
    }
  }
  window_.shrink(live, most_bytes);
}

// The kernel decides how many pages around a touched page it maps (whole large folios, a megabyte or more
// since Linux 6.18), so this measures the resident memory.
void Prefault::keep_below_ceiling() {
  const int64_t ceiling = setup_.options.memory_bytes;
  if (ceiling == 0 || !granule_touched_ns_.empty()) return;
  constexpr int64_t kMargin = 32;
  if (static_cast<int64_t>(resident_bytes()) > ceiling - ceiling / kMargin) file_.forget();
}

Status Prefault::touch(std::span<SamplePlan> plans, size_t* failed) {
  DLPIPE_RETURN_IF_ERROR(locate(plans, failed));
  portion_begin_ns_ = now_ns();
  int64_t bytes = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    *failed = i;
    for (size_t k = 0; k < plans[i].records(); ++k) {
      keep_below_ceiling();
      DLPIPE_RETURN_IF_ERROR(touch_one(plans[i].record(k)));
      bytes += static_cast<int64_t>(plans[i].record(k).stored.size());
    }
  }
  counters_.bytes.add(bytes);
  return {};
}

// Finds all records first and starts reading them, so that the disk has many requests at once.
Status Prefault::locate(std::span<SamplePlan> plans, size_t* failed) {
  for (size_t i = 0; i < plans.size(); ++i) {
    *failed = i;
    for (size_t k = 0; k < plans[i].records(); ++k) {
      PlannedRecord& record = plans[i].record(k);
      DLPIPE_ASSIGN_OR_RETURN(record.stored, reader_.stored(record.sample));
      if (granule_touched_ns_.empty()) file_.prefetch(record.stored);
    }
  }
  return {};
}

Status Prefault::touch_one(const PlannedRecord& record) {
  auto pause = std::chrono::milliseconds(10);
  for (int attempt = 1;; ++attempt) {
    Status status = touch_once(record);
    if (status.ok()) return status;
    if (attempt == kTries) {
      return status.with_context(concat("[loader] sample ", record.sample, " of ",
                                        setup_.dataset->directory(), " could not be read in ", kTries,
                                        " attempts; check the disk, then resume: "));
    }
    std::this_thread::sleep_for(pause);
    pause *= 4;
  }
}

Status Prefault::touch_once(const PlannedRecord& record) {
  if (setup_.options.inject_read_error)
    DLPIPE_RETURN_IF_ERROR(setup_.options.inject_read_error(record.sample));
  DLPIPE_RETURN_IF_ERROR(granule_touched_ns_.empty() ? file_.populate(record.stored)
                                                     : touch_granules(record.stored));
  return reader_.load(record.stored, record.sample);
}

Status Prefault::touch_granules(std::span<const std::byte> stored) {
  if (stored.empty()) return {};
  const std::span<const std::byte> map = file_.map();
  const auto offset = static_cast<size_t>(stored.data() - map.data());
  if (stored.data() < map.data() || offset + stored.size() > map.size()) return file_.populate(stored);
  for (size_t granule = offset / kGranuleBytes; granule <= (offset + stored.size() - 1) / kGranuleBytes;
       ++granule) {
    if (granule_touched_ns_[granule] != 0 &&
        portion_begin_ns_ - granule_touched_ns_[granule] < kGranuleFreshNs)
      continue;
    const size_t begin = granule * kGranuleBytes;
    const auto pages = map.subspan(begin, std::min(kGranuleBytes, map.size() - begin));
    if (granule_touched_ns_[granule] == 0) file_.prefetch(pages);
    DLPIPE_RETURN_IF_ERROR(file_.populate(pages));
    granule_touched_ns_[granule] = portion_begin_ns_;
  }
  return {};
}

// --- the mapped file

namespace {

// The address at which the mapping around `inside` would have the file's first byte; null if there is none.
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
  // Requesting the first page once shows whether this kernel supports the advice.
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
    return Status(ErrorCode::kInternal, concat("[loader] a record is outside the map of ", path_));
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

// --- the window of pages

void PageWindow::enter(int64_t sequence, std::span<const std::byte> stored) {
  const std::span<const std::byte> map = file_.map();
  if (stored.empty() || stored.data() < map.data()) return;
  const auto offset = static_cast<size_t>(stored.data() - map.data());
  const Entry entry{sequence, offset / kBlockBytes, (offset + stored.size() - 1) / kBlockBytes + 1};
  for (size_t block = entry.first_block; block < entry.end_block; ++block) ++users_[block];
  entries_.push_back(entry);
}

void PageWindow::shrink(int64_t live, int64_t most_bytes) {
  while (!entries_.empty() && held_bytes() > most_bytes && entries_.front().sequence < live) {
    leave(entries_.front());
    entries_.pop_front();
  }
}

void PageWindow::all_over() {
  for (Entry& entry : entries_) entry.sequence = std::numeric_limits<int64_t>::min();
}

void PageWindow::leave(const Entry& entry) {
  const std::span<const std::byte> map = file_.map();
  for (size_t block = entry.first_block; block < entry.end_block; ++block) {
    const auto users = users_.find(block);
    if (--users->second > 0) continue;
    users_.erase(users);
    const size_t begin = block * kBlockBytes;
    file_.evict(map.subspan(begin, std::min(kBlockBytes, map.size() - begin)));
  }
}

}  // namespace dlpipe::pipeline
