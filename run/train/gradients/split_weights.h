// Tensors of a model (also of its average and optimizer) that is split over ranks into stages and parts (--pipeline-parallel,
// --tensor-parallel). Converts between whole tensors, as in files, and this rank's parts.
//
// A value. Belongs to the training thread.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/module.h"
#include "engine/collective/collective.h"

namespace dlpipe::run {

class SplitWeights {
 public:
  /// Nothing is split.
  SplitWeights() = default;
  /// Reduces `model`, which is whole, to this rank's stage and part. kMisuse if the model can't be split like this. `cost` is
  /// used if there are stages.
  SplitWeights(engine::Module& model, engine::RankGrid ranks, const engine::LayerCost& cost = {});

  /// This rank's part of `whole`. The name of a split tensor is a parameter's, or begins with that and a dot, like those of an
  /// optimizer. All ranks have all other tensors.
  std::vector<engine::NamedTensor> own(const std::vector<engine::NamedTensor>& whole) const;
  /// The inverse; all ranks of a replica must call it, and each gets everything. Throws if another rank does not respond, and
  /// kInternal if ranks differ in tensors that each of them has whole.
  std::vector<engine::NamedTensor> whole(std::vector<engine::NamedTensor> own) const;

 private:
  /// How the tensor `name` is split; null: every rank of the stage has it whole.
  const engine::NamedSplit* find(const std::string& name) const;
  bool is_of_another_stage(const std::string& name) const;
  void check_same(const std::vector<engine::NamedTensor>& tensors) const;
  std::vector<engine::NamedTensor> of_all_stages(const std::vector<engine::NamedTensor>& own) const;

  engine::RankGrid ranks_;
  std::vector<engine::NamedSplit> splits_;
  std::vector<std::string> elsewhere_;  // parameters and buffers that only other stages have
};

}  // namespace dlpipe::run
