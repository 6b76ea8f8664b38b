#include "dlpipe/base/text.h"
#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {

Result<const OptimizerRecord*> find_optimizer(std::string_view name) {
  std::vector<std::string> names;
  for (const OptimizerRecord* record : optimizer_table()) {
    if (record->name == name) return record;
    names.emplace_back(record->name);
  }
  return Status(ErrorCode::kMisuse, concat("[optimizer] no optimizer '", name, "'", suggestion(name, names)));
}

}  // namespace dlpipe::engine
