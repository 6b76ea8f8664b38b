// Matrix products for the cpu kernels, by dlpipe's own kernels or oneDNN's matmul. Slices of the result are
// computed in parallel, each by single-threaded code.
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

/// Called when rows [row, row + rows) and columns [column, column + columns) of c are done. The worker that
/// computed them calls it while they are still in its caches. The parts cover c without overlap.
using GemmPartDone = std::function<void(int64_t row, int64_t rows, int64_t column, int64_t columns)>;

/// c[m,n] = sum over k of a[m,k] b[k,n], plus bias[n] if given. All matrices are dense and of one dtype,
/// f32 or bf16 (sums in f32). Slices of c run in parallel; their borders depend only on m, n and k.
void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
          void* c, DType dtype, const GemmPartDone& done = nullptr);

/// Whether the kernel for this gemm() has been chosen. If not, the first call measures, and concurrent calls on other
/// threads may use another kernel. So if a tensor needs many products, run one of them alone first.
bool is_gemm_settled(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, DType dtype);

/// Whether oneDNN multiplies bf16 natively here (AVX-512 and better). If not, gemm converts to f32 first.
bool has_bf16_gemm();

// Products of f32 matrices from block products, for instruction sets where they are faster than oneDNN, and for inference
// (see gemm.cpp). Internal to engine/cpu.

/// Like gemm(), for f32. Every element is bias + a[i,0] b[0,j] + a[i,1] b[1,j] + ..., one chain of fused
/// multiply-adds. So the bits are the same for any slices, any number of threads and all instruction sets
/// that have fused multiply-adds.
void block_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const float* bias,
                float* c, const GemmPartDone& done = nullptr);

// Products by oneDNN's matmul, one single-threaded call per slice of the result. Internal to engine/cpu.

/// gemm() with oneDNN only; bf16 requires has_bf16_gemm(). In inference (is_inference()), if a has more than a few rows and
/// b is a tensor's whole memory, the columns of b are packed first, and only once if b is a constant. The bits then differ
/// from those of a training step.
void onednn_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
                 void* c, DType dtype, const GemmPartDone& done = nullptr);

}  // namespace dlpipe::engine::cpu
