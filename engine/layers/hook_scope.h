// Forward hooks for a while.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// A forward hook on a model and on all modules below it for this object's life; those of others stay. The model outlives it.
/// As modules, for one thread.
class HookScope {
 public:
  /// `name` is the module's in the model, "" for the model itself.
  using Hook = std::function<void(const std::string& name, Module& module, const Tensor& x, const Tensor& y)>;
  HookScope(Module& model, const Hook& hook) {
    for (const Module::Named& named : model.modules()) {
      hooks_.emplace_back(named.module,
                          named.module->register_forward_hook(
                              [hook, name = named.name](Module& module, const Tensor& x, const Tensor& y) {
                                hook(name, module, x, y);
                              }));
    }
  }
  ~HookScope() {
    for (const auto& [module, id] : hooks_) module->remove_forward_hook(id);
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;

 private:
  std::vector<std::pair<Module*, int64_t>> hooks_;
};

}  // namespace dlpipe::engine
