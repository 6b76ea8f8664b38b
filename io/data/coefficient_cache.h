// Coefficient records of a linked dataset's JPEGs, kept beside a run: a folder of two files that only grow (FORMAT.md,
// Coefficient cache). Readers take a sample's record from it in the place of its file (linked_records.h); who has time to
// spare makes records (cache_coder.h).
//
// Whatever is in the folder, batches are the same: a record counts only as long as its file and what the dataset stores of the
// sample are as they were (its stamp), and has a checksum. Nothing is synced: after a kill what was written is there, after a
// power failure what isn't there is a wrong checksum.
//
// One process has a folder open; another one is refused. All functions but open() may be called from any thread; none takes a
// lock. Memory: 32 bytes per sample of the dataset.
#pragma once

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/base/error.h"

namespace dlpipe::data {

struct CacheOptions {
  std::string directory;  // made where it isn't there
  std::string dataset_id;
  int64_t samples = 0;
  uint64_t most_bytes = 0;  // of both files; 0: no limit of its own
  /// The cache stops growing before less than this is left of its file system, which checkpoints want, too.
  uint64_t keep_free_bytes = uint64_t{1} << 30;
};

class CoefficientCache {
 public:
  /// What is in the folder is used if it is of this dataset, else it is thrown away, and a warning says so. kMisuse where
  /// another process has it open.
  static Result<std::unique_ptr<CoefficientCache>> open(CacheOptions options);
  ~CoefficientCache();
  CoefficientCache(const CoefficientCache&) = delete;
  CoefficientCache& operator=(const CoefficientCache&) = delete;

  /// Where a sample's record lies.
  struct Found {
    uint64_t begin = 0;
    uint32_t size_bytes = 0;
    uint64_t checksum = 0;
    uint64_t stamp = 0;
  };
  std::optional<Found> find(int64_t sample) const;
  /// The record's bytes. kCorrupt where they aren't those that were written, kIo where the disk can't be read.
  Status read(const Found& found, std::vector<std::byte>& to) const;
  /// A record that was found wrong is never answered again; `why` is told of the first one. Later runs may make it anew.
  void withdraw(int64_t sample, const std::string& why);

  /// True for one caller alone: it makes this sample's record and gives it to append(), or gives up, and then the sample has
  /// none in this run.
  bool claim(int64_t sample);
  /// Of a claimed sample. Where the cache is full, or can't be written, a warning says so once, and nothing is kept.
  void append(int64_t sample, uint64_t stamp, std::span<const std::byte> record);
  /// No record is kept any more.
  bool is_full() const { return full_.load(std::memory_order_relaxed); }

  /// Says that the sample's file was just read, and its record would be of use. Only the last kOffers are remembered.
  void offer(int64_t sample);
  /// The sample that was offered last, and isn't any more; -1: none.
  int64_t take_offer();
  static constexpr size_t kOffers = 4096;

  int64_t records() const { return records_.load(std::memory_order_relaxed); }
  uint64_t bytes() const;
  int64_t withdrawn() const { return withdrawn_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::atomic<uint64_t> place{0};  // kNothing, kClaimed, or kFirst and where the record begins
    uint64_t checksum = 0;
    uint64_t stamp = 0;
    uint32_t size_bytes = 0;
  };
  static constexpr uint64_t kNothing = 0;
  static constexpr uint64_t kClaimed = 1;
  static constexpr uint64_t kFirst = 2;
  /// A row of the index, but for its own checksum.
  struct Row {
    uint64_t sample = 0;
    uint64_t begin = 0;
    uint64_t size_bytes = 0;  // 0: withdrawn
    uint64_t stamp = 0;
    uint64_t checksum = 0;
  };

  CoefficientCache(CacheOptions options, int records_fd, int index_fd);
  Status load();
  Status begin_anew();
  Status write_row(const Row& row);
  /// Whether so many more bytes may be written; where not, the cache is full from now on.
  bool has_room(uint64_t bytes);
  void fill_up(const std::string& why);
  std::string records_path() const { return options_.directory + "/records"; }
  std::string index_path() const { return options_.directory + "/index"; }

  const CacheOptions options_;
  const int records_fd_;
  const int index_fd_;
  const pid_t process_ = ::getpid();
  std::vector<Entry> entries_;
  std::atomic<uint64_t> end_{0};   // of the records
  std::atomic<uint64_t> rows_{0};  // of the index, its head not counted
  std::atomic<int64_t> records_{0};
  std::atomic<int64_t> withdrawn_{0};
  std::atomic<bool> fills_up_{false};
  std::atomic<bool> full_{false};
  std::array<std::atomic<int64_t>, kOffers> offers_;
  std::atomic<uint64_t> offered_{0};
};

}  // namespace dlpipe::data
