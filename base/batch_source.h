// The seam between the pipeline and the engine: an endless, seekable stream of batches.
//
// One consumer thread calls next, release, state and seek; stats may be called from any thread. The stream
// runs across epochs, so prefetching never drains at an epoch's end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpipe/base/batch.h"
#include "dlpipe/base/error.h"

namespace dlpipe {

/// Everything needed to go on with the same batches, on any number of threads: a few integers, O(1).
struct SourceState {
  std::string dataset_id;
  std::string pipeline_id;
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t batch_index = 0;       // next batch within the epoch
  int64_t samples_consumed = 0;  // global, over all epochs and ranks
  uint64_t chain = 0;
  std::vector<int64_t> bad_samples;  // distinct samples substituted so far, ascending
  /// Where a global batch is cut into grains: a chain per grain; `chain` hashes them. 0 for other ranks' grains.
  std::vector<uint64_t> grain_chains = {};

  friend bool operator==(const SourceState&, const SourceState&) = default;
};

/// One stage's counters since the source began. Times are summed over threads.
struct StageStats {
  std::string name;
  int64_t items = 0;  // samples
  int64_t bytes = 0;
  int64_t busy_ns = 0;
  int64_t wait_input_ns = 0;   // idle because nothing came
  int64_t wait_output_ns = 0;  // idle because nothing could go on
  int threads = 1;             // how many threads could work on it
};

/// Occupancy of the edge between two stages.
struct EdgeStats {
  std::string name;
  double mean_occupancy = 0;  // messages waiting, mean over time
  int64_t capacity = 0;
};

/// Of a source that reads pictures from files and keeps coefficient records of them (pipeline/cache_filler.h).
struct CacheStats {
  std::string directory;  // empty: there is no cache
  int64_t samples = 0;    // of the dataset
  int64_t records = 0;    // in the cache
  int64_t bytes = 0;
  int64_t taken = 0;      // records read from it since the source began
  int64_t unfit = 0;      // pictures that it couldn't take
  int64_t withdrawn = 0;  // records that were found damaged, or their file changed
  int64_t busy_ns = 0;    // of the threads that make records
  bool is_full = false;   // it may not grow
};

struct SourceStats {
  std::vector<StageStats> stages;
  std::vector<EdgeStats> edges;
  int64_t wall_ns = 0;  // since the source began
  int64_t batches = 0;  // lent so far
  int64_t samples = 0;
  int64_t substituted = 0;    // distinct bad samples
  int64_t scratch_bytes = 0;  // decode scratch held by all threads
  int64_t slot_bytes = 0;     // all slots
  std::string bottleneck;     // the stage that limited the last window; empty: the consumer
  CacheStats cache = {};
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;

  virtual std::span<const FieldSpec> schema() const = 0;
  virtual int64_t batches_per_epoch() const = 0;
  virtual int64_t samples_per_epoch() const = 0;

  /// The next batch; nullopt when the source was built for a number of epochs and they are over. Joins the
  /// decode work while it waits. A consumer that holds every slot gets kMisuse, not a deadlock.
  virtual Result<std::optional<Batch>> next() = 0;
  /// Gives the slot back. With a device, `stream` is the consumer's: the slot is reused after its work so
  /// far.
  virtual Status release(const Batch& batch, Stream* stream = nullptr) = 0;

  /// The state after the batches lent so far (which are taken as consumed).
  virtual SourceState state() const = 0;
  /// Goes on after `state`; kMisuse names what differs (dataset, pipeline, seed) if the state is another
  /// stream's.
  virtual Status seek(const SourceState& state) = 0;

  virtual SourceStats stats() const = 0;

  /// Takes note of bad samples that another rank of the run met in `epoch`, as if this source had met them.
  virtual Status book(int64_t epoch, std::span<const Substitution> substitutions) {
    (void)epoch, (void)substitutions;
    return {};
  }
};

}  // namespace dlpipe
