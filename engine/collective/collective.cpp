#include "engine/collective/collective.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <vector>

#include "base/counters.h"
#include "dlpipe/dtype.h"
#include "dlpipe/error.h"
#include "engine/collective/rounds.h"

namespace dlpipe::engine {

using Part = Collective::Part;

Status Collective::Handle::wait() {
  if (state_ == nullptr) return {};
  const SpanScope span(Span::kCollective);
  MutexLock lock(state_->mutex);
  while (!state_->done) lock.wait(state_->done_changed);
  return state_->status;
}

static void round_to_wire(std::span<float> values, Wire wire) {
  if (wire != Wire::kBf16) return;
  for (float& value : values) value = rounded_to_bf16(value);
}

Result<std::unique_ptr<Collective>> Collective::create(const Open& open) {
  auto worker = std::make_shared<Worker>();
  DLPIPE_RETURN_IF_ERROR(worker->start(open));
  RankGroup all{std::vector<int>(static_cast<size_t>(worker->world())), worker->rank()};
  std::iota(all.members.begin(), all.members.end(), 0);
  return std::unique_ptr<Collective>(new Collective(std::move(worker), std::move(all)));
}

Collective::Collective(std::shared_ptr<Worker> worker, RankGroup group)
    : worker_(std::move(worker)), group_(std::move(group)) {}
Collective::~Collective() = default;

int Collective::rank() const {
  return group_.rank;
}
int Collective::world() const {
  return group_.world();
}
std::unique_ptr<Collective> Collective::group(std::span<const int> members) const {
  RankGroup some;
  for (const int member : members) {
    if (member == rank()) some.rank = some.world();
    some.members.push_back(group_.members.at(static_cast<size_t>(member)));
  }
  if (!std::has_single_bit(members.size()) || std::ranges::find(members, rank()) == members.end())
    refuse("ranks", "a group of ", members.size(), " ranks; use a power of two that includes this rank");
  return std::unique_ptr<Collective>(new Collective(worker_, std::move(some)));
}
CollectiveStats Collective::stats() const {
  return worker_->stats();
}
void Collective::abort(std::string_view reason) noexcept {
  worker_->abort(reason);
}
bool Collective::was_told() const {
  return worker_->was_told();
}
Status Collective::close() {
  return worker_->close();
}

Part Collective::part_of(size_t count) const {
  return part_of(even_cuts(count));
}

Part Collective::part_of(const Cuts& cuts) const {
  const auto mine = static_cast<size_t>(part_number(rank(), world()));
  return {cuts[mine], cuts[mine + 1]};
}

Collective::Cuts Collective::even_cuts(size_t count) const {
  return cut_evenly(count, world());
}

Collective::Handle Collective::all_reduce(std::span<float> values, std::string what, Wire wire) {
  round_to_wire(values, wire);
  return worker_->ask(group_, std::move(what),
                      [parted = PartedValues{values, even_cuts(values.size())}, wire](
                          Line& line, std::vector<float>& scratch) -> Status {
                        if (wire == Wire::kBf16) {
                          DLPIPE_RETURN_IF_ERROR(reduce_scatter_rounded_on(line, parted));
                          return all_gather_rounded_on(line, parted);
                        }
                        DLPIPE_RETURN_IF_ERROR(reduce_scatter_on(line, parted, scratch));
                        return all_gather_on(line, parted);
                      });
}

Collective::Handle Collective::reduce_scatter(std::span<float> values, const Cuts& cuts, std::string what,
                                              Wire wire) {
  round_to_wire(values, wire);
  return worker_->ask(group_, std::move(what),
                      [parted = PartedValues{values, cuts}, wire](Line& line, std::vector<float>& scratch) {
                        return wire == Wire::kBf16 ? reduce_scatter_rounded_on(line, parted)
                                                   : reduce_scatter_on(line, parted, scratch);
                      });
}

Collective::Handle Collective::all_gather(std::span<float> values, const Cuts& cuts, std::string what) {
  return worker_->ask(group_, std::move(what),
                      [parted = PartedValues{values, cuts}](Line& line, std::vector<float>&) {
                        return all_gather_on(line, parted);
                      });
}

Collective::Handle Collective::broadcast(std::span<std::byte> bytes, int root, std::string what) {
  return worker_->ask(group_, std::move(what), [bytes, root](Line& line, std::vector<float>&) {
    return broadcast_on(line, bytes, root);
  });
}

Collective::Handle Collective::send(int peer, std::span<const std::byte> bytes, std::string what) {
  return exchange(peer, bytes, {}, std::move(what));
}

Collective::Handle Collective::receive(int peer, std::span<std::byte> bytes, std::string what) {
  return exchange(peer, {}, bytes, std::move(what));
}

Collective::Handle Collective::exchange(int peer, std::span<const std::byte> out, std::span<std::byte> in,
                                        std::string what) {
  return worker_->ask(group_, std::move(what), [out, in, peer](Line& line, std::vector<float>&) {
    return line.exchange(peer, out, in);
  });
}

Collective::Handle Collective::barrier(std::string what) {
  return worker_->ask(group_, std::move(what),
                      [](Line& line, std::vector<float>&) { return barrier_on(line); });
}

Result<std::vector<std::string>> Collective::gather(std::string_view mine, std::string what) {
  if (world() == 1) return std::vector<std::string>{std::string(mine)};
  std::vector<std::string> all;
  Handle handle = worker_->ask(group_, std::move(what), [mine, &all](Line& line, std::vector<float>&) {
    return gather_on(line, mine, all);
  });
  DLPIPE_RETURN_IF_ERROR(handle.wait());
  return all;
}

/// The group of `all` with ranks `first`, `first` + `stride`, ...; null for a single rank.
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
