// The kernels of engine/cuda compiled for a simulated grid.
#pragma once

#include <span>

#include "dlpipe/engine/op.h"

namespace dlpipe::engine {

struct SimulatedRow {
  const char* name;  // of the op
  const Kernels* kernels;
};

/// One row an op that has a CUDA backend.
std::span<const SimulatedRow> simulated_table();

}  // namespace dlpipe::engine
