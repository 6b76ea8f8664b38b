// Eval mode for a while.
#pragma once

#include <utility>
#include <vector>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// A model in eval mode for this object's life; then each of its modules has the mode that it had. The model outlives it. As
/// modules, for one thread.
class EvalScope {
 public:
  explicit EvalScope(Module& model) {
    for (const Module::Named& named : model.modules())
      modes_.emplace_back(named.module, named.module->is_training());
    model.eval();
  }
  ~EvalScope() {
    // Outer ones first: a module's mode is given to all below it.
    for (const auto& [module, was_training] : modes_) module->train(was_training);
  }
  EvalScope(const EvalScope&) = delete;
  EvalScope& operator=(const EvalScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
};

}  // namespace dlpipe::engine
