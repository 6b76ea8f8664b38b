// One word before functions that the host and a GPU's kernels share: formulas, so that both give the same
// bits.
#pragma once

#if defined(__CUDACC__)
#define DLPIPE_HOST_DEVICE __host__ __device__ inline
#else
#define DLPIPE_HOST_DEVICE inline
#endif
