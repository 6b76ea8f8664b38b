#include "engine/ops/resize.h"

#include "dlpipe/op.h"
#include "engine/cuda/loops/windows.h"

namespace dlpipe::engine {
namespace {

/// Place: the input rows or columns that an output row or column reads. Range: the output ones that read an input one.
struct Place {
  int first, second;
  float share;
};
struct Range {
  int begin, end;
};

/// The places and ranges of rows and columns, computed in f64, once, with one thread each. In memory come the places of the
/// output's rows and columns, then the ranges of the input's rows and columns.
struct Tables {
  const Place* rows;
  const Place* columns;
  const Range* in_rows;
  const Range* in_columns;
};

struct WriteTables {
  static constexpr const char* kName = "resize places";
  static constexpr int kThreads = 128;
  using Shared = cuda::NoShared;
  ResizePlaces axes[2];
  Place* places;
  Range* ranges;
  bool with_ranges;

  int count() const { return axes[0].out + axes[1].out + (with_ranges ? axes[0].in + axes[1].in : 0); }

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    block.each([&](int thread) {
      int i = static_cast<int>(block.index()) * kThreads + thread;
      const int out = axes[0].out + axes[1].out;
      if (i < out) {
        const bool is_row = i < axes[0].out;
        const ResizePlace place = axes[is_row ? 0 : 1].place(is_row ? i : i - axes[0].out);
        places[i] = {place.first, place.second, static_cast<float>(place.share)};
        return;
      }
      i -= out;
      if (!with_ranges || i >= axes[0].in + axes[1].in) return;
      const bool is_row = i < axes[0].in;
      const ResizePlaces& axis = axes[is_row ? 0 : 1];
      const int pixel = is_row ? i : i - axes[0].in;
      ranges[i] = {axis.from(pixel), axis.after(pixel)};
    });
  }
};

/// The tables for images of shape `x`, in memory that `owner` holds.
Tables write_tables(const Shape& x, const ResizeAttrs& attrs, bool with_ranges, Device& device,
                    Tensor& owner) {
  const ResizePlaces rows = resize_places(x, attrs, 0), columns = resize_places(x, attrs, 1);
  const int64_t out = int64_t{rows.out} + columns.out, in = int64_t{rows.in} + columns.in;
  owner = Tensor::empty({{out * 3 + in * 2}, DType::kI32}, device);
  auto* const places = static_cast<Place*>(owner.raw());
  auto* const ranges = reinterpret_cast<Range*>(places + out);
  const WriteTables kernel{{rows, columns}, places, ranges, with_ranges};
  cuda::launch(kernel, cuda::blocks_for(kernel.count(), WriteTables::kThreads));
  return {places, places + rows.out, ranges, ranges + rows.in};
}

/// One thread per output.
template <class T, int kWidth_, bool kAligned>
struct Resized {
  static constexpr const char* kName = "resize";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* x;
  T* y;
  Tables tables;
  int in_height, in_width, height, width, channels;
  bool is_linear;

  DLPIPE_DEVICE const T* at(int n, int h, int w, int c) const {
    return x + ((static_cast<int64_t>(n) * in_height + h) * in_width + w) * channels + c;
  }
  DLPIPE_DEVICE void operator()(int n, int h, int w, int c) const {
    const Place row = tables.rows[h], column = tables.columns[w];
    Values out = Values::read(at(n, row.first, column.first, c));
    if (is_linear) {
      const Values right = Values::read(at(n, row.first, column.second, c));
      const Values below = Values::read(at(n, row.second, column.first, c));
      const Values across = Values::read(at(n, row.second, column.second, c));
      for (int k = 0; k < kWidth; ++k) {
        const float left_mix =
            cuda::widened(out.at[k]) * (1 - row.share) + cuda::widened(below.at[k]) * row.share;
        const float right_mix =
            cuda::widened(right.at[k]) * (1 - row.share) + cuda::widened(across.at[k]) * row.share;
        out.at[k] = cuda::narrowed<T>(left_mix * (1 - column.share) + right_mix * column.share);
      }
    }
    out.write(y + ((static_cast<int64_t>(n) * height + h) * width + w) * channels + c);
  }
};

DLPIPE_DEVICE float weight_of(const Place& place, int pixel) {
  return (place.first == pixel ? 1 - place.share : 0.0f) + (place.second == pixel ? place.share : 0.0f);
}

/// Gathers each input's gradient from the outputs that read it. One thread per input.
template <class T, int kWidth_, bool kAligned>
struct ResizedGradient {
  static constexpr const char* kName = "resize gradient";
  static constexpr int kWidth = kWidth_;
  using Values = cuda::Channels<T, kWidth, kAligned>;
  const T* grad_y;
  T* grad_x;
  Tables tables;
  int in_height, in_width, height, width, channels;

  DLPIPE_DEVICE void operator()(int n, int h, int w, int c) const {
    const Range rows = tables.in_rows[h], columns = tables.in_columns[w];
    float sums[kWidth] = {};
    for (int oh = rows.begin; oh < rows.end; ++oh) {
      const float row_weight = weight_of(tables.rows[oh], h);
      const T* from =
          grad_y + ((static_cast<int64_t>(n) * height + oh) * width + columns.begin) * channels + c;
      for (int ow = columns.begin; ow < columns.end; ++ow, from += channels) {
        const float weight = row_weight * weight_of(tables.columns[ow], w);
        const Values values = Values::read(from);
        for (int k = 0; k < kWidth; ++k) sums[k] += cuda::widened(values.at[k]) * weight;
      }
    }
    Values out;
    for (int k = 0; k < kWidth; ++k) out.at[k] = cuda::narrowed<T>(sums[k]);
    out.write(grad_x + ((static_cast<int64_t>(n) * in_height + h) * in_width + w) * channels + c);
  }
};

int size(const Tensor& images, int axis) {
  return static_cast<int>(images.size(axis));
}

void forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<ResizeAttrs>();
  const Tensor& x = args.inputs[0];
  const Tensor& y = args.outputs[0];
  Tensor owner;
  const Tables tables = write_tables(x.shape(), attrs, false, x.device(), owner);
  cuda::by_channels(x.dtype(), x.size(3), {x.raw(), y.raw()}, [&](auto type, auto width, auto aligned) {
    using T = decltype(type);
    cuda::launch_each_pixel(
        y.shape(), Resized<T, width(), aligned()>{cuda::elements_of<T>(x), cuda::elements_to<T>(y), tables,
                                                  size(x, 1), size(x, 2), size(y, 1), size(y, 2), size(x, 3),
                                                  attrs.mode == ResizeMode::kLinear});
  });
}

void backward(const BackwardArgs& args) {
  const Tensor& grad_x = args.grad_inputs[0];
  const Tensor& grad_y = args.grad_outputs[0];
  Tensor owner;
  const Tables tables =
      write_tables(grad_x.shape(), args.attrs.as<ResizeAttrs>(), true, grad_x.device(), owner);
  cuda::by_channels(
      grad_x.dtype(), grad_x.size(3), {grad_x.raw(), grad_y.raw()}, [&](auto type, auto width, auto aligned) {
        using T = decltype(type);
        cuda::launch_each_pixel(
            grad_x.shape(),
            ResizedGradient<T, width(), aligned()>{cuda::elements_of<T>(grad_y), cuda::elements_to<T>(grad_x),
                                                   tables, size(grad_x, 1), size(grad_x, 2), size(grad_y, 1),
                                                   size(grad_y, 2), size(grad_x, 3)});
      });
}

}  // namespace

DLPIPE_CUDA_KERNELS(resize) = {forward, backward, cuda::supports_stored};

}  // namespace dlpipe::engine
