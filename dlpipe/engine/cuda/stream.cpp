#include "dlpipe/engine/cuda/stream.h"

#include <cuda_runtime_api.h>

#include <limits>

#include "dlpipe/base/error.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/device_memory.h"

namespace dlpipe::engine::cuda {

CUstream_st* current_stream() {
  const Result<Device*> device = cuda_device(0);
  throw_if_error(device.status());
  return static_cast<CUstream_st*>(engine_stream(**device).native());
}

void check_grid(const char* kernel, int64_t blocks) {
  if (blocks <= std::numeric_limits<int32_t>::max()) return;
  throw Error(Status(ErrorCode::kUnsupported,
                     concat("[cuda] ", kernel, ": ", blocks, " blocks; take a smaller batch")));
}

void check_launch(const char* kernel) {
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return;
  throw Error(Status(ErrorCode::kInternal, concat("[cuda] ", kernel, ": ", cudaGetErrorName(error), ": ",
                                                  cudaGetErrorString(error))));
}

}  // namespace dlpipe::engine::cuda
