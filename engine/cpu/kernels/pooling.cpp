// Pooling on the CPU.
#include <algorithm>
#include <type_traits>

#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "engine/core/parallel.h"
#include "engine/cpu/kernels/pool2d.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/vec.h"

// max_pool2d on the CPU: sixteen or eight channels at a time. The gradient is gathered: each input pixel
// adds those of the windows that chose it.

// GCC 12 warns about uninitialised arrays of vectors that a loop writes.
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

/// Calls at(io, vectors, c) for the vectors of `width` channels, two at a time while possible, since
/// walking the windows takes longer than comparing eight channels.
template <class At>
DLPIPE_INLINE inline void for_channel_pairs(int64_t width, const At& at) {
  int64_t c = 0;
  for (; c + 2 * cpu::kLanes <= width; c += 2 * cpu::kLanes)
    at(cpu::WholeVectors{}, std::integral_constant<int, 2>(), c);
  const std::integral_constant<int, 1> one;
  for (; c + cpu::kLanes <= width; c += cpu::kLanes) at(cpu::WholeVectors{}, one, c);
  if (c < width) at(cpu::PartVectors{width - c}, one, c);
}

/// The part of a window inside the image.
template <class T>
struct Window {
  const T* first;       // the first of its pixels
  int32_t place;        // position of `first` in the whole window, numbered row by row
  int32_t width;        // of the whole window
  int64_t row_step;     // elements from row to row
  int64_t column_step;  // and from pixel to pixel
  int64_t rows, columns;
};

/// The maximum and its place in a window, for kVectors vectors of channels from `c` on. If kRows and
/// kColumns are not 0, they are the size of the window, and the loops are unrolled.
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
        // NaN counts as larger than any number, and the first NaN stays. NOLINTNEXTLINE(misc-redundant-expression)
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
void max_pool2d_forward(const PoolImages& images, const T* x, T* y, Index* index) {
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
void max_pool2d_backward(const PoolImages& images, const T* dy, const Index* index, T* dx) {
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

/// Whether the windows are those of a ResNet's stem: along each axis, a pixel at an even position is in the
/// middle of one window, and one at an odd position is shared by two.
bool is_stem(const Pool2dShape& s) {
  return s.kernel[0] == 3 && s.kernel[1] == 3 && s.stride[0] == 2 && s.stride[1] == 2 && s.padding[0] == 1 &&
         s.padding[1] == 1;
}

/// max_pool2d_backward() for stem windows: computes two neighbouring pixels, which share a window, at a time. Adds the same terms
/// in the same order.
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

void run_max_pool2d(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const PoolImages images(pool2d_shape("max_pool2d", x.spec(), args.attrs.as<Pool2dAttrs>()), x.layout());
  with_types(x.dtype(), args.outputs[1].dtype(), [&](auto type, auto index) {
    using T = decltype(type);
    max_pool2d_forward(images, static_cast<const T*>(x.raw()), static_cast<T*>(args.outputs[0].raw()),
                       static_cast<decltype(index)*>(args.outputs[1].raw()));
  });
}

void run_max_pool2d_gradient(const BackwardArgs& args) {
  const Tensor& dx = args.grad_inputs[0];
  const PoolImages images(pool2d_shape("max_pool2d", dx.spec(), args.attrs.as<Pool2dAttrs>()), dx.layout());
  with_types(dx.dtype(), args.outputs[1].dtype(), [&](auto type, auto index) {
    using T = decltype(type);
    const auto* const dy = static_cast<const T*>(args.grad_outputs[0].raw());
    const auto* const chosen = static_cast<const decltype(index)*>(args.outputs[1].raw());
    (is_stem(images.shape)
         ? backward_stem<T, decltype(index)>
         : max_pool2d_backward<T, decltype(index)>)(images, dy, chosen, static_cast<T*>(dx.raw()));
  });
}

}  // namespace

extern const Kernels max_pool2d_cpu;
const Kernels max_pool2d_cpu{
    .forward = run_max_pool2d,
    .backward = run_max_pool2d_gradient,
    .supports = cpu::supports_first_f32_bf16,
};

// avg_pool2d on the CPU: eight channels at a time. The gradient is gathered: each input pixel adds those of
// the windows that cover it.

namespace {

/// 1 / the number of positions that the window's mean counts.
DLPIPE_INLINE inline float share(const Pool2dShape& s, bool count_padding, int64_t oh, int64_t ow) {
  const auto rows = s.range(0, oh);
  const auto columns = s.range(1, ow);
  const int64_t places = count_padding ? s.padded_length(0, oh) * s.padded_length(1, ow)
                                       : (rows.end - rows.begin) * (columns.end - columns.begin);
  return 1.0f / static_cast<float>(places);
}

template <class T>
void avg_pool2d_forward(const PoolImages& images, bool count_padding, const T* x, T* y) {
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
void avg_pool2d_backward(const PoolImages& images, bool count_padding, const T* dy, T* dx) {
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

void run_avg_pool2d(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Tensor& x = args.inputs[0];
  const PoolImages images(pool2d_shape("avg_pool2d", x.spec(), attrs), x.layout());
  const auto run = [&](auto type) {
    using T = decltype(type);
    avg_pool2d_forward(images, attrs.count_include_pad, static_cast<const T*>(x.raw()),
                       static_cast<T*>(args.outputs[0].raw()));
  };
  x.dtype() == DType::kBF16 ? run(BFloat16()) : run(float());
}

void run_avg_pool2d_gradient(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<Pool2dAttrs>();
  const Tensor& dx = args.grad_inputs[0];
  const PoolImages images(pool2d_shape("avg_pool2d", dx.spec(), attrs), dx.layout());
  const auto run = [&](auto type) {
    using T = decltype(type);
    avg_pool2d_backward(images, attrs.count_include_pad, static_cast<const T*>(args.grad_outputs[0].raw()),
                        static_cast<T*>(dx.raw()));
  };
  dx.dtype() == DType::kBF16 ? run(BFloat16()) : run(float());
}

}  // namespace

extern const Kernels avg_pool2d_cpu;
const Kernels avg_pool2d_cpu{
    .forward = run_avg_pool2d,
    .backward = run_avg_pool2d_gradient,
    .supports = cpu::supports_first_f32_bf16,
};

// global_avg_pool on the CPU: one slice per image.

namespace {

/// Adds the sum of each channel of a chunk to sum[channel].
template <class T>
struct ChannelSums {
  const T* x;
  float* sum;  // of one image, zeroed

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 sums[kVectors]{};
    for (int64_t row = 0; row < rows; ++row) {
      for (int v = 0; v < kVectors; ++v) sums[v] += io.get(x + offset + row * stride + v * cpu::kLanes);
    }
    for (int v = kPixel; v < kVectors; ++v) sums[v % kPixel] += sums[v];
    for (int v = 0; v < kPixel; ++v) {
      float* to = sum + channel + v * cpu::kLanes;
      io.put(to, io.get(to) + sums[v]);
    }
  }
};

/// Writes value[channel] to all pixels of each channel.
template <class T>
struct Spread {
  const float* value;  // [C] of one image
  T* x;

  template <int kVectors, int kPixel, class Io>
  DLPIPE_INLINE void strip(const Io& io, int64_t channel, int64_t offset, int64_t rows,
                           int64_t stride) const {
    F32x8 values[kVectors];
    for (int v = 0; v < kVectors; ++v) values[v] = io.get(value + channel + (v % kPixel) * cpu::kLanes);
    for (int64_t row = 0; row < rows; ++row) {
      for (int v = 0; v < kVectors; ++v) io.put(x + offset + row * stride + v * cpu::kLanes, values[v]);
    }
  }
};

/// Calls use(chunk) for the groups of channels of image `n`.
template <class Use>
DLPIPE_INLINE inline void for_chunks(const Tensor& images, int64_t n, const Use& use) {
  const int64_t pixels = images.shape()[1] * images.shape()[2];
  const int64_t channels = images.shape()[3];
  const int64_t width = images.layout() == Layout::kPlain ? channels : layout_block(images.layout());
  for (int64_t c = 0; c < channels; c += width) {
    use(cpu::Chunk{n * pixels * channels + c * pixels, pixels, width, c, width});
  }
}

template <class T>
void global_avg_pool_forward(const Tensor& x, const Tensor& y) {
  const int64_t channels = x.shape()[3];
  const float share = 1.0f / static_cast<float>(x.shape()[1] * x.shape()[2]);
  parallel_slices(x.shape()[0], [&](int64_t n) {
    auto* sum = reinterpret_cast<float*>(worker_scratch(1, static_cast<size_t>(channels) * sizeof(float)));
    std::fill_n(sum, channels, 0.0f);
    for_chunks(x, n, [&](const cpu::Chunk& chunk) {
      const ChannelSums<T> sums{static_cast<const T*>(x.raw()), sum};
      cpu::on_best_isa([=]() DLPIPE_INLINE { walk(chunk, sums); });
    });
    T* to = static_cast<T*>(y.raw()) + n * channels;
    for (int64_t c = 0; c < channels; ++c) cpu::store_one(to + c, sum[c] * share);
  });
}

template <class T>
void global_avg_pool_backward(const Tensor& dy, const Tensor& dx) {
  const int64_t channels = dx.shape()[3];
  const float share = 1.0f / static_cast<float>(dx.shape()[1] * dx.shape()[2]);
  parallel_slices(dx.shape()[0], [&](int64_t n) {
    auto* value = reinterpret_cast<float*>(worker_scratch(1, static_cast<size_t>(channels) * sizeof(float)));
    const T* from = static_cast<const T*>(dy.raw()) + n * channels;
    for (int64_t c = 0; c < channels; ++c) value[c] = cpu::load_one(from + c) * share;
    for_chunks(dx, n, [&](const cpu::Chunk& chunk) {
      const Spread<T> spread{value, static_cast<T*>(dx.raw())};
      cpu::on_best_isa([=]() DLPIPE_INLINE { walk(chunk, spread); });
    });
  });
}

}  // namespace

extern const Kernels global_avg_pool_cpu;
const Kernels global_avg_pool_cpu{
    .forward =
        [](const ForwardArgs& args) {
          const Tensor& x = args.inputs[0];
          x.dtype() == DType::kBF16 ? global_avg_pool_forward<BFloat16>(x, args.outputs[0])
                                    : global_avg_pool_forward<float>(x, args.outputs[0]);
        },
    .backward =
        [](const BackwardArgs& args) {
          const Tensor& dx = args.grad_inputs[0];
          dx.dtype() == DType::kBF16 ? global_avg_pool_backward<BFloat16>(args.grad_outputs[0], dx)
                                     : global_avg_pool_backward<float>(args.grad_outputs[0], dx);
        },
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
