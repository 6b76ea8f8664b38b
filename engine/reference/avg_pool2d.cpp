// The slow twin of cpu/images/avg_pool2d.cpp.
#include <algorithm>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

/// Calls use(input element, output element, divisor) for every pair of an output and an input in its window.
template <class Use>
void for_pairs(const Pool2dShape& s, bool count_padding, const Use& use) {
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t oh = 0; oh < s.oh; ++oh) {
      const auto rows = s.range(0, oh);
      for (int64_t ow = 0; ow < s.ow; ++ow) {
        const auto columns = s.range(1, ow);
        const int64_t places = count_padding ? s.padded_length(0, oh) * s.padded_length(1, ow)
                                             : (rows.end - rows.begin) * (columns.end - columns.begin);
        const int64_t y = ((n * s.oh + oh) * s.ow + ow) * s.c;
        for (int64_t h = rows.begin; h < rows.end; ++h) {
          for (int64_t w = columns.begin; w < columns.end; ++w) {
            const int64_t x = ((n * s.h + h) * s.w + w) * s.c;
            for (int64_t c = 0; c < s.c; ++c) use(x + c, y + c, places);
          }
        }
      }
    }
  }
}

template <class T>
void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Pool2dShape s = pool2d_shape("avg_pool2d", args.inputs[0].spec(), attrs);
  const T* x = args.inputs[0].data<T>();
  T* y = args.outputs[0].data<T>();
  std::fill_n(y, args.outputs[0].elements(), T(0));
  for_pairs(s, attrs.count_include_pad,
            [&](int64_t i, int64_t o, int64_t places) { y[o] += x[i] / static_cast<T>(places); });
}

template <class T>
void backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Pool2dShape s = pool2d_shape("avg_pool2d", args.grad_inputs[0].spec(), attrs);
  const T* dy = args.grad_outputs[0].data<T>();
  T* dx = args.grad_inputs[0].data<T>();
  std::fill_n(dx, args.grad_inputs[0].elements(), T(0));
  for_pairs(s, attrs.count_include_pad,
            [&](int64_t i, int64_t o, int64_t places) { dx[i] += dy[o] / static_cast<T>(places); });
}

}  // namespace

extern const Kernels avg_pool2d_reference;
const Kernels avg_pool2d_reference{
    .forward =
        [](const ForwardArgs& args) {
          args.inputs[0].dtype() == DType::kF64 ? forward<double>(args) : forward<float>(args);
        },
    .backward =
        [](const BackwardArgs& args) {
          args.grad_inputs[0].dtype() == DType::kF64 ? backward<double>(args) : backward<float>(args);
        },
};

}  // namespace dlpipe::engine
