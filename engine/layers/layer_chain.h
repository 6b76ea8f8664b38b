// A model that is one section after another, each of which hands on a residual stream (staged_module.h). One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dlpipe/engine/layers/norm.h"
#include "dlpipe/engine/layers/staged_module.h"

namespace dlpipe::engine {

class LayerChain : public StagedModule {
 public:
  /// Its sections say themselves what they cost.
  void keep_stage(Collective& stages, const LayerCost& cost) override;
  std::vector<Tie> ties() const override;

 protected:
  /// `uses`: children and own parameters, by name; several sections may use one. `cost`: what it takes to compute, in any unit.
  /// The first section takes the model's input as the stream.
  void add_section(std::vector<std::string> uses, double cost, std::function<Residual(Residual)> run);
  Tensor run(const Tensor& x) override;

 private:
  struct Section {
    std::vector<std::string> uses;
    double cost = 0;
    std::function<Residual(Residual)> run;
  };
  /// What other stages use too gets ranks of its own.
  void tie(const std::vector<size_t>& cuts);

  std::vector<Section> sections_;  // of this stage
  struct SharedName {
    std::string name;
    std::shared_ptr<Collective> ranks;
  };
  std::vector<SharedName> shared_;
};

}  // namespace dlpipe::engine
