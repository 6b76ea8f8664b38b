// Products of a few rows: b, whose columns lie in memory one after another, is read once, as fast as memory gives it. Internal to
// engine/cpu.
#pragma once

#include <cstdint>

#include "dlpipe/engine/cpu/gemm/gemm.h"

namespace dlpipe::engine::cpu {

inline constexpr int64_t kMostFewRows = 4;

/// As gemm, for f32, a as it lies, b transposed and at most kMostFewRows rows. The same bits on every instruction set and any
/// number of threads.
void few_rows_gemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, const float* bias,
                   float* c, const GemmPartDone& done = nullptr);

}  // namespace dlpipe::engine::cpu
