// Sums the gradients of one step over its grains, in any number of processes, along one fixed tree.
//
// The leaves of the tree are the grains of a global batch, neighbours first. A rank owns a whole subtree and sums it as its
// grains arrive one after another; Collective sums the tree above. So the sum has the same bits on every power of two of ranks
// up to the number of grains (except with `device_sums`). If a step has several batches, a grain's gradients over them are
// first added up.
//
// Memory, apart from one or two gradients in transit: the sums; log2(grains) partial sums of all parameters, between grains;
// with several batches, one per grain. With `shares` (ZeRO-2), a bucket's sums exist while it fills and is exchanged, and this
// rank's part of each bucket until the update.
//
// Parameters are taken in the order in which backward finishes them, last layer first, and are exchanged in buckets during
// backward. With one grain in one process this class does nothing: gradients are the parameters' own.
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
    bool shares = false;                     // each rank gets the sums of its shares alone
    /// On a device: these sum between ranks in their own order; null: `ranks` do, along the tree.
    engine::DeviceSums* device_sums = nullptr;
    double peer_timeout_s = 60;  // for device_sums
  };
  /// With `shares`: the number of buckets whose sums over this rank's grains exist at once, if backward finishes parameters in
  /// order. A bucket that fills waits until the second to last before it is summed.
  static constexpr size_t kBucketsAtOnce = 3;
  /// Whether it does anything. If so, the parameters' own gradients are released as soon as others arrive.
  static bool is_needed(const Form& form);
  /// The most memory of gradients, including their sums.
  static uint64_t bytes(const Form& form, const std::vector<engine::NamedTensor>& parameters);
  /// With `form.shares`: the part of each parameter that this process's optimizer updates.
  static std::vector<engine::Share> shares(const std::vector<engine::NamedTensor>& parameters,
                                           const Form& form);
  /// Those `parameters` that require a gradient take part; f32, on one device.
  GradientSum(const std::vector<engine::NamedTensor>& parameters, const Form& form);
  ~GradientSum();  // waits for pending work
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  void begin_step(int64_t step);
  /// The gradients that arrive until end() are those of this grain of this batch; a parameter that gets none has zeros. Each
  /// parameter's come in the order of grains, and batches one after another. Grains may take turns on separate threads:
  /// resume() says whose gradients come next. Those of a recomputed forward are ignored, because the outer backward repeats
  /// them.
  void begin(int64_t batch, int64_t grain);
  void resume(int64_t grain);
  void end(int64_t grain);
  /// Puts the sums into the parameters, or with `shares` into own(). Throws if another rank does not respond; with `shares`, so
  /// does receiving gradients.
  void finish();
  /// With `shares`, until the weights or the next step: the sums of this rank's shares, by parameter; flat, undefined if a
  /// parameter takes no part.
  const std::vector<engine::Tensor>& own() const;
  /// With `shares`, after the update: sends each rank's shares of the weights to all others and releases gradients.
  void share_weights();

 private:
  class Sums;
  std::shared_ptr<Sums> sums_;  // null: nothing to do; the parameters' hooks check for null
};

// Buckets of gradients that GPUs sum among themselves (engine/collective/nccl.h): on a separate stream, after the work that was
// launched when a bucket was full, while the rest of backward continues. Refers to the device and the sums. One thread.
class DeviceTravel {
 public:
  DeviceTravel(Device& device, engine::DeviceSums& sums, double timeout_s);
  ~DeviceTravel();  // ends what is under way

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
  std::unique_ptr<Event> full_;  // each waits for its record of then
  std::unique_ptr<Event> summed_;
  bool under_way_ = false;
};

}  // namespace dlpipe::run
