#include "dlpipe/engine/optim/adam_optimizer.h"

namespace dlpipe::engine {
namespace {

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  return build_adam("adam", std::move(parameters), arguments, arguments.decoupled);
}

}  // namespace

extern const OptimizerRecord adam_optimizer;
const OptimizerRecord adam_optimizer = {
    "adam", "Adam (Kingma and Ba, 2015); beta1, beta2, epsilon, weight_decay (through the gradient)", build,
    true};

}  // namespace dlpipe::engine
