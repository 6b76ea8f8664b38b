// A sum in an order that neither threads nor instruction sets change. For bodies of cpu::on_best_isa() and
// plain loops alike. Internal to engine/optim.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/engine/core/isa.h"

namespace dlpipe::engine {

/// Sum of value(i), i < count, in eight running sums, so that a compiler may keep them in vectors without
/// changing any bit.
template <class Value>
DLPIPE_INLINE inline double lane_sum(int64_t count, const Value& value) {
  constexpr int64_t kLanes = 8;
  std::array<double, kLanes> sums{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[static_cast<size_t>(lane)] += double{value(i + lane)};
  }
  for (int64_t lane = 0; i < count; ++i, ++lane) sums[static_cast<size_t>(lane)] += double{value(i)};
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return total;
}

}  // namespace dlpipe::engine
