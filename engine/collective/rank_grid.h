// The ranks of a run as a grid of replicas, stages and parts. The ranks of a replica compute the same samples: each has a stage
// of the model (pipeline parallel), and of that its part of the weights (tensor parallel). Ranks at the same place of different
// replicas have the same weights and compute other samples (data parallel).
//
// A value. Neighbours in number are parts of one stage, then stages of one replica: they exchange most, and a launcher puts them on
// one machine.
#pragma once

#include <memory>

#include "dlpipe/engine/collective/collective.h"

namespace dlpipe::engine {

struct RankGrid {
  Collective* all = nullptr;  // null: this process is alone
  // This rank among those that are at another place in one respect alone; null: there is no other.
  std::shared_ptr<Collective> data = nullptr;     // other replicas
  std::shared_ptr<Collective> stages = nullptr;   // other stages of the replica, in their order
  std::shared_ptr<Collective> tensor = nullptr;   // other parts of the stage
  std::shared_ptr<Collective> replica = nullptr;  // all of the replica; null: this rank is one

  int rank() const { return all != nullptr ? all->rank() : 0; }
  int world() const { return all != nullptr ? all->world() : 1; }
  int data_world() const { return data != nullptr ? data->world() : 1; }
  int data_rank() const { return data != nullptr ? data->rank() : 0; }
  int stage_world() const { return stages != nullptr ? stages->world() : 1; }
  int tensor_world() const { return tensor != nullptr ? tensor->world() : 1; }
  int replica_world() const { return stage_world() * tensor_world(); }
  /// The replica of any of the ranks, and its number in there.
  int data_rank_of(int rank) const { return rank / replica_world(); }
  int replica_rank_of(int rank) const { return rank % replica_world(); }
};

/// `stages` and `tensor` are powers of two, whose product divides the number of all ranks. `all` lives longer; null: this
/// process is alone.
RankGrid make_rank_grid(Collective* all, int stages, int tensor);

}  // namespace dlpipe::engine
