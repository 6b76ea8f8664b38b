#include "base/threads.h"

#include <malloc.h>
#include <tbb/global_control.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "base/text.h"
#include "dlpipe/log.h"

namespace dlpipe {

namespace {

/// Adds threads that run body(0), body(1), ... until there are `wanted`. Returns the system's error and what to do if it
/// allows no more, else an empty string.
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
  // Starting as many as possible has exhausted some limit, which the work also needs.
  const int kept = std::max(1, count() / 2);
  log(LogLevel::kWarning, concat("[", area_, "] only ", count(), " of ", wanted, " threads could be started ",
                                 limits, "; ", kept, kept == 1 ? " does" : " do", " all the work"));
#ifdef M_ARENA_MAX
  // Each thread uses its own malloc arena, which reserves 64 MiB of address space.
  mallopt(M_ARENA_MAX, 1);
#endif
  start(kept);
}

void Threads::start(int kept) {
  running_ = kept;
  {
    const MutexLock lock(mutex_);
    kept_ = kept;
    changed_.notify_all();
  }
  for (; count() > kept; threads_.pop_back()) threads_.back().join();
  const MutexLock lock(mutex_);
  has_begun_ = true;
  changed_.notify_all();
}

void Threads::work(int index) {
  {
    MutexLock lock(mutex_);
    while (kept_ < 0) lock.wait(changed_);
    if (index >= kept_) return;
    while (!has_begun_) lock.wait(changed_);
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

Status Threads::join(const std::function<void()>& look) {
  constexpr std::chrono::milliseconds kBetween(20);
  while (running() > 0) {
    std::this_thread::sleep_for(kBetween);
    look();
  }
  return join();
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

namespace {

struct Wanted {
  Mutex mutex;
  std::multiset<int> threads DLPIPE_GUARDED_BY(mutex);
  int limit DLPIPE_GUARDED_BY(mutex) = 0;
  std::unique_ptr<tbb::global_control> control DLPIPE_GUARDED_BY(mutex);

  // Sets the new limit before removing the old one, so that there always is a limit.
  void apply() DLPIPE_REQUIRES(mutex) {
    const int most = threads.empty() ? 0 : *threads.rbegin();
    if (most == limit) return;
    limit = most;
    std::unique_ptr<tbb::global_control> next;
    if (most > 0) {
      next = std::make_unique<tbb::global_control>(tbb::global_control::max_allowed_parallelism,
                                                   static_cast<size_t>(most));
    }
    control = std::move(next);
  }
};

Wanted& wanted() {
  static auto* const all = new Wanted;  // never destroyed: at exit oneTBB may already be gone
  return *all;
}

}  // namespace

WorkerLimit::WorkerLimit(int threads) {
  Wanted& all = wanted();
  const MutexLock lock(all.mutex);
  self_ = all.threads.insert(threads);
  all.apply();
}

WorkerLimit::~WorkerLimit() {
  Wanted& all = wanted();
  const MutexLock lock(all.mutex);
  all.threads.erase(self_);
  all.apply();
}

}  // namespace dlpipe
