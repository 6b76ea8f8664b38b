// Matrix products on CUDA, by cublasLt (cublas_lt.h) or, if it has no kernel, by cuBLAS (gemm.cpp). The
// simulated grid uses plain loops (tests/engine/cuda).
#pragma once

#include <array>
#include <cstdint>

#include "dlpipe/tensor.h"
#include "engine/cuda/grid/elements.h"

namespace dlpipe::engine::cuda {

/// A row-major matrix in device memory, or a block of columns of a wider one.
struct GemmMatrix {
  const void* data = nullptr;
  int64_t row = 0;          // elements from one row in memory to the next
  bool transposed = false;  // the product uses the transposed matrix
  int64_t stride = 0;       // elements from one matrix of a batch to the next; 0: all products use one
};
struct GemmResult {
  void* data = nullptr;
  int64_t row = 0;
  int64_t stride = 0;
  DType dtype = DType::kF32;  // f32 or the operands' dtype
  bool accumulate = false;    // adds to the result; with a low `dtype`, cuBLAS may round the product first
};

/// What the kernel of a product also computes with a vector.
enum class GemmEpilogue : uint8_t {
  kNone,
  kBias,     // adds the vector, [n], to each row of c before rounding
  kSumsOfA,  // sets the vector, [m], to the sums over k of a: the bias gradient with the weights'
};

/// The library that gemm() uses.
enum class GemmLibrary : uint8_t {
  kAuto,      // cublasLt; cuBLAS if it is missing or doesn't support a shape
  kCublas,    // only cuBLAS
  kCublasLt,  // only cublasLt; an Error says why it can't be used (tests, benchmarks)
};

/// The library for the calling thread. Set it with UseGemmLibrary.
namespace thread_state {
GemmLibrary& gemm_library();
}

/// While such an object exists, this thread's products use the given library.
using UseGemmLibrary = ScopedValue<thread_state::gemm_library>;

inline namespace DLPIPE_GRID_NAMESPACE {

/// c[m,n] = sum over k of a[m,k] b[k,n] for each matrix of a batch; zero for k = 0. `dtype` of a and b is f32,
/// bf16 or f16. Sums are in f32 and the same on every run (with tf32_allowed(), factors have 10 bits of
/// significand). The matrices of c must not overlap. A thread's first product allocates memory, and the first
/// product of a shape builds a plan, so don't capture those in a graph.
void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const GemmResult& c,
          DType dtype, int64_t batch = 1);

/// gemm() of one pair of matrices with an epilogue; the vector has c's dtype. Returns false and does nothing if
/// cublasLt is missing, disabled or has no such kernel, and for empty matrices. Then compute both separately.
bool gemm_with(GemmEpilogue epilogue, void* vector, int64_t m, int64_t n, int64_t k, const GemmMatrix& a,
               const GemmMatrix& b, const GemmResult& c, DType dtype);

/// Sets each row of to[rows, columns] to `row`.
template <class T>
struct FillRows {
  static constexpr const char* kName = "rows of a bias";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const T* row;
  T* to;
  int64_t elements;
  int64_t columns;
  bool in_packs;  // rows are whole packs and aligned

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      const int64_t first = (block.index() * kThreads + thread) * kPackWidth<T>;
      if (in_packs) {
        if (first >= elements) return;
        *reinterpret_cast<Pack<T>*>(to + first) = *reinterpret_cast<const Pack<T>*>(row + first % columns);
        return;
      }
      for (int64_t i = first; i < first + kPackWidth<T> && i < elements; ++i) to[i] = row[i % columns];
    });
  }
};

template <class T>
void fill_rows(const Tensor& row, const Tensor& to) {
  const int64_t columns = row.elements();
  const bool in_packs =
      columns % kPackWidth<T> == 0 && is_pack_aligned(row.raw()) && is_pack_aligned(to.raw());
  launch(FillRows<T>{elements_of<T>(row), elements_to<T>(to), to.elements(), columns, in_packs},
         blocks_for(to.elements(), int64_t{FillRows<T>::kThreads} * kPackWidth<T>));
}

}  // namespace DLPIPE_GRID_NAMESPACE

// A matrix product in the form that cublasLt needs, and the key of its plan. Host code that doesn't need the
// library, so tests run without it.

/// The arguments of gemm() or gemm_with().
struct GemmProblem {
  int64_t m = 0, n = 0, k = 0;
  GemmMatrix a = {}, b = {};
  GemmResult c = {};
  DType dtype = DType::kF32;
  int64_t batch = 1;
  bool tf32 = false;
  GemmEpilogue epilogue = GemmEpilogue::kNone;
  void* vector = nullptr;  // of the epilogue
};

/// Everything that a plan depends on. Of the addresses that is only the alignment.
using GemmKey = std::array<int64_t, 18>;

/// The common alignment of all pointers in bytes: that of a pack, or of an element.
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

/// A column-major matrix in memory, with element (i, j) at i + j * leading, or a batch of them.
struct LtMatrix {
  DType dtype = DType::kF32;
  int64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int64_t stride = 0;
  bool transposed = false;  // the product uses the transposed matrix
};
/// cublasLt sees row-major memory as the transposed matrix, so it computes c^T = b^T a^T: `left` is b's memory, `right` is a's,
/// `result` is c's. A bias runs along the result's rows, and kSumsOfA are the sums over k of `right`: cublasLt's BIAS and BGRADB.
struct LtOperands {
  LtMatrix left, right, result;
};
inline LtOperands operands_of(const GemmProblem& p) {
  // `rows` and `columns` are the product's. A row in memory is a column for cublasLt.
  const auto matrix = [&](const GemmMatrix& of, int64_t rows, int64_t columns) {
    return LtMatrix{
        p.dtype,      of.transposed ? rows : columns, of.transposed ? columns : rows, of.row, of.stride,
        of.transposed};
  };
  return {matrix(p.b, p.k, p.n), matrix(p.a, p.m, p.k), {p.c.dtype, p.n, p.m, p.c.row, p.c.stride, false}};
}

}  // namespace dlpipe::engine::cuda
