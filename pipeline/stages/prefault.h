// The stage "prefault": loads the planned records' pages into memory, so that no later stage has a page fault, and so that an
// unreadable disk is an error with a message. Also the dataset's mapped file (MappedFile), and which of its pages stay in
// memory under a ceiling (PageWindow).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/setup.h"
#include "pipeline/plan/stage_counters.h"

namespace dlpipe::pipeline {

/// A dataset's file in memory, and the safe way to access it first: requesting pages from the kernel, which returns errors as
/// values. Reading a mapped page that the disk can't read would be SIGBUS instead.
///
/// Thread-safe. Cost: one system call per range, plus reading if pages are not in memory yet.
class MappedFile {
 public:
  enum class Method : uint8_t {
    kPopulate,  // madvise(MADV_POPULATE_READ), Linux 5.14; falls back to kRead if the kernel does not support it
    kRead       // pread into scratch: fills the page cache, the map then finds the pages there
  };

  /// `inside` is any address in the process's map of the file at `path`; the map's start is looked up in /proc/self/maps. The
  /// map must outlive this.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path, const std::byte* inside,
                                                  Method method = Method::kPopulate);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// Starts reading the pages of `range` and returns; errors show in populate.
  void prefetch(std::span<const std::byte> range) const noexcept;
  /// Loads all pages of `range` into memory; kIo names file and offset if they can't be read.
  Status populate(std::span<const std::byte> range) const;
  /// Drops the pages of `range`, which begins at a page, from the page cache unless they are in use.
  void evict(std::span<const std::byte> range) const noexcept;
  /// Unmaps all pages from the process; those in the page cache return on access, with a minor fault.
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

/// Which pages of a dataset's file stay in memory if a ceiling is set (LoaderOptions::memory_bytes): the pages of finished
/// batches are dropped from the page cache, the oldest first. A shuffled epoch reads a record once, so no dropped page would
/// have been used before the next epoch.
///
/// Pages are counted by blocks of 64 KB. An object belongs to the prefault thread.
class PageWindow {
 public:
  static constexpr size_t kBlockBytes = size_t{1} << 16;

  /// `file` must outlive this.
  explicit PageWindow(const MappedFile& file) : file_(file) {}

  /// `stored` is about to be loaded for batch `sequence`; sequences may come in any order.
  void enter(int64_t sequence, std::span<const std::byte> stored);
  /// Drops batches before `live`, oldest entries first, until at most `most_bytes` are held; pages of `live` and later batches
  /// stay, even if they are more.
  void shrink(int64_t live, int64_t most_bytes);
  /// Marks all entries so far as finished, regardless of later sequences: the stream has moved to another position.
  void all_over();
  int64_t held_bytes() const { return static_cast<int64_t>(users_.size() * kBlockBytes); }

 private:
  struct Entry {
    int64_t sequence;
    size_t first_block;
    size_t end_block;
  };
  void leave(const Entry& entry);

  const MappedFile& file_;
  std::deque<Entry> entries_;
  std::unordered_map<size_t, int32_t> users_;  // entries of a block
};

/// An object belongs to one thread: the prefault thread has one, and every worker has one for substitutes.
class Prefault {
 public:
  /// All must outlive this object.
  Prefault(const Setup& setup, const MappedFile& file, data::Dataset::Reader& reader,
           PipelineCounters& counters);

  /// Afterwards every record of `plans` can be read from the map, at plan.stored. I/O errors are retried (kTries attempts in
  /// all, after 10, 40 and 160 ms); then the error names sample, file and offset, and *failed is its plan. Counts bytes; the
  /// caller, which may be a worker, counts time.
  Status touch(std::span<SamplePlan> plans, size_t* failed);
  /// With a ceiling: call it before touch(), for plans of batch `sequence`, when batches before `live` are finished and the
  /// file may use `most_bytes` of memory.
  void make_room(std::span<SamplePlan> plans, int64_t sequence, int64_t live, int64_t most_bytes);
  /// All batches so far are finished, and sequences may go back. Call it while no other thread uses this object.
  void start_again() { window_.all_over(); }

  static constexpr int kTries = 4;

 private:
  Status locate(std::span<SamplePlan> plans, size_t* failed);
  Status touch_one(const PlannedRecord& record);
  Status touch_once(const PlannedRecord& record);
  void keep_below_ceiling();
  Status touch_granules(std::span<const std::byte> stored);

  const Setup& setup_;
  const MappedFile& file_;
  data::Dataset::Reader& reader_;
  StageCounters& counters_;
  // A file that easily fits into memory is prefaulted in granules, and again only after a while, because small records would
  // otherwise cost a system call each. Empty: every record is prefaulted separately.
  std::vector<int64_t> granule_touched_ns_;
  int64_t portion_begin_ns_ = 0;  // one clock read per portion
  PageWindow window_;
};

}  // namespace dlpipe::pipeline
