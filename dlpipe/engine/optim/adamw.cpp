#include "dlpipe/engine/optim/adam_optimizer.h"

namespace dlpipe::engine {
namespace {

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  return build_adam("adamw", std::move(parameters), arguments, true);
}

}  // namespace

extern const OptimizerRecord adamw_optimizer;
const OptimizerRecord adamw_optimizer = {
    "adamw",
    "Adam with decoupled weight decay (Loshchilov and Hutter, 2019); beta1, beta2, epsilon, weight_decay",
    build, true};

}  // namespace dlpipe::engine
