// The step of sgd, which muon takes for what it doesn't orthogonalise. Internal to engine/optim.
#pragma once

#include "dlpipe/engine/optim/elementwise.h"

namespace dlpipe::engine {

/// Stochastic gradient descent as PyTorch's SGD (dampening 0): weight decay through the gradient, momentum,
/// Nesterov. With `decoupled`, decay as in SGDW (Loshchilov and Hutter, "Decoupled weight decay
/// regularization", 2019), scaled by the learning rate as PyTorch's AdamW does: w *= 1 - lr * weight_decay.
class SgdOptimizer : public ElementwiseOptimizer {
 public:
  /// `keeps_momentum`: even where arguments.momentum is 0, because parameters taken `whole` need it.
  SgdOptimizer(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments,
               bool keeps_momentum = false, const std::function<bool(const NamedTensor&)>& whole = nullptr);

 protected:
  void begin_step(double lr, int64_t step) override;
  void update(const ElementRun& run) const override;
  void update_flat(const FlatGroups::Part& part) const override;

  OptimizerArguments arguments_;

 private:
  struct Coefficients {
    float lr = 0.0f;
    float momentum = 0.0f;
    float decay = 0.0f;   // added to the gradient as decay * weight
    float shrink = 0.0f;  // the weight first loses this share of itself: decoupled decay
  };
  template <bool kMomentum, bool kNesterov>
  static void update_run(const Coefficients& c, const ElementRun& run);

  Coefficients coefficients_;
};

/// Error (kMisuse) that names `optimizer` where an argument of the step is out of range.
void check_sgd_arguments(const char* optimizer, const OptimizerArguments& arguments);

}  // namespace dlpipe::engine
