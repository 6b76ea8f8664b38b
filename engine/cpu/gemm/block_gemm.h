// Products of large f32 matrices out of block products: for instruction sets where that beats oneDNN
// (gemm.cpp says which). Internal to engine/cpu.
#pragma once

#include <cstdint>

#include "dlpipe/engine/cpu/gemm/gemm.h"

namespace dlpipe::engine::cpu {

/// As gemm, for f32. Every element is bias + a[i,0] b[0,j] + a[i,1] b[1,j] + ..., one chain of fused
/// multiply-adds: the same bits however the work is cut, on any number of threads and all instruction sets
/// that have them.
void block_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const float* bias,
                float* c, const GemmPartDone& done = nullptr);

}  // namespace dlpipe::engine::cpu
