#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {

std::span<const OptimizerRecord* const> OptimizerRecord::built_in() {
  return optimizer_table();
}

Result<const OptimizerRecord*> find_optimizer(std::string_view name) {
  return OptimizerRegistry::builtin().find(name);
}

}  // namespace dlpipe::engine
