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

#include "dlpipe/augment/chain.h"
#include "dlpipe/base/batch_source.h"
#include "dlpipe/base/coef_batch.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/base/named_values.h"
#include "dlpipe/io/data/dataset.h"

namespace dlpipe::pipeline {

enum class LastBatch : uint8_t { kDrop, kKeep };
enum class Decode : uint8_t { kAuto, kHost, kDevice };
/// What --decode may be.
inline constexpr Named<Decode> kDecodeNames[] = {
    {"auto", Decode::kAuto}, {"host", Decode::kHost}, {"device", Decode::kDevice}};
enum class OnBadRecord : uint8_t { kSubstitute, kDrop, kStop };  // kDrop: weight 0 (validation)

struct LoaderOptions {
  std::string data;     // dataset directory
  std::string augment;  // expression; empty: the dataset's images must all have one size
  int64_t batch = 64;   // samples per batch on this rank (all ranks: batch x world)
  int threads = 0;      // 0: what the process may use (affinity, cgroup quota)
  int slots = 3;        // batches in flight, the one lent included; prefetch depth
  int slots_max = 0;    // as many as grow() may bring them to; 0: `slots`
  uint64_t seed = 0;
  bool shuffle = true;
  LastBatch last = LastBatch::kDrop;
  int64_t epochs = -1;  // -1: endless
  int64_t limit = -1;   // use `limit` samples, a subset by `seed` (sampler.h); -1: all
  int rank = 0;
  int world = 1;
  /// Of each sample so many in a batch, one behind the other, each augmented by draws of its own: `batch` samples become
  /// batch x views places, and all that counts samples counts these. Not with mixup, cutmix and grains.
  int64_t views = 1;
  /// Equal parts of a global batch (batch x world) that ranks own whole, a multiple of `world`; 1: there are none.
  /// With them partners of mixup, borders of an incomplete batch and the chain are a grain's, so that any number of
  /// ranks up to the grains sees the same ones.
  int64_t grains = 1;
  int channels = 3;
  /// What batches hold, by name; empty: all that the dataset has but `path` (data::read_ragged_field reads it).
  std::vector<std::string> fields = {};
  /// What masks hold where the picture shows what is outside of the source, and where a sample has no mask.
  int mask_fill = 0;
  /// kU8, or kF32, kF16, kBF16: pictures leave the loader normalised, and mixed where mixing is on; BatchPrep
  /// has nothing left to do.
  DType image_dtype = DType::kU8;
  /// alpha of mixup and of CutMix (mixing.h); 0: off. Partners are of this rank's batch.
  double mixup = 0;
  double cutmix = 0;
  OnBadRecord on_bad = OnBadRecord::kSubstitute;
  int64_t max_bad = -1;  // distinct bad samples before the stream ends with an error; -1: max(10, 0.1 %)
  int64_t max_pixels = 178'956'970;
  /// The most that the process may take with the loader's slots, scratch and dataset pages; 0: no ceiling of
  /// its own. The page cache counts: pages of batches that are over leave it.
  int64_t memory_bytes = 0;
  std::string quarantine_file =
      {};  // bad samples are appended here when their batch is lent; empty: not written
  /// Of a linked dataset: a folder of its own in which coefficient records of its JPEGs are kept, made in time that the loader's
  /// threads don't use and read in place of the files from then on (cache_filler.h); empty: none is. Batches are the same.
  std::string cache = {};
  uint64_t cache_bytes = 0;  // the most that it may take; 0: what leaves 1 GiB of its disk free
  bool hash_pixels = false;  // the chain covers pixels too (--receipt pixels, tests)
  Device* device = nullptr;  // null: the CPU, batches handed over as they are
  /// Page-locks the slots, for a consumer that copies batches of the CPU to this device itself; null: they aren't.
  Device* pinned_for = nullptr;
  /// Decodes packed coefficients on `device`; null: nothing does (the engine's device_code has CUDA's).
  coef::CoefDecode coef_decode = nullptr;
  /// Where the device's images are decoded: kAuto: there where it can be (device_decode.h). Pixels are the
  /// same.
  Decode decode = Decode::kAuto;
  const augment::OpRegistry* ops = nullptr;  // null: built in
  /// Called before a record is read, with its sample number; an error it answers is treated as an I/O error
  /// (tests).
  std::function<Status(int64_t sample)> inject_read_error = {};
};

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
