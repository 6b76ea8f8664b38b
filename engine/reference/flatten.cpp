#include "dlpipe/engine/ops/flatten.h"

#include <array>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/core/strided_copy.h"

namespace dlpipe::engine {

namespace {

// [N, rows, columns] -> [N, columns, rows], any dtype.
void copy_transposed(const Tensor& from, const Tensor& to, int64_t n, int64_t rows, int64_t columns) {
  copy_strided(to.raw(), from.raw(), {n, columns, rows}, std::array<int64_t, 3>{rows * columns, 1, columns},
               dtype_size(from.dtype()));
}

}  // namespace

extern const Kernels flatten_reference;
const Kernels flatten_reference = {
    .forward =
        [](const ForwardArgs& args) {
          const Shape& shape = args.inputs[0].shape();
          const auto [pixels, channels] = pixels_and_channels(shape);
          copy_transposed(args.inputs[0], args.outputs[0], shape[0], pixels, channels);
        },
    .backward =
        [](const BackwardArgs& args) {
          const Shape& shape = args.grad_inputs[0].shape();
          const auto [pixels, channels] = pixels_and_channels(shape);
          copy_transposed(args.grad_outputs[0], args.grad_inputs[0], shape[0], channels, pixels);
        },
};

}  // namespace dlpipe::engine
