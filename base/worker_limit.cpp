#include "dlpipe/base/worker_limit.h"

#include <tbb/global_control.h>

#include <memory>

#include "dlpipe/base/mutex.h"

namespace dlpipe {
namespace {

struct Wanted {
  Mutex mutex;
  std::multiset<int> threads DLPIPE_GUARDED_BY(mutex);
  int limit DLPIPE_GUARDED_BY(mutex) = 0;
  std::unique_ptr<tbb::global_control> control DLPIPE_GUARDED_BY(mutex);

  // The new limit stands before the old one goes: at no time is there none.
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
