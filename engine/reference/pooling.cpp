// The reference for cpu/kernels/pooling.cpp.
#include <algorithm>
#include <cmath>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/ops/window.h"

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
void max_pool2d_forward(const ForwardArgs& args, const Pool2dShape& s) {
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
void max_pool2d_backward(const BackwardArgs& args, const Pool2dShape& s) {
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
            bytes ? max_pool2d_forward<double, uint8_t>(args, s)
                  : max_pool2d_forward<double, int32_t>(args, s);
          } else {
            bytes ? max_pool2d_forward<float, uint8_t>(args, s) : max_pool2d_forward<float, int32_t>(args, s);
          }
        },
    .backward =
        [](const BackwardArgs& args) {
          const Pool2dShape s =
              pool2d_shape("max_pool2d", args.grad_inputs[0].spec(), args.attrs.as<Pool2dAttrs>());
          const bool bytes = args.outputs[1].dtype() == DType::kU8;
          if (args.grad_inputs[0].dtype() == DType::kF64) {
            bytes ? max_pool2d_backward<double, uint8_t>(args, s)
                  : max_pool2d_backward<double, int32_t>(args, s);
          } else {
            bytes ? max_pool2d_backward<float, uint8_t>(args, s)
                  : max_pool2d_backward<float, int32_t>(args, s);
          }
        },
};

namespace {

/// Calls use(input element, output element, divisor) for every output and every input in its window.
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
void avg_pool2d_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Pool2dShape s = pool2d_shape("avg_pool2d", args.inputs[0].spec(), attrs);
  const T* x = args.inputs[0].data<T>();
  T* y = args.outputs[0].data<T>();
  std::fill_n(y, args.outputs[0].elements(), T(0));
  for_pairs(s, attrs.count_include_pad,
            [&](int64_t i, int64_t o, int64_t places) { y[o] += x[i] / static_cast<T>(places); });
}

template <class T>
void avg_pool2d_backward(const BackwardArgs& args) {
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
          args.inputs[0].dtype() == DType::kF64 ? avg_pool2d_forward<double>(args)
                                                : avg_pool2d_forward<float>(args);
        },
    .backward =
        [](const BackwardArgs& args) {
          args.grad_inputs[0].dtype() == DType::kF64 ? avg_pool2d_backward<double>(args)
                                                     : avg_pool2d_backward<float>(args);
        },
};

namespace {

template <class T>
void global_avg_pool_forward(const ForwardArgs& args) {
  const Shape& shape = args.inputs[0].shape();
  const int64_t pixels = shape[1] * shape[2];
  const int64_t channels = shape[3];
  const T* x = args.inputs[0].data<T>();
  T* y = args.outputs[0].data<T>();
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < channels; ++c) {
      T sum = 0;
      for (int64_t i = 0; i < pixels; ++i) sum += x[(n * pixels + i) * channels + c];
      y[n * channels + c] = sum / static_cast<T>(pixels);
    }
  }
}

template <class T>
void global_avg_pool_backward(const BackwardArgs& args) {
  const Shape& shape = args.grad_inputs[0].shape();
  const int64_t pixels = shape[1] * shape[2];
  const int64_t channels = shape[3];
  const T* dy = args.grad_outputs[0].data<T>();
  T* dx = args.grad_inputs[0].data<T>();
  for (int64_t i = 0; i < shape[0] * pixels; ++i) {
    for (int64_t c = 0; c < channels; ++c) {
      dx[i * channels + c] = dy[i / pixels * channels + c] / static_cast<T>(pixels);
    }
  }
}

}  // namespace

extern const Kernels global_avg_pool_reference;
const Kernels global_avg_pool_reference{
    .forward =
        [](const ForwardArgs& args) {
          args.inputs[0].dtype() == DType::kF64 ? global_avg_pool_forward<double>(args)
                                                : global_avg_pool_forward<float>(args);
        },
    .backward =
        [](const BackwardArgs& args) {
          args.grad_inputs[0].dtype() == DType::kF64 ? global_avg_pool_backward<double>(args)
                                                     : global_avg_pool_backward<float>(args);
        },
};

}  // namespace dlpipe::engine
