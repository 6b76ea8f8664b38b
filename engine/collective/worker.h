// The communication thread of a collective. Internal to collective.cpp.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dlpipe/base/mutex.h"
#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/collective/rounds.h"

namespace dlpipe::engine {

struct Collective::Handle::State {
  Mutex mutex;
  std::condition_variable done_changed;
  bool done DLPIPE_GUARDED_BY(mutex) = false;
  Status status DLPIPE_GUARDED_BY(mutex);

  void finish(Status outcome) {
    const MutexLock lock(mutex);
    status = std::move(outcome);
    done = true;
    done_changed.notify_all();
  }
};

/// Owns the communication thread and the transport. Once an operation has failed, the others answer its error too.
class Collective::Worker {
 public:
  using Operation = std::function<Status(Line& line, std::vector<float>& scratch)>;

  ~Worker();

  Status start(const Open& open);
  /// Has `group` do it, of which this rank is one.
  Handle ask(const RankGroup& group, std::string what, Operation operation);
  void abort(std::string_view reason) noexcept;
  Status close();

  bool was_told() const { return was_told_; }
  int rank() const { return rank_; }
  int world() const { return world_; }
  CollectiveStats stats() const {
    return {operations_.load(std::memory_order_relaxed), bytes_sent_.load(std::memory_order_relaxed),
            busy_ns_.load(std::memory_order_relaxed)};
  }

 private:
  struct Job {
    RankGroup group;
    std::string what;
    Operation operation;
    std::shared_ptr<Handle::State> state;
  };

  void run(const Open& open, Handle::State& opened);
  void serve(Transport& transport);
  void work(Transport& transport, Job& job);

  int rank_ = 0;
  int world_ = 1;
  Mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_ DLPIPE_GUARDED_BY(mutex_);
  bool ending_ DLPIPE_GUARDED_BY(mutex_) = false;
  std::shared_ptr<Handle::State> closing_ DLPIPE_GUARDED_BY(mutex_);
  std::string abort_reason_ DLPIPE_GUARDED_BY(mutex_);
  Transport* transport_ DLPIPE_GUARDED_BY(mutex_) = nullptr;  // the thread's, while it serves
  Status failed_;                                             // the thread's
  std::vector<float> scratch_;                                // the thread's
  std::atomic<int64_t> operations_{0}, bytes_sent_{0}, busy_ns_{0};
  std::atomic<bool> was_told_{false};
  std::thread thread_;
};

}  // namespace dlpipe::engine
