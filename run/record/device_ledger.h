// Where a device's time goes, by its own clock. Timed events are recorded between the parts of a step and read after the step is
// finished, so that nothing waits for them.
//
// The time between two marks in the thread's stream belongs to the later mark's category. Marks go from the end of one step to
// the end of the next, so the times add up. Categories are those of the host's ledger (base/counters.h):
//
//   end of the step before -> step requested (launch gap) -> copy begins (data idle) -> copy ends (host to device)
//   -> forward -> backward -> optimizer, end
//
// Idle time of the device between launches within forward, backward and optimizer counts as theirs. Belongs to the training
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/counters.h"
#include "dlpipe/device.h"
#include "dlpipe/report.h"

namespace dlpipe::run {

class DeviceLedger {
 public:
  /// `depth`: steps that may be in flight at once.
  DeviceLedger(Device& device, int64_t depth);

  /// Call before any work of a step, including its batch, is launched.
  void begin_step();
  /// Marks the work of the thread's stream since the previous mark as `span`.
  void mark(Span span);
  /// The step's last mark.
  void end_step(Span span);
  /// Reads the oldest step's times, after it is finished.
  void take_step();
  /// Call if the time before the next step is not part of training; that step is left out.
  void interrupt() { is_interrupted_ = true; }
  const DeviceTimes& times() const { return times_; }

  struct Marks {
    std::vector<Span> spans;
    std::vector<std::unique_ptr<Event>> events;  // as many or more, because they are reused

    Event& add(Span span, Device& device);
    const Event& last() const { return *events[spans.size() - 1]; }
  };
  /// From here to end_capture, marks belong to the captured graph and live as long as it does.
  void begin_capture();
  Marks end_capture();
  /// Before a launch of `graph`: applies the marks of its capture to the running step.
  void replay(const Marks& captured, Graph& graph);

 private:
  struct Step {
    Marks marks;
    bool follows = false;  // directly after the step before
  };
  Step& step(int64_t number) { return steps_[static_cast<size_t>(number) % steps_.size()]; }

  Device& device_;
  std::vector<Step> steps_;  // those in flight and the one before them
  Marks captured_;
  bool captures_ = false;
  bool is_interrupted_ = true;  // there is no step before the first
  int64_t ended_ = 0;
  int64_t taken_ = 0;
  DeviceTimes times_;
};

}  // namespace dlpipe::run
