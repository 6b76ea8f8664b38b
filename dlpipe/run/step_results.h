// What steps on a device say once they are over: the loss and whether it counted. A few scalars a step are
// copied to page-locked memory behind the step's own work, so that the host asks for steps ahead of the
// device and reads their losses late, in order.
//
// Belongs to the training thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "dlpipe/base/buffer.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/engine/tensor.h"

namespace dlpipe::run {

/// Where a device's own time went, by its own clock, over steps that followed one another.
struct DeviceTimes {
  double waited_s = 0;  // from the end of a step to the arrival of the next one's first batch
  double worked_s = 0;  // from there to the step's end, gaps between launches included
  int64_t steps = 0;
};

class StepResults {
 public:
  /// Steps that may be under way at once.
  static constexpr int64_t kDepth = 2;

  explicit StepResults(Device& device);
  ~StepResults();  // waits: copies into this memory may be under way

  struct Result {
    float loss = 0;
    bool counted = true;  // else something wasn't finite
  };
  /// The next step's batch is there: behind what is in the thread's stream now.
  void mark_ready();
  /// Behind what is in the thread's stream now: `loss` (f32, one element; undefined: 0) and the flags. Not
  /// while is_full().
  void push(const engine::Tensor& loss, const engine::DeviceStepFlags& flags);
  int64_t pending() const { return pushed_ - popped_; }
  bool is_full() const { return pending() == kDepth; }
  /// Whether the oldest is over.
  bool is_ready() const;
  /// The oldest; waits for it.
  Result pop();
  const DeviceTimes& times() const { return times_; }

 private:
  static constexpr size_t kEvents = kDepth + 1;  // the end of the step before the oldest is looked at, too
  void add_times(int64_t number);
  struct Entry {
    float loss;
    int32_t found_inf;
  };
  Entry& entry(int64_t number) const { return reinterpret_cast<Entry*>(memory_.data())[number % kDepth]; }

  Device& device_;
  Buffer memory_;
  std::array<std::unique_ptr<Event>, kEvents> ready_;
  std::array<std::unique_ptr<Event>, kEvents> over_;
  int64_t pushed_ = 0;
  int64_t popped_ = 0;
  int64_t marked_ = -1;       // the last step with a mark
  int64_t first_in_row_ = 0;  // between the step before and this one the host did something else
  DeviceTimes times_;
};

}  // namespace dlpipe::run
