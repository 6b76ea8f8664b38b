// Where a training run's wall time goes, so that it adds up to 100 %.
//
// A Ledger belongs to the training thread: only it opens steps, parts and spans. Spans nest; a span's time is its
// own, without that of the spans inside it. What no span covers is `unaccounted`, printed by itself and
// expected to stay under 1 %. pipeline and engine write through the thread's current ledger
// (Ledger::current()), run and cli read. A span costs two clock reads; without a current ledger, one branch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace dlpipe {

enum class Span : uint8_t {
  kDataDecode,  // the waiting trainer decoded
  kDataIdle,    // the trainer waited and had nothing to decode
  kHostToDevice,
  kForward,
  kBackward,
  kOptimizer,
  kCollective,
  kLogging,
  kCheckpoint,
  kMetrics,
  kValidation,
  kLaunchGap,     // of a device alone: the host hadn't asked for the next step yet
  kKernelSearch,  // candidates for a shape's kernel were timed, in the first run on a machine
  kStart,         // everything before the first step: opening data, building the model, planning
};
inline constexpr auto kSpanNames = std::to_array<std::string_view>(
    {"data decode", "data idle", "host to device", "forward", "backward", "optimizer", "collective",
     "logging", "checkpoint", "metrics", "validation", "launch gap", "kernel search", "start"});
inline constexpr int kSpanCount = static_cast<int>(kSpanNames.size());
static_assert(static_cast<int>(Span::kStart) == kSpanCount - 1, "each span has its name, at its place");
inline std::string_view span_name(Span span) {
  return kSpanNames[static_cast<size_t>(span)];
}

/// Time of one step or the sum of many, by category.
struct LedgerEntry {
  std::array<int64_t, kSpanCount> span_ns{};
  int64_t wall_ns = 0;

  int64_t covered_ns() const;
  int64_t unaccounted_ns() const { return wall_ns - covered_ns(); }
  /// Wall time of training itself: without start, kernel search, validations and checkpoints.
  int64_t training_ns() const;
  LedgerEntry& operator+=(const LedgerEntry& other);
  LedgerEntry& operator-=(const LedgerEntry& other);
};

class Ledger {
 public:
  /// Makes this ledger the calling thread's current one until destruction or another call.
  void make_current();
  static Ledger* current();
  Ledger() = default;
  ~Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  /// Wall time runs from begin_step to end_step; steps don't nest. end_step answers the step's entry.
  void begin_step();
  LedgerEntry end_step();
  /// The same for what is no step: a validation before the first step, a checkpoint after the last. Their
  /// time is in total() and not in steps().
  void begin_part() { begin_step(); }
  LedgerEntry end_part();
  /// Time that no span measured, of what happened before.
  void add(Span span, int64_t ns);
  const LedgerEntry& total() const { return total_; }
  /// total() and what has passed of the running step or part, of spans what they had when the innermost one began.
  LedgerEntry so_far() const;
  int64_t steps() const { return steps_; }

  void begin(Span span);
  void end();
  /// Moves `ns` of the running step from one category to another (the pipeline learns afterwards how much of
  /// a wait was decoding).
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
