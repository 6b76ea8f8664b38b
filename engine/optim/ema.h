// Exponential moving average of a model's weights: often better in evaluation than the last step's. One
// thread.
#pragma once

#include <vector>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// Parameters and floating buffers, kept beside the model; other buffers are copied as they are. Owns its
/// copies; evaluate with `model.load_state_dict(ema.state())` after keeping the model's own.
class Ema {
 public:
  /// Starts at the model's weights. Error (kMisuse) unless 0 <= decay < 1.
  Ema(const Module& model, double decay);
  /// average = decay * average + (1 - decay) * weight. The model must be the one it was built for. On a
  /// device nothing waits, and nothing changes where found_inf, in its memory, is set.
  void update(const Module& model, const int32_t* found_inf = nullptr);
  /// What the host counts in a step (num_batches_tracked), as the model has it. update() does so by itself
  /// for a model on the host.
  void copy_counts(const Module& model);
  /// Shares storage with the averages; names are the model's.
  std::vector<NamedTensor> state() const { return averages_; }
  /// Error (kMisuse) unless `state` has exactly the model's names and shapes.
  void load_state(const std::vector<NamedTensor>& state);
  double decay() const { return decay_; }

 private:
  /// Tensors that lie one after another on a device, weights and averages alike: one kernel.
  struct Run {
    size_t first = 0;  // its first tensor, by its place in the model
    const float* weights = nullptr;
    Tensor averages;
  };
  void build_runs(const std::vector<NamedTensor>& weights);

  double decay_;
  std::vector<NamedTensor> averages_;
  std::vector<Run> runs_;  // on a device; the averages are views of them
};

}  // namespace dlpipe::engine
