#include "dlpipe/base/dtype.h"

#include <array>
#include <string>
#include <vector>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"

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

}  // namespace dlpipe
