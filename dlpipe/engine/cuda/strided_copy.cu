// What makes a view contiguous, for engine/device_memory.cpp.
#include "dlpipe/engine/cuda/strided.h"
#include "dlpipe/engine/ops/view.h"

namespace dlpipe::engine::cuda {

void copy_strided_on_device(void* to, const void* from, const Shape& shape, std::span<const int64_t> strides,
                            size_t element_bytes) {
  strided_copy(to, row_major(shape), from, strides, shape, element_bytes);
}

}  // namespace dlpipe::engine::cuda
