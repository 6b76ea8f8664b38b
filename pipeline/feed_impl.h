// What the files of Feed share: the ring, which a batch on loan keeps alive after the feed, and the feed's state. Internal to
// pipeline. Who takes both locks takes `control` first. The ring's lock is held for bookkeeping alone, never while somebody
// is waited for: every batch takes it in its destructor, on threads that hold what a worker may wait for.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "dlpipe/base/mutex.h"
#include "dlpipe/pipeline/feed.h"
#include "dlpipe/pipeline/stream.h"

namespace dlpipe::pipeline {

struct Feed::Ring {
  /// A batch that the consumer has dropped while work of its own still reads it.
  struct Returning {
    Batch batch;
    std::vector<std::unique_ptr<Event>> read;
  };

  const pid_t process = ::getpid();
  Device* device = nullptr;       // of the batches, or the one that the consumer copies them to
  bool is_on_host = true;         // batches are
  std::condition_variable moved;  // the feed's thread may go on
  Mutex mutex;
  Loader* loader DLPIPE_GUARDED_BY(mutex) = nullptr;  // null once closed
  int64_t held DLPIPE_GUARDED_BY(mutex) = 0;          // those that return included
  std::vector<Returning> returning DLPIPE_GUARDED_BY(mutex);

  int64_t held_by_consumer() const DLPIPE_REQUIRES(mutex) {
    return held - static_cast<int64_t>(returning.size());
  }
  /// While the loader is there.
  void give_back(const Batch& batch, Stream* stream) DLPIPE_REQUIRES(mutex);
  /// Gives back the batches that nobody reads any more.
  void take_returned() DLPIPE_REQUIRES(mutex);
};

struct Feed::Impl {
  struct Ready {
    Batch batch;
    SourceState state;  // after it
  };

  // Set by open().
  std::shared_ptr<const Setup> setup;
  int64_t epochs_per_pass = 1;
  const std::shared_ptr<Ring> ring = std::make_shared<Ring>();
  std::unique_ptr<Loader> loader;  // the feed's thread calls it, or who has parked the thread
  std::unique_ptr<std::thread> thread;

  Mutex control;                              // one begin_pass, seek or close at a time
  std::condition_variable ready_or_over;      // for consumers
  std::condition_variable thread_has_parked;  // for who holds `control`

  std::deque<Ready> ready DLPIPE_GUARDED_BY(ring->mutex);
  Status ended DLPIPE_GUARDED_BY(ring->mutex);  // why no more batches come
  bool is_closed DLPIPE_GUARDED_BY(ring->mutex) = false;
  bool is_parking DLPIPE_GUARDED_BY(ring->mutex) = false;  // the thread is asked to leave the loader alone
  bool has_parked DLPIPE_GUARDED_BY(ring->mutex) = false;
  int waiting DLPIPE_GUARDED_BY(ring->mutex) = 0;  // consumers in next()

  int64_t lendable DLPIPE_GUARDED_BY(ring->mutex) = 0;  // batches that may be held or ready
  int64_t lendable_max DLPIPE_GUARDED_BY(ring->mutex) = 0;
  int64_t wanted DLPIPE_GUARDED_BY(ring->mutex) = 0;  // lendable ones
  Status grow_status DLPIPE_GUARDED_BY(ring->mutex);

  SourceState state DLPIPE_GUARDED_BY(ring->mutex);  // after the batches that were given
  int64_t pass DLPIPE_GUARDED_BY(ring->mutex) = 0;
  SourceState pass_begin DLPIPE_GUARDED_BY(ring->mutex);
  int64_t pass_end DLPIPE_GUARDED_BY(ring->mutex) = 0;  // epoch
  /// The next pass begins where the state is.
  bool is_pass_given DLPIPE_GUARDED_BY(ring->mutex) = true;
  int64_t given_batches DLPIPE_GUARDED_BY(ring->mutex) = 0;
  int64_t given_samples DLPIPE_GUARDED_BY(ring->mutex) = 0;
  SourceStats last_stats DLPIPE_GUARDED_BY(ring->mutex);  // once closed

  // The feed's thread: feed_thread.cpp.
  enum class Task : uint8_t { kMakeBatch, kGrow, kLookAgain, kEnd };
  void run();
  /// Waits until there may be something to do, parked where it is asked to.
  Task next_task();
  void make_batch();
  void grow();

  // Who holds `control`.
  /// The thread has left the loader after it, and no batch is ready. Answers the state.
  SourceState park() DLPIPE_REQUIRES(control);
  /// Parks the thread and has `to` move the loader, which was at `from`: that ends the pass. Where it fails the loader goes back,
  /// and nothing is lost; where it can't, no more batches come. Answers why it isn't where it was to be.
  Status move(const std::function<Status(const SourceState& from)>& to) DLPIPE_REQUIRES(control);
  /// To the first batch of `epoch`. Chain and bad samples stay those of the state: batches that were ready are nobody's.
  Status move_to_epoch(int64_t epoch) DLPIPE_REQUIRES(control);
  bool is_left_early() const DLPIPE_REQUIRES(ring->mutex);
  int64_t new_pass() DLPIPE_REQUIRES(ring->mutex);

  // The consumer: feed.cpp.
  Status check(int64_t of_pass) const DLPIPE_REQUIRES(ring->mutex);
  Status want_slots() DLPIPE_REQUIRES(ring->mutex);
  std::shared_ptr<Lent> take() DLPIPE_REQUIRES(ring->mutex);
  SourceStats stats() const DLPIPE_REQUIRES(ring->mutex);
  void close();
};

}  // namespace dlpipe::pipeline
