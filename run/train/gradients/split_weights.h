// Tensors of a model of which each rank has a stage and a part (--pipeline-parallel, --tensor-parallel), its average's and its
// optimizer's: whole, as files hold them, and as this rank has them.
//
// A value. Belongs to the training thread.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/engine/collective/rank_grid.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

class SplitWeights {
 public:
  /// Nothing is split.
  SplitWeights() = default;
  /// Leaves this rank its stage and its part of `model`, which is whole. kMisuse where the model can't be split so. `cost` is
  /// asked where there are stages.
  SplitWeights(engine::Module& model, engine::RankGrid ranks, const engine::LayerCost& cost = {});

  /// What this rank has of them. Names are parameters' or begin with one and a dot, as an optimizer's do; others all ranks have.
  std::vector<engine::NamedTensor> own(const std::vector<engine::NamedTensor>& whole) const;
  /// The other way, for all ranks of a replica to call alike; every one gets all. Throws where another rank doesn't answer, and
  /// kInternal where ranks differ in what each of them has whole.
  std::vector<engine::NamedTensor> whole(std::vector<engine::NamedTensor> own) const;

 private:
  /// Null: every rank of the stage has it whole.
  const engine::NamedSplit* find(const std::string& name) const;
  bool is_of_another_stage(const std::string& name) const;
  void check_same(const std::vector<engine::NamedTensor>& tensors) const;
  std::vector<engine::NamedTensor> of_all_stages(const std::vector<engine::NamedTensor>& own) const;

  engine::RankGrid ranks_;
  std::vector<engine::NamedSplit> splits_;
  std::vector<std::string> elsewhere_;  // parameters and buffers of other stages alone
};

}  // namespace dlpipe::run
