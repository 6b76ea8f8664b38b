// Copies between memory orders: what makes a view contiguous. Host memory; one thread per call unless the copy
// is large, then in parallel slices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dlpipe/base/shape.h"

namespace dlpipe::engine {

/// to[row-major index over shape] = from[sum of index * stride]. `strides` in elements (0 repeats), elements
/// of 1, 2, 4 or 8 bytes. The two must not overlap.
void copy_strided(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                  size_t element_bytes);

}  // namespace dlpipe::engine
