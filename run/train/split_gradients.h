// The gradients of a step where ranks may have parts of some weights (--tensor-parallel): what all of them together say, as one
// rank says it that has all weights whole.
//
// Belongs to the training thread; refers to the parameters.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

class SplitGradients {
 public:
  /// `parameters` are the model's; `ranks`, over which it is split, null: all are whole.
  SplitGradients(std::vector<engine::NamedTensor> parameters, const engine::Module& model,
                 engine::Collective* ranks);

  /// As first_nonfinite_gradient (nonfinite.h). Asks the other ranks; throws where one doesn't answer.
  std::string first_nonfinite(int64_t step);
  /// As engine::clip_grad_norm, of the gradients that were last looked at.
  void clip(double max_norm);

 private:
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::NamedTensor> whole_;  // on every rank
  std::vector<engine::NamedTensor> parts_;
  engine::Collective* ranks_;
  double norm_ = 0;
};

}  // namespace dlpipe::run
