#include "dlpipe/engine/optim/adam_optimizer.h"

namespace dlpipe::engine {
namespace {

std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  return build_adam("adam", std::move(parameters), arguments, arguments.decoupled);
}

constexpr OptionDefault kOptions[] = {{"lr", "0.001"},      {"beta1", "0.9"},      {"beta2", "0.999"},
                                      {"epsilon", "1e-08"}, {"weight-decay", "0"}, {"decoupled", "false"}};

}  // namespace

extern const OptimizerRecord adam_optimizer;
const OptimizerRecord adam_optimizer = {
    "adam", "Adam (Kingma and Ba, 2015); weight decay goes through the gradient unless --decoupled",
    build,  kOptions,
    true,   true,
    true};

}  // namespace dlpipe::engine
