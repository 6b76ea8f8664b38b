// Matrix products for the cpu kernels: our blocks or oneDNN's matmul, one single-threaded call per slice of
// the result.
#pragma once

#include <cstdint>
#include <functional>

#include "dlpipe/base/dtype.h"
#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine::cpu {

/// A row-major matrix in memory, seen transposed by the product where said.
struct GemmMatrix {
  const void* data = nullptr;
  bool transposed = false;
  const Tensor* tensor =
      nullptr;  // whose whole memory `data` is: what is made of a constant is kept (constant_cache.h)
};

/// Called when rows [row, row + rows) and columns [column, column + columns) of c are done, by the worker
/// that did them: they are in its caches still. The parts cover c, none twice.
using GemmPartDone = std::function<void(int64_t row, int64_t rows, int64_t column, int64_t columns)>;

/// c[m,n] = sum over k of a[m,k] b[k,n], plus bias[n] where given; all matrices dense, of one dtype, f32 or
/// bf16 (sums in f32). Slices of c run in parallel; their borders depend on m, n and k alone.
void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
          void* c, DType dtype, const GemmPartDone& done = nullptr);

/// Whether gemm() of these knows its kernel. Where not, the first call measures, and what other threads call meanwhile may take
/// another one: many products of one tensor begin with one alone.
bool is_gemm_settled(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, DType dtype);

/// Whether oneDNN multiplies bf16 itself here (AVX-512 and better). Where not, gemm widens to f32 first.
bool has_bf16_gemm();

}  // namespace dlpipe::engine::cpu
