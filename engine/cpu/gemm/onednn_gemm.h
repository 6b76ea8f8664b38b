// Products by oneDNN's matmul, one single-threaded call per slice of the result. Internal to engine/cpu.
#pragma once

#include "dlpipe/engine/cpu/gemm/gemm.h"

namespace dlpipe::engine::cpu {

/// gemm() by oneDNN alone; bf16 where has_bf16_gemm(). In inference (inference_mode.h), where b is a tensor's whole memory, its
/// columns are packed first for more than a few rows of a, once where b is a constant: other bits than in a step.
void onednn_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
                 void* c, DType dtype, const GemmPartDone& done = nullptr);

}  // namespace dlpipe::engine::cpu
