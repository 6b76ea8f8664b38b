// The interface of a backend of engine/collective: a Transport carries bytes between the ranks of a run. There is one
// file per backend: launched.cpp (one rank), simulated.h (threads of one process, for tests), mpi.h, nccl.h.
//
// A Transport belongs to one thread, the communication thread of a Collective (collective.h), which opens, uses and
// closes it. Headers don't use types of the underlying libraries.
#pragma once

#include <dlfcn.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe::engine {

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int world() const = 0;
  /// Sends `out` to `peer` and receives in.size() bytes from it, at the same time. The peer calls it with this rank's
  /// number and the sizes swapped; either direction may be empty. Messages between two ranks arrive in order. kIo names
  /// the rank that did not respond within the peer timeout, or that stopped and why; after it every call returns an
  /// error. MPI can't cancel an operation: later contents of `out` may still be sent, and `in` may still be written, so
  /// the process should exit.
  virtual Status exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in) = 0;
  /// Notifies the other ranks that this rank stops, and why; their pending calls fail with that text. Does not wait.
  virtual void abort(std::string_view reason) noexcept = 0;
  /// Shuts down cleanly; all ranks call it after their last exchange. Without it the destructor shuts down immediately.
  virtual Status close() = 0;
  /// Whether an exchange has failed because another rank reported that it stops.
  bool was_told() const { return was_told_.load(std::memory_order_relaxed); }
  /// Called from another thread: makes an exchange that waits for its peer fail soon.
  void stop_waiting() { stops_waiting_.store(true, std::memory_order_relaxed); }

 protected:
  bool stops_waiting() const { return stops_waiting_.load(std::memory_order_relaxed); }

  /// The error of an exchange after `rank` has reported that it stops, and why.
  Status told(int rank, std::string_view reason) {
    was_told_.store(true, std::memory_order_relaxed);
    return {ErrorCode::kIo, "rank " + std::to_string(rank) + " stopped: " + std::string(reason)};
  }

 private:
  std::atomic<bool> was_told_{false};
  std::atomic<bool> stops_waiting_{false};
};

/// A transport for a single rank: exchange() is never called.
std::unique_ptr<Transport> make_single_transport();

// How a transport pauses between polls for a message from another rank.

/// Yields at first, then sleeps for increasing times.
class Pause {
 public:
  void operator()() {
    constexpr int kYields = 50;
    constexpr std::chrono::microseconds kLongest{200};
    if (looks_++ < kYields) return std::this_thread::yield();
    std::this_thread::sleep_for(sleep_);
    sleep_ = std::min(2 * sleep_, kLongest);
  }

 private:
  int looks_ = 0;
  std::chrono::microseconds sleep_{10};
};

// Finds the rank that is responsible when a peer has not responded in time, because the peer may itself be waiting.
// Ranks that give up report which rank they waited for. The rank at the end of that chain, which has not reported that
// it waits, is the one that is gone. A value; transports use it.

class LateRanks {
 public:
  explicit LateRanks(int world) : waits_for_(static_cast<size_t>(world)) {}

  void note(int rank, int waits_for) { waits_for_[static_cast<size_t>(rank)] = waits_for; }
  /// The rank that blocks a rank that waits for `peer`.
  int culprit(int peer) const {
    for (size_t steps = 0; steps < waits_for_.size(); ++steps) {
      const std::optional<int> next = waits_for_[static_cast<size_t>(peer)];
      if (!next) break;
      peer = *next;
    }
    return peer;
  }
  /// How long a rank that gives up listens to reports of others before it names the rank that is gone.
  static std::chrono::duration<double> listening(double timeout_s) {
    return std::chrono::duration<double>(std::min(1.0, timeout_s / 4));
  }
  /// The error of a rank that waited for `peer`.
  Status gone(int peer, double timeout_s) const {
    return {ErrorCode::kIo, concat("rank ", culprit(peer), " has not responded for ", fixed(timeout_s, 1),
                                   " s (--peer-timeout); check its last output, and resume with --resume")};
  }

 private:
  std::vector<std::optional<int>> waits_for_;
};

// A shared library that is loaded by name at first use and stays loaded. Internal to engine/collective: engine/cuda has a
// similar class, but this folder may only include base.

class LoadedLibrary {
 public:
  /// Loads the first of `names` that exists. `what` and `advice` are for messages: what the library is, and what to do if there
  /// is none. `visibility`: RTLD_LOCAL, or RTLD_GLOBAL if the library's own plugins need its symbols.
  LoadedLibrary(const char* what, std::initializer_list<const char*> names, int visibility,
                const char* advice)
      : what_(what) {
    std::string reasons;
    for (const char* name : names) {
      name_ = name;
      library_ = dlopen(name, RTLD_NOW | visibility);
      if (library_ != nullptr) return;
      reasons +=
          concat(reasons.empty() ? "" : "; ", dlerror());  // NOLINT(concurrency-mt-unsafe): this thread's
    }
    status_ = Status(ErrorCode::kUnsupported, concat("[ranks] ", what, ": ", reasons, advice));
  }

  /// Sets `to` to a function or an object of the library; to null if there is none, which status() then reports.
  template <class Pointer>
  void find(const char* name, Pointer& to) {
    to = nullptr;
    if (!status_.ok()) return;
    to = reinterpret_cast<Pointer>(dlsym(library_, name));
    if (to == nullptr)
      status_ = Status(ErrorCode::kUnsupported, concat("[ranks] ", what_, ": ", name_, " has no ", name));
  }
  const Status& status() const { return status_; }

 private:
  const char* what_;
  std::string name_;
  void* library_ = nullptr;
  Status status_;
};

}  // namespace dlpipe::engine
