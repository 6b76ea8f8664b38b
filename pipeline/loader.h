// The public face of the pipeline: a dataset and an expression in, an endless stream of batches out.
//
//   auto loader = value_or_throw(Loader::open({.data = "DST/train", .augment = "rrc(224) hflip", .batch = 64}));
//   while (auto batch = value_or_throw(loader->next())) {
//     use(*batch);
//     throw_if_error(loader->release(*batch));
//   }
//
// Threads: a Loader owns its worker pool and its I/O thread. next/state/seek/grow belong to one consumer
// thread, which joins the decoding while it waits; release, interrupt and stats may be called from any thread.
// Destruction stops all work and joins all threads; the memory of batches that are still held stays as long as
// somebody has a copy of their Batch::memory. Memory: `slots` batches in (page-locked) memory, allocated once,
// and per-thread decode scratch. The same seed gives the same batches, bit for bit, whatever `threads` and
// `slots`. feed.h wraps a Loader for consumers that keep batches or have several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/base/batch_source.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/pipeline/plan/loader_options.h"

namespace dlpipe::pipeline {

/// The chain of a batch's grains together: the only grain's, or a hash over theirs.
uint64_t chain_of(std::span<const uint64_t> grain_chains);

enum class ConsumerNews : uint8_t { kWaits, kWaitsNoMore, kTakesBatch };

/// Validation: file order, every sample once, nothing substituted.
LoaderOptions validation_options(LoaderOptions options);

class Loader : public BatchSource {
 public:
  static Result<std::unique_ptr<Loader>> open(const LoaderOptions& options);
  virtual const data::Dataset& dataset() const = 0;
  /// Hash of canonical expression, op versions, output schema and global batch; not of threads, slots or
  /// layout.
  virtual const std::string& pipeline_id() const = 0;
  /// What `limit` left, as a text ("300 of 1,280 samples, by seed 3"); empty: all samples.
  virtual std::string subset() const = 0;
  virtual int threads() const = 0;
  /// What all threads together hold at most beside the slots, to decode and to augment: foretold from plans of the
  /// dataset's largest picture, while SourceStats::scratch_bytes says what they hold now. Reads the header table.
  virtual int64_t planned_scratch_bytes() const = 0;

  /// Memory for one more batch in flight, for a consumer who keeps batches. kMisuse where there are slots_max
  /// already, kOutOfMemory where there is none; then all is as before.
  virtual Status grow() = 0;
  /// Batches that may be held at once; one less leaves one in flight. As many as slots where the batches are
  /// on the host.
  virtual int64_t lendable() const = 0;
  virtual int64_t lendable_max() const = 0;
  /// What is under way is left as it is: next(), the one that waits included, answers kCancelled until seek().
  virtual void interrupt() = 0;
  /// As seek(), to the first batch of `epoch`; the chain and the bad samples stay.
  virtual Status seek_epoch(int64_t epoch) = 0;
  /// For whoever calls next() ahead of the consumer (feed.h): from the first call on, stats() takes these words for
  /// what the consumer does, and next() and release() no longer. Any thread.
  virtual void note_consumer(ConsumerNews news) = 0;
  /// Why a device's images are decoded on the host; empty where the device does it, or nobody asked it to.
  virtual const std::string& decode_reason() const = 0;
};

}  // namespace dlpipe::pipeline
