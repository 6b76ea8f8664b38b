// The kernels of an elementwise op, from its formula (ops/elementwise.h): what a registration line
// `dlpipe_register(op NAME ELEMENTWISE)` is made into on this backend.
#pragma once

#include "dlpipe/engine/reference/elementwise.h"

namespace dlpipe::engine::reference {

template <class F>
constexpr Kernels formula_kernels() {
  if constexpr (BinaryFormula<F>) {
    return binary_kernels<F>();
  } else {
    return unary_kernels<F>();
  }
}

}  // namespace dlpipe::engine::reference
