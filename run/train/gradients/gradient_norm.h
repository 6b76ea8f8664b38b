// The gradients of a step as a whole: whether all numbers are finite and the first that is not, their norm, clipping. If
// processes have only shares (--shard-optimizer), parts (--tensor-parallel) or stages (--pipeline-parallel), the results cover
// all of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "dlpipe/module.h"
#include "engine/collective/collective.h"
#include "engine/optim/gradients.h"

namespace dlpipe::run {

// Finds where numbers stopped being finite, so that the message can name a layer. Only called after an error, except
// all_finite, which costs one pass over the memory.

/// Whether no element is NaN or infinite. For f32, f64, bf16 and f16; other dtypes are always finite.
bool all_finite(const engine::Tensor& tensor);
bool all_finite(std::span<const float> values);

/// "fc.weight: the weights" for the first in forward order, or "the model's input"; "" if all are finite.
std::string first_nonfinite_input(engine::Module& model, const engine::Tensor& pixels);
/// The same for outputs: "layer1.0.conv1 (Conv2d): its output". Runs the model on `pixels` again without recording a graph.
std::string first_nonfinite_output(engine::Module& model, const engine::Tensor& pixels);
/// "fc.weight: its gradient" for the first that backward reached (the last in forward order); "" if all are finite.
std::string first_nonfinite_gradient(std::span<const engine::NamedTensor> parameters);

// The gradients of a step if ranks may have parts of the weights (--tensor-parallel) and stages of the layers
// (--pipeline-parallel). Results cover all ranks, as a single rank with all weights would compute them.
//
// Belongs to the training thread; refers to the parameters.
class SplitGradients {
 public:
  /// For this rank's part of `model`, among `replica_ranks`; null: it has the whole model. `tensor_ranks` have other parts of
  /// its weights; null: none do. `clips`: whether clip() will be called.
  SplitGradients(const engine::Module& model, const engine::Collective* tensor_ranks,
                 engine::Collective* replica_ranks, bool clips);

  /// Sums the gradients of parameters that several stages have. Communicates with them; throws if one does not respond.
  void add_up_ties(int64_t step);
  /// Like first_nonfinite_gradient. Communicates with the other ranks; throws if one does not respond.
  std::string first_nonfinite(int64_t step);
  /// Like engine::clip_grad_norm, for the gradients that were last checked.
  void clip(double max_norm);

 private:
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::NamedTensor>
      counted_;  // parameters with gradients that count on this rank, if several ranks have the same gradient
  std::vector<engine::Tie> ties_;
  engine::Collective* ranks_;
  bool clips_;
  double norm_ = 0;  // if clips_
};

// The gradients of a step if each process has only its own shares (--shard-optimizer). Results cover all processes, with the bits
// that a single process with all gradients would compute.
//
// Belongs to the training thread; refers to the parameters.
class SharedGradients {
 public:
  /// `shares`, one for each of the parameters, are this rank's; so are the gradients below (GradientSum::own).
  SharedGradients(std::vector<engine::NamedTensor> parameters, std::vector<engine::Share> shares,
                  engine::Collective& ranks);

  /// Like first_nonfinite_gradient, for all shares. Communicates with the other ranks; throws if one does not respond.
  std::string first_nonfinite(int64_t step, std::span<const engine::Tensor> gradients);
  /// Like engine::clip_grad_norm, for the gradients that were last checked.
  void clip(double max_norm, std::span<const engine::Tensor> gradients);

 private:
  std::vector<engine::NamedTensor> parameters_;
  std::vector<engine::Share> shares_;
  engine::Collective& ranks_;
  double norm_ = 0;
};

}  // namespace dlpipe::run
