// Matrix products for the simulated grid: plain loops over host memory. With a vector beside, as cublasLt has them, only where
// a test asks for it.
#include "base/text.h"
#include "dlpipe/error.h"
#include "engine/cuda/gemm/gemm.h"
#include "tests/engine/cuda/simulated.h"

#include <algorithm>
#include <vector>

namespace dlpipe::engine {

static thread_local SimulatedEpilogues* t_epilogues = nullptr;

SimulatedEpilogues::SimulatedEpilogues() {
  t_epilogues = this;
}
SimulatedEpilogues::~SimulatedEpilogues() {
  t_epilogues = nullptr;
}

namespace cuda {
inline namespace simulated {
namespace {

/// What cuBLAS refuses.
void check_row(const char* name, int64_t row, int64_t columns) {
  if (row >= columns) return;
  throw Error(Status(ErrorCode::kMisuse, concat("[cuda] gemm: rows of ", name, " are ", row,
                                                " apart and have ", columns, " columns")));
}

template <class T>
float element(const GemmMatrix& matrix, int64_t row, int64_t column) {
  const int64_t i = matrix.transposed ? column * matrix.row + row : row * matrix.row + column;
  return widened(static_cast<const T*>(matrix.data)[i]);
}

/// `bias`: [n], added before c is rounded; null: none. Each sum in the order of k. b is widened before, all of it: element by
/// element within the sums that was half of the time of all tests of the simulated device.
template <class T, class Out>
void multiply(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const GemmResult& c,
              const Out* bias = nullptr) {
  std::vector<float> right(static_cast<size_t>(k * n));
  for (int64_t i = 0; i < k; ++i)
    for (int64_t column = 0; column < n; ++column) right[i * n + column] = element<T>(b, i, column);
  std::vector<float> sums(static_cast<size_t>(n));
  for (int64_t row = 0; row < m; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0f);
    for (int64_t i = 0; i < k; ++i) {
      const float left = element<T>(a, row, i);
      const float* from = right.data() + i * n;
      float* sum = sums.data();
      for (int64_t column = 0; column < n; ++column) sum[column] += left * from[column];
    }
    Out* to = static_cast<Out*>(c.data) + row * c.row;
    for (int64_t column = 0; column < n; ++column) {
      const float sum = bias != nullptr ? sums[column] + widened(bias[column]) : sums[column];
      to[column] = narrowed<Out>(c.accumulate ? widened(to[column]) + sum : sum);
    }
  }
}

template <class T, class Out>
void sum_rows(int64_t m, int64_t k, const GemmMatrix& a, Out* to) {
  for (int64_t row = 0; row < m; ++row) {
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += element<T>(a, row, i);
    to[row] = narrowed<Out>(sum);
  }
}

template <class T, class Out>
void multiply_with(GemmEpilogue epilogue, void* vector, int64_t m, int64_t n, int64_t k, const GemmMatrix& a,
                   const GemmMatrix& b, const GemmResult& c) {
  const bool is_bias = epilogue == GemmEpilogue::kBias;
  multiply<T, Out>(m, n, k, a, b, c, is_bias ? static_cast<const Out*>(vector) : nullptr);
  if (epilogue == GemmEpilogue::kSumsOfA) sum_rows<T, Out>(m, k, a, static_cast<Out*>(vector));
}

}  // namespace

template <class T, class Out>
static void multiply_batch(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b,
                           const GemmResult& c, int64_t batch) {
  for (int64_t i = 0; i < batch; ++i) {
    multiply<T, Out>(m, n, k, {static_cast<const T*>(a.data) + i * a.stride, a.row, a.transposed},
                     {static_cast<const T*>(b.data) + i * b.stride, b.row, b.transposed},
                     {static_cast<Out*>(c.data) + i * c.stride, c.row, 0, c.dtype, c.accumulate});
  }
}

static void multiply_all(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b,
                         const GemmResult& c, DType dtype, int64_t batch) {
  stored(dtype, [&](auto operand) {
    using T = decltype(operand);
    c.dtype == dtype ? multiply_batch<T, T>(m, n, k, a, b, c, batch)
                     : multiply_batch<T, float>(m, n, k, a, b, c, batch);
  });
}

void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const GemmResult& c,
          DType dtype, int64_t batch) {
  if (m == 0 || n == 0) return;
  if (c.dtype != DType::kF32 && c.dtype != dtype)
    throw Error(Status(ErrorCode::kMisuse, concat("[cuda] gemm: a result in ", dtype_name(c.dtype),
                                                  " of operands in ", dtype_name(dtype))));
  check_row("a", a.row, a.transposed ? m : k);
  check_row("b", b.row, b.transposed ? k : n);
  check_row("c", c.row, n);
  const auto work = [=] { multiply_all(m, n, k, a, b, c, dtype, batch); };
  if (simulated_watch && !simulated_watch({"gemm", 0, 0})) return;  // its blocks are the library's
  if (simulated_queue == nullptr) return work();
  simulated_queue("gemm", work);
}

bool gemm_with(GemmEpilogue epilogue, void* vector, int64_t m, int64_t n, int64_t k, const GemmMatrix& a,
               const GemmMatrix& b, const GemmResult& c, DType dtype) {
  if (t_epilogues == nullptr || m == 0 || n == 0 || k == 0) return false;
  check_row("a", a.row, a.transposed ? m : k);
  check_row("b", b.row, b.transposed ? k : n);
  check_row("c", c.row, n);
  epilogue == GemmEpilogue::kBias ? t_epilogues->note_bias(c.row > n) : t_epilogues->note_sums();
  stored(dtype, [&](auto operand) {
    using T = decltype(operand);
    c.dtype == dtype ? multiply_with<T, T>(epilogue, vector, m, n, k, a, b, c)
                     : multiply_with<T, float>(epilogue, vector, m, n, k, a, b, c);
  });
  return true;
}

}  // namespace simulated
}  // namespace cuda
}  // namespace dlpipe::engine
