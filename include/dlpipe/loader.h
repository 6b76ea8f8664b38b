// From a dataset and an expression to an endless stream of batches.
//
//   auto loader = value_or_throw(Loader::open({.data = "DST/train", .augment = "rrc(224) hflip", .batch = 64}));
//   while (auto batch = value_or_throw(loader->next())) {
//     use(*batch);
//     throw_if_error(loader->release(*batch));
//   }
//
// Loader   one consumer thread calls next() and release(), and helps to decode while it waits.
// Feed     a loader with its own thread, for consumers that keep batches or have several threads.
//
// Ownership: a Loader owns its worker pool, its I/O thread and its slots, which hold the batches. Destruction stops all work
// and joins all threads; the memory of a batch that is still held lives as long as a copy of its Batch::memory. Threads: next,
// state, seek and grow belong to one consumer thread; release, interrupt and stats may be called from any thread. Every
// function of Feed may be called from any thread. Cost: `slots` batches in (page-locked) memory, allocated once, and decode
// scratch per thread. Batches depend on the seed but not on `threads` or `slots`: the same seed produces the same batches, bit
// for bit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/batch.h"
#include "dlpipe/dataset.h"
#include "dlpipe/device.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "dlpipe/registry.h"

namespace dlpipe::augment {
struct OpRecord;
using OpRegistry = Registry<OpRecord>;  // dlpipe/augment_op.h
}  // namespace dlpipe::augment

namespace dlpipe::coef {
struct CoefBatch;
using CoefDecode = void (*)(const CoefBatch& batch, Stream& stream);  // arithmetic/coef_batch.h
}  // namespace dlpipe::coef

namespace dlpipe::pipeline {

struct Setup;  // checked options, dataset and schema: pipeline/plan/setup.h

// ---- options

/// Sample numbers of a dataset, in any order; a sample may occur several times.
using SampleList = std::shared_ptr<const std::vector<int64_t>>;

enum class LastBatch : uint8_t { kDrop, kKeep };
enum class Decode : uint8_t { kAuto, kHost, kDevice };
enum class OnBadRecord : uint8_t { kSubstitute, kDrop, kStop };  // kDrop: weight 0 (validation)

struct LoaderOptions {
  std::string data;     // dataset directory
  std::string augment;  // expression; empty: the dataset's images must all have the same size
  int64_t batch = 64;   // samples per batch on this rank (all ranks: batch x world)
  int threads = 0;      // 0: as many as the process may use (affinity, cgroup quota)
  int slots = 3;        // batches in flight, including the borrowed one: the prefetch depth
  /// How many slots grow() may reach. 0: `slots`; -1: as many as fit half of the machine's memory (16 on a device).
  int slots_max = 0;
  uint64_t seed = 0;
  bool shuffle = true;
  /// How often samples are drawn, with shuffle. "uniform": each once per epoch. "balanced": every class equally often.
  /// "sqrt": in proportion to the square root of the class's number of samples. "cat=2,dog=1": in these proportions, with 1
  /// for classes that aren't named. A sample with several labels (the only `labels` field) counts for its rarest one. An
  /// epoch keeps its number of samples: samples of rare classes may be drawn several times, and those of frequent classes
  /// that are left out are drawn in a later epoch.
  std::string sampler = "uniform";
  LastBatch last = LastBatch::kDrop;
  int64_t epochs = -1;           // -1: endless
  SampleList samples = nullptr;  // use only these samples, by number; null: all
  int64_t limit = -1;            // use a subset of `limit` samples, drawn by `seed`; -1: all
  int rank = 0;
  int world = 1;
  /// With kKeep: pads an incomplete batch to the same size on every rank. Padding repeats samples with weight 0. If false, a
  /// rank's part may be empty. Not with grains.
  bool pad_last = false;
  /// Each sample occurs this many times in a batch, at successive places, and each view is augmented with its own draws:
  /// `batch` samples fill batch x views places, and all counts of samples count views. Not with mixup, cutmix and grains.
  int64_t views = 1;
  /// Splits a global batch (batch x world) into this many equal parts, each owned by one rank; a multiple of `world`; 1: no
  /// grains. Mixup partners, the end of an incomplete batch and the chain are then computed per grain, so that they are the
  /// same for any number of ranks up to the number of grains.
  int64_t grains = 1;
  int channels = 3;
  /// The fields in a batch, by name; empty: all of the dataset's except `path` (data::read_ragged_field reads it).
  std::vector<std::string> fields = {};
  /// The value, 0 to 255, of a mask outside of the source image, and of the whole mask if a sample has none.
  int mask_fill = 0;
  /// kU8, or kF32, kF16, kBF16: the loader itself normalises images, and mixes them if mixing is on; BatchPrep
  /// has nothing left to do.
  DType image_dtype = DType::kU8;
  /// alpha of mixup and of CutMix; 0: off. Partners are in the same batch on this rank.
  double mixup = 0;
  double cutmix = 0;
  bool mixes_fields =
      false;  // the consumer mixes labels and numbers as Batch::prep says; else mixing needs one class each
  OnBadRecord on_bad = OnBadRecord::kSubstitute;
  int64_t max_bad = -1;  // distinct bad samples before the stream ends with an error; -1: max(10, 0.1 %)
  int64_t max_pixels = 178'956'970;
  /// The most memory that the process may use, including the loader's slots, scratch and dataset pages; 0: no limit.
  /// The page cache counts: the pages of finished batches are dropped from it.
  int64_t memory_bytes = 0;
  /// Bad samples are appended to this file when next() returns their batch; empty: not written.
  std::string quarantine_file = {};
  /// For a linked dataset: a dedicated folder that caches its JPEGs as coefficient records, which are then read instead
  /// of the files. They are created while the loader's threads are idle. Empty: no cache. Batches are the same.
  std::string cache = {};
  uint64_t cache_bytes = 0;  // the cache's maximum size; 0: leaves 1 GiB of its disk free
  bool hash_pixels = false;  // the chain covers pixels too (--receipt pixels, tests)
  Device* device = nullptr;  // null: the CPU; batches are in host memory
  /// Page-locks the slots, for a consumer that copies the CPU's batches to this device itself; null: not page-locked.
  Device* pinned_for = nullptr;
  /// Decodes packed coefficients on `device`; null: they are not decoded there.
  coef::CoefDecode coef_decode = nullptr;
  /// Where images for the device are decoded; kAuto: on the device if possible. Pixels are the same
  /// either way.
  Decode decode = Decode::kAuto;
  const augment::OpRegistry* ops = nullptr;  // null: the built-in ops
  /// Called with the sample number before a record is read; an error that it returns is treated as an I/O error
  /// (for tests).
  std::function<Status(int64_t sample)> inject_read_error = {};
};

// ---- the loader

/// The chain of all of a batch's grains: the chain of a single grain, or a hash over theirs.
uint64_t chain_of(std::span<const uint64_t> grain_chains);

enum class ConsumerNews : uint8_t { kWaits, kWaitsNoMore, kTakesBatch };

/// The options for validation: file order, every sample once, no substitutions.
LoaderOptions validation_options(LoaderOptions options);

class Loader final : public BatchSource {
 public:
  static Result<std::unique_ptr<Loader>> open(const LoaderOptions& options);
  /// The same, with options that open_setup() has already checked. Throws if the system refuses threads or memory.
  static Result<std::unique_ptr<Loader>> start(std::shared_ptr<const Setup> setup);
  ~Loader() override;

  std::span<const FieldSpec> schema() const override;
  int64_t batches_per_epoch() const override;
  int64_t samples_per_epoch() const override;
  Result<std::optional<Batch>> next() override;
  Status release(const Batch& batch, Stream* stream = nullptr) override;
  SourceState state() const override;
  Status seek(const SourceState& state) override;
  SourceStats stats() const override;
  Status book(int64_t epoch, std::span<const Substitution> substitutions) override;

  const data::Dataset& dataset() const;
  /// Hash of the canonical expression, op versions, output schema and global batch size; not of threads, slots or
  /// layout.
  const std::string& pipeline_id() const;
  /// The subset selected by `limit`, for users ("300 of 1,280 samples, by seed 3"); empty: all samples.
  std::string subset() const;
  int threads() const;
  /// The most scratch memory that all threads together will hold for decoding and augmenting, in addition to the slots. An
  /// estimate for the dataset's largest image; SourceStats::scratch_bytes is the present size. Reads the header table.
  int64_t planned_scratch_bytes() const;

  /// Allocates one more slot, for a consumer that keeps batches. Returns kMisuse if there are slots_max already and
  /// kOutOfMemory if there is no memory; the loader is then unchanged.
  Status grow();
  /// How many batches may be held at once; holding one less keeps one in flight. For batches on the host this is the
  /// number of slots.
  int64_t lendable() const;
  int64_t lendable_max() const;
  /// Makes next() return kCancelled until seek(), including a call that is already waiting. Work in progress continues.
  void interrupt();
  /// Like seek(), to the first batch of `epoch`; keeps the chain and the bad samples.
  Status seek_epoch(int64_t epoch);
  /// For a thread that calls next() ahead of the consumer (Feed): from the first call on, stats() uses these reports for
  /// what the consumer does, instead of the calls of next() and release(). Any thread.
  void note_consumer(ConsumerNews news);
  /// Why Decode::kAuto decodes the images for a device on the host; empty if it does not.
  const std::string& decode_reason() const;

 private:
  struct Flow;
  explicit Loader(std::unique_ptr<Flow> flow);
  std::unique_ptr<Flow> flow_;
};

// ---- a loader with its own thread
//
//   FeedOptions options;
//   options.loader = {.data = "DST/train", .augment = "rrc(224) hflip", .batch = 64, .slots_max = 16};
//   auto feed = value_or_throw(Feed::open(options));
//   auto pass = value_or_throw(feed->begin_pass());
//   while (auto batch = value_or_throw(feed->next(pass))) use(batch->batch());
//
// The feed's thread calls Loader::next() ahead of the consumer and helps to decode in its place: `threads` threads decode
// regardless of what the consumer does meanwhile. A batch releases its slot when the last copy of its shared pointer is
// destroyed, on any thread, in any order, even after the feed was closed. The thread sleeps while every slot is held or ready.
// A consumer that keeps batches gets more slots, up to slots_max, so that the number in flight stays the same.
//
// A pass is one loop over the data: `epochs_per_pass` epochs, or endless. An abandoned pass is not resumed, unless it is
// endless; the next pass begins with the next epoch. After seek() the next pass begins in mid-epoch.
//
// In a forked child only destruction is allowed, because the threads exist in the parent only. next() returns kMisuse there,
// and batches keep their memory.

struct FeedOptions {
  LoaderOptions loader;         // its `epochs` is ignored: passes count them
  int64_t epochs_per_pass = 1;  // -1: a pass has no end
};

/// Whether the calling thread is decoding for a loader, as when it runs an augmentation: a consumer may be waiting for it.
bool is_augmenting();

class Feed {
 private:
  struct Ring;  // what the feed and its batches share

 public:
  /// A borrowed batch. The holder may read and write its fields.
  class Lent {
   public:
    Lent(std::shared_ptr<Ring> ring, Batch batch) : ring_(std::move(ring)), batch_(std::move(batch)) {}
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent();
    const Batch& batch() const { return batch_; }
    /// For batches on a device, or with pinned_for: work added to `stream` from now on may read the batch. The slot is reused
    /// only after all work that is in `stream` when the batch is released. A batch may be read on any number of streams.
    /// `reader`: the stream's device, if it isn't the batches' own: any device may read page-locked batches.
    Status read_on(std::shared_ptr<Stream> stream, Device* reader = nullptr);

   private:
    /// False if the loader is gone, or if an event that ends the streams' reads can't be recorded.
    bool give_back();
    void give_back_after_waiting();
    struct Reader {
      std::shared_ptr<Stream> stream;
      Device* device;
    };
    /// One event per stream, complete when the work that is in the stream now is done.
    Result<std::vector<std::unique_ptr<Event>>> read_until_now();

    std::shared_ptr<Ring> ring_;
    Batch batch_;
    std::vector<Reader> readers_;
  };

  static Result<std::unique_ptr<Feed>> open(const FeedOptions& options);
  ~Feed();  // closes; on a separate thread if an augmentation of this feed calls it
  /// How many feeds of this process are open: their threads may be in an augmentation.
  static int64_t open_count();
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// Begins a new pass, which ends the one before, and returns its number.
  Result<int64_t> begin_pass();
  /// The next batch of the pass; null at its end. Returns kMisuse if the consumer holds slots_max batches, the feed was
  /// closed or another pass has begun.
  Result<std::shared_ptr<Lent>> next(int64_t pass);
  /// The same, but waits for `patience` at most; nullopt if no batch is ready by then.
  Result<std::optional<std::shared_ptr<Lent>>> next_within(int64_t pass, std::chrono::milliseconds patience);
  /// The number of batches in a whole pass; -1: endless.
  int64_t batches_per_pass() const;

  /// The state after the batches that next() has returned.
  SourceState state() const;
  /// The next pass continues after `state`. Batches that are held stay valid.
  Status seek(const SourceState& state);
  /// The next pass begins with `epoch`. Does nothing if it would anyway.
  Status seek_epoch(int64_t epoch);

  SourceStats stats() const;
  /// kMisuse in a forked child, where state(), stats() and held() must not be called either.
  Status check_process() const;
  /// The same, and kMisuse in an augmentation of this feed, which must not wait for it: begin_pass(), next(), seek() and
  /// seek_epoch() are refused there, and close() does nothing. The last copy of the feed may be destroyed there.
  Status check_caller() const;
  /// The number of batches held now.
  int64_t held() const;
  /// Options with their defaults, dataset, schema and normalisation; valid after close(), too.
  const Setup& setup() const;

  /// Stops all work and joins all threads. Held batches keep their memory and their contents.
  void close();
  bool is_closed() const;

 private:
  struct Impl;
  explicit Feed(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::pipeline
