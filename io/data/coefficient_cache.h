// Coefficient records of a linked dataset's JPEGs, stored with a run: a directory with two files that only grow (FORMAT.md,
// Coefficient cache). Readers use a sample's record instead of its file (LinkedRecords); threads with time to spare make
// records (CacheCoder).
//
// The contents of the directory never change batches: a record has a checksum and is used only while its file and what the
// dataset stores for the sample are unchanged (its stamp). Nothing is synced: after a kill, all written data is there; after a
// power failure, missing data shows as a wrong checksum.
//
// Only one process can have a directory open; others are refused. All functions except open() may be called from any thread;
// none takes a lock. Memory: 32 bytes per sample of the dataset.
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

#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"
#include "dlpipe/error.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/linked_records.h"

namespace dlpipe::data {

struct CacheOptions {
  std::string directory;  // created if missing
  std::string dataset_id;
  int64_t samples = 0;
  uint64_t most_bytes = 0;  // of both files; 0: no separate limit
  /// The cache stops growing before less than this is free on its file system, which checkpoints also need.
  uint64_t keep_free_bytes = uint64_t{1} << 30;
};

class CoefficientCache {
 public:
  /// Existing contents are used if they belong to this dataset; otherwise they are deleted with a warning. kMisuse if another
  /// process has the directory open.
  static Result<std::unique_ptr<CoefficientCache>> open(CacheOptions options);
  ~CoefficientCache();
  CoefficientCache(const CoefficientCache&) = delete;
  CoefficientCache& operator=(const CoefficientCache&) = delete;

  /// Where a sample's record is.
  struct Found {
    uint64_t begin = 0;
    uint32_t size_bytes = 0;
    uint64_t checksum = 0;
    uint64_t stamp = 0;
  };
  std::optional<Found> find(int64_t sample) const;
  /// The record's bytes. kCorrupt if they differ from those that were written, kIo if the disk can't be read.
  Status read(const Found& found, std::vector<std::byte>& to) const;
  /// Never returns this record again, because it was found wrong; logs `why` for the first one. Later runs may create it again.
  void withdraw(int64_t sample, const std::string& why);

  /// True for exactly one caller. It creates this sample's record and passes it to append(); if it gives up, the sample has no
  /// record in this run.
  bool claim(int64_t sample);
  /// Stores the record of a claimed sample. If the cache is full or can't be written, warns once and stores nothing.
  void append(int64_t sample, uint64_t stamp, std::span<const std::byte> record);
  /// True once no more records are stored.
  bool is_full() const { return full_.load(std::memory_order_relaxed); }

  /// Reports that the sample's file was just read and a record would be useful. Only the last kOffers are remembered.
  void offer(int64_t sample);
  /// Removes and returns the sample that was offered last; -1 if there is none.
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
  /// A row of the index without its own checksum.
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
  /// Whether this many more bytes may be written; if not, the cache is full from now on.
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
  std::atomic<uint64_t> rows_{0};  // of the index, without its header
  std::atomic<int64_t> records_{0};
  std::atomic<int64_t> withdrawn_{0};
  std::atomic<bool> fills_up_{false};
  std::atomic<bool> full_{false};
  std::array<std::atomic<int64_t>, kOffers> offers_;
  std::atomic<uint64_t> offered_{0};
};

/// Makes the coefficient record of one image of a linked dataset, for its cache. A record is stored only if it decodes to the
/// file's pixels. A CacheCoder belongs to one thread and keeps its scratch.
class CacheCoder {
 public:
  /// For a linked dataset. Dataset and cache must outlive this object.
  static Result<std::unique_ptr<CacheCoder>> create(const Dataset& dataset, CoefficientCache& cache,
                                                    const DecodeLimits& limits);
  /// Reads the sample's file, as readers do, and passes its record to the cache. Does nothing if there already is one or
  /// another thread is creating it. An error says why the image is not converted: it is not a JPEG that can be coded, or the
  /// file changes.
  Status code(int64_t sample);
  /// Bytes of scratch kept between calls, except libjpeg's.
  size_t scratch_bytes() const { return expected_.capacity() + decoded_.capacity(); }

 private:
  CacheCoder(const Dataset& dataset, CoefficientCache& cache, const DecodeLimits& limits,
             std::unique_ptr<Dataset::Reader> reader);
  Result<std::vector<std::byte>> encode(std::span<const std::byte> jpeg, const RecordHeader& header);

  const Dataset& dataset_;
  CoefficientCache& cache_;
  const DecodeLimits limits_;
  std::unique_ptr<Dataset::Reader> reader_;
  LinkedRecords linked_;
  CoefficientEncoder encoder_;
  ImageDecoder decoder_;
  std::vector<uint8_t> expected_;
  std::vector<uint8_t> decoded_;
};

}  // namespace dlpipe::data
