// Adam and AdamW differ in where weight decay goes and in nothing else; this is both. One thread, as every
// optimizer.
#pragma once

#include <memory>
#include <vector>

#include "dlpipe/engine/optim/optimizer.h"

namespace dlpipe::engine {

/// `decoupled`: weights are multiplied by 1 - lr * weight_decay; else decay * weight is added to the
/// gradient.
std::unique_ptr<Optimizer> build_adam(const char* name, std::vector<NamedTensor> parameters,
                                      const OptimizerArguments& arguments, bool decoupled);

/// Error (kMisuse) that names `optimizer` where an argument is out of range.
void check_adam_arguments(const char* optimizer, const OptimizerArguments& arguments);

}  // namespace dlpipe::engine
