// The operations of a collective as rounds of exchanges: in each round a rank exchanges with the rank whose number
// differs in one bit. Internal to collective.cpp. The number of ranks is a power of two; all ranks call the same
// function with the same sizes.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dlpipe/error.h"
#include "engine/collective/collective.h"
#include "engine/collective/transport.h"

namespace dlpipe::engine {

/// A transport with the rank numbers of a group. Counts the bytes sent.
class Line {
 public:
  Line(Transport& transport, const RankGroup& group) : transport_(transport), group_(group) {}
  int rank() const { return group_.rank; }
  int world() const { return group_.world(); }
  Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) {
    DLPIPE_RETURN_IF_ERROR(transport_.exchange(group_.members[static_cast<size_t>(peer)], out, in));
    bytes_sent_ += static_cast<int64_t>(out.size());
    return {};
  }
  Status exchange(int peer, std::span<const float> out, std::span<float> in) {
    return exchange(peer, std::as_bytes(out), std::as_writable_bytes(in));
  }
  int64_t bytes_sent() const { return bytes_sent_; }

 private:
  Transport& transport_;
  const RankGroup& group_;
  int64_t bytes_sent_ = 0;
};

/// A range of part numbers, [begin, end); there are as many parts as ranks.
struct Parts {
  int begin = 0;
  int end = 0;
};

/// Values in parts.
struct PartedValues {
  std::span<float> values;
  std::vector<size_t> cuts;

  std::span<float> of(Parts parts) const {
    const size_t begin = cuts[static_cast<size_t>(parts.begin)], end = cuts[static_cast<size_t>(parts.end)];
    return values.subspan(begin, end - begin);
  }
};

/// The number of the part that belongs to `rank` of `world`.
int part_number(int rank, int world);
/// The world + 1 offsets of the parts of `count` values.
std::vector<size_t> cut_evenly(size_t count, int world);

/// Replaces this rank's part by the sum over all ranks, along the tree of collective.h; the rest becomes undefined.
Status reduce_scatter_on(Line& line, const PartedValues& values, std::vector<float>& scratch);
/// Sends each rank's part to all others.
Status all_gather_on(Line& line, const PartedValues& values);
/// The same two with bf16 on the line; all values must already be rounded.
Status reduce_scatter_rounded_on(Line& line, const PartedValues& values);
Status all_gather_rounded_on(Line& line, const PartedValues& values);
Status broadcast_on(Line& line, std::span<std::byte> bytes, int root);
/// Every rank's bytes, by rank, appended to `all`.
Status gather_on(Line& line, std::string_view mine, std::vector<std::string>& all);
Status barrier_on(Line& line);

// The communication thread of a collective. Internal to collective.cpp.

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

/// Owns the communication thread and the transport. After an operation has failed, later ones return the same error.
class Collective::Worker {
 public:
  using Operation = std::function<Status(Line& line, std::vector<float>& scratch)>;

  ~Worker();

  Status start(const Open& open);
  /// Queues an operation of `group`, which includes this rank.
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
  Transport* transport_ DLPIPE_GUARDED_BY(mutex_) = nullptr;  // the thread's, while it runs operations
  Status failed_;                                             // only used by the thread
  std::vector<float> scratch_;                                // only used by the thread
  std::atomic<int64_t> operations_{0}, bytes_sent_{0}, busy_ns_{0};
  std::atomic<bool> was_told_{false};
  std::thread thread_;
};

}  // namespace dlpipe::engine
