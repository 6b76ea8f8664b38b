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
constexpr const char* kOneDnn = "onednn";

/// Whether block_gemm is a candidate in training. With few rows, packing b costs more than the product.
bool blocks_fit(int64_t m, int64_t n, DType dtype) {
  constexpr int64_t kFewestRows = 24;
  return dtype == DType::kF32 && kernel_isa() >= KernelIsa::kAvx2 && m >= kFewestRows &&
         n >= block_product().panel;
}

/// Whether a product of inference is block_gemm's whatever its rows are. A batch has as many rows as samples, or a multiple of
/// them, and the kernel must not depend on their number (docs/decisions/077-batch-invariance.md).
bool is_answer(DType dtype) {
  return dtype == DType::kF32 && kernel_isa() >= KernelIsa::kAvx2 && is_inference();
}

// On AVX2 the rule is block_gemm: on a transformer's shapes (`bench train --model gpt_char --explain`, Zen 3) oneDNN 2.6
// reached 53 to 75 % of the roofline and block_gemm 72 to 94. With AVX-512 it is block_gemm if b is read transposed, as in
// a linear's forward pass: on one core of a Zen 4 it reached 100 to 112 GFLOP/s in ten of twelve shapes, oneDNN 2.6 72 to
// 109. In the other products oneDNN is as fast or up to a tenth faster.
KernelChoice gemm_rule(const GemmMatrix& a, const GemmMatrix& b) {
  return {kernel_isa() == KernelIsa::kAvx2 || (b.transposed && !a.transposed) ? kBlocks : kOneDnn};
}

std::string gemm_key(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b) {
  const auto letter = [](const GemmMatrix& matrix) { return matrix.transposed ? 't' : 'n'; };
  return concat("gemm ", m, "x", n, "x", k, " ", letter(a), letter(b), " f32 ", isa_name(kernel_isa()));
}

void gemm_by_choice(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b,
                    const void* bias, void* c, DType dtype, const GemmPartDone& done) {
  const auto run_blocks = [&] {
    block_gemm(m, n, k, a, b, static_cast<const float*>(bias), static_cast<float*>(c), done);
  };
  if (is_answer(dtype)) return run_blocks();
  if (!blocks_fit(m, n, dtype)) return onednn_gemm(m, n, k, a, b, bias, c, dtype, done);
  const std::string key = gemm_key(m, n, k, a, b);
  const auto run = [&] {
    const KernelChoice choice = kernel_table().find_or_add(key, [&] { return gemm_rule(a, b); });
    if (choice.kernel == kBlocks) return run_blocks();
    if (choice.kernel == kOneDnn) return onednn_gemm(m, n, k, a, b, bias, c, dtype, done);
    throw Error(
        Status(ErrorCode::kCorrupt, concat("[kernels] '", choice.kernel, "' is not a kernel for '", key,
                                           "' in kernels.json; use ", kBlocks, " or ", kOneDnn)));
  };
  const auto candidates = [&] {
    const KernelChoice rule = gemm_rule(a, b);
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
  if (is_answer(dtype) || !blocks_fit(m, n, dtype)) return true;
  return kernel_table().find(gemm_key(m, n, k, a, b)).has_value();
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

}  // namespace dlpipe::engine::cpu
