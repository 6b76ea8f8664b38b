// Counters cheap enough to be always on: each thread adds to a cache line of its own, readers sum.
//
// add() may be called from any thread at any time and costs one relaxed addition on an own line;
// value() sums over all threads and may miss adds that happen meanwhile. A Counter lives at least as long as
// the threads that add to it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace dlpipe {

/// Small dense number of the calling thread, given at its first call; reused after the thread ends.
int thread_slot();

class Counter {
 public:
  static constexpr int kSlots = 64;

  Counter() : cells_(std::make_unique<std::array<Cell, kSlots>>()) {}
  void add(int64_t amount) {
    (*cells_)[thread_slot() % kSlots].value.fetch_add(amount, std::memory_order_relaxed);
  }
  int64_t value() const {
    int64_t sum = 0;
    for (const Cell& cell : *cells_) sum += cell.value.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Cell {
    std::atomic<int64_t> value{0};
  };
  std::unique_ptr<std::array<Cell, kSlots>> cells_;
};

/// Monotonic time in nanoseconds.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// The counters that every stage has.
struct StageCounters {
  Counter items;
  Counter bytes;
  Counter busy_ns;
  Counter wait_input_ns;
  Counter wait_output_ns;
};

/// Adds the time of its scope to a counter.
class ScopedTimer {
 public:
  explicit ScopedTimer(Counter& counter) : counter_(counter), begin_(now_ns()) {}
  ~ScopedTimer() { counter_.add(now_ns() - begin_); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  Counter& counter_;
  int64_t begin_;
};

}  // namespace dlpipe
