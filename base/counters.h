// Where time goes: the clock, counters for hot paths, and the ledger of a training run.
//
// Counter   always on; each thread adds to its own cache line. add() may be called from any thread and costs one relaxed
//           addition; value() sums over all threads and may miss concurrent adds. A Counter outlives the threads that add to it.
// Ledger    divides a training run's wall time among categories (spans), so that they add up to 100 %. Only the training
//           thread, to which a Ledger belongs, opens steps, parts and spans. Spans nest; a span's time excludes the spans inside
//           it. Time that no span covers is `unaccounted`, printed separately and expected to stay under 1 %. pipeline and engine
//           write through the thread's current ledger (Ledger::current()), run and cli read it. A span costs two clock reads, or
//           one branch if the thread has no current ledger.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "dlpipe/stats.h"

namespace dlpipe {

/// Monotonic time in nanoseconds.
inline int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// ---- counters

/// Small dense number of the calling thread, assigned at its first call; reused after the thread ends.
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

// ---- the ledger

class Ledger {
 public:
  /// Makes this ledger the calling thread's current one until destruction or another call.
  void make_current();
  static Ledger* current();
  Ledger() = default;
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Wall time runs from begin_step to end_step; steps don't nest. end_step returns the step's entry.
  void begin_step();
  LedgerEntry end_step();
  /// The same for work outside of steps: a validation before the first step, a checkpoint after the last. Its
  /// time counts in total() but not in steps().
  void begin_part() { begin_step(); }
  LedgerEntry end_part();
  /// Adds time of earlier work, which no span measured.
  void add(Span span, int64_t ns);
  const LedgerEntry& total() const { return total_; }
  /// total() plus the running step or part so far. The innermost open span counts only up to its begin.
  LedgerEntry so_far() const;
  int64_t steps() const { return steps_; }

  void begin(Span span);
  void end();
  /// Moves `ns` of the running step from one category to another: the pipeline knows only afterwards how much
  /// of a wait was decoding.
  void reassign(Span from, Span to, int64_t ns);

 private:
  struct Open {
    Span span;
    int64_t resumed_ns;
  };
  std::vector<Open> open_;
  LedgerEntry step_;
  LedgerEntry total_;
  int64_t step_begin_ns_ = 0;
  int64_t steps_ = 0;
  bool in_step_ = false;
};

/// Charges its scope to `span` of the thread's current ledger, if there is one.
class SpanScope {
 public:
  explicit SpanScope(Span span) : ledger_(Ledger::current()) {
    if (ledger_ != nullptr) ledger_->begin(span);
  }
  ~SpanScope() {
    if (ledger_ != nullptr) ledger_->end();
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  Ledger* ledger_;
};

}  // namespace dlpipe
