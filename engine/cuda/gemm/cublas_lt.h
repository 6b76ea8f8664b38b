// Matrix products by cublasLt, loaded when first asked for. Internal to engine/cuda.
#pragma once

#include <library_types.h>

#include "dlpipe/base/error.h"
#include "dlpipe/engine/cuda/gemm/gemm_plan.h"

namespace dlpipe::engine::cuda {

/// What cuBLAS and cublasLt call it (gemm.cpp).
cudaDataType_t type_of(DType dtype);

/// Puts the product into the calling thread's stream. An error, with nothing done, where the library isn't
/// there or has no deterministic kernel for it (kUnsupported): do it some other way. `workspace`: u8 on the first device,
/// for products of this thread, which are in its stream's order. Plans are built once per shape, by cublasLt's
/// heuristics, and kept; none takes memory of the device.
Status multiply_by_lt(const GemmProblem& problem, const Tensor& workspace);

}  // namespace dlpipe::engine::cuda
