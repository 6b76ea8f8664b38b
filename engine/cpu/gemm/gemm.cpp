#include "engine/cpu/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "dlpipe/tensor.h"
#include "engine/core/isa.h"
#include "engine/core/kernel_table.h"
#include "engine/core/measured_kernels.h"
#include "engine/core/parallel.h"
#include "engine/cpu/gemm/block_product.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/vec.h"

namespace dlpipe::engine::cpu {

namespace {

constexpr const char* kBlocks = "blocks";
constexpr const char* kFewRows = "few_rows";
constexpr const char* kOneDnn = "onednn";

/// Whether block_gemm is a candidate. With few rows, packing b costs more than the product.
bool blocks_fit(int64_t m, int64_t n, DType dtype) {
  constexpr int64_t kFewestRows = 24;
  return dtype == DType::kF32 && kernel_isa() >= KernelIsa::kAvx2 && m >= kFewestRows &&
         n >= block_product().panel;
}

/// Whether few_rows_gemm is a candidate. Small weights are in caches, where oneDNN isn't slower. Inference only: training
/// steps with few rows keep their bits.
bool few_rows_fit(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, DType dtype) {
  constexpr int64_t kFewestFloats = 1 << 16;
  return dtype == DType::kF32 && m <= kMostFewRows && !a.transposed && b.transposed &&
         n * k >= kFewestFloats && is_inference();
}

// On AVX2 the rule is block_gemm: on a transformer's shapes (`bench train --model gpt_char --explain`, Zen 3) oneDNN 2.6
// reached 53 to 75 % of the roofline and block_gemm 72 to 94. With AVX-512 it is block_gemm if b is read transposed, as in
// a linear's forward pass: on one core of a Zen 4 it reached 100 to 112 GFLOP/s in ten of twelve shapes, oneDNN 2.6 72 to
// 109. In the other products oneDNN is as fast or up to a tenth faster. With few rows of x and 1280x1000 weights, oneDNN
// 2.6 took 0.40 ms on one core of a Zen 4, few_rows_gemm 0.16.
KernelChoice gemm_rule(bool has_few_rows, const GemmMatrix& a, const GemmMatrix& b) {
  if (has_few_rows) return {kFewRows};
  return {kernel_isa() == KernelIsa::kAvx2 || (b.transposed && !a.transposed) ? kBlocks : kOneDnn};
}

std::string gemm_key(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b,
                     bool has_few_rows) {
  const auto letter = [](const GemmMatrix& matrix) { return matrix.transposed ? 't' : 'n'; };
  return concat("gemm ", m, "x", n, "x", k, " ", letter(a), letter(b), " f32 ", isa_name(kernel_isa()),
                has_few_rows ? " answers" : "");
}

void gemm_by_choice(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b,
                    const void* bias, void* c, DType dtype, const GemmPartDone& done) {
  if (is_inference() && dtype == DType::kF32 && kernel_isa() >= KernelIsa::kAvx2)
    return block_gemm(m, n, k, a, b, static_cast<const float*>(bias), static_cast<float*>(c), done);
  const bool has_few_rows = few_rows_fit(m, n, k, a, b, dtype);
  if (!blocks_fit(m, n, dtype) && !has_few_rows) return onednn_gemm(m, n, k, a, b, bias, c, dtype, done);
  const std::string key = gemm_key(m, n, k, a, b, has_few_rows);
  const auto run = [&] {
    const KernelChoice choice =
        kernel_table().find_or_add(key, [&] { return gemm_rule(has_few_rows, a, b); });
    if (choice.kernel == kBlocks && !has_few_rows)
      return block_gemm(m, n, k, a, b, static_cast<const float*>(bias), static_cast<float*>(c), done);
    if (choice.kernel == kFewRows && has_few_rows)
      return few_rows_gemm(m, n, k, static_cast<const float*>(a.data), static_cast<const float*>(b.data),
                           static_cast<const float*>(bias), static_cast<float*>(c), done);
    if (choice.kernel == kOneDnn) return onednn_gemm(m, n, k, a, b, bias, c, dtype, done);
    throw Error(Status(ErrorCode::kCorrupt, concat("[kernels] '", choice.kernel, "' is not a kernel for '",
                                                   key, "' in kernels.json; use ",
                                                   has_few_rows ? kFewRows : kBlocks, " or ", kOneDnn)));
  };
  const auto candidates = [&] {
    const KernelChoice rule = gemm_rule(has_few_rows, a, b);
    return std::vector<KernelChoice>{rule, {rule.kernel == kOneDnn ? kBlocks : kOneDnn}};
  };
  measure_choices(key, candidates, run);
  run();
}

// An f32 copy of `count` bf16 elements.
Tensor widened(const void* data, int64_t count) {
  Tensor wide = Tensor::empty({count});
  const auto* from = static_cast<const BFloat16*>(data);
  auto* to = wide.data<float>();
  parallel_ranges(count, kElementwiseGrain, [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t i = begin; i < end; ++i) to[i] = load_one(from + i);
    });
  });
  return wide;
}

}  // namespace

bool has_bf16_gemm() {
  return kernel_isa() >= KernelIsa::kAvx512;
}

bool is_gemm_settled(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, DType dtype) {
  if (kernel_table().measured() == nullptr) return true;
  if (!has_bf16_gemm()) dtype = DType::kF32;  // gemm() converts to f32
  const bool has_few_rows = few_rows_fit(m, n, k, a, b, dtype);
  if (!blocks_fit(m, n, dtype) && !has_few_rows) return true;
  return kernel_table().find(gemm_key(m, n, k, a, b, has_few_rows)).has_value();
}

void gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
          void* c, DType dtype, const GemmPartDone& done) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t row = 0; row < m; ++row) {
      auto* to = static_cast<std::byte*>(c) + row * n * static_cast<int64_t>(dtype_size(dtype));
      if (bias != nullptr) std::memcpy(to, bias, static_cast<size_t>(n) * dtype_size(dtype));
      if (bias == nullptr) std::memset(to, 0, static_cast<size_t>(n) * dtype_size(dtype));
    }
    if (done) done(0, m, 0, n);
    return;
  }
  if (dtype == DType::kF32 || has_bf16_gemm()) return gemm_by_choice(m, n, k, a, b, bias, c, dtype, done);
  const Tensor wide_a = widened(a.data, m * k);
  const Tensor wide_b = widened(b.data, k * n);
  const Tensor wide_bias = bias == nullptr ? Tensor() : widened(bias, n);
  const Tensor wide_c = Tensor::empty({m * n});
  gemm_by_choice(m, n, k, {wide_a.raw(), a.transposed}, {wide_b.raw(), b.transposed},
                 bias == nullptr ? nullptr : wide_bias.raw(), wide_c.raw(), DType::kF32, nullptr);
  const float* from = wide_c.data<float>();
  auto* to = static_cast<BFloat16*>(c);
  parallel_ranges(m, std::max<int64_t>(1, kElementwiseGrain / n), [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t i = begin * n; i < end * n; ++i) store_one(to + i, from[i]);
    });
    if (done) done(begin, end - begin, 0, n);
  });
}

namespace {

constexpr int64_t kSliceFloats = 1 << 16;  // of b, per slice: ten microseconds or more
constexpr int64_t kVectors = 4;            // concurrent sums per element

// M elements of one column of c: the dot products of M rows of a with one row of b, in 32 lanes that are added in order.
template <int M>
DLPIPE_INLINE inline void column(const float* a, const float* b, int64_t k, float start, float* c,
                                 int64_t n) {
  F32x8 sums[M][kVectors] = {};
  int64_t i = 0;
  for (; i + kVectors * kLanes <= k; i += kVectors * kLanes) {
    for (int64_t v = 0; v < kVectors; ++v) {
      const F32x8 factor = load(b + i + v * kLanes);
      for (int r = 0; r < M; ++r) sums[r][v] += load(a + r * k + i + v * kLanes) * factor;
    }
  }
  for (int r = 0; r < M; ++r) {
    const F32x8 all_lanes = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]);
    float sum = start;
    for (int64_t lane = 0; lane < kLanes; ++lane) sum += all_lanes[lane];
    for (int64_t rest = i; rest < k; ++rest) sum += a[r * k + rest] * b[rest];
    c[r * n] = sum;
  }
}

template <int M>
void columns(int64_t n, int64_t k, const float* a, const float* b, const float* bias, float* c,
             const GemmPartDone& done) {
  parallel_ranges(n, std::max<int64_t>(1, kSliceFloats / k), [&](int64_t begin, int64_t end) {
    on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t j = begin; j < end; ++j)
        column<M>(a, b + j * k, k, bias == nullptr ? 0.0f : bias[j], c + j, n);
    });
    if (done) done(0, M, begin, end - begin);
  });
}

}  // namespace

void few_rows_gemm(int64_t m, int64_t n, int64_t k, const float* a, const float* b, const float* bias,
                   float* c, const GemmPartDone& done) {
  static_assert(kMostFewRows == 4);
  if (m == 1) columns<1>(n, k, a, b, bias, c, done);
  if (m == 2) columns<2>(n, k, a, b, bias, c, done);
  if (m == 3) columns<3>(n, k, a, b, bias, c, done);
  if (m == 4) columns<4>(n, k, a, b, bias, c, done);
}

}  // namespace dlpipe::engine::cpu
