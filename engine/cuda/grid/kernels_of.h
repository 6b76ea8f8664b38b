// The kernels of an op on the grid that this file is compiled for: a device's, or the tests' simulated one.
#pragma once

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cuda/grid/grid.h"

namespace dlpipe::engine::cuda {

#if !defined(__CUDACC__)
const Kernels* simulated_kernels_of(const OpRow& row);  // tests/engine/cuda/simulated.cpp has the table
#endif

inline namespace DLPIPE_GRID_NAMESPACE {

inline const Kernels* kernels_of(const OpRow& row) {
#if defined(__CUDACC__)
  return row.kernels[static_cast<int>(Backend::kCuda)];
#else
  return simulated_kernels_of(row);
#endif
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
