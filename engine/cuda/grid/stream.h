// The stream for the calling thread's kernels, and errors of launches.
#pragma once

#include <cstdint>

struct CUstream_st;  // what cudaStream_t points to

namespace dlpipe::engine::cuda {

/// The calling thread's stream (engine/core/device_memory.h) on the first device.
CUstream_st* current_stream();

/// Throws Error "[cuda] KERNEL: ..." for more blocks than a grid may have.
void check_grid(const char* kernel, int64_t blocks);
/// Throws Error "[cuda] KERNEL: ..." if the last launch failed.
void check_launch(const char* kernel);

}  // namespace dlpipe::engine::cuda
