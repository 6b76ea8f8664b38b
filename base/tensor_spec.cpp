#include "dlpipe/dtype.h"

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/text.h"
#include "dlpipe/error.h"

namespace dlpipe {

namespace {
struct Row {
  DType dtype;
  const char* name;
  size_t size;
};
constexpr std::array<Row, 7> kRows = {{{DType::kF32, "f32", 4},
                                       {DType::kF64, "f64", 8},
                                       {DType::kBF16, "bf16", 2},
                                       {DType::kU8, "u8", 1},
                                       {DType::kI32, "i32", 4},
                                       {DType::kI64, "i64", 8},
                                       {DType::kF16, "f16", 2}}};
}  // namespace

size_t dtype_size(DType dtype) {
  return kRows[static_cast<size_t>(dtype)].size;
}
std::string_view dtype_name(DType dtype) {
  return kRows[static_cast<size_t>(dtype)].name;
}

Result<DType> parse_dtype(std::string_view name) {
  std::vector<std::string> names;
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
    names.emplace_back(row.name);
  }
  return misuse("dtype", "unknown dtype '", name, "'", suggestion(name, names));
}

Shape::Shape(std::span<const int64_t> dims) {
  for (int64_t dim : dims) push_back(dim);
}

void Shape::push_back(int64_t size) {
  if (rank_ == kMaxRank) throw std::length_error("[shape] a shape has at most 6 dimensions");
  dims_[rank_++] = size;
}

int64_t Shape::elements() const {
  int64_t product = 1;
  for (int i = 0; i < rank_; ++i) product *= dims_[i];
  return product;
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < rank_; ++i) text += (i ? "," : "") + std::to_string(dims_[i]);
  return text + "]";
}

}  // namespace dlpipe
