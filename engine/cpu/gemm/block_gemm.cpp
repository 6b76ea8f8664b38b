#include "engine/cpu/gemm/gemm.h"

#include <algorithm>
#include <optional>

#include "dlpipe/tensor.h"
#include "engine/core/constant_cache.h"
#include "engine/core/parallel.h"
#include "engine/cpu/gemm/block_product.h"

namespace dlpipe::engine::cpu {
namespace {

constexpr int kGemmSlot = 2;  // of worker_scratch
// Terms per block. Strips of b are 16 KiB on AVX2, half of the first-level cache. Wide strips are read from the
// second-level cache and use a fifth of its bandwidth, so their blocks are longer: sums go to memory and back less often.
constexpr int64_t kBlockTerms = 256;
constexpr int64_t kWideBlockTerms = 768;
// The size of a slice: its rows of a stay in the second-level cache while it reads the strips of b.
constexpr int64_t kSliceRows = 216;
constexpr int64_t kSliceColumns = 384;
constexpr int64_t kFewGemmSlices = 8;
constexpr int64_t kFewestRows = 48;

/// The size of slices that are as even as possible, in multiples of `unit`.
int64_t even_step(int64_t size, int64_t most, int64_t unit) {
  return divide_up(divide_up(size, divide_up(size, most)), unit) * unit;
}

int64_t block_terms() {
  return block_product().wide > block_product().panel ? kWideBlockTerms : kBlockTerms;
}

/// All of b as strips of block_product().wide columns (the last strip has whole panels), one block of terms after another:
/// [block][strip][term][column of the strip], with zeros after the last column. Packed once for all slices, and once for
/// all calls if b is a constant.
class PackedStrips {
 public:
  PackedStrips(const GemmMatrix& b, int64_t n, int64_t k)
      : wide_(block_product().wide), columns_(divide_up(n, block_product().panel) * block_product().panel) {
    const auto pack = [&] {
      data_ = Tensor::empty({columns_ * k});
      fill(b, n, k);
      return data_;
    };
    const uint64_t form = static_cast<uint64_t>(ConstantForm::kPanels) + (b.transposed ? 1 : 0);
    data_ = b.tensor == nullptr ? pack() : cached_or(*b.tensor, form, pack);
  }
  /// Columns of the strip that begins at `column`.
  int64_t width(int64_t column) const { return std::min(wide_, columns_ - column); }
  float* at(int64_t column, int64_t term, int64_t terms) const {
    return data_.data<float>() + term * columns_ + column * terms;
  }

 private:
  void fill(const GemmMatrix& b, int64_t n, int64_t k) const {
    const auto* const from = static_cast<const float*>(b.data);
    parallel_ranges(divide_up(n, wide_), kStripsASlice, [&](int64_t begin, int64_t end) {
      for (int64_t column = begin * wide_; column < std::min(end * wide_, n); column += wide_) {
        const int64_t padded = width(column), there = std::min(padded, n - column);
        for (int64_t term = 0; term < k; term += block_terms()) {
          const int64_t terms = std::min(block_terms(), k - term);
          float* const to = at(column, term, terms);
          const float* const corner = b.transposed ? from + column * k + term : from + term * n + column;
          if (b.transposed) {
            block_product().transpose(corner, k, there, terms, to, padded);
          } else if (there == padded) {
            block_product().copy(corner, n, terms, padded, to, padded);
          } else {
            for (int64_t t = 0; t < terms; ++t) std::copy_n(corner + t * n, there, to + t * padded);
          }
          for (int64_t t = 0; there < padded && t < terms; ++t)
            std::fill(to + t * padded + there, to + (t + 1) * padded, 0.0f);
        }
      }
    });
  }

  static constexpr int64_t kStripsASlice = 2;
  int64_t wide_, columns_;
  Tensor data_;
};

/// One slice of c.
struct Slice {
  int64_t row, rows, column, columns;
};

/// All of a, if it has few rows, as groups of product.rows rows, one block of terms after another: [block][group][term][row
/// of the group]. Each strip of b reads all of it, line after line. Packed once for all slices; with many rows it would
/// cost too much memory.
class PackedRows {
 public:
  PackedRows(const GemmMatrix& a, int64_t m, int64_t k) : rows_(divide_up(m, group()) * group()) {
    data_ = Tensor::empty({rows_ * k});
    const auto* const from = static_cast<const float*>(a.data);
    parallel_ranges(divide_up(m, group()), kGroupsASlice, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin * group(); row < std::min(end * group(), m); row += group()) {
        for (int64_t term = 0; term < k; term += block_terms()) {
          const int64_t terms = std::min(block_terms(), k - term);
          block_product().transpose(from + row * k + term, k, std::min(group(), m - row), terms,
                                    at(row, term, terms), group());
        }
      }
    });
  }
  static bool is_worth_it(const GemmMatrix& a, int64_t m) {
    return !a.transposed && m <= kSliceRows && m >= kFewestRows &&
           block_product().wide == block_product().panel;
  }
  float* at(int64_t row, int64_t term, int64_t terms) const {
    return data_.data<float>() + term * rows_ + row * terms;
  }

 private:
  static constexpr int64_t kGroupsASlice = 4;
  static int64_t group() { return block_product().rows; }
  int64_t rows_;
  Tensor data_;
};

/// A slice's rows of a, for one block of terms. They are unpacked, or in groups of product.rows rows, [group][term][row of
/// the group]: taken from PackedRows, or copied here if a is transposed.
class LeftBlock {
 public:
  LeftBlock(const GemmMatrix& a, int64_t m, int64_t k, const Slice& slice, const PackedRows* packed,
            float* scratch)
      : a_(a),
        ld_(a.transposed ? m : k),
        slice_(slice),
        packed_(packed),
        groups_(a.transposed ? scratch : nullptr) {}

  void load(int64_t term, int64_t terms) {
    const auto* const data = static_cast<const float*>(a_.data);
    terms_ = terms;
    if (packed_ != nullptr) {
      groups_ = packed_->at(slice_.row, term, terms);
      return;
    }
    if (!a_.transposed) {
      first_ = data + slice_.row * ld_ + term;
      return;
    }
    first_ = data + term * ld_ + slice_.row;
    const BlockProduct& product = block_product();
    for (int64_t r = 0; r < slice_.rows; r += product.rows) {
      // copy() reads whole vectors, and there may be none after the last rows of the matrix.
      const bool inside = slice_.row + r + 2 * product.panel <= ld_;
      const int64_t rows = std::min(product.rows, slice_.rows - r);
      float* const to = groups_ + r * terms;
      if (inside) {
        product.copy(first_ + r, ld_, terms, rows, to, product.rows);
      } else {
        for (int64_t t = 0; t < terms; ++t) std::copy_n(first_ + t * ld_ + r, rows, to + t * product.rows);
      }
    }
  }

  void multiply(const float* strip, int64_t width, float* to, int64_t to_row, bool accumulate) const {
    const BlockProduct& product = block_product();
    if (groups_ == nullptr) {
      product.run({first_, ld_, 1}, strip, width, terms_, to, to_row, slice_.rows, width, accumulate);
      return;
    }
    for (int64_t r = 0; r < slice_.rows; r += product.rows) {
      product.run({groups_ + r * terms_, 1, product.rows}, strip, width, terms_, to + r * to_row, to_row,
                  std::min(product.rows, slice_.rows - r), width, accumulate);
    }
  }

 private:
  GemmMatrix a_;
  int64_t ld_;
  Slice slice_;
  const PackedRows* packed_;
  const float* first_ = nullptr;
  float* groups_;  // null: rows are not packed
  int64_t terms_ = 0;
};

}  // namespace

void block_gemm(int64_t m, int64_t n, int64_t k, const GemmMatrix& a, const GemmMatrix& b, const float* bias,
                float* c, const GemmPartDone& done) {
  const int64_t wide = block_product().wide;
  // Cut even small products into a few slices, so that cores can share them. Cut columns first, because each slice of rows
  // reads all of b.
  int64_t rows_step = even_step(m, kSliceRows, 12), columns_step = even_step(n, kSliceColumns, wide);
  while (divide_up(m, rows_step) * divide_up(n, columns_step) < kFewGemmSlices) {
    if (columns_step > wide) {
      columns_step = even_step(n, columns_step / 2, wide);
    } else if (rows_step > kFewestRows) {
      rows_step = even_step(m, rows_step / 2, 12);
    } else {
      break;
    }
  }
  const int64_t across = divide_up(n, columns_step);
  const PackedStrips packed(b, n, k);
  std::optional<PackedRows> rows;
  if (across > 1 && PackedRows::is_worth_it(a, m)) rows.emplace(a, m, k);
  parallel_slices(divide_up(m, rows_step) * across, [&](int64_t index) {
    Slice s{index / across * rows_step, 0, index % across * columns_step, 0};
    s.rows = std::min(rows_step, m - s.row);
    s.columns = std::min(columns_step, n - s.column);
    const int64_t last = (s.columns - 1) / wide * wide;
    // If the last strip has more columns than c, it is computed in scratch.
    const int64_t whole = last + packed.width(s.column + last) == s.columns ? s.columns : last;
    // Copied rows of a transposed a fill whole groups and vectors, so they need more space than s.rows.
    const int64_t left_floats = a.transposed ? (s.rows + 2 * wide) * block_terms() : 0;
    auto* const scratch = reinterpret_cast<float*>(
        worker_scratch(kGemmSlot, static_cast<size_t>(left_floats + s.rows * wide) * sizeof(float)));
    float* const rest = scratch + left_floats;
    float* const out = c + s.row * n + s.column;
    for (int64_t r = 0; bias != nullptr && r < s.rows; ++r) {
      std::copy_n(bias + s.column, s.columns, out + r * n);
      std::fill_n(std::copy_n(bias + s.column + whole, s.columns - whole, rest + r * wide),
                  wide - (s.columns - whole), 0.0f);
    }
    LeftBlock left(a, m, k, s, rows ? &*rows : nullptr, scratch);
    for (int64_t term = 0; term < k; term += block_terms()) {
      const int64_t terms = std::min(block_terms(), k - term);
      left.load(term, terms);
      for (int64_t j = 0; j < s.columns; j += wide) {
        const bool is_whole = j < whole;
        left.multiply(packed.at(s.column + j, term, terms), packed.width(s.column + j),
                      is_whole ? out + j : rest, is_whole ? n : wide, term > 0 || bias != nullptr);
      }
    }
    for (int64_t r = 0; whole < s.columns && r < s.rows; ++r)
      std::copy_n(rest + r * wide, s.columns - whole, out + r * n + whole);
    if (done) done(s.row, s.rows, s.column, s.columns);
  });
}

}  // namespace dlpipe::engine::cpu
