// The ranks of a run as a grid. A row are ranks that compute the same samples, each with its part of the weights (tensor
// parallel); a column are ranks that have the same part and compute other samples (data parallel).
//
// A value. Neighbours in number are a row: they exchange most, and a launcher puts them on one machine.
#pragma once

#include <memory>

#include "dlpipe/engine/collective/collective.h"

namespace dlpipe::engine {

struct RankGrid {
  Collective* all = nullptr;                     // null: this process is alone
  std::shared_ptr<Collective> data = nullptr;    // this rank's column; null: it is all of it
  std::shared_ptr<Collective> tensor = nullptr;  // this rank's row; null: likewise

  int rank() const { return all != nullptr ? all->rank() : 0; }
  int world() const { return all != nullptr ? all->world() : 1; }
  int data_world() const { return data != nullptr ? data->world() : 1; }
  int data_rank() const { return data != nullptr ? data->rank() : 0; }
  int tensor_world() const { return tensor != nullptr ? tensor->world() : 1; }
  /// The row and the column of any of the ranks.
  int data_rank_of(int rank) const { return rank / tensor_world(); }
  int tensor_rank_of(int rank) const { return rank % tensor_world(); }
};

/// Rows of `tensor` ranks, a power of two that divides those of `all`, which lives longer; null: this process is alone.
RankGrid make_rank_grid(Collective* all, int tensor);

}  // namespace dlpipe::engine
