// Tensors of a model of which ranks have parts (--tensor-parallel), its average's and its optimizer's: whole, as files hold them,
// and as this rank has them.
//
// A value. Belongs to the training thread.
#pragma once

#include <string>
#include <vector>

#include "dlpipe/engine/collective/collective.h"
#include "dlpipe/engine/layers/module.h"

namespace dlpipe::run {

class SplitWeights {
 public:
  /// Those of `model`, which engine::Module::split_over has cut over `ranks`; null: all is whole. `ranks` live longer.
  SplitWeights(const engine::Module& model, engine::Collective* ranks);

  /// This rank's parts. Names are parameters' or begin with one and a dot, as an optimizer's do.
  std::vector<engine::NamedTensor> parts_of(std::vector<engine::NamedTensor> whole) const;
  /// The other way, for all ranks to call alike; every one gets all. Throws where another rank doesn't answer, and kInternal
  /// where ranks differ in what each has whole.
  std::vector<engine::NamedTensor> whole_of(std::vector<engine::NamedTensor> parts) const;

 private:
  /// Null: it is whole on every rank.
  const engine::NamedSplit* find(const std::string& name) const;
  void check_same(const std::vector<engine::NamedTensor>& tensors) const;

  std::vector<engine::NamedSplit> splits_;
  engine::Collective* ranks_;
};

}  // namespace dlpipe::run
