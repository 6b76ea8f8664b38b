// The kernels of an elementwise op, from its formula (ops/elementwise.h): what a registration line
// `dlpipe_register(op NAME ELEMENTWISE)` is made into on this backend.
#pragma once

#include "dlpipe/engine/cuda/loops/binary.h"
#include "dlpipe/engine/cuda/loops/unary.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

template <class F>
constexpr Kernels formula_kernels() {
  if constexpr (BinaryFormula<F>) {
    return binary_kernels<F>();
  } else {
    return unary_kernels<F>();
  }
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda
