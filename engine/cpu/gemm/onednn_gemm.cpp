#include "engine/cpu/gemm/gemm.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/tensor.h"
#include "engine/core/constant_cache.h"
#include "engine/cpu/onednn/onednn.h"

namespace dlpipe::engine::cpu {

namespace {

using dnnl::memory;

constexpr int kSliceSlot = 2;  // of worker_scratch

// The inputs of a slice's primitive; hashed by its bytes.
struct GemmKey {
  int64_t m, n, k;        // of the slice
  int64_t lda, ldb, ldc;  // elements from one row in memory to the next
  int32_t transposed_a, transposed_b;
  int32_t dtype;
  int32_t has_bias;
  int64_t packed;  // b is packed
  friend bool operator==(const GemmKey&, const GemmKey&) = default;
};

struct GemmPrimitive {
  memory::desc a, b, c, bias;
  onednn::Primitive primitive;
  bool takes_packed = false;
};

memory::data_type data_type_of(DType dtype) {
  return dtype == DType::kBF16 ? memory::data_type::bf16 : memory::data_type::f32;
}

memory::desc matrix_desc(int64_t rows, int64_t columns, int64_t ld, bool transposed, DType dtype) {
  return {{rows, columns}, data_type_of(dtype), transposed ? memory::dims{1, ld} : memory::dims{ld, 1}};
}

template <class... Matrices>
dnnl::matmul::primitive_desc describe_matmul(const Matrices&... matrices) {
  return onednn::describe<dnnl::matmul>(onednn::cpu_engine(), onednn::user_scratchpad(), matrices...);
}

/// Lets oneDNN choose the format of b. It chooses for each product separately, and only if a and c are dense. It accepts
/// none of its own formats as a given one.
memory::desc any_matrix_desc(int64_t rows, int64_t columns, DType dtype) {
  return {{rows, columns}, data_type_of(dtype), memory::format_tag::any};
}

/// The format that oneDNN prefers for b with a given number of columns. Most products use it.
struct PackedFormat {
  memory::desc b;
  bool is_packed;  // set by implementations that otherwise pack plain memory in each call
};

struct PackedFormatKey {
  int64_t n, k, dtype;
  friend bool operator==(const PackedFormatKey&, const PackedFormatKey&) = default;
};

std::shared_ptr<const PackedFormat> packed_format(int64_t n, int64_t k, DType dtype) {
  static auto* cache = new onednn::LruCache<PackedFormatKey, PackedFormat>(256);
  return cache->find_or_make({n, k, static_cast<int64_t>(dtype)}, [&] {
    return onednn::translate_errors("asking for a matmul's format", [&] {
      constexpr int64_t kRows = 192;
      const auto desc = describe_matmul(matrix_desc(kRows, k, k, false, dtype), any_matrix_desc(k, n, dtype),
                                        matrix_desc(kRows, n, n, false, dtype));
      return PackedFormat{desc.weights_desc(), std::string(desc.impl_info_str()).rfind("brg", 0) == 0};
    });
  });
}

GemmPrimitive make_primitive(const GemmKey& key) {
  return onednn::translate_errors("making a matmul", [&] {
    const auto dtype = static_cast<DType>(key.dtype);
    GemmPrimitive made;
    made.a = matrix_desc(key.m, key.k, key.lda, key.transposed_a != 0, dtype);
    made.b = key.packed != 0 ? any_matrix_desc(key.k, key.n, dtype)
                             : matrix_desc(key.k, key.n, key.ldb, key.transposed_b != 0, dtype);
    made.c = matrix_desc(key.m, key.n, key.ldc, false, dtype);
    made.bias = memory::desc({1, key.n}, data_type_of(dtype), memory::dims{key.n, 1});
    const auto desc = key.has_bias != 0 ? describe_matmul(made.a, made.b, made.bias, made.c)
                                        : describe_matmul(made.a, made.b, made.c);
    made.b = desc.weights_desc();
    made.takes_packed = key.packed != 0 && made.b == packed_format(key.n, key.k, dtype)->b;
    made.primitive = onednn::Primitive::make<dnnl::matmul>(desc);
    return made;
  });
}

std::shared_ptr<const GemmPrimitive> primitive_for(const GemmKey& key) {
  static auto* cache = new onednn::LruCache<GemmKey, GemmPrimitive>(512);
  return cache->find_or_make(key, [&] { return make_primitive(key); });
}

// How c is cut: about 4 MFLOP per slice and at most 64 slices, in steps of 16. Each slice packs the columns of b that it
// needs, so rows are cut as little as possible: into slices of about 192 rows, or, if slices of 64 rows or more are enough
// without cutting columns, into those.
struct Cut {
  int64_t rows, columns;  // of a slice
  Cut(int64_t m, int64_t n, int64_t k) {
    const int64_t wanted = std::clamp<int64_t>(2 * m * n * k / 4'000'000, 1, 64);
    const int64_t row_slices = m / 64 >= wanted ? wanted : std::max<int64_t>(m / 192, 1);
    const int64_t column_slices = std::clamp<int64_t>(wanted / row_slices, 1, std::max<int64_t>(1, n / 128));
    rows = step(m, row_slices);
    columns = step(n, column_slices);
  }
  static int64_t step(int64_t size, int64_t slices) { return ((size + slices - 1) / slices + 15) / 16 * 16; }
};

const std::byte* at(const void* base, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(base) + elements * static_cast<int64_t>(dtype_size(dtype));
}

// The first element of row i, column j of a matrix as the product sees it.
const std::byte* corner(const GemmMatrix& matrix, int64_t ld, int64_t i, int64_t j, DType dtype) {
  return at(matrix.data, matrix.transposed ? j * ld + i : i * ld + j, dtype);
}

/// The columns of b, slice after slice, in packed_format(); cached if b is a constant. Undefined in three cases: oneDNN's
/// kernel would not pack b anyway; a has few rows, where packing a variable b costs more than it saves; outside of
/// inference, because packed products cut their sums elsewhere and training steps keep their bits.
class PackedColumns {
 public:
  PackedColumns(int64_t m, int64_t n, int64_t k, int64_t columns, const GemmMatrix& b, DType dtype) {
    constexpr int64_t kFewestRows = 128;
    if (b.tensor == nullptr || m < kFewestRows || !is_inference()) return;
    const auto format = packed_format(std::min(columns, n), k, dtype);
    if (!format->is_packed) return;
    step_ = divide_up(static_cast<int64_t>(format->b.get_size()), 64) * 64;
    // Each cut has its own packed form.
    const uint64_t form = uint64_t{1} << 62 | static_cast<uint64_t>(columns) << 1 | (b.transposed ? 1 : 0);
    data_ = cached_or(*b.tensor, form, [&] {
      Tensor packed = Tensor::empty({divide_up(n, columns) * step_}, DType::kU8);
      const int64_t ld = b.transposed ? k : n;
      parallel_slices(divide_up(n, columns), [&](int64_t slice) {
        const int64_t column = slice * columns, there = std::min(columns, n - column);
        const onednn::FormatCopy copy(matrix_desc(k, there, ld, b.transposed, dtype),
                                      packed_format(there, k, dtype)->b, 1);
        copy.run(0, corner(b, ld, 0, column, dtype), static_cast<std::byte*>(packed.raw()) + slice * step_);
      });
      return packed;
    });
  }
  /// The primitive for packed columns and a dense slice of c; null if there is none for these sizes.
  std::shared_ptr<const GemmPrimitive> primitive(GemmKey key) const {
    if (!data_.defined()) return nullptr;
    key.packed = 1;
    key.ldc = key.n;
    auto made = primitive_for(key);
    return made->takes_packed ? made : nullptr;
  }
  const std::byte* at(int64_t slice) const {
    return static_cast<const std::byte*>(data_.raw()) + slice * step_;
  }

 private:
  int64_t step_ = 0;  // bytes
  Tensor data_;
};

}  // namespace

void onednn_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const void* bias,
                 void* c, DType dtype, const GemmPartDone& done) {
  const Cut cut(m, n, k);
  const int64_t lda = a.transposed ? m : k;
  const int64_t ldb = b.transposed ? k : n;
  const int64_t across = (n + cut.columns - 1) / cut.columns;
  const int64_t down = (m + cut.rows - 1) / cut.rows;
  const PackedColumns packed(m, n, k, cut.columns, b, dtype);
  const auto size = static_cast<int64_t>(dtype_size(dtype));
  parallel_slices(across * down, [&](int64_t slice) {
    const int64_t row = slice / across * cut.rows;
    const int64_t column = slice % across * cut.columns;
    GemmKey key = {std::min(cut.rows, m - row),
                   std::min(cut.columns, n - column),
                   k,
                   lda,
                   ldb,
                   n,
                   a.transposed,
                   b.transposed,
                   static_cast<int32_t>(dtype),
                   bias != nullptr,
                   false};
    const std::byte* right = corner(b, ldb, 0, column, dtype);
    std::byte* out = static_cast<std::byte*>(c) + (row * n + column) * size;
    auto made = packed.primitive(key);
    if (made != nullptr) {
      right = packed.at(slice % across);
      if (key.n < n) out = worker_scratch(kSliceSlot, static_cast<size_t>(key.m * key.n * size));
    } else {
      made = primitive_for(key);
    }
    made->primitive.run({{DNNL_ARG_SRC, &made->a, corner(a, lda, row, 0, dtype)},
                         {DNNL_ARG_WEIGHTS, &made->b, right},
                         {DNNL_ARG_BIAS, &made->bias, bias == nullptr ? nullptr : at(bias, column, dtype)},
                         {DNNL_ARG_DST, &made->c, out}});
    for (int64_t r = 0; made->takes_packed && key.n < n && r < key.m; ++r) {
      std::memcpy(static_cast<std::byte*>(c) + ((row + r) * n + column) * size, out + r * key.n * size,
                  static_cast<size_t>(key.n * size));
    }
    if (done) done(row, key.m, column, key.n);
  });
}

}  // namespace dlpipe::engine::cpu
