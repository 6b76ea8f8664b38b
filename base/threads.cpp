#include "dlpipe/base/threads.h"

#include <malloc.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "dlpipe/base/log.h"
#include "dlpipe/base/text.h"

namespace dlpipe {

namespace {

/// Adds threads that run body(0), body(1), ... until there are `wanted`. Answers what the system says where it
/// gives no more, and what to do; empty: all are there.
std::string start_threads(int wanted, const std::function<void(int)>& body,
                          std::vector<std::thread>& threads) {
  threads.reserve(static_cast<size_t>(wanted));
  try {
    for (int index = 0; index < wanted; ++index) threads.emplace_back(body, index);
  } catch (const std::exception& error) {
    return concat("(", error.what(), "); raise ulimit -v or ulimit -u, or ask for fewer");
  }
  return {};
}

}  // namespace

Status check_threads(std::string_view area, int wanted) {
  Mutex mutex;
  std::vector<std::thread> threads;
  std::string limits;
  {
    const MutexLock all_at_once(mutex);
    limits = start_threads(
        wanted, [&mutex](int) { const MutexLock until_all_are_there(mutex); }, threads);
  }
  for (std::thread& thread : threads) thread.join();
  if (limits.empty()) return {};
  return {ErrorCode::kOutOfMemory,
          concat("[", area, "] only ", threads.size(), " of ", wanted, " threads could be started ", limits)};
}

Threads::Threads(std::string_view area, int wanted, std::function<void(int)> body)
    : area_(area), body_(std::move(body)) {
  const std::string limits = start_threads(
      wanted, [this](int index) { work(index); }, threads_);
  if (limits.empty()) {
    start(wanted);
    return;
  }
  if (count() == 0) {
    fail({ErrorCode::kOutOfMemory, concat("[", area_, "] no thread could be started ", limits)});
    return;
  }
  // The last one took the last of some limit. Their work needs of it, too.
  const int kept = std::max(1, count() / 2);
  log(LogLevel::kWarning, concat("[", area_, "] only ", count(), " of ", wanted, " threads could be started ",
                                 limits, "; ", kept, kept == 1 ? " does" : " do", " all the work"));
#ifdef M_ARENA_MAX
  // An arena of malloc's reserves 64 MiB of addresses, and each thread wants one of its own.
  mallopt(M_ARENA_MAX, 1);
#endif
  start(kept);
}

void Threads::start(int kept) {
  running_ = kept;
  {
    const MutexLock lock(mutex_);
    kept_ = kept;
    told_.notify_all();
  }
  for (; count() > kept; threads_.pop_back()) threads_.back().join();
  const MutexLock lock(mutex_);
  has_begun_ = true;
  told_.notify_all();
}

void Threads::work(int index) {
  {
    MutexLock lock(mutex_);
    while (kept_ < 0) lock.wait(told_);
    if (index >= kept_) return;
    while (!has_begun_) lock.wait(told_);
  }
  try {
    body_(index);
  } catch (...) {
    fail(status_from_current_exception(area_));
  }
  --running_;
}

Threads::~Threads() {
  (void)join();
}

Status Threads::join() {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  const MutexLock lock(mutex_);
  return first_error_;
}

void Threads::fail(const Status& status) {
  const MutexLock lock(mutex_);
  if (first_error_.ok()) first_error_ = status;
}

}  // namespace dlpipe
