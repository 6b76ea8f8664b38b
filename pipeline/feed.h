// A loader with a thread of its own, for consumers that keep batches: a batch gives its slot back when the last
// copy of its shared pointer goes, on any thread, in any order, even after the feed was closed. Python's loader is
// one of these (python/README.md).
//
//   FeedOptions options;
//   options.loader = {.data = "DST/train", .augment = "rrc(224) hflip", .batch = 64, .slots_max = 16};
//   auto feed = value_or_throw(Feed::open(options));
//   auto pass = value_or_throw(feed->begin_pass());
//   while (auto batch = value_or_throw(feed->next(pass))) use(batch->batch());
//
// The feed's thread calls Loader::next() ahead of the consumer, and so joins the decoding in its place: `threads` of
// them decode whatever the consumer does meanwhile. Slots are the only credit: the thread sleeps while every slot is
// held or ready. A consumer that keeps batches gets more slots, up to slots_max, so that as many are in flight as
// before.
//
// A pass is what one loop over the data takes: `epochs_per_pass` epochs, or no end. A pass that was left early is not
// gone on with, unless it has no end; the next one begins with the next epochs. After seek() the next pass begins in mid-epoch.
//
// Threads: every function may be called from any thread. In a forked child nothing but destruction is allowed: the
// threads stayed in the parent. next() there answers kMisuse, and batches keep their memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "dlpipe/base/batch.h"
#include "dlpipe/base/batch_source.h"
#include "dlpipe/base/error.h"
#include "dlpipe/pipeline/plan/setup.h"

namespace dlpipe::pipeline {

struct FeedOptions {
  LoaderOptions loader;         // its `epochs` is ignored: passes count them
  int64_t epochs_per_pass = 1;  // -1: a pass has no end
};

/// Whether the calling thread decodes for some loader, as an augmentation does: somebody may be waiting for it.
bool is_augmenting();

class Feed {
 private:
  struct Ring;  // what the feed and its batches share

 public:
  /// A batch on loan. Whoever holds it may read and write its fields.
  class Lent {
   public:
    Lent(std::shared_ptr<Ring> ring, Batch batch) : ring_(std::move(ring)), batch_(std::move(batch)) {}
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    ~Lent();
    const Batch& batch() const { return batch_; }
    /// On a device, and with pinned_for: what is put into `stream` from now on finds the batch there, and the slot is
    /// filled again only after the work that is in `stream` when the batch goes back. Any number of streams for each batch.
    /// `reader`: the stream's device, where that isn't the batches' own: page-locked ones are read by any.
    Status read_on(std::shared_ptr<Stream> stream, Device* reader = nullptr);

   private:
    /// False where the loader is gone, or can't be told when the stream's readers are over.
    bool give_back();
    void give_back_after_waiting();
    struct Reader {
      std::shared_ptr<Stream> stream;
      Device* device;
    };
    /// Each is complete when what is in one of the streams now is over.
    Result<std::vector<std::unique_ptr<Event>>> read_until_now();

    std::shared_ptr<Ring> ring_;
    Batch batch_;
    std::vector<Reader> readers_;
  };

  static Result<std::unique_ptr<Feed>> open(const FeedOptions& options);
  ~Feed();  // closes
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// The number of a new pass; the one before has ended with it.
  Result<int64_t> begin_pass();
  /// The pass's next batch; null when it is over. kMisuse when the consumer keeps slots_max batches, the feed was
  /// closed or another pass was begun.
  Result<std::shared_ptr<Lent>> next(int64_t pass);
  /// The same, waiting at most so long: nullopt when there is none yet.
  Result<std::optional<std::shared_ptr<Lent>>> next_within(int64_t pass, std::chrono::milliseconds patience);
  /// Batches of a whole pass; -1: no end.
  int64_t batches_per_pass() const;

  /// The state after the batches that next() has given.
  SourceState state() const;
  /// Goes on after `state` with the next pass. Batches that are held stay as they are.
  Status seek(const SourceState& state);
  /// The next pass begins with `epoch`. Nothing happens where it would anyway.
  Status seek_epoch(int64_t epoch);

  SourceStats stats() const;
  /// kMisuse in a forked child, where state(), stats() and held() must not be called either.
  Status check_process() const;
  /// The same, and kMisuse in an augmentation of this feed, which must not wait for it: begin_pass(), next(), seek() and
  /// seek_epoch() are refused there, and close() does nothing. The last copy of the feed may go there.
  Status check_caller() const;
  /// Batches held now.
  int64_t held() const;
  /// Options with their defaults, dataset, schema and normalisation; also after close().
  const Setup& setup() const;

  /// Stops all work and joins all threads. Batches that are held keep their memory and their contents.
  void close();
  bool is_closed() const;

 private:
  struct Impl;
  explicit Feed(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dlpipe::pipeline
