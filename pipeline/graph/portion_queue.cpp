#include "dlpipe/pipeline/graph/portion_queue.h"

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
    const MutexLock lock(mutex_);
    heap_.push_back(portion);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  filled_.notify_one();
}

void PortionQueue::take_first(Portion* portion) {
  std::pop_heap(heap_.begin(), heap_.end(), later);
  *portion = heap_.back();
  heap_.pop_back();
}

bool PortionQueue::try_pop(Portion* portion) {
  const MutexLock lock(mutex_);
  if (heap_.empty()) return false;
  take_first(portion);
  return true;
}

bool PortionQueue::wait_pop(Portion* portion) {
  MutexLock lock(mutex_);
  while (heap_.empty() && !closed_) lock.wait(filled_);
  if (heap_.empty()) return false;
  take_first(portion);
  return true;
}

void PortionQueue::close() {
  {
    const MutexLock lock(mutex_);
    closed_ = true;
  }
  filled_.notify_all();
}

}  // namespace dlpipe::pipeline
