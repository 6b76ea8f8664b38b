#include "dlpipe/pipeline/portion_queue.h"

#include <algorithm>

namespace dlpipe::pipeline {

namespace {
// std::push_heap keeps the largest on top: later portions count as smaller.
bool later(const Portion& a, const Portion& b) {
  return a.sequence != b.sequence ? a.sequence > b.sequence : a.first > b.first;
}
}  // namespace

void PortionQueue::push(const Portion& portion) {
  {
    const std::lock_guard lock(mutex_);
    heap_.push_back(portion);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  filled_.notify_one();
}

void PortionQueue::pop_locked(Portion* portion) {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  *portion = heap_.back();
  heap_.pop_back();
}

bool PortionQueue::try_pop(Portion* portion) {
  const std::lock_guard lock(mutex_);
  if (heap_.empty()) return false;
  pop_locked(portion);
  return true;
}

bool PortionQueue::wait_pop(Portion* portion) {
  std::unique_lock lock(mutex_);
  filled_.wait(lock, [&] { return !heap_.empty() || closed_; });
  if (heap_.empty()) return false;
  pop_locked(portion);
  return true;
}

void PortionQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  filled_.notify_all();
}

}  // namespace dlpipe::pipeline
