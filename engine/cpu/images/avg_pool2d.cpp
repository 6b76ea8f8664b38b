// avg_pool2d on the CPU: eight channels at a time; the gradient is gathered, each input pixel from the
// windows that cover it.
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cpu/images/pool2d.h"
#include "dlpipe/engine/cpu/loops/supports.h"
#include "dlpipe/engine/ops/ops.h"

namespace dlpipe::engine {
namespace {

using cpu::F32x8;
using cpu::PoolImages;

/// 1 / the places that a window's mean counts.
DLPIPE_INLINE inline float share(const Pool2dShape& s, bool count_padding, int64_t oh, int64_t ow) {
  const auto rows = s.range(0, oh);
  const auto columns = s.range(1, ow);
  const int64_t places = count_padding ? s.padded_length(0, oh) * s.padded_length(1, ow)
                                       : (rows.end - rows.begin) * (columns.end - columns.begin);
  return 1.0f / static_cast<float>(places);
}

template <class T>
void forward(const PoolImages& images, bool count_padding, const T* x, T* y) {
  const Pool2dShape& s = images.shape;
  const int64_t width = images.width;
  images.for_slices(false, [&](int64_t in, int64_t out, int64_t first, int64_t end) {
    cpu::on_best_isa([=, &s]() DLPIPE_INLINE {
      for (int64_t oh = first; oh < end; ++oh) {
        const auto rows = s.range(0, oh);
        for (int64_t ow = 0; ow < s.ow; ++ow) {
          const auto columns = s.range(1, ow);
          const F32x8 factor = cpu::all(share(s, count_padding, oh, ow));
          cpu::for_channels(width, [&](const auto& io, int64_t c) DLPIPE_INLINE {
            F32x8 sum{};
            for (int64_t h = rows.begin; h < rows.end; ++h) {
              for (int64_t w = columns.begin; w < columns.end; ++w)
                sum += io.get(x + in + (h * s.w + w) * width + c);
            }
            io.put(y + out + (oh * s.ow + ow) * width + c, sum * factor);
          });
        }
      }
    });
  });
}

template <class T>
void backward(const PoolImages& images, bool count_padding, const T* dy, T* dx) {
  const Pool2dShape& s = images.shape;
  const int64_t width = images.width;
  images.for_slices(true, [&](int64_t in, int64_t out, int64_t first, int64_t end) {
    cpu::on_best_isa([=, &images, &s]() DLPIPE_INLINE {
      for (int64_t h = first; h < end; ++h) {
        const auto rows = images.windows(0, h);
        for (int64_t w = 0; w < s.w; ++w) {
          const auto columns = images.windows(1, w);
          cpu::for_channels(width, [&](const auto& io, int64_t c) DLPIPE_INLINE {
            F32x8 sum{};
            for (int64_t oh = rows.begin; oh < rows.end; ++oh) {
              for (int64_t ow = columns.begin; ow < columns.end; ++ow) {
                const F32x8 factor = cpu::all(share(s, count_padding, oh, ow));
                sum += io.get(dy + out + (oh * s.ow + ow) * width + c) * factor;
              }
            }
            io.put(dx + in + (h * s.w + w) * width + c, sum);
          });
        }
      }
    });
  });
}

void run_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Tensor& x = args.inputs[0];
  const PoolImages images(pool2d_shape("avg_pool2d", x.spec(), attrs), x.layout());
  const auto run = [&](auto type) {
    using T = decltype(type);
    forward(images, attrs.count_include_pad, static_cast<const T*>(x.raw()),
            static_cast<T*>(args.outputs[0].raw()));
  };
  x.dtype() == DType::kBF16 ? run(BFloat16()) : run(float());
}

void run_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Tensor& dx = args.grad_inputs[0];
  const PoolImages images(pool2d_shape("avg_pool2d", dx.spec(), attrs), dx.layout());
  const auto run = [&](auto type) {
    using T = decltype(type);
    backward(images, attrs.count_include_pad, static_cast<const T*>(args.grad_outputs[0].raw()),
             static_cast<T*>(dx.raw()));
  };
  dx.dtype() == DType::kBF16 ? run(BFloat16()) : run(float());
}

}  // namespace

extern const Kernels avg_pool2d_cpu;
const Kernels avg_pool2d_cpu{
    .forward = run_forward,
    .backward = run_backward,
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
