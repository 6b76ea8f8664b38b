// Layers one after another. One thread at a time.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dlpipe/engine/layers/staged_module.h"

namespace dlpipe::engine {

/// Sequential({{"conv", std::make_shared<Conv2d>(3, 8, 3)}, {"relu", std::make_shared<ReLU>()}}), or
/// append() without names: "0", "1", ... as in PyTorch. A layer may do the activation behind it in its own
/// pass (Module::forward_fused), to the same bits.
class Sequential final : public StagedModule {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<std::pair<std::string, std::shared_ptr<Module>>> layers);
  Sequential& append(std::shared_ptr<Module> layer);
  Sequential& append(std::string name, std::shared_ptr<Module> layer);

  std::string kind() const override { return "Sequential"; }
  /// Cut in front of layers with parameters, those of a Sequential in this one among them. Each layer is here once.
  void keep_stage(Collective& stages, const LayerCost& cost) override;

 protected:
  Tensor run(const Tensor& x) override;

 private:
  struct Layer {
    std::string name;  // as seen from the outermost Sequential
    const Module* module;
  };
  void list_layers(const std::string& prefix, std::vector<Layer>& layers) const;
  void keep_layers(const std::string& prefix, const std::unordered_set<std::string>& names);
};

}  // namespace dlpipe::engine
