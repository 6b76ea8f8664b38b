#include "engine/cpu/loops/activation.h"

#include "engine/cpu/loops/elementwise.h"

namespace dlpipe::engine::cpu {

void activate_rows(Activation activation, DType dtype, const void* from, void* to, int64_t rows,
                   int64_t columns, int64_t row) {
  if (columns == row) {
    columns *= rows;
    rows = 1;
  }
  with_formula(activation, [&]<class F>(F) {
    stored(dtype, [&]<class T>(T*) {
      for (int64_t r = 0; r < rows; ++r)
        formula_row<F>(static_cast<const T*>(from) + r * row, static_cast<T*>(to) + r * row, columns,
                       NoAttrs{});
    });
  });
}

void activate_in_place(Activation activation, const Tensor& tensor) {
  if (activation == Activation::kNone) return;
  auto* const data = static_cast<std::byte*>(tensor.raw());
  const auto size = static_cast<int64_t>(dtype_size(tensor.dtype()));
  parallel_ranges(tensor.elements(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
    std::byte* const here = data + begin * size;
    activate_rows(activation, tensor.dtype(), here, here, 1, end - begin, end - begin);
  });
}

}  // namespace dlpipe::engine::cpu
