#include "dlpipe/engine/optim/adam_optimizer.h"

namespace dlpipe::engine {
namespace {

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  return build_adam("adamw", std::move(parameters), arguments, true);
}

constexpr OptionDefault kOptions[] = {
    {"lr", "0.001"}, {"beta1", "0.9"}, {"beta2", "0.999"}, {"epsilon", "1e-08"}, {"weight-decay", "0.01"}};

}  // namespace

extern const OptimizerRecord adamw_optimizer;
const OptimizerRecord adamw_optimizer = {
    "adamw", "Adam with decoupled weight decay (Loshchilov and Hutter, 2019)", build, kOptions, true, true,
    true};

}  // namespace dlpipe::engine
