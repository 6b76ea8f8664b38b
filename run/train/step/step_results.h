// What steps on a device say once they are over: the loss, whether it counted, where the time went. A few
// scalars per step are copied to page-locked memory behind the step's own work, so that the host asks for steps
// ahead of the device and reads their losses late, in order.
//
// Belongs to the training thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "dlpipe/base/buffer.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/engine/core/flat_steps.h"
#include "dlpipe/engine/core/tensor.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/run/record/device_ledger.h"

namespace dlpipe::run {

class StepResults {
 public:
  /// Steps that may be under way at once.
  static constexpr int64_t kDepth = 2;

  explicit StepResults(Device& device);
  ~StepResults();  // waits: copies into this memory may be under way

  struct Result {
    float loss = 0;
    int32_t found_inf = engine::cuda::kAllFinite;  // a FoundInf: whether the step counted, or why it didn't
    float loss_scale = 0;                          // of the next step; 0: the loss isn't scaled
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
  Event& over(int64_t number) const { return *over_[static_cast<size_t>(number % kDepth)]; }
  Result& entry(int64_t number) const { return reinterpret_cast<Result*>(memory_.data())[number % kDepth]; }

  Device& device_;
  Buffer memory_;
  std::array<std::unique_ptr<Event>, kDepth> over_;
  DeviceLedger ledger_;
  int64_t pushed_ = 0;
  int64_t popped_ = 0;
};

}  // namespace dlpipe::run
