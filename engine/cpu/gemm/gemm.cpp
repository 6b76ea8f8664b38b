#include "dlpipe/engine/cpu/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/measured_kernels.h"
#include "dlpipe/engine/cpu/gemm/block_gemm.h"
#include "dlpipe/engine/cpu/gemm/block_product.h"
#include "dlpipe/engine/cpu/gemm/few_rows.h"
#include "dlpipe/engine/cpu/loops/elementwise.h"
#include "dlpipe/engine/cpu/onednn/onednn.h"

namespace dlpipe::engine::cpu {

namespace {

using dnnl::memory;

// What a slice's primitive depends on; hashed by its bytes.
struct GemmKey {
  int64_t m, n, k;        // of the slice
  int64_t lda, ldb, ldc;  // elements from a row in memory to the next
  int32_t transposed_a, transposed_b;
  int32_t dtype;
  int32_t has_bias;
  friend bool operator==(const GemmKey&, const GemmKey&) = default;
};

struct GemmPrimitive {
  memory::desc a, b, c, bias;
  onednn::Primitive primitive;
};

memory::data_type data_type_of(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

GemmPrimitive make_primitive(const GemmKey& key) {
  return onednn::translate_errors("making a matmul", [&] {
    const memory::data_type type = data_type_of(static_cast<DType>(key.dtype));
    auto matrix = [&](int64_t rows, int64_t columns, int64_t ld, bool transposed) {
      return memory::desc({rows, columns}, type, transposed ? memory::dims{1, ld} : memory::dims{ld, 1});
    };
    GemmPrimitive made;
    made.a = matrix(key.m, key.k, key.lda, key.transposed_a != 0);
    made.b = matrix(key.k, key.n, key.ldb, key.transposed_b != 0);
    made.c = matrix(key.m, key.n, key.ldc, false);
    made.bias = memory::desc({1, key.n}, type, memory::dims{key.n, 1});
    const auto describe = [](const auto&... matrices) {
      return onednn::describe<dnnl::matmul>(onednn::cpu_engine(), onednn::user_scratchpad(), matrices...);
    };
    made.primitive = onednn::Primitive::make<dnnl::matmul>(
        key.has_bias != 0 ? describe(made.a, made.b, made.bias, made.c) : describe(made.a, made.b, made.c));
    return made;
  });
}

std::shared_ptr<const GemmPrimitive> primitive_for(const GemmKey& key) {
  static auto* cache = new onednn::LruCache<GemmKey, GemmPrimitive>(512);
  return cache->find_or_make(key, [&] { return make_primitive(key); });
}

// How c is cut: about 4 MFLOP a slice and at most 64 slices, rows first (each slice packs all of b), in steps
// of 16.
struct Cut {
  int64_t rows, columns;  // of a slice
  Cut(int64_t m, int64_t n, int64_t k) {
    const int64_t wanted = std::clamp<int64_t>(2 * m * n * k / 4'000'000, 1, 64);
    const int64_t row_slices = std::clamp<int64_t>(m / 64, 1, wanted);
    const int64_t column_slices = std::clamp<int64_t>(wanted / row_slices, 1, std::max<int64_t>(1, n / 256));
    rows = step(m, row_slices);
    columns = step(n, column_slices);
  }
  static int64_t step(int64_t size, int64_t slices) { return ((size + slices - 1) / slices + 15) / 16 * 16; }
};

const std::byte* at(const void* base, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(base) + elements * static_cast<int64_t>(dtype_size(dtype));
}

// First element of row i, column j of a matrix that the product sees as given.
const std::byte* corner(const GemmMatrix& matrix, int64_t ld, int64_t i, int64_t j, DType dtype) {
  return at(matrix.data, matrix.transposed ? j * ld + i : i * ld + j, dtype);
}

constexpr const char* kBlocks = "blocks";
constexpr const char* kFewRows = "few_rows";
constexpr const char* kOneDnn = "onednn";

/// Whether block_gemm is worth thinking of. With few rows packing b outweighs the rest.
bool blocks_fit(int64_t m, int64_t n, DType dtype) {
  constexpr int64_t kFewestRows = 24;
  return dtype == DType::kF32 && kernel_isa() >= KernelIsa::kAvx2 && m >= kFewestRows &&
         n >= block_product().panel;
}

/// Whether few_rows_gemm is. Small weights lie in caches, where oneDNN isn't slower. Not where a gradient is wanted: steps of
/// few rows keep their bits.
bool few_rows_fit(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, DType dtype) {
  constexpr int64_t kFewestFloats = 1 << 16;
  return dtype == DType::kF32 && m <= kMostFewRows && !a.transposed && b.transposed &&
         n * k >= kFewestFloats && !grad_enabled();
}

// Ours on AVX2: on a transformer's shapes (`bench train --model gpt_char --explain`, Zen 3) oneDNN 2.6
// reached 53 to 75 % of the roofline and ours 72 to 94.
// Few rows of x by 1280x1000 weights took oneDNN 2.6 0.40 ms on one core of a Zen 4, and ours 0.16.
KernelChoice gemm_rule(bool has_few_rows) {
  if (has_few_rows) return {kFewRows};
  return {kernel_isa() == KernelIsa::kAvx2 ? kBlocks : kOneDnn};
}

void gemm_onednn(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
                 void* c, DType dtype, const GemmPartDone& done) {
  const Cut cut(m, n, k);
  const int64_t lda = a.transposed ? m : k;
  const int64_t ldb = b.transposed ? k : n;
  const int64_t across = (n + cut.columns - 1) / cut.columns;
  const int64_t down = (m + cut.rows - 1) / cut.rows;
  parallel_slices(across * down, [&](int64_t slice) {
    const int64_t row = slice / across * cut.rows;
    const int64_t column = slice % across * cut.columns;
    const GemmKey key = {std::min(cut.rows, m - row),
                         std::min(cut.columns, n - column),
                         k,
                         lda,
                         ldb,
                         n,
                         a.transposed,
                         b.transposed,
                         static_cast<int32_t>(dtype),
                         bias != nullptr};
    const auto made = primitive_for(key);
    made->primitive.run({{DNNL_ARG_SRC, &made->a, corner(a, lda, row, 0, dtype)},
                         {DNNL_ARG_WEIGHTS, &made->b, corner(b, ldb, 0, column, dtype)},
                         {DNNL_ARG_BIAS, &made->bias, bias == nullptr ? nullptr : at(bias, column, dtype)},
                         {DNNL_ARG_DST, &made->c, at(c, row * n + column, dtype)}});
    if (done) done(row, key.m, column, key.n);
  });
}

void gemm_by_choice(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b,
                    const void* bias, void* c, DType dtype, const GemmPartDone& done) {
  const bool has_few_rows = few_rows_fit(m, n, k, a, b, dtype);
  if (!blocks_fit(m, n, dtype) && !has_few_rows) return gemm_onednn(m, n, k, a, b, bias, c, dtype, done);
  const auto letter = [](const GemmMatrix& matrix) { return matrix.transposed ? 't' : 'n'; };
  const std::string key = concat("gemm ", m, "x", n, "x", k, " ", letter(a), letter(b), " f32 ",
                                 isa_name(kernel_isa()), has_few_rows ? " answers" : "");
  const auto run = [&] {
    const KernelChoice choice = kernel_table().find_or_add(key, [&] { return gemm_rule(has_few_rows); });
    if (choice.kernel == kBlocks && !has_few_rows)
      return block_gemm(m, n, k, a, b, static_cast<const float*>(bias), static_cast<float*>(c), done);
    if (choice.kernel == kFewRows && has_few_rows)
      return few_rows_gemm(m, n, k, static_cast<const float*>(a.data), static_cast<const float*>(b.data),
                           static_cast<const float*>(bias), static_cast<float*>(c), done);
    if (choice.kernel == kOneDnn) return gemm_onednn(m, n, k, a, b, bias, c, dtype, done);
    throw Error(Status(ErrorCode::kCorrupt, concat("[kernels] '", choice.kernel, "' is no kernel for '", key,
                                                   "' in kernels.json; use ",
                                                   has_few_rows ? kFewRows : kBlocks, " or ", kOneDnn)));
  };
  const auto candidates = [has_few_rows] {
    const KernelChoice rule = gemm_rule(has_few_rows);
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
