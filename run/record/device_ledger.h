// Where a device's time goes, by its own clock: timed events between the parts of a step, read when the step
// is over, so that nothing waits for them.
//
// The time between two marks in the thread's stream is the later mark's category, from the end of one step to
// the end of the next: that adds up by itself. Categories are those of the host's ledger (base/ledger.h):
//
//   end of the step before -> asked for (launch gap) -> copy begins (data idle) -> copy ends (host to device)
//   -> forward -> backward -> optimizer, end
//
// What the device idles within forward, backward and optimizer, from launch to launch, is theirs. Belongs to
// the training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dlpipe/base/device/device.h"
#include "dlpipe/base/ledger.h"

namespace dlpipe::run {

/// Over steps that followed one another.
struct DeviceTimes {
  LedgerEntry entry;  // wall_ns: from the ends of steps to the ends of the next
  int64_t steps = 0;

  double waited_s() const;    // for batches and their copies
  double worked_s() const;    // forward, backward, optimizer
  double wait_share() const;  // waited_s of the wall time; 0 of none
};

class DeviceLedger {
 public:
  /// `depth`: steps that may be under way at once.
  DeviceLedger(Device& device, int64_t depth);

  /// Before anything of a step, its batch included, is asked for.
  void begin_step();
  /// What the thread's stream did since the mark before was `span`.
  void mark(Span span);
  /// The step's last mark.
  void end_step(Span span);
  /// Takes the oldest step's times. All of it is over.
  void take_step();
  /// What comes before the next step is no part of training: that step is left out.
  void interrupt() { is_interrupted_ = true; }
  const DeviceTimes& times() const { return times_; }

  struct Marks {
    std::vector<Span> spans;
    std::vector<std::unique_ptr<Event>> events;  // as many or more: they are used again

    Event& add(Span span, Device& device);
    const Event& last() const { return *events[spans.size() - 1]; }
  };
  /// From here to end_capture marks are the captured graph's. They live as long as it does.
  void begin_capture();
  Marks end_capture();
  /// Before a launch of `graph`: what was marked in its capture is marked in the running step.
  void replay(const Marks& captured, Graph& graph);

 private:
  struct Step {
    Marks marks;
    bool follows = false;  // on the step before
  };
  Step& step(int64_t number) { return steps_[static_cast<size_t>(number) % steps_.size()]; }

  Device& device_;
  std::vector<Step> steps_;  // those under way and the one before them
  Marks captured_;
  bool captures_ = false;
  bool is_interrupted_ = true;  // nothing comes before the first
  int64_t ended_ = 0;
  int64_t taken_ = 0;
  DeviceTimes times_;
};

}  // namespace dlpipe::run
