// The gradients of one step: of its grains, in whatever processes they are computed, summed along one fixed tree.
//
// The leaves of the tree are the grains of a global batch, neighbours first. A rank owns a whole subtree and sums it
// while its grains come one after another; the tree above is Collective's. So the sum has the same bits on every power of
// two of ranks up to the grains (but for `device_sums`). Where a step takes several batches, a grain's gradients over them are first added up.
//
// What it holds, beside the one or two gradients that are on their way to it: the sums; log2(grains) partial sums of all
// parameters, between grains; with several batches one of each grain. With `shares` (ZeRO-2) a bucket's sums are there while
// it fills and travels, and of each bucket the part that is this rank's until the update.
//
// Parameters are taken in the order in which backward finishes them, last layer first, and travel in buckets while it
// goes on. With one grain in one process this class does nothing: gradients are the parameters' own.
//
// Belongs to the training thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/collective/device_sums.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/clip.h"

namespace dlpipe::run {

class GradientSum {
 public:
  struct Form {
    int64_t grains = 1;                   // of this rank
    int64_t batches = 1;                  // per step
    engine::Collective* ranks = nullptr;  // null: this process is alone
    int64_t bucket_bytes = 25 << 20;
    engine::Wire wire = engine::Wire::kF32;  // kBf16: each grain's gradients and each sum of two are rounded
    bool shares = false;  // each rank gets the sums of own_shares (gradient_layout.h) alone
    /// On a device: sum between ranks in an order of their own; null: `ranks` do, along the tree.
    engine::DeviceSums* device_sums = nullptr;
    double peer_timeout_s = 60;  // for device_sums
  };
  /// Buckets whose sums over this rank's grains are there at once, with `shares`, where backward finishes parameters in
  /// their order: the one that fills waits until the last but one before it is summed.
  static constexpr size_t kBucketsAtOnce = 3;
  /// Whether it does anything. Then the parameters' own gradients go as soon as others arrive.
  static bool is_needed(const Form& form);
  /// What gradients take at most, their sums included.
  static uint64_t bytes(const Form& form, const std::vector<engine::NamedTensor>& parameters);
  /// With `form.shares`: of each of the parameters, what this process's optimizer takes care of.
  static std::vector<engine::Share> shares(const std::vector<engine::NamedTensor>& parameters,
                                           const Form& form);
  /// `parameters` that take part are those that require a gradient; f32, on one device.
  GradientSum(const std::vector<engine::NamedTensor>& parameters, const Form& form);
  ~GradientSum();  // waits for what is under way
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  void begin_step(int64_t step);
  /// The gradients that arrive until end() are those of this grain of this batch; a parameter that gets none has
  /// zeros. Each parameter's come in the order of grains, and batches one after another. Grains may take turns, on
  /// threads of their own: resume() says whose gradients come next. Those of a recomputed forward are left out: the outer
  /// backward has them again.
  void begin(int64_t batch, int64_t grain);
  void resume(int64_t grain);
  void end(int64_t grain);
  /// Puts the sums into the parameters, or with `shares` into own(). Throws where another rank doesn't answer; so does what
  /// takes gradients, with `shares`.
  void finish();
  /// With `shares`, until the weights or the next step: the sums of this rank's shares, by parameter; flat, undefined where
  /// a parameter takes no part.
  const std::vector<engine::Tensor>& own() const;
  /// With `shares`, after the update: each rank's own shares of the weights reach all others. Gradients go.
  void share_weights();

 private:
  class Sums;
  std::shared_ptr<Sums>
      sums_;  // null: nothing is to be done; hooks of the parameters look whether it is there
};

}  // namespace dlpipe::run
