// What steps on a device say once they are over: the loss, whether it counted, where the time went. A few
// scalars a step are copied to page-locked memory behind the step's own work, so that the host asks for steps
// ahead of the device and reads their losses late, in order.
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
#include "dlpipe/run/device_ledger.h"

namespace dlpipe::run {

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
  /// Behind what is in the thread's stream now: `loss` (f32, one element; undefined: 0) and the flags. Ends
  /// the ledger's step. Not while is_full().
  void push(const engine::Tensor& loss, const engine::DeviceStepFlags& flags);
  int64_t pending() const { return pushed_ - popped_; }
  bool is_full() const { return pending() == kDepth; }
  /// Whether the oldest is over.
  bool is_ready() const;
  /// The oldest; waits for it.
  Result pop();
  /// Its steps are begun and marked by whoever makes them.
  DeviceLedger& ledger() { return ledger_; }
  const DeviceTimes& times() const { return ledger_.times(); }

 private:
  struct Entry {
    float loss;
    int32_t found_inf;
  };
  Event& over(int64_t number) const { return *over_[static_cast<size_t>(number % kDepth)]; }
  Entry& entry(int64_t number) const { return reinterpret_cast<Entry*>(memory_.data())[number % kDepth]; }

  Device& device_;
  Buffer memory_;
  std::array<std::unique_ptr<Event>, kDepth> over_;
  DeviceLedger ledger_;
  int64_t pushed_ = 0;
  int64_t popped_ = 0;
};

}  // namespace dlpipe::run
