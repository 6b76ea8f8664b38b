// A tensor's elements as bytes: what files hold of it, and what processes send each other.
#pragma once

#include <cstddef>
#include <span>

#include "dlpipe/base/refuse.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// All of them, row by row, in the memory of the tensor's device; none of an undefined tensor. kMisuse where they
/// don't lie so.
inline std::span<std::byte> bytes_of(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  if (!tensor.is_contiguous())
    refuse("tensor", "expected a contiguous tensor, got a view or a blocked one of ",
           tensor.shape().to_string(), "; copy it with contiguous_copy()");
  return {static_cast<std::byte*>(tensor.raw()), tensor.size_bytes()};
}

}  // namespace dlpipe::engine
