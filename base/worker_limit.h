// How many threads oneTBB may have, agreed by all in this process who use it.
#pragma once

#include <set>

namespace dlpipe {

/// While this object lives, oneTBB may have `threads` threads, the caller's among them. oneTBB by itself takes the least of
/// all limits that stand, which would leave everybody with the threads of the smallest: these share one, the largest. Any
/// thread; also in objects that live until the process ends.
class WorkerLimit {
 public:
  explicit WorkerLimit(int threads);
  ~WorkerLimit();
  WorkerLimit(const WorkerLimit&) = delete;
  WorkerLimit& operator=(const WorkerLimit&) = delete;

 private:
  std::multiset<int>::iterator self_;
};

}  // namespace dlpipe
