// The slow twin of cpu/images/max_pool2d.cpp.
#include <algorithm>
#include <cmath>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/ops/ops.h"
#include "dlpipe/engine/ops/window.h"

namespace dlpipe::engine {
namespace {

/// Calls use(output element, n, oh, ow, c) for every output.
template <class Use>
void for_outputs(const Pool2dShape& s, const Use& use) {
  int64_t i = 0;
  for (int64_t n = 0; n < s.n; ++n) {
    for (int64_t oh = 0; oh < s.oh; ++oh) {
      for (int64_t ow = 0; ow < s.ow; ++ow) {
        for (int64_t c = 0; c < s.c; ++c) use(i++, n, oh, ow, c);
      }
    }
  }
}

template <class T, class Index>
void forward(const ForwardArgs& args, const Pool2dShape& s) {
  const T* x = args.inputs[0].data<T>();
  T* y = args.outputs[0].data<T>();
  Index* index = args.outputs[1].data<Index>();
  for_outputs(s, [&](int64_t i, int64_t n, int64_t oh, int64_t ow, int64_t c) {
    const auto rows = s.range(0, oh);
    const auto columns = s.range(1, ow);
    bool first = true;
    for (int64_t h = rows.begin; h < rows.end; ++h) {
      for (int64_t w = columns.begin; w < columns.end; ++w) {
        const T value = x[((n * s.h + h) * s.w + w) * s.c + c];
        if (first || value > y[i] || (std::isnan(value) && !std::isnan(y[i]))) {
          const int64_t row = h - (oh * s.stride[0] - s.padding[0]);
          const int64_t column = w - (ow * s.stride[1] - s.padding[1]);
          y[i] = value;
          index[i] = static_cast<Index>(row * s.kernel[1] + column);
          first = false;
        }
      }
    }
  });
}

template <class T, class Index>
void backward(const BackwardArgs& args, const Pool2dShape& s) {
  const Index* index = args.outputs[1].data<Index>();
  const T* dy = args.grad_outputs[0].data<T>();
  T* dx = args.grad_inputs[0].data<T>();
  std::fill_n(dx, args.grad_inputs[0].elements(), T(0));
  for_outputs(s, [&](int64_t i, int64_t n, int64_t oh, int64_t ow, int64_t c) {
    const int64_t h = oh * s.stride[0] - s.padding[0] + index[i] / s.kernel[1];
    const int64_t w = ow * s.stride[1] - s.padding[1] + index[i] % s.kernel[1];
    dx[((n * s.h + h) * s.w + w) * s.c + c] += dy[i];
  });
}

}  // namespace

extern const Kernels max_pool2d_reference;
const Kernels max_pool2d_reference{
    .forward =
        [](const ForwardArgs& args) {
          const Pool2dShape s =
              pool2d_shape("max_pool2d", args.inputs[0].spec(), args.attrs.as<Pool2dAttrs>());
          const bool bytes = args.outputs[1].dtype() == DType::kU8;
          if (args.inputs[0].dtype() == DType::kF64) {
            bytes ? forward<double, uint8_t>(args, s) : forward<double, int32_t>(args, s);
          } else {
            bytes ? forward<float, uint8_t>(args, s) : forward<float, int32_t>(args, s);
          }
        },
    .backward =
        [](const BackwardArgs& args) {
          const Pool2dShape s =
              pool2d_shape("max_pool2d", args.grad_inputs[0].spec(), args.attrs.as<Pool2dAttrs>());
          const bool bytes = args.outputs[1].dtype() == DType::kU8;
          if (args.grad_inputs[0].dtype() == DType::kF64) {
            bytes ? backward<double, uint8_t>(args, s) : backward<double, int32_t>(args, s);
          } else {
            bytes ? backward<float, uint8_t>(args, s) : backward<float, int32_t>(args, s);
          }
        },
};

}  // namespace dlpipe::engine
