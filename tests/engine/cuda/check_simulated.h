// Checks of CUDA's kernels over the simulated grid on samples of a test's own.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "tests/engine/check_op.h"
#include "tests/engine/cuda/simulated.h"

namespace dlpipe::engine {

/// Those of the op `name`, which must have some.
inline const Kernels& simulated_kernels(std::string_view name) {
  const auto rows = simulated_table();
  return *std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.name == name; })->kernels;
}

/// check_op with those kernels in the cpu's place, on `samples` instead of the record's.
inline void check_simulated(std::string_view name, std::vector<OpSample> (*samples)()) {
  const OpRow& builtin = *OpRegistry::builtin().get(name);
  OpRecord record = *builtin.record;
  record.samples = samples;
  record.layouts = bit(static_cast<int>(Layout::kPlain));
  record.choose_layout = [](std::span<const TensorSpec>, const Attrs&) { return LayoutChoice(); };
  check_op(OpRow{&record, {builtin.kernels[0], &simulated_kernels(name), nullptr}});
}

}  // namespace dlpipe::engine
