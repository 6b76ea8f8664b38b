#include "dlpipe/engine/ops/embedding.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {

namespace {

void forward(const ForwardArgs& args) {
  const Tensor& table = args.inputs[0];
  const Tensor& ids = args.inputs[1];
  check_ids(ids, table.size(0));
  const size_t row_bytes = static_cast<size_t>(table.size(1)) * dtype_size(table.dtype());
  if (row_bytes == 0) return;
  const int64_t* id = ids.data<int64_t>();
  const auto* from = static_cast<const std::byte*>(table.raw());
  auto* to = static_cast<std::byte*>(args.outputs[0].raw());
  parallel_ranges(ids.elements(), std::max<int64_t>(1, 131072 / static_cast<int64_t>(row_bytes)),
                  [&](int64_t begin, int64_t end) {
                    for (int64_t i = begin; i < end; ++i) {
                      std::memcpy(to + static_cast<size_t>(i) * row_bytes,
                                  from + static_cast<size_t>(id[i]) * row_bytes, row_bytes);
                    }
                  });
}

// Repeated ids add up in their order, so a slice is a range of columns and sees all ids.
void backward(const BackwardArgs& args) {
  constexpr int64_t kColumns = 64;
  const Tensor& grad_table = args.grad_inputs[0];
  const Tensor& ids = args.inputs[1];
  const int64_t rows = grad_table.size(0);
  const int64_t width = grad_table.size(1);
  const int64_t count = ids.elements();
  const int64_t* id = ids.data<int64_t>();
  cpu::stored(grad_table.dtype(), [&]<class T>(T*) {
    const T* grad = static_cast<const T*>(args.grad_outputs[0].raw());
    // bf16 adds up in f32.
    const Tensor sums = std::is_same_v<T, float> ? grad_table : Tensor::empty(grad_table.shape());
    float* sum = sums.data<float>();
    T* to = static_cast<T*>(grad_table.raw());
    parallel_ranges(width, kColumns, [&](int64_t begin, int64_t end) {
      cpu::on_best_isa([=]() DLPIPE_INLINE {
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = begin; c < end; ++c) sum[row * width + c] = 0;
        }
        for (int64_t i = 0; i < count; ++i) {
          float* __restrict row = sum + id[i] * width;
          for (int64_t c = begin; c < end; ++c) row[c] += cpu::load_one(grad + i * width + c);
        }
        if (std::is_same_v<T, float>) return;
        for (int64_t row = 0; row < rows; ++row) {
          for (int64_t c = begin; c < end; ++c) cpu::store_one(to + row * width + c, sum[row * width + c]);
        }
      });
    });
  });
}

}  // namespace

extern const Kernels embedding_cpu;
const Kernels embedding_cpu = {
    .forward = forward,
    .backward = backward,
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
