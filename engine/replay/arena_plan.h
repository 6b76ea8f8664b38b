// Where blocks of memory lie in one arena, when it is known beforehand when each of them is needed.
//
// One after another, each into the tightest gap that is free as long as it lives; behind all others where there is none.
// Two orders are tried, and the smaller arena is taken: largest first (Pisarchyk and Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020: greedy by size), and those needed longest first, which suits passes whose gradients stay
// to the end. A pure function. Cost: each block is compared with all before it, twice.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dlpipe::engine::replay {

/// A block is needed from call `first` to call `last`, both included.
struct Lifetime {
  size_t bytes = 0;
  size_t first = 0;
  size_t last = 0;
};

struct ArenaPlan {
  std::vector<size_t> offsets;  // of each block, multiples of kAlignment
  size_t bytes = 0;             // of the arena
  static constexpr size_t kAlignment = 64;
};
ArenaPlan plan_arena(std::span<const Lifetime> blocks);

}  // namespace dlpipe::engine::replay
