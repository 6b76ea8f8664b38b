// max_pool2d on the CPU: sixteen or eight channels at a time; the gradient is gathered, each input pixel from
// the windows that chose it.
#include <type_traits>

#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/cpu/images/pool2d.h"
#include "dlpipe/engine/cpu/loops/supports.h"
#include "dlpipe/engine/ops/ops.h"

// GCC 12 takes arrays of vectors for unwritten where a loop writes them.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

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

/// Calls at(io, vectors, c) for runs of `vectors` vectors of `width` channels: two together, since walking
/// the windows takes longer than comparing eight channels.
template <class At>
DLPIPE_INLINE inline void for_channel_pairs(int64_t width, const At& at) {
  int64_t c = 0;
  for (; c + 2 * cpu::kLanes <= width; c += 2 * cpu::kLanes)
    at(cpu::WholeVectors{}, std::integral_constant<int, 2>(), c);
  const std::integral_constant<int, 1> one;
  for (; c + cpu::kLanes <= width; c += cpu::kLanes) at(cpu::WholeVectors{}, one, c);
  if (c < width) at(cpu::PartVectors{width - c}, one, c);
}

/// A window as far as it lies in the image.
template <class T>
struct Window {
  const T* first;       // its first pixel
  int32_t place;        // of that pixel in the whole window, numbered row by row
  int32_t width;        // of the whole window
  int64_t row_step;     // elements from row to row
  int64_t column_step;  // and from pixel to pixel
  int64_t rows, columns;
};

/// Its maximum and where that stood, of kVectors vectors of channels from `c` on. With kRows and kColumns
/// above 0 they are the window's size: loops are unrolled.
template <int kVectors, int kRows, int kColumns, class Io, class T, class Index>
DLPIPE_INLINE inline void find_maximum(const Io& io, const Window<T>& window, int64_t c, T* y, Index* index) {
  const int64_t rows = kRows > 0 ? kRows : window.rows, columns = kColumns > 0 ? kColumns : window.columns;
  F32x8 best[kVectors];
  I32x8 place[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    best[v] = io.get(window.first + c + v * cpu::kLanes);
    place[v] = I32x8{} + window.place;
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const T* const here = window.first + row * window.row_step + column * window.column_step + c;
      const I32x8 number =
          I32x8{} + (window.place + static_cast<int32_t>(row) * window.width + static_cast<int32_t>(column));
      for (int v = 0; v < kVectors; ++v) {
        const F32x8 value = io.get(here + v * cpu::kLanes);
        // NaN is larger than any number, and the first one stays. NOLINTNEXTLINE(misc-redundant-expression)
        const I32x8 better = ~(value <= best[v]) & (best[v] == best[v]);
        best[v] = better ? value : best[v];
        place[v] = better ? number : place[v];
      }
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    io.put(y + c + v * cpu::kLanes, best[v]);
    put_index(io, index + c + v * cpu::kLanes, place[v]);
  }
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
          const int64_t top = rows.begin - (oh * s.stride[0] - s.padding[0]);
          const int64_t left = columns.begin - (ow * s.stride[1] - s.padding[1]);
          const Window<T> window = {x + in + (rows.begin * s.w + columns.begin) * width,
                                    static_cast<int32_t>(top * s.kernel[1] + left),
                                    static_cast<int32_t>(s.kernel[1]),
                                    s.w * width,
                                    width,
                                    rows.end - rows.begin,
                                    columns.end - columns.begin};
          const int64_t o = out + (oh * s.ow + ow) * width;
          const bool is_3x3 = window.rows == 3 && window.columns == 3;
          for_channel_pairs(width, [&](const auto& io, auto vectors, int64_t c) DLPIPE_INLINE {
            constexpr int kVectors = decltype(vectors)::value;
            if (is_3x3) {
              find_maximum<kVectors, 3, 3>(io, window, c, y + o, index + o);
            } else {
              find_maximum<kVectors, 0, 0>(io, window, c, y + o, index + o);
            }
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
        const int64_t row = h + s.padding[0] - rows.begin * s.stride[0];  // in the first window
        for (int64_t w = 0; w < s.w; ++w) {
          const auto columns = images.windows(1, w);
          const int64_t column = w + s.padding[1] - columns.begin * s.stride[1];
          const int64_t begin = out + (rows.begin * s.ow + columns.begin) * width;
          for_channel_pairs(width, [&](const auto& io, auto vectors, int64_t c) DLPIPE_INLINE {
            F32x8 sums[decltype(vectors)::value] = {};
            for (int64_t r = 0; r < rows.end - rows.begin; ++r) {
              for (int64_t k = 0; k < columns.end - columns.begin; ++k) {
                const int64_t place = (row - r * s.stride[0]) * s.kernel[1] + column - k * s.stride[1];
                const I32x8 here = I32x8{} + static_cast<int32_t>(place);
                for (int v = 0; v < vectors; ++v) {
                  const int64_t o = begin + (r * s.ow + k) * width + c + v * cpu::kLanes;
                  const F32x8 grad = io.get(dy + o);
                  sums[v] += get_index(io, index + o) == here ? grad : F32x8{};
                }
              }
            }
            for (int v = 0; v < vectors; ++v)
              io.put(dx + in + (h * s.w + w) * width + c + v * cpu::kLanes, sums[v]);
          });
        }
      }
    });
  });
}

/// The windows of a ResNet's stem: pixels of even rows and columns lie in the middle of one window, the
/// others between two.
bool is_stem(const Pool2dShape& s) {
  return s.kernel[0] == 3 && s.kernel[1] == 3 && s.stride[0] == 2 && s.stride[1] == 2 && s.padding[0] == 1 &&
         s.padding[1] == 1;
}

/// backward() for those: two neighbours at a time, which share a window. The same sums in the same order.
template <class T, class Index>
void backward_stem(const PoolImages& images, const T* dy, const Index* index, T* dx) {
  const Pool2dShape& s = images.shape;
  const int64_t width = images.width;
  images.for_slices(true, [&](int64_t in, int64_t out, int64_t first, int64_t end) {
    cpu::on_best_isa([=, &s]() DLPIPE_INLINE {
      for (int64_t h = first; h < end; ++h) {
        const bool is_odd = h % 2 != 0;
        const int64_t row = out + h / 2 * s.ow * width;
        const int64_t rows = is_odd && h / 2 + 1 < s.oh ? 2 : 1;
        for (int64_t w = 0; w < s.w; w += 2) {
          const int64_t window = row + w / 2 * width;
          const bool has_right = w + 1 < s.w, has_next = w / 2 + 1 < s.ow;
          T* const to = dx + in + (h * s.w + w) * width;
          for_channel_pairs(width, [&](const auto& io, auto vectors, int64_t c) DLPIPE_INLINE {
            constexpr int kVectors = decltype(vectors)::value;
            F32x8 left[kVectors] = {}, right[kVectors] = {};
            for (int64_t r = 0; r < rows; ++r) {
              const I32x8 place = I32x8{} + (is_odd ? 6 - 6 * static_cast<int32_t>(r) : 3);
              const int64_t o = window + r * s.ow * width + c;
              for (int v = 0; v < kVectors; ++v) {
                const F32x8 grad = io.get(dy + o + v * cpu::kLanes);
                const I32x8 chosen = get_index(io, index + o + v * cpu::kLanes);
                left[v] += chosen == place + 1 ? grad : F32x8{};
                right[v] += chosen == place + 2 ? grad : F32x8{};
              }
              for (int v = 0; v < kVectors && has_next; ++v) {
                const F32x8 grad = io.get(dy + o + width + v * cpu::kLanes);
                right[v] += get_index(io, index + o + width + v * cpu::kLanes) == place ? grad : F32x8{};
              }
            }
            for (int v = 0; v < kVectors; ++v) {
              io.put(to + c + v * cpu::kLanes, left[v]);
              if (has_right) io.put(to + width + c + v * cpu::kLanes, right[v]);
            }
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
    if (index == DType::kU8) return work(type, uint8_t());
    work(type, int32_t());
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
    const auto* const dy = static_cast<const T*>(args.grad_outputs[0].raw());
    const auto* const chosen = static_cast<const decltype(index)*>(args.outputs[1].raw());
    (is_stem(images.shape) ? backward_stem<T, decltype(index)>
                           : backward<T, decltype(index)>)(images, dy, chosen, static_cast<T*>(dx.raw()));
  });
}

}  // namespace

extern const Kernels max_pool2d_cpu;
const Kernels max_pool2d_cpu{
    .forward = run_forward,
    .backward = run_backward,
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
