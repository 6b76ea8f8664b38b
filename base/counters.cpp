#include "base/counters.h"

#include <vector>

#include "base/mutex.h"
#include "dlpipe/device.h"

namespace dlpipe {

// ---- counters

namespace {
// Slot numbers of threads that have ended. Used twice in a thread's life: when it gets a number, and when it ends.
struct FreeSlots {
  Mutex mutex;
  std::vector<int> free DLPIPE_GUARDED_BY(mutex);
  int next DLPIPE_GUARDED_BY(mutex) = 0;
};
FreeSlots& free_slots() {
  static FreeSlots* slots = new FreeSlots;  // never destroyed: threads may end after main's statics
  return *slots;
}

struct ThreadSlot {
  int slot;
  ThreadSlot() {
    FreeSlots& slots = free_slots();
    const MutexLock lock(slots.mutex);
    if (slots.free.empty()) {
      slot = slots.next++;
    } else {
      slot = slots.free.back();
      slots.free.pop_back();
    }
  }
  ~ThreadSlot() {
    FreeSlots& slots = free_slots();
    const MutexLock lock(slots.mutex);
    slots.free.push_back(slot);
  }
};
}  // namespace

int thread_slot() {
  thread_local ThreadSlot slot;
  return slot.slot;
}

// ---- the ledger

static thread_local Ledger* current_ledger = nullptr;

int64_t LedgerEntry::covered_ns() const {
  int64_t sum = 0;
  for (int64_t ns : span_ns) sum += ns;
  return sum;
}

int64_t LedgerEntry::training_ns() const {
  int64_t ns = wall_ns;
  for (const Span span : {Span::kStart, Span::kKernelSearch, Span::kValidation, Span::kCheckpoint})
    ns -= span_ns[static_cast<size_t>(span)];
  return ns;
}

LedgerEntry& LedgerEntry::operator+=(const LedgerEntry& other) {
  for (int i = 0; i < kSpanCount; ++i) span_ns[i] += other.span_ns[i];
  wall_ns += other.wall_ns;
  return *this;
}

LedgerEntry& LedgerEntry::operator-=(const LedgerEntry& other) {
  for (int i = 0; i < kSpanCount; ++i) span_ns[i] -= other.span_ns[i];
  wall_ns -= other.wall_ns;
  return *this;
}

void Ledger::make_current() {
  current_ledger = this;
}
Ledger* Ledger::current() {
  return current_ledger;
}
Ledger::~Ledger() {
  if (current_ledger == this) current_ledger = nullptr;
}

void Ledger::begin_step() {
  step_ = LedgerEntry();
  step_begin_ns_ = now_ns();
  in_step_ = true;
}

LedgerEntry Ledger::end_step() {
  if (in_step_) ++steps_;
  return end_part();
}

void Ledger::add(Span span, int64_t ns) {
  total_.span_ns[static_cast<size_t>(span)] += ns;
  total_.wall_ns += ns;
}

LedgerEntry Ledger::so_far() const {
  LedgerEntry entry = total_;
  if (!in_step_) return entry;
  entry += step_;
  entry.wall_ns += now_ns() - step_begin_ns_;
  return entry;
}

LedgerEntry Ledger::end_part() {
  if (!in_step_) return {};
  in_step_ = false;
  step_.wall_ns = now_ns() - step_begin_ns_;
  total_ += step_;
  return step_;
}

void Ledger::begin(Span span) {
  const int64_t now = now_ns();
  if (!open_.empty()) {
    Open& outer = open_.back();
    step_.span_ns[static_cast<size_t>(outer.span)] += now - outer.resumed_ns;
  }
  open_.push_back({span, now});
  push_range(span_name(span).data());  // names are literals, so they end with a zero byte
}

void Ledger::end() {
  const int64_t now = now_ns();
  const Open inner = open_.back();
  open_.pop_back();
  pop_range();
  step_.span_ns[static_cast<size_t>(inner.span)] += now - inner.resumed_ns;
  if (!open_.empty()) open_.back().resumed_ns = now;
}

void Ledger::reassign(Span from, Span to, int64_t ns) {
  step_.span_ns[static_cast<size_t>(from)] -= ns;
  step_.span_ns[static_cast<size_t>(to)] += ns;
}

}  // namespace dlpipe
