// What every rank has to know of a step beside its gradients: the losses of all grains, whether one of them wasn't
// finite and where. Gathered once per step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/run/train/step/train_step.h"

namespace dlpipe::run {

class StepSummary {
 public:
  /// `grains` of this rank; `ranks` compute the others, and `stages` other layers of these, of which the last has the losses.
  /// Null: there are none.
  StepSummary(int64_t grains, int64_t batches, engine::Collective* ranks,
              engine::Collective* stages = nullptr);

  void begin_step();
  /// The loss of a grain of a batch, and the layer where a number wasn't finite, if one wasn't.
  void add(int64_t batch, int64_t grain, double loss, const std::string& reason);
  /// Whether all was finite so far, on this rank.
  bool is_finite() const { return reason_.empty(); }
  /// Completes what `outcome` says of this rank to what it is of all: loss, samples, reason. The losses are added in
  /// the order of batches and grains, whoever computed them; the reason is that of the first grain that has one.
  void finish(StepOutcome& outcome);

 private:
  std::string write(int64_t samples) const;
  void take_from_last_stage(StepOutcome& outcome) const;

  int64_t grains_;
  int64_t batches_;
  engine::Collective* ranks_;
  engine::Collective* stages_;
  std::vector<double> losses_;  // [batch][grain]
  std::string reason_;
  int64_t reason_place_ = 0;  // batch and grain where it was first
};

}  // namespace dlpipe::run
