#include "dlpipe/engine/replay/arena_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dlpipe::engine::replay {

namespace {

struct Placed {
  size_t begin, end;  // bytes
  size_t block;
};

bool meet(const Lifetime& a, const Lifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

size_t aligned(size_t bytes) {
  return (bytes + ArenaPlan::kAlignment - 1) / ArenaPlan::kAlignment * ArenaPlan::kAlignment;
}

/// `placed` is in the order of begins.
size_t tightest_gap(std::span<const Lifetime> blocks, const std::vector<Placed>& placed,
                    const Lifetime& block) {
  size_t best = 0, best_bytes = std::numeric_limits<size_t>::max();
  size_t free_from = 0;
  for (const Placed& other : placed) {
    if (!meet(blocks[other.block], block)) continue;
    const size_t gap = other.begin > free_from ? other.begin - free_from : 0;
    if (gap >= aligned(block.bytes) && gap < best_bytes) {
      best = free_from;
      best_bytes = gap;
    }
    free_from = std::max(free_from, other.end);
  }
  return best_bytes == std::numeric_limits<size_t>::max() ? free_from : best;
}

ArenaPlan place_in(const std::vector<size_t>& order, std::span<const Lifetime> blocks) {
  ArenaPlan plan;
  plan.offsets.resize(blocks.size());
  std::vector<Placed> placed;
  for (const size_t i : order) {
    const size_t begin = tightest_gap(blocks, placed, blocks[i]);
    const Placed place{begin, begin + aligned(blocks[i].bytes), i};
    const auto behind = std::upper_bound(placed.begin(), placed.end(), place,
                                         [](const Placed& a, const Placed& b) { return a.begin < b.begin; });
    placed.insert(behind, place);
    plan.offsets[i] = begin;
    plan.bytes = std::max(plan.bytes, place.end);
  }
  return plan;
}

}  // namespace

ArenaPlan plan_arena(std::span<const Lifetime> blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  ArenaPlan by_size = place_in(order, blocks);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].last > blocks[b].last; });
  ArenaPlan by_end = place_in(order, blocks);
  return by_end.bytes < by_size.bytes ? by_end : by_size;
}

}  // namespace dlpipe::engine::replay
