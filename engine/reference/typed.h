// The reference kernels' way from a run-time dtype to a loop: f32 and f64, plain loops, one thread.
#pragma once

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/op.h"

namespace dlpipe::engine::reference {

/// Calls body(T{}) with the C++ type of `dtype`; T is float or double.
template <class Body>
void typed(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::kF32:
      return body(float{});
    case DType::kF64:
      return body(double{});
    default:
      throw Error(Status(ErrorCode::kUnsupported,
                         concat("[reference] no kernel for ", dtype_name(dtype), "; cast() to f32 first")));
  }
}

}  // namespace dlpipe::engine::reference
