// Matrix products for the cpu kernels: dlpipe's block products or oneDNN's matmul, one single-threaded call per
// slice of the result.
#pragma once

#include <cstdint>
#include <functional>

#include "dlpipe/dtype.h"
#include "dlpipe/tensor.h"

namespace dlpipe::engine::cpu {

/// A row-major matrix in memory, optionally transposed by the product.
struct GemmMatrix {
  const void* data = nullptr;
  bool transposed = false;
  const Tensor* tensor =
      nullptr;  // `data` is all of its memory: conversions of constants are cached (constant_cache.h)
};

/// Called when rows [row, row + rows) and columns [column, column + columns) of c are done, by the worker
/// that computed them, while they are still in its caches. The parts cover c without overlap.
using GemmPartDone = std::function<void(int64_t row, int64_t rows, int64_t column, int64_t columns)>;

/// c[m,n] = sum over k of a[m,k] b[k,n], plus bias[n] if given; all matrices dense, of one dtype, f32 or
/// bf16 (sums in f32). Slices of c run in parallel; their borders depend only on m, n and k.
void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
          void* c, DType dtype, const GemmPartDone& done = nullptr);

/// Whether the kernel for this gemm() has been chosen. If not, the first call measures, and calls on other threads may use
/// another kernel meanwhile. So when a tensor needs many products, run one of them alone first.
bool is_gemm_settled(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, DType dtype);

/// Whether oneDNN multiplies bf16 natively here (AVX-512 and better). If not, gemm converts to f32 first.
bool has_bf16_gemm();

// Products of a few rows: b, with contiguous columns, is read once, at the speed of memory. Internal to
// engine/cpu.

inline constexpr int64_t kMostFewRows = 4;

/// Like gemm, for f32, a not transposed, b transposed and at most kMostFewRows rows. The same bits on every instruction set and
/// any number of threads.
void few_rows_gemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, const float* bias,
                   float* c, const GemmPartDone& done = nullptr);

// Products of large f32 matrices from block products, for instruction sets where they are faster than oneDNN
// (see gemm.cpp). Internal to engine/cpu.

/// Like gemm, for f32. Every element is bias + a[i,0] b[0,j] + a[i,1] b[1,j] + ..., one chain of fused
/// multiply-adds: the same bits for any cut of the work, any number of threads and all instruction sets
/// that have them.
void block_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const float* bias,
                float* c, const GemmPartDone& done = nullptr);

// Products by oneDNN's matmul, one single-threaded call per slice of the result. Internal to engine/cpu.

/// gemm() with oneDNN only; bf16 if has_bf16_gemm(). In inference (is_inference()), if b is a tensor's whole memory, its
/// columns are packed first for more than a few rows of a, and only once if b is a constant. The bits differ from those of a
/// training step.
void onednn_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
                 void* c, DType dtype, const GemmPartDone& done = nullptr);

}  // namespace dlpipe::engine::cpu
