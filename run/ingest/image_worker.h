// Turns one file, or one sample in memory, into one record: checks it, decodes it whole, recodes it if the options require it,
// and packs it.
//
// An ImageWorker belongs to one thread and keeps its scratch; the Source and the counters are shared.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/counters.h"
#include "base/mutex.h"
#include "base/threads.h"
#include "dlpipe/codec.h"
#include "dlpipe/error.h"
#include "dlpipe/ingest.h"
#include "dlpipe/source.h"
#include "io/data/codec/coef/jpeg_coefficients.h"
#include "io/data/codec/mask.h"
#include "io/data/record.h"

namespace dlpipe::ingest {

struct WorkCounters {
  Counter read_ns;
  Counter decode_ns;
  Counter encode_ns;  // resize, re-code, pack
};

class ImageWorker {
 public:
  /// A worker decodes each image; of linked ones that are trusted or have late checksums, only every `decode_every`th. `looks`:
  /// records have the look of decoded images.
  ImageWorker(const IngestOptions& options, const data::Schema& schema, WorkCounters& counters, bool looks,
              uint64_t decode_every = 1);

  // Errors for which is_bad_file() is true concern only this sample; all others end the ingest. Never throws.
  using Values = std::vector<std::span<const std::byte>>;
  /// The file is the first field of the schema; its label, name and other columns are the other fields. `item` is its position in
  /// the list.
  Result<data::PackedRecord> process(const data::Source& source, const data::SourceEntry& entry,
                                     uint64_t item) noexcept;
  /// `values` in the schema's order. `image` (JPEG, PNG, raw pixels) replaces the image field's value, if there is one.
  Result<data::PackedRecord> pack(std::vector<std::byte> image, Values values) noexcept;

 private:
  struct Stored {
    std::vector<std::byte> bytes;
    data::RecordHeader header;
  };
  Result<data::PackedRecord> process_checked(const data::Source& source, const data::SourceEntry& entry,
                                             uint64_t item);
  Result<data::PackedRecord> pack_checked(std::vector<std::byte> image, Values values,
                                          const data::AnnotatedSize& annotated);
  /// What was read from a file for its record: the whole file, or usually only its head if it is linked with a late checksum.
  struct Read {
    std::vector<std::byte> bytes;
    std::optional<data::ImageInfo> info;  // if already known
  };
  Result<Read> read(const data::Source& source, const data::SourceEntry& entry, bool decodes);
  Result<data::Link> link_to(const data::Source& source, const data::SourceEntry& entry) const;
  Result<data::PackedRecord> link_checked(const data::Source& source, const data::SourceEntry& entry,
                                          const Read& image, Values values, bool decodes);
  /// Adds the sums and, if wanted, the look of the decoded image's pixels.
  void describe(data::PackedRecord& record);
  Status decode(const std::vector<std::byte>& bytes, const data::ImageInfo& info);
  Result<Stored> store(std::vector<std::byte> bytes, const data::ImageInfo& info);
  /// Decodes into image_ and keeps what a coefficient record needs; false: decode it like any other image.
  bool decode_with_coefficients(const std::vector<std::byte>& bytes, const data::ImageInfo& info);
  /// Converts a JPEG to the layout of --jpeg, unless that is impossible or its pixels would differ.
  Status use_jpeg_layout(bool is_source, Stored& stored);
  void shrink();
  /// Whether the image is blended onto --background, so that it differs from its file.
  bool is_composited(const data::ImageInfo& info) const { return info.has_alpha && options_.background; }
  /// Converts boxes and points of `values`, which are shares or pixels of an image with the size of `seen`, to pixels of the
  /// stored image, in `scaled`.
  void scale_places(const data::AnnotatedSize& annotated, const Region& seen, Values& values,
                    std::vector<std::vector<std::byte>>& scaled) const;

  /// Checks masks. If the image, originally seen.width x seen.height, is stored smaller, masks are scaled too, in `scaled`.
  Status store_masks(const Region& seen, Values& values, std::vector<std::vector<std::byte>>& scaled);

  const IngestOptions& options_;
  const bool looks_;
  const uint64_t decode_every_;
  WorkCounters& counters_;
  data::ImageDecoder decoder_;
  data::MaskDecoder masks_;
  data::CoefficientEncoder coefficients_;
  bool has_coefficients_ = false;  // of the current file
  data::RecordPacker packer_;
  const std::vector<data::Field> fields_;
  const std::optional<std::string> links_;  // the folder that links are relative to
  std::optional<size_t> image_field_;
  std::vector<uint8_t> pixels_;  // the decoded image, after orientation
  std::vector<uint8_t> shrunk_;  // the same after --resize-max
  std::vector<std::byte> resize_work_;
  std::vector<uint8_t> expected_;  // a re-coded JPEG's pixels
  std::vector<uint8_t> decoded_;   // a coefficient record's
  std::vector<uint16_t> look_work_;
  ImageView image_;  // into one of the two
};

int worker_threads(const IngestOptions& options);
data::DecodeLimits limits_of(const IngestOptions& options);
/// The view that the image is decoded to, without pixels: its size after orientation, and its channels with --background.
ImageView decoded_view(const data::ImageInfo& info, const IngestOptions& options);

/// True for errors that are one file's fault and fall under --on-error.
bool is_bad_file(const Status& status);
/// The error with which --on-error stop ends at `item`, which is bad for `reason`.
Status bad_file_error(std::string_view area, std::string_view item, const Status& reason);

// Threads that process numbered items in parallel and return the results in order.
//
// Owns threads (fewer than requested if the system does not provide more), one lock and two condition variables. The owner's
// thread calls next(); destruction stops and joins. Workers wait before an item if the cost of all items that are started but
// not returned would exceed `window`; one run of items is always allowed.

class OrderedWorkers {
 public:
  using Outcome = Result<data::PackedRecord>;
  struct Job {
    uint64_t begin = 0;  // items [begin, end)
    uint64_t end = 0;
    uint64_t window = 0;                         // in units of cost
    std::function<uint64_t(uint64_t)> cost;      // of an item; pure
    std::function<Outcome(int, uint64_t)> work;  // (worker, item); must not throw
  };

  OrderedWorkers(int workers, Job job);
  ~OrderedWorkers();
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  /// Waits for and returns the result of the next item. Call exactly end - begin times, or until an error of the threads
  /// themselves (kOutOfMemory).
  Outcome next();
  /// Time that next() waited.
  int64_t taker_wait_ns() const { return taker_wait_ns_; }

 private:
  // Small items are grouped, because a lock and a wake-up for each would cost more than their work.
  struct Run {
    uint64_t begin = 0;
    uint64_t end = 0;
    uint64_t cost = 0;
    bool done = false;
    std::vector<Outcome> outcomes;
  };
  void work(int worker);
  void work_until_done(int worker);
  void fail(const Status& status);
  Run* claim(MutexLock& lock) DLPIPE_REQUIRES(mutex_);

  Job job_;
  Mutex mutex_;
  std::condition_variable run_done_;
  std::condition_variable window_moved_;
  /// Claimed but not yet returned, in order; addresses remain stable.
  std::deque<Run> runs_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t next_item_ DLPIPE_GUARDED_BY(mutex_);
  uint64_t cost_in_flight_ DLPIPE_GUARDED_BY(mutex_) = 0;
  bool stopping_ DLPIPE_GUARDED_BY(mutex_) = false;
  Run taking_;  // the taker's own
  size_t taken_ = 0;
  int64_t taker_wait_ns_ = 0;
  Status failure_ DLPIPE_GUARDED_BY(mutex_);  // of the threads themselves, returned by next()
  std::unique_ptr<Threads> threads_;
};

}  // namespace dlpipe::ingest
