#include "dlpipe/pipeline/run_queue.h"

#include <algorithm>

namespace dlpipe::pipeline {

namespace {
// std::push_heap keeps the largest on top: later runs count as smaller.
bool later(const Run& a, const Run& b) {
  return a.sequence != b.sequence ? a.sequence > b.sequence : a.first > b.first;
}
}  // namespace

void RunQueue::push(const Run& run) {
  {
    const std::lock_guard lock(mutex_);
    heap_.push_back(run);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  filled_.notify_one();
}

void RunQueue::pop_locked(Run* run) {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  *run = heap_.back();
  heap_.pop_back();
}

bool RunQueue::try_pop(Run* run) {
  const std::lock_guard lock(mutex_);
  if (heap_.empty()) return false;
  pop_locked(run);
  return true;
}

bool RunQueue::wait_pop(Run* run) {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [&] { return !heap_.empty() || closed_; });
  if (heap_.empty()) return false;
  pop_locked(run);
  return true;
}

void RunQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  filled_.notify_all();
}

}  // namespace dlpipe::pipeline
