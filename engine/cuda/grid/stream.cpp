#include "engine/cuda/grid/stream.h"

#include <cuda_runtime_api.h>

#include <limits>

#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/core/device_memory.h"

namespace dlpipe::engine::cuda {

CUstream_st* current_stream() {
  if (const Stream* const used = used_stream(); used != nullptr)
    return static_cast<CUstream_st*>(used->native());
  // Cached, because it is needed at every launch and a thread's stream never changes.
  static thread_local CUstream_st* const t_stream =
      static_cast<CUstream_st*>(engine_stream(*value_or_throw(cuda_device(0))).native());
  return t_stream;
}

void check_grid(const char* kernel, int64_t blocks) {
  if (blocks <= std::numeric_limits<int32_t>::max()) return;
  throw Error(Status(ErrorCode::kUnsupported,
                     concat("[cuda] ", kernel, ": ", blocks, " blocks; use a smaller batch")));
}

void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  const char* const advice = error == cudaErrorNoKernelImageForDevice
                                 ? "; build for this GPU, with -DCMAKE_CUDA_ARCHITECTURES=native"
                                 : "";
  throw Error(Status(ErrorCode::kInternal, concat("[cuda] ", kernel, ": ", cudaGetErrorName(error), ": ",
                                                  cudaGetErrorString(error), advice)));
}

}  // namespace dlpipe::engine::cuda
