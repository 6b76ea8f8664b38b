#include "run/record/device_ledger.h"

#include <cmath>
#include <utility>

#include "engine/core/device_memory.h"

namespace dlpipe::run {

constexpr double kNanosecond = 1e-9;

static double seconds_of(const LedgerEntry& entry, std::initializer_list<Span> spans) {
  int64_t ns = 0;
  for (const Span span : spans) ns += entry.span_ns[static_cast<size_t>(span)];
  return static_cast<double>(ns) * kNanosecond;
}

double DeviceTimes::waited_s() const {
  return seconds_of(entry, {Span::kDataIdle, Span::kHostToDevice});
}
double DeviceTimes::worked_s() const {
  return seconds_of(entry, {Span::kForward, Span::kBackward, Span::kOptimizer});
}
double DeviceTimes::wait_share() const {
  return entry.wall_ns > 0 ? waited_s() / (static_cast<double>(entry.wall_ns) * kNanosecond) : 0;
}

DeviceLedger::DeviceLedger(Device& device, int64_t depth)
    : device_(device), steps_(static_cast<size_t>(depth) + 1) {}

Event& DeviceLedger::Marks::add(Span span, Device& device) {
  if (spans.size() == events.size()) events.push_back(value_or_throw(device.create_timed_event()));
  spans.push_back(span);
  return *events[spans.size() - 1];
}

void DeviceLedger::begin_step() {
  Step& now = step(ended_);
  now.marks.spans.clear();
  now.follows = !is_interrupted_;
  mark(Span::kLaunchGap);
}

void DeviceLedger::mark(Span span) {
  Marks& marks = captures_ ? captured_ : step(ended_).marks;
  throw_if_error(device_.record(marks.add(span, device_), engine::engine_stream(device_)));
}

void DeviceLedger::end_step(Span span) {
  mark(span);
  is_interrupted_ = false;
  ++ended_;
}

void DeviceLedger::take_step() {
  const Step& over = step(taken_);
  const int64_t number = taken_++;
  if (!over.follows) return;
  const auto ns_between = [&](const Event& from, const Event& to) {
    return std::llround(value_or_throw(device_.seconds_between(from, to)) / kNanosecond);
  };
  const Event& begin = step(number - 1).marks.last();
  const Event* from = &begin;
  for (size_t i = 0; i < over.marks.spans.size(); ++i) {
    const Event& to = *over.marks.events[i];
    times_.entry.span_ns[static_cast<size_t>(over.marks.spans[i])] += ns_between(*from, to);
    from = &to;
  }
  times_.entry.wall_ns += ns_between(begin, *from);
  ++times_.steps;
}

void DeviceLedger::begin_capture() {
  captured_ = Marks();
  captures_ = true;
}
DeviceLedger::Marks DeviceLedger::end_capture() {
  captures_ = false;
  return std::exchange(captured_, Marks());
}

void DeviceLedger::replay(const Marks& captured, Graph& graph) {
  for (size_t i = 0; i < captured.spans.size(); ++i) {
    Event& now = step(ended_).marks.add(captured.spans[i], device_);
    throw_if_error(device_.set_event(graph, *captured.events[i], now));
  }
}

}  // namespace dlpipe::run
