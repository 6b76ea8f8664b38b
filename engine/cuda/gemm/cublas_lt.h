// Matrix products with cublasLt, which is loaded at first use. Internal to engine/cuda.
#pragma once

#include <library_types.h>

#include "dlpipe/error.h"
#include "engine/cuda/gemm/gemm.h"

namespace dlpipe::engine::cuda {

/// The type of `dtype` in cuBLAS and cublasLt (gemm.cpp).
cudaDataType_t type_of(DType dtype);

/// Queues the product in the calling thread's stream. Returns an error and does nothing if the library is missing or
/// has no deterministic kernel (kUnsupported); then use another implementation. `workspace` is u8 memory on the first
/// device. A thread's products share it, because they run in its stream's order. Plans are built once per shape by
/// cublasLt's heuristics and kept; they use no device memory.
Status multiply_by_lt(const GemmProblem& problem, const Tensor& workspace);

}  // namespace dlpipe::engine::cuda
