#include "dlpipe/optim.h"

#include "base/text.h"

namespace dlpipe::engine {

std::span<const OptimizerRecord* const> OptimizerRecord::built_in() {
  return optimizer_table();
}

Result<const OptimizerRecord*> find_optimizer(std::string_view name) {
  return OptimizerRegistry::builtin().find(name);
}

std::string names_on_device(const OptimizerRegistry& optimizers) {
  std::string names;
  for (const OptimizerRecord* record : optimizers.records()) {
    if (record->on_device) names += concat(names.empty() ? "" : ", ", record->name);
  }
  return names;
}

Status check_on_device(std::string_view area, const OptimizerRecord& optimizer,
                       const OptimizerRegistry& optimizers, const Device& device) {
  if (device.is_host() || optimizer.on_device) return {};
  return {ErrorCode::kUnsupported,
          concat("[", area, "] --optimizer ", optimizer.name, " can't run on ", device.name(),
                 "; use one of ", names_on_device(optimizers), ", or --device cpu")};
}

}  // namespace dlpipe::engine
