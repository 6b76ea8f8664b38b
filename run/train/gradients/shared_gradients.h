// The gradients of a step of which each process has only its own shares (--shard-optimizer): what all of them together
// say of them, in the bits that one process finds which has them all.
//
// Belongs to the training thread; refers to the parameters.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/layers/module.h"
#include "dlpipe/engine/optim/clip.h"

namespace dlpipe::run {

class SharedGradients {
 public:
  /// `shares`, one for each of the parameters, are this rank's; so are the gradients below (GradientSum::own).
  SharedGradients(std::vector<engine::NamedTensor> parameters, std::vector<engine::Share> shares,
                  engine::Collective& ranks);

  /// As first_nonfinite_gradient (nonfinite.h), of all shares. Asks the other ranks; throws where one doesn't answer.
  std::string first_nonfinite(int64_t step, std::span<const engine::Tensor> gradients);
  /// As engine::clip_grad_norm, of the gradients that were last looked at.
  void clip(double max_norm, std::span<const engine::Tensor> gradients);

 private:
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::Share> shares_;
  engine::Collective& ranks_;
  double norm_ = 0;
};

}  // namespace dlpipe::run
