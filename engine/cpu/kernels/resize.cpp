// resize on the CPU, rows first, then columns. A row of the output is a mix of two rows of the input, in f32, and each of
// its pixels is a mix of two pixels of that row. In nearest mode pixels are copied. The gradient is gathered in the same
// order: first from the output rows that read an input row, then from the output pixels that read an input pixel.
#include "engine/ops/resize.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "dlpipe/op.h"
#include "engine/core/parallel.h"
#include "engine/cpu/kernels/pool2d.h"
#include "engine/cpu/loops/elementwise.h"

namespace dlpipe::engine {
namespace {

using cpu::F32x8;

/// The two input positions of each output position along an axis, in elements (`step` per position).
struct Places {
  std::vector<int64_t> first, second;
  std::vector<float> share;  // weight of the second position

  // `spread`: the number of channels of columns with few channels, which then have entries of their own, like pixels; else 1.
  Places(const ResizePlaces& axis, int64_t step, int64_t spread) {
    const auto count = static_cast<size_t>(axis.out * spread);
    first.reserve(count), second.reserve(count), share.reserve(count);
    for (int i = 0; i < axis.out; ++i) {
      const ResizePlace place = axis.place(i);
      for (int64_t c = 0; c < spread; ++c) {
        first.push_back(place.first * step + c);
        second.push_back(place.second * step + c);
        share.push_back(static_cast<float>(place.share));
      }
    }
  }
};

/// For each position of the input: the outputs computed from it, with their weights.
struct Readers {
  std::vector<int64_t> begin, count, at;  // at: index of the first one's weight
  std::vector<float> weights;

  explicit Readers(const ResizePlaces& axis) {
    std::vector<ResizePlace> places;
    places.reserve(static_cast<size_t>(axis.out));
    for (int i = 0; i < axis.out; ++i) places.push_back(axis.place(i));
    size_t from = 0, after = 0;
    for (int pixel = 0; pixel < axis.in; ++pixel) {
      while (from < places.size() && places[from].second < pixel) ++from;
      while (after < places.size() && places[after].first <= pixel) ++after;
      begin.push_back(static_cast<int64_t>(from));
      count.push_back(static_cast<int64_t>(after - from));
      at.push_back(static_cast<int64_t>(weights.size()));
      for (size_t i = from; i < after; ++i) {
        const ResizePlace& place = places[i];
        const auto share = static_cast<float>(place.share);
        weights.push_back((place.first == pixel ? 1 - share : 0) + (place.second == pixel ? share : 0));
      }
    }
  }
};

/// Images as groups of contiguous channels (pool2d.h), and values that all of their rows share.
struct ResizedImages {
  ResizePlaces rows, columns;
  bool is_linear;
  int64_t width;   // channels of a group, and elements from pixel to pixel
  int64_t groups;  // in all images
  int64_t in_row, out_row;

  ResizedImages(const Tensor& x, const ResizeAttrs& attrs)
      : rows(resize_places(x.shape(), attrs, 0)),
        columns(resize_places(x.shape(), attrs, 1)),
        is_linear(attrs.mode == ResizeMode::kLinear),
        width(x.layout() == Layout::kPlain ? x.size(3) : layout_block(x.layout())),
        groups(width == 0 ? 0 : x.size(0) * (x.size(3) / width)),
        in_row(columns.in * width),
        out_row(columns.out * width) {}

  bool is_narrow() const { return width < cpu::kLanes; }

  /// Calls body(group's input, group's output, first row, end row) for slices of the rows of all groups.
  template <class Body>
  void for_slices(int64_t height, const Body& body) const {
    const int64_t row_elements = std::max<int64_t>(1, std::max(in_row, out_row));
    const int64_t rows_a_slice = std::clamp<int64_t>(cpu::kPoolSliceElements / row_elements, 1, height);
    const int64_t slices = divide_up(height, rows_a_slice);
    parallel_slices(groups * slices, [&](int64_t slice) {
      const int64_t group = slice / slices, first = slice % slices * rows_a_slice;
      body(group * rows.in * in_row, group * rows.out * out_row, first,
           std::min(height, first + rows_a_slice));
    });
  }
};

float* row_scratch(int64_t elements) {
  return reinterpret_cast<float*>(worker_scratch(0, static_cast<size_t>(elements) * sizeof(float)));
}

/// Like for_channels(), but the last vector overlaps the previous one if there are enough channels. Processing its lanes
/// one by one would take longer than all other vectors.
template <class At>
DLPIPE_INLINE inline void for_vectors(int64_t width, const At& at) {
  if (width < cpu::kLanes) return cpu::for_channels(width, at);
  int64_t c = 0;
  for (; c + cpu::kLanes <= width; c += cpu::kLanes) at(cpu::WholeVectors{}, c);
  if (c < width) at(cpu::WholeVectors{}, width - cpu::kLanes);
}

DLPIPE_INLINE inline F32x8 mixed(const F32x8& first, const F32x8& second, const F32x8& share) {
  return first * (1.0f - share) + second * share;
}

/// A row that is already mixed.
struct OneRow {
  const float* row;
  template <class Io>
  DLPIPE_INLINE F32x8 get(const Io& io, int64_t at) const {
    return io.get(row + at);
  }
};
/// A row that is mixed where it is read, for outputs that skip most input pixels.
template <class T>
struct TwoRows {
  const T* top;
  const T* bottom;
  float share;
  template <class Io>
  DLPIPE_INLINE F32x8 get(const Io& io, int64_t at) const {
    return mixed(io.get(top + at), io.get(bottom + at), cpu::all(share));
  }
};

template <class T>
DLPIPE_INLINE inline void mix_rows(const TwoRows<T>& rows, int64_t elements, float* to) {
  cpu::for_channels(elements,
                    [&](const auto& io, int64_t i) DLPIPE_INLINE { io.put(to + i, rows.get(io, i)); });
}

template <class Row, class T>
DLPIPE_INLINE inline void mix_columns(const Row& row, const Places& columns, int64_t width, T* y) {
  for (size_t i = 0; i < columns.share.size(); ++i, y += width) {
    const int64_t first = columns.first[i], second = columns.second[i];
    const F32x8 share = cpu::all(columns.share[i]);
    for_vectors(width, [&](const auto& io, int64_t c) DLPIPE_INLINE {
      io.put(y + c, mixed(row.get(io, first + c), row.get(io, second + c), share));
    });
  }
}

/// For columns with `spread` channels: computes eight elements at a time, across pixels.
template <class T>
DLPIPE_INLINE inline void mix_elements(const float* row, const Places& columns, T* y) {
  const auto elements = static_cast<int64_t>(columns.share.size());
  cpu::for_channels(elements, [&](const auto& io, int64_t i) DLPIPE_INLINE {
    F32x8 first{}, second{};
    const int64_t lanes = std::min(cpu::kLanes, elements - i);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      first[lane] = row[columns.first[static_cast<size_t>(i + lane)]];
      second[lane] = row[columns.second[static_cast<size_t>(i + lane)]];
    }
    io.put(y + i, mixed(first, second, io.get(columns.share.data() + i)));
  });
}

template <class T>
void forward_linear(const ResizedImages& images, const T* x, T* y) {
  const int64_t width = images.width, in_row = images.in_row, out_row = images.out_row;
  const bool is_narrow = images.is_narrow();
  const Places rows(images.rows, in_row, 1);
  const Places columns(images.columns, width, is_narrow ? width : 1);
  const bool mixes_first = is_narrow || in_row <= 2 * out_row;
  images.for_slices(images.rows.out, [&](int64_t in, int64_t out, int64_t begin, int64_t end) {
    float* const mix = row_scratch(in_row);
    cpu::on_best_isa([=, &rows, &columns]() DLPIPE_INLINE {
      for (int64_t oh = begin; oh < end; ++oh) {
        const auto row = static_cast<size_t>(oh);
        const TwoRows<T> two{x + in + rows.first[row], x + in + rows.second[row], rows.share[row]};
        T* const to = y + out + oh * out_row;
        if (!mixes_first) {
          mix_columns(two, columns, width, to);
          continue;
        }
        mix_rows(two, in_row, mix);
        if (is_narrow) {
          mix_elements(mix, columns, to);
        } else {
          mix_columns(OneRow{mix}, columns, width, to);
        }
      }
    });
  });
}

template <class T>
void forward_nearest(const ResizedImages& images, const T* x, T* y) {
  const int64_t width = images.width, out_row = images.out_row;
  const bool is_narrow = images.is_narrow();
  const Places rows(images.rows, images.in_row, 1);
  const Places columns(images.columns, width, is_narrow ? width : 1);
  const auto pixel_bytes = static_cast<size_t>(width) * sizeof(T);
  images.for_slices(images.rows.out, [&](int64_t in, int64_t out, int64_t begin, int64_t end) {
    for (int64_t oh = begin; oh < end; ++oh) {
      const auto row = static_cast<size_t>(oh);
      T* const to = y + out + oh * out_row;
      if (oh > begin && rows.first[row] == rows.first[row - 1]) {
        std::copy_n(to - out_row, out_row, to);
        continue;
      }
      const T* const from = x + in + rows.first[row];
      if (is_narrow) {
        for (size_t i = 0; i < columns.first.size(); ++i) to[i] = from[columns.first[i]];
        continue;
      }
      for (size_t i = 0; i < columns.first.size(); ++i)
        std::memcpy(static_cast<void*>(to + static_cast<int64_t>(i) * width), from + columns.first[i],
                    pixel_bytes);
    }
  });
}

template <class T>
void backward(const ResizedImages& images, const T* dy, T* dx) {
  const int64_t width = images.width, in_row = images.in_row, out_row = images.out_row;
  const Readers rows(images.rows), columns(images.columns);
  images.for_slices(images.rows.in, [&](int64_t in, int64_t out, int64_t begin, int64_t end) {
    float* const sum = row_scratch(out_row);
    cpu::on_best_isa([=, &images, &rows, &columns]() DLPIPE_INLINE {
      for (int64_t h = begin; h < end; ++h) {
        const auto row = static_cast<size_t>(h);
        T* const to = dx + in + h * in_row;
        const T* const from = dy + out + rows.begin[row] * out_row;
        const float* const row_weights = rows.weights.data() + rows.at[row];
        const int64_t row_count = rows.count[row];
        for_vectors(row_count == 0 ? 0 : out_row, [&](const auto& io, int64_t i) DLPIPE_INLINE {
          F32x8 all{};
          for (int64_t k = 0; k < row_count; ++k)
            all += io.get(from + k * out_row + i) * cpu::all(row_weights[k]);
          io.put(sum + i, all);
        });
        for (int64_t w = 0; w < images.columns.in; ++w) {
          const auto column = static_cast<size_t>(w);
          const float* const pixels = sum + columns.begin[column] * width;
          const float* const weights = columns.weights.data() + columns.at[column];
          const int64_t count = row_count == 0 ? 0 : columns.count[column];
          for_vectors(width, [&](const auto& io, int64_t c) DLPIPE_INLINE {
            F32x8 all{};
            for (int64_t k = 0; k < count; ++k) all += io.get(pixels + k * width + c) * cpu::all(weights[k]);
            io.put(to + w * width + c, all);
          });
        }
      }
    });
  });
}

void run_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const ResizedImages images(x, args.attrs.as<ResizeAttrs>());
  const auto run = [&](auto type) {
    using T = decltype(type);
    const auto* const from = static_cast<const T*>(x.raw());
    auto* const to = static_cast<T*>(args.outputs[0].raw());
    images.is_linear ? forward_linear(images, from, to) : forward_nearest(images, from, to);
  };
  x.dtype() == DType::kBF16 ? run(BFloat16()) : run(float());
}

void run_backward(const BackwardArgs& args) {
  const Tensor& dx = args.grad_inputs[0];
  const ResizedImages images(dx, args.attrs.as<ResizeAttrs>());
  const auto run = [&](auto type) {
    using T = decltype(type);
    backward(images, static_cast<const T*>(args.grad_outputs[0].raw()), static_cast<T*>(dx.raw()));
  };
  dx.dtype() == DType::kBF16 ? run(BFloat16()) : run(float());
}

}  // namespace

extern const Kernels resize_cpu;
const Kernels resize_cpu{
    .forward = run_forward,
    .backward = run_backward,
    .supports = cpu::supports_first_f32_bf16,
};

}  // namespace dlpipe::engine
