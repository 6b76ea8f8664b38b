// Layers one after another. One thread at a time.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "dlpipe/engine/layers/module.h"

namespace dlpipe::engine {

/// Sequential({{"conv", std::make_shared<Conv2d>(3, 8, 3)}, {"relu", std::make_shared<ReLU>()}}), or
/// append() without names: "0", "1", ... as in PyTorch. A layer may do the activation behind it in its own
/// pass (Module::forward_fused), to the same bits.
class Sequential final : public Module {
 public:
  Sequential() = default;
  Sequential(std::initializer_list<std::pair<std::string, std::shared_ptr<Module>>> layers);
  Sequential& append(std::shared_ptr<Module> layer);
  Sequential& append(std::string name, std::shared_ptr<Module> layer);

  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "Sequential"; }
};

}  // namespace dlpipe::engine
