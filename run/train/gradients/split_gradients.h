// The gradients of a step where ranks may have parts of the weights (--tensor-parallel) and stages of the layers
// (--pipeline-parallel): what all of them together say, as one rank says it that has all weights whole.
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
  /// Of `model` as this rank has it, among `replica_ranks`; null: it has it whole. `tensor_ranks` have other parts of its
  /// weights; null: none do. `clips`: whether clip() will be called.
  SplitGradients(const engine::Module& model, const engine::Collective* tensor_ranks,
                 engine::Collective* replica_ranks, bool clips);

  /// Gradients of what several stages have become the sum of theirs. Asks these; throws where one doesn't answer.
  void add_up_ties(int64_t step);
  /// As first_nonfinite_gradient (nonfinite.h). Asks the other ranks; throws where one doesn't answer.
  std::string first_nonfinite(int64_t step);
  /// As engine::clip_grad_norm, of the gradients that were last looked at.
  void clip(double max_norm);

 private:
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::NamedTensor> counted_;  // of all ranks that have the same gradient, this one's counts
  std::vector<engine::Tie> ties_;
  engine::Collective* ranks_;
  bool clips_;
  double norm_ = 0;  // where clips_
};

}  // namespace dlpipe::run
