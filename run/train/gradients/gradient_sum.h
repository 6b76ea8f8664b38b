// Sums the gradients of one step over its grains, in any number of processes, along one fixed tree.
//
// The leaves of the tree are the grains of a global batch, neighbours first. A rank owns a whole subtree and sums it as its
// grains arrive one after another; Collective sums the tree above. So the sum has the same bits for every power of two of ranks
// up to the number of grains (except with `device_sums`). If a step has several batches, a grain's gradients are first added up
// over them.
//
// Memory, apart from one or two gradients in transit: the sums; log2(grains) partial sums of all parameters, between grains;
// with several batches, one per grain. With `shares` (ZeRO-2), a bucket's sums exist while it fills and is exchanged, and this
// rank's part of each bucket until the update.
//
// Gradients are exchanged in buckets during backward, in the order in which backward finishes parameters, last layer first. With
// one grain in one process this class does nothing: gradients are the parameters' own.
//
// Belongs to the training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/module.h"
#include "dlpipe/tensor.h"
#include "engine/collective/collective.h"
#include "engine/collective/nccl.h"
#include "engine/optim/gradients.h"

namespace dlpipe::run {

class GradientSum {
 public:
  struct Form {
    int64_t grains = 1;                   // of this rank
    int64_t batches = 1;                  // per step
    engine::Collective* ranks = nullptr;  // null: this process is alone
    int64_t bucket_bytes = 25 << 20;
    engine::Wire wire = engine::Wire::kF32;  // kBf16: each grain's gradients and each sum of two are rounded
    bool shares = false;                     // each rank gets only the sums of its shares
    /// On a device: sums between ranks, in its own order; null: `ranks` sum, along the tree.
    engine::DeviceSums* device_sums = nullptr;
    double peer_timeout_s = 60;  // for device_sums
  };
  /// With `shares`: the number of buckets whose sums over this rank's grains exist at once, if backward finishes parameters in
  /// order. A full bucket is not exchanged until the bucket two before it has been summed.
  static constexpr size_t kBucketsAtOnce = 3;
  /// Whether the class does anything. If so, the parameters' own gradients are released as soon as others arrive.
  static bool is_needed(const Form& form);
  /// The peak memory of gradients, including their sums.
  static uint64_t bytes(const Form& form, const std::vector<engine::NamedTensor>& parameters);
  /// With `form.shares`: the part of each parameter that this process's optimizer updates.
  static std::vector<engine::Share> shares(const std::vector<engine::NamedTensor>& parameters,
                                           const Form& form);
  /// Sums the gradients of those `parameters` that require one. They are f32 and on one device.
  GradientSum(const std::vector<engine::NamedTensor>& parameters, const Form& form);
  ~GradientSum();  // waits for pending work
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  void begin_step(int64_t step);
  /// The gradients that arrive until end() are those of this grain of this batch; a parameter that gets none has zeros. Each
  /// parameter's gradients arrive in the order of grains, and one batch after another. Grains may take turns on separate threads:
  /// resume() says which grain's gradients come next. Gradients of a recomputed forward are ignored, because the outer backward
  /// repeats them.
  void begin(int64_t batch, int64_t grain);
  void resume(int64_t grain);
  void end(int64_t grain);
  /// Puts the sums into the parameters, or with `shares` into own(). Throws if another rank does not respond; with `shares`, so
  /// does receiving gradients.
  void finish();
  /// With `shares`, until share_weights() or the next step: the sums of this rank's shares, by parameter; flat, undefined for a
  /// parameter without a gradient.
  const std::vector<engine::Tensor>& own() const;
  /// With `shares`, after the update: sends each rank's shares of the weights to all others and releases gradients.
  void share_weights();

 private:
  class Sums;
  std::shared_ptr<Sums> sums_;  // null: nothing to do; the parameters' hooks check for null
};

// Buckets of gradients that GPUs sum among themselves (engine/collective/nccl.h). This runs on a separate stream, after the work
// that was launched before the bucket was full, while the rest of backward continues. Refers to the device and the sums. One
// thread.
class DeviceTravel {
 public:
  DeviceTravel(Device& device, engine::DeviceSums& sums, double timeout_s);
  ~DeviceTravel();  // ends sums that are in progress

  /// Starts to replace `values`, f32, by their sums over all ranks, after all work launched so far.
  void leave(const engine::Tensor& values);
  /// Work launched from now on sees the sums of all buckets that were sent. Waits for them; `what` is for the error if a rank
  /// does not respond.
  void arrive(const std::string& what);

 private:
  Device& device_;
  engine::DeviceSums& sums_;
  const double timeout_s_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> full_;  // each wait is for the record at that time
  std::unique_ptr<Event> summed_;
  bool under_way_ = false;
};

}  // namespace dlpipe::run
