#include "dlpipe/engine/collective/rank_grid.h"

#include <cstddef>
#include <vector>

namespace dlpipe::engine {

/// Those of `all` that are at `first`, `first` + `stride`, ...; null for one.
static std::shared_ptr<Collective> group_of(const Collective& all, int first, int stride, int count) {
  if (count == 1) return nullptr;
  std::vector<int> members(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) members[static_cast<size_t>(i)] = first + i * stride;
  return all.group(members);
}

RankGrid make_rank_grid(Collective* all, int stages, int tensor) {
  RankGrid grid{.all = all};
  if (all == nullptr) return grid;
  const int replica = stages * tensor;
  const int place = all->rank() % replica, part = all->rank() % tensor;
  grid.data = group_of(*all, place, replica, all->world() / replica);
  grid.replica = group_of(*all, all->rank() - place, 1, replica);
  grid.stages = group_of(*all, all->rank() - place + part, tensor, stages);
  grid.tensor = group_of(*all, all->rank() - part, 1, tensor);
  return grid;
}

}  // namespace dlpipe::engine
