// max_pool2d on the CPU: eight channels at a time; the gradient is gathered, each input pixel from the
// windows that chose it.
#include <type_traits>

#include "dlpipe/engine/cpu/pool2d.h"
#include "dlpipe/engine/op.h"
#include "dlpipe/engine/ops.h"

namespace dlpipe::engine {
namespace {

using cpu::F32x8;
using cpu::I32x8;
using cpu::PoolImages;

DLPIPE_INLINE inline I32x8 get_index(const cpu::WholeVectors&, const uint8_t* from) {
  cpu::U8x8 bytes;
  std::memcpy(&bytes, from, sizeof(bytes));
  return __builtin_convertvector(bytes, I32x8);
}
DLPIPE_INLINE inline I32x8 get_index(const cpu::WholeVectors&, const int32_t* from) {
  I32x8 lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}
template <class Index>
DLPIPE_INLINE inline I32x8 get_index(const cpu::PartVectors& io, const Index* from) {
  I32x8 lanes{};
  for (int64_t i = 0; i < io.count; ++i) lanes[i] = from[i];
  return lanes;
}
DLPIPE_INLINE inline void put_index(const cpu::WholeVectors&, uint8_t* to, const I32x8& lanes) {
  const cpu::U8x8 bytes = __builtin_convertvector(lanes, cpu::U8x8);
  std::memcpy(to, &bytes, sizeof(bytes));
}
DLPIPE_INLINE inline void put_index(const cpu::WholeVectors&, int32_t* to, const I32x8& lanes) {
  std::memcpy(to, &lanes, sizeof(lanes));
}
template <class Index>
DLPIPE_INLINE inline void put_index(const cpu::PartVectors& io, Index* to, const I32x8& lanes) {
  for (int64_t i = 0; i < io.count; ++i) to[i] = static_cast<Index>(lanes[i]);
}

template <class T, class Index>
void forward(const PoolImages& images, const T* x, T* y, Index* index) {
  const Pool2dShape& s = images.shape;
  const int64_t width = images.width;
  images.for_slices(false, [&](int64_t in, int64_t out, int64_t first, int64_t end) {
    cpu::on_best_isa([=, &s]() DLPIPE_INLINE {
      for (int64_t oh = first; oh < end; ++oh) {
        const auto rows = s.range(0, oh);
        for (int64_t ow = 0; ow < s.ow; ++ow) {
          const auto columns = s.range(1, ow);
          const int64_t top = oh * s.stride[0] - s.padding[0];
          const int64_t left = ow * s.stride[1] - s.padding[1];
          const int64_t o = out + (oh * s.ow + ow) * width;
          cpu::for_channels(width, [&](const auto& io, int64_t c) DLPIPE_INLINE {
            F32x8 best = io.get(x + in + (rows.begin * s.w + columns.begin) * width + c);
            I32x8 place =
                I32x8{} + static_cast<int32_t>((rows.begin - top) * s.kernel[1] + columns.begin - left);
            for (int64_t h = rows.begin; h < rows.end; ++h) {
              for (int64_t w = columns.begin; w < columns.end; ++w) {
                const F32x8 value = io.get(x + in + (h * s.w + w) * width + c);
                const I32x8 here = I32x8{} + static_cast<int32_t>((h - top) * s.kernel[1] + w - left);
                const I32x8 better = (value > best) | ((value != value) & (best == best));
                best = better ? value : best;
                place = better ? here : place;
              }
            }
            io.put(y + o + c, best);
            put_index(io, index + o + c, place);
          });
        }
      }
    });
  });
}

template <class T, class Index>
void backward(const PoolImages& images, const T* dy, const Index* index, T* dx) {
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
              const int64_t row = h - (oh * s.stride[0] - s.padding[0]);
              for (int64_t ow = columns.begin; ow < columns.end; ++ow) {
                const int64_t column = w - (ow * s.stride[1] - s.padding[1]);
                const int64_t o = out + (oh * s.ow + ow) * width + c;
                const I32x8 here = I32x8{} + static_cast<int32_t>(row * s.kernel[1] + column);
                const F32x8 grad = io.get(dy + o);
                sum += get_index(io, index + o) == here ? grad : F32x8{};
              }
            }
            io.put(dx + in + (h * s.w + w) * width + c, sum);
          });
        }
      }
    });
  });
}

/// Calls work(T(), Index()) with the image's and the indices' types.
template <class Work>
void with_types(DType image, DType index, const Work& work) {
  const auto with_index = [&](auto type) {
    index == DType::kU8 ? work(type, uint8_t()) : work(type, int32_t());
  };
  image == DType::kBF16 ? with_index(BFloat16()) : with_index(float());
}

void run_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const PoolImages images(pool2d_shape("max_pool2d", x.spec(), args.attrs.as<Pool2dAttrs>()), x.layout());
  with_types(x.dtype(), args.outputs[1].dtype(), [&](auto type, auto index) {
    using T = decltype(type);
    forward(images, static_cast<const T*>(x.raw()), static_cast<T*>(args.outputs[0].raw()),
            static_cast<decltype(index)*>(args.outputs[1].raw()));
  });
}

void run_backward(const BackwardArgs& args) {
  const Tensor& dx = args.grad_inputs[0];
  const PoolImages images(pool2d_shape("max_pool2d", dx.spec(), args.attrs.as<Pool2dAttrs>()), dx.layout());
  with_types(dx.dtype(), args.outputs[1].dtype(), [&](auto type, auto index) {
    using T = decltype(type);
    backward(images, static_cast<const T*>(args.grad_outputs[0].raw()),
             static_cast<const decltype(index)*>(args.outputs[1].raw()), static_cast<T*>(dx.raw()));
  });
}

}  // namespace

extern const Kernels max_pool2d_cpu;
const Kernels max_pool2d_cpu{
    .forward = run_forward,
    .backward = run_backward,
    .supports = [](std::span<const TensorSpec> inputs,
                   const Attrs&) { return inputs[0].dtype != DType::kF64; },
};

}  // namespace dlpipe::engine
