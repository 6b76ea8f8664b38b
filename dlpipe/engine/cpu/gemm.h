// Matrix products for the cpu kernels: our blocks or oneDNN's matmul, one single-threaded call a slice of the
// result.
#pragma once

#include <cstdint>

#include "dlpipe/base/dtype.h"

namespace dlpipe::engine::cpu {

/// A row-major matrix in memory, seen transposed by the product where said.
struct GemmMatrix {
  const void* data = nullptr;
  bool transposed = false;
};

/// c[m,n] = sum over k of a[m,k] b[k,n], plus bias[n] where given; all matrices dense, of one dtype, f32 or
/// bf16 (sums in f32). Slices of c run in parallel; their borders depend on m, n and k alone.
void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
          void* c, DType dtype);

/// Whether oneDNN multiplies bf16 itself here (AVX-512 and better). Where not, gemm widens to f32 first.
bool has_bf16_gemm();

}  // namespace dlpipe::engine::cpu
