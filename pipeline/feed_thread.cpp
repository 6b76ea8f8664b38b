// The thread that calls the loader ahead of the consumer.
#include <pthread.h>

#include <chrono>
#include <utility>

#include "dlpipe/base/refuse.h"
#include "dlpipe/pipeline/feed_impl.h"

namespace dlpipe::pipeline {

namespace {

/// How long until a consumer's copies are asked whether they are over, while there is nothing else to do.
constexpr std::chrono::microseconds kReturning(200);

}  // namespace

void Feed::Impl::run() {
  pthread_setname_np(pthread_self(), "dlpipe-feed");
  while (true) {
    try {
      switch (next_task()) {
        case Task::kMakeBatch:
          make_batch();
          break;
        case Task::kGrow:
          grow();
          break;
        case Task::kLookAgain:
          break;
        case Task::kEnd:
          return;
      }
    } catch (...) {
      const MutexLock lock(ring->mutex);
      ended = status_from_current_exception("loader");
      ready_or_over.notify_all();
    }
  }
}

Feed::Impl::Task Feed::Impl::next_task() {
  MutexLock lock(ring->mutex);
  if (is_closed) return Task::kEnd;
  if (is_parking) {
    has_parked = true;
    thread_has_parked.notify_all();
    while (is_parking && !is_closed) lock.wait(ring->moved);
    has_parked = false;
    return Task::kLookAgain;
  }
  if (wanted > lendable && grow_status.ok()) return Task::kGrow;
  ring->take_returned();
  if (ended.ok() && ring->held + static_cast<int64_t>(ready.size()) < lendable) return Task::kMakeBatch;
  if (ring->returning.empty())
    lock.wait(ring->moved);
  else
    lock.wait_until(ring->moved, std::chrono::steady_clock::now() + kReturning);
  return Task::kLookAgain;
}

void Feed::Impl::grow() {
  Status grown = loader->grow();
  const int64_t now = loader->lendable();
  const MutexLock lock(ring->mutex);
  lendable = now;
  grow_status = std::move(grown);
  if (!grow_status.ok()) ready_or_over.notify_all();
}

void Feed::Impl::make_batch() {
  Result<std::optional<Batch>> next = loader->next();
  SourceState after = next.ok() ? loader->state() : SourceState();
  const MutexLock lock(ring->mutex);
  if (next.ok() && next->has_value()) {
    ready.push_back({**std::move(next), std::move(after)});
  } else if (next.status().code() != ErrorCode::kCancelled) {
    ended = next.ok() ? misuse("loader", "the stream of batches is over") : next.status();
  } else {
    return;  // by park() or close()
  }
  ready_or_over.notify_all();
}

SourceState Feed::Impl::park() {
  MutexLock lock(ring->mutex);
  is_parking = true;
  loader->interrupt();
  ring->moved.notify_all();
  while (!has_parked) lock.wait(thread_has_parked);
  for (const Ready& one : ready) (void)loader->release(one.batch, nullptr);
  ready.clear();
  return state;
}

Status Feed::Impl::move(const std::function<Status(const SourceState& from)>& to) {
  const SourceState before = park();
  Status moved = to(before);
  const Status lost = moved.ok() ? Status() : loader->seek(before);  // what was ready is made again
  const SourceState now = moved.ok() ? loader->state() : before;
  const MutexLock lock(ring->mutex);
  state = now;
  ended = lost;
  if (moved.ok()) {
    is_pass_given = true;
    ++pass;
  }
  is_parking = false;
  ring->moved.notify_all();
  ready_or_over.notify_all();
  return lost.ok() ? moved : lost;
}

Status Feed::Impl::move_to_epoch(int64_t epoch) {
  return move([this, epoch](const SourceState& from) {
    if (epoch < 0 || epoch > setup->sampler.last_epoch())
      return loader->seek_epoch(epoch);  // which refuses it
    SourceState begin = from;
    begin.epoch = epoch;
    begin.batch_index = 0;
    begin.samples_consumed = setup->sampler.consumed(epoch, 0);
    return loader->seek(begin);
  });
}

}  // namespace dlpipe::pipeline
