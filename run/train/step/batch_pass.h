// What a step does with one of its batches, or a grain of one, wherever it runs: the forward pass to the loss, dropout keyed by the
// step, and buffers that can forget a batch. Belongs to the training thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dlpipe/engine/layers/module.h"
#include "dlpipe/run/train/step/train_step.h"

namespace dlpipe::run {

class BatchPass {
 public:
  /// `model` lives longer. `random_key`: where a device reads dropout's key (engine/ops/ops.h:
  /// RandomState::device_key); undefined on the host.
  BatchPass(engine::Module& model, const TrainStepOptions& options, engine::Tensor random_key = {});

  /// Before a step's first batch: no gradients, and with skip_nonfinite a copy of the buffers, always at the
  /// same addresses.
  void begin_step();
  /// Dropout's numbers of the step's part `part` (a batch, or one of its grains), to the device too.
  void seed(int64_t step, int64_t part) const;
  /// The loss of a part that has weight: a mean over its samples. On a stage that isn't the last one, what stands for it
  /// (engine/layers/staged_module.h).
  engine::Tensor loss(const BatchInput& input, int64_t step, int64_t part);
  /// Zero, with the same history: of a part that has no weight, whose batch norms are asked all the same.
  engine::Tensor no_loss(const BatchInput& input, int64_t step, int64_t part);
  /// Its share in the step's loss: the mean over options.parts().
  engine::Tensor share(const engine::Tensor& loss) const;
  /// Where a number isn't finite, after a loss or a gradient that isn't: the layer, or "the loss itself".
  std::string find_layer(const BatchInput& input, int64_t step, int64_t part);

  const std::vector<engine::NamedTensor>& parameters() const { return parameters_; }
  std::vector<engine::NamedTensor>& buffers() { return buffers_; }
  /// As before the step, in the same order; with skip_nonfinite.
  const std::vector<engine::Tensor>& saved_buffers() const { return saved_buffers_; }

 private:
  void save_buffers();
  void seed_host(int64_t step, int64_t part) const;
  /// What the first of the ranks with parts of the weights says that says something.
  std::string first_word(std::string mine) const;

  engine::Module& model_;
  const TrainStepOptions options_;
  const engine::Tensor random_key_;
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::NamedTensor> buffers_;
  std::vector<engine::Tensor> saved_buffers_;
};

/// Throws kNonfinite: `reason` is where the first such number is. `step` counts from 0, as StepOutcome::step; the message, as all
/// that a person reads, from 1.
[[noreturn]] void fail_nonfinite(int64_t step, const std::string& reason);

}  // namespace dlpipe::run
