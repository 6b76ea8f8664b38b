// A product of matrices as cublasLt wants it, and what its plans are kept by. Host code that touches no
// library, so that it is tested without one.
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/engine/cuda/gemm/gemm.h"

namespace dlpipe::engine::cuda {

/// gemm() or gemm_with() as a value.
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  GemmMatrix a = {}, b = {};
  GemmResult c = {};
  DType dtype = DType::kF32;
  int64_t batch = 1;
  bool tf32 = false;
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  void* vector = nullptr;  // the epilogue's
};

/// All that a plan depends on: everything but the addresses, of which only the alignment counts.
using GemmKey = std::array<int64_t, 18>;

/// Bytes that all pointers are multiples of: a pack's, or an element's.
inline int64_t common_alignment(const GemmProblem& p) {
  uintptr_t bits = 0;
  for (const void* pointer :
       {p.a.data, p.b.data, static_cast<const void*>(p.c.data), static_cast<const void*>(p.vector)})
    bits |= reinterpret_cast<uintptr_t>(pointer);
  return bits % 16 == 0 ? 16 : static_cast<int64_t>(dtype_size(p.dtype));
}

inline GemmKey key_of(const GemmProblem& p) {
  return {static_cast<int64_t>(p.epilogue),
          static_cast<int64_t>(p.dtype),
          static_cast<int64_t>(p.c.dtype),
          p.c.accumulate,
          p.tf32,
          common_alignment(p),
          p.m,
          p.n,
          p.k,
          p.batch,
          p.a.row,
          p.a.transposed,
          p.a.stride,
          p.b.row,
          p.b.transposed,
          p.b.stride,
          p.c.row,
          p.c.stride};
}

/// A column-major matrix in memory, element (i, j) at i + j * leading, or a batch of them.
struct LtMatrix {
  DType dtype = DType::kF32;
  int64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int64_t stride = 0;
  bool transposed = false;  // before it is multiplied
};
/// Row-major memory is the transposed matrix to cublasLt, so it computes c^T = b^T a^T: `left` is b's memory,
/// `right` a's, `result` c's. A bias runs along the result's rows, the sums over k that kSumsOfA wants are
/// those of `right`: what cublasLt calls BIAS and BGRADB.
struct LtOperands {
  LtMatrix left, right, result;
};
inline LtOperands operands_of(const GemmProblem& p) {
  // `rows` and `columns` are the product's; a matrix's rows in memory are columns here.
  const auto matrix = [&](const GemmMatrix& of, int64_t rows, int64_t columns) {
    return LtMatrix{
        p.dtype,      of.transposed ? rows : columns, of.transposed ? columns : rows, of.row, of.stride,
        of.transposed};
  };
  return {matrix(p.b, p.k, p.n), matrix(p.a, p.m, p.k), {p.c.dtype, p.n, p.m, p.c.row, p.c.stride, false}};
}

}  // namespace dlpipe::engine::cuda
