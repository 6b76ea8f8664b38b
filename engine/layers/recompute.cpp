#include "engine/layers/recompute.h"

#include "dlpipe/module.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine {
namespace {

bool& recomputing() {
  thread_local bool value = false;
  return value;
}

/// Runs a second forward with the recording, random numbers and precision of the first.
struct RecomputeScope {
  RecomputeScope(const RandomState& random, DType low) : autocast(low), state(random) {}

  EnableGrad grad;
  UseAutocast autocast;
  ScopedValue<random_state> state;
  ScopedValue<recomputing> flag{true};
};

/// Inputs: x, then the module's parameters, so that the graph has the edges for their gradients.
class Recomputed final : public Function {
 public:
  explicit Recomputed(Module& module) : module_(module), state_(random_state()), low_(autocast_dtype()) {}
  std::string name() const override { return module_.kind() + " (recomputed)"; }

  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    save(inputs[0]);
    wants_x_ = inputs[0].requires_grad();
    parameters_.assign(inputs.begin() + 1, inputs.end());
    return {module_.forward(inputs[0])};
  }

  std::vector<Tensor> backward(std::span<const Tensor> grad_outputs) override {
    Tensor x = saved(0).detach();
    if (wants_x_) x.set_requires_grad(true);
    // Collects the gradients of this pass only. The outer walk adds them to the previous ones, which are restored.
    std::vector<Tensor> before;
    for (Tensor& parameter : parameters_) {
      before.push_back(parameter.grad());
      parameter.zero_grad();
    }
    Tensor y;
    {
      const RecomputeScope scope(state_, low_);
      y = module_.forward(x);
    }
    {
      const ScopedValue<recomputing> inner(true);
      y.backward(grad_outputs[0]);
    }
    std::vector<Tensor> grads = {wants_x_ ? x.grad() : Tensor()};
    for (size_t i = 0; i < parameters_.size(); ++i) {
      grads.push_back(parameters_[i].grad());
      parameters_[i].set_grad(before[i]);
    }
    return grads;
  }

 private:
  Module& module_;
  RandomState state_;
  DType low_;
  bool wants_x_ = false;
  std::vector<Tensor> parameters_;
};

}  // namespace

bool is_recomputing() {
  return recomputing();
}

Tensor forward_recomputed(Module& module, const Tensor& x) {
  if (!grad_enabled()) return module.forward(x);
  std::vector<Tensor> inputs = {x};
  for (const NamedTensor& parameter : module.parameters()) {
    if (parameter.tensor.requires_grad()) inputs.push_back(parameter.tensor);
  }
  return run_function(std::make_shared<Recomputed>(module), std::move(inputs))[0];
}

}  // namespace dlpipe::engine
