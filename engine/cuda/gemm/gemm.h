// Matrix products on CUDA: cublasLt's (cublas_lt.h), or cuBLAS's where it has none (gemm.cpp); over the
// simulated grid plain loops (tests/engine/cuda).
#pragma once

#include "dlpipe/base/scoped_value.h"
#include "dlpipe/engine/cuda/grid/elements.h"

namespace dlpipe::engine::cuda {

/// A row-major matrix in device memory, or a block of columns of a wider one.
struct GemmMatrix {
  const void* data = nullptr;
  int64_t row = 0;          // elements from one row in memory to the next
  bool transposed = false;  // the product sees it so
  int64_t stride = 0;       // elements from one matrix of a batch to the next; 0: one for all
};
struct GemmResult {
  void* data = nullptr;
  int64_t row = 0;
  int64_t stride = 0;
  DType dtype = DType::kF32;  // f32 or the operands'
  bool accumulate = false;  // add to what is there; where `dtype` is low, cuBLAS may round the product before
};

/// What a product does with a vector beside, in the same kernel.
enum class GemmEpilogue : uint8_t {
  kNone,
  kBias,     // adds it, [n], to each row of c, before c is rounded
  kSumsOfA,  // it becomes the sums over k of a, [m]: the gradient of a bias beside that of weights
};

/// Whose products gemm() takes.
enum class GemmLibrary : uint8_t {
  kAuto,      // cublasLt's; cuBLAS's where it isn't there or has none for a shape
  kCublas,    // only those
  kCublasLt,  // only cublasLt's; where it has none, an Error says why (tests, benchmarks)
};

/// The calling thread's variable; set it by what follows.
namespace thread_state {
GemmLibrary& gemm_library();
}

/// While one lives, products of this thread are taken from the library given.
using UseGemmLibrary = ScopedValue<thread_state::gemm_library>;

inline namespace DLPIPE_GRID_NAMESPACE {

/// c[m,n] = sum over k of a[m,k] b[k,n] for each matrix of a batch; `dtype` of a and b is f32, bf16 or
/// f16, sums are in f32, the same on every run (where tf32_allowed() of factors with 10 bits of significand).
/// Zero for k = 0. The matrices of c don't overlap. A thread's first product takes memory, and the first of a
/// shape builds a plan: don't capture those into a graph.
void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const GemmResult& c,
          DType dtype, int64_t batch = 1);

/// gemm() of one pair of matrices and an epilogue, whose vector is of c's dtype. False, with nothing done,
/// where cublasLt isn't there, isn't wanted or has no such kernel, and for matrices without elements: do both
/// by themselves.
bool gemm_with(GemmEpilogue epilogue, void* vector, int64_t m, int64_t n, int64_t k, const GemmMatrix& a,
               const GemmMatrix& b, const GemmResult& c, DType dtype);

/// Each row of to[rows, columns] becomes `row`.
template <class T>
struct FillRows {
  static constexpr const char* kName = "rows of a bias";
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const T* row;
  T* to;
  int64_t elements;
  int64_t columns;
  bool in_packs;  // rows are whole packs, and aligned

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
}  // namespace dlpipe::engine::cuda
