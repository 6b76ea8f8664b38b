// The two passes of a separable resize, whatever its filter: tables of weights, and rows on their way through the kernels.
// Internal to augment. resize.cpp and resample.cpp say which source pixels an output pixel takes, by an Axis: ResizeAxis
// (base/resize_axis.h), or a class with the same functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dlpipe/augment/layout.h"
#include "dlpipe/augment/resize.h"
#include "dlpipe/augment/resize_axis.h"
#include "dlpipe/augment/resize_kernels.h"

namespace dlpipe::augment {

/// One axis of the window, as the kernels want it: every output pixel has the same number of weights, the
/// missing ones zero.
struct AxisTable {
  int size = 0;                   // output pixels
  int most_taps = 0;              // an upper bound of source pixels for one output pixel
  bool is_identity = false;       // every output pixel is one source pixel
  int pairs = 0;                  // pairs of weights per output pixel
  int32_t* begin = nullptr;       // [size + 3] first source pixel, relative to the support
  int32_t* taps = nullptr;        // [size + 3] source pixels with a weight
  WeightPair* weights = nullptr;  // [size + 3][pairs]
  uint8_t* has_low = nullptr;     // [size + 3] whether any weight's low part isn't 0
  double* places = nullptr;       // [size] where the centre lies, from the first source pixel
  int32_t* fixed = nullptr;       // one output pixel's weights before pairing
  double* real = nullptr;

  template <class Axis>
  AxisTable(const Axis& axis, int size_in, Layout& layout)
      : size(size_in), most_taps(axis.max_taps()), is_identity(axis.is_identity()) {
    const auto most = static_cast<size_t>(most_taps);
    const size_t padded = static_cast<size_t>(size) + 3;
    begin = layout.take<int32_t>(padded);
    taps = layout.take<int32_t>(padded);
    weights = layout.take<WeightPair>(padded * ((most + 3) / 2));
    has_low = layout.take<uint8_t>(padded);
    places = layout.take<double>(static_cast<size_t>(size));
    fixed = layout.take<int32_t>(most + 3);
    real = layout.take<double>(most);
  }

  /// The weights of output pixels [first, first + size), in reverse order if `mirror`. `by_four`: the
  /// horizontal kernel takes four taps at a time, or two, and reads those of no weight too; an output pixel
  /// whose reading would go behind the `limit` source pixels that there are begins earlier instead, if there
  /// are enough.
  template <class Axis>
  void compute(const Axis& axis, int first, int support_begin, bool mirror, int limit, bool by_four) {
    const auto pixel = [&](int i) { return mirror ? first + size - 1 - i : first + i; };
    int most = 0;
    for (int i = 0; i < size; ++i) {
      const int from = axis.begin(pixel(i));
      places[i] = axis.center(pixel(i)) - from;
      begin[i] = from - support_begin;
      taps[i] = axis.end(pixel(i)) - from;
      most = std::max(most, taps[i]);
    }
    pairs = (most + 1) / 2;
    if (by_four && pairs > 1) pairs = (pairs + 1) / 2 * 2;
    int earlier_before = 0;
    WeightPair* to = weights;
    for (int i = 0; i < size; ++i, to += pairs) {
      const int earlier = by_four ? std::clamp(begin[i] + 2 * pairs - limit, 0, begin[i]) : 0;
      begin[i] -= earlier;
      // With a whole scale, as in halving, nearly all output pixels lie alike between source pixels.
      if (i > 0 && places[i] == places[i - 1] && taps[i] == taps[i - 1] && earlier == earlier_before) {
        std::copy_n(to - pairs, pairs, to);
        has_low[i] = has_low[i - 1];
        continue;
      }
      std::fill_n(fixed, 2 * pairs, 0);
      axis.weights_at(places[i], taps[i], real, fixed + earlier);
      uint32_t low = 0;
      for (int p = 0; p < pairs; ++p) {
        to[p] = weight_pair(fixed[2 * p], fixed[2 * p + 1]);
        low |= to[p].low;
      }
      has_low[i] = low != 0 ? 1 : 0;
      earlier_before = earlier;
    }
  }
};

/// The part of the source that the window's pixels depend on.
template <class Axis>
Region axes_support(const Axis& across, const Axis& down, const Region& window) {
  const int x = across.begin(window.x);
  const int y = down.begin(window.y);
  return {x, y, across.end(window.x + window.width - 1) - x, down.end(window.y + window.height - 1) - y};
}

/// The passes of one call. Rows go through in groups, so that what stands between the passes stays in the
/// cache.
class ResizePasses {
 public:
  /// `source` is the part of the picture that axes_support names; `out` has the window's size. Pictures have 1, 3 or 4
  /// channels.
  template <class Axis>
  ResizePasses(const Axis& x_axis, const Axis& y_axis, const ConstImageView& source, const ImageView& out,
               Layout& layout)
      : source_(source),
        out_(out),
        channels_(out.channels),
        group_(channels_ == 1 ? 4 * kRowGroup : kRowGroup),
        across_(x_axis, out.width, layout),
        down_(y_axis, out.height, layout) {
    take_rows(layout);
  }

  template <class Axis>
  void run(const Axis& x_axis, const Axis& y_axis, const ResizeGeometry& geometry, bool mirror) {
    const Region support = axes_support(x_axis, y_axis, geometry.window);
    const bool only_down = across_.is_identity && !mirror;
    const bool only_across = down_.is_identity;
    if (!only_down) {
      across_.compute(x_axis, geometry.window.x, support.x, mirror, source_.width, true);
      prepare_across();
    }
    if (!only_across) down_.compute(y_axis, geometry.window.y, support.y, false, source_.height, false);
    if (only_across) return run_across();
    if (only_down) return run_down();
    if (is_vertical_first(geometry)) return run_down_across();
    run_across_down();
  }

 private:
  void take_rows(Layout& layout);
  void prepare_across();
  void run_across();
  void run_down();
  void run_across_down();
  void run_down_across();
  template <class RowOf>
  void down(int y, const RowOf& row_of, int width, uint8_t* out);
  template <class OutRow>
  void across(int first, int count, const OutRow& out_row);
  template <class OutRow>
  void across_rows(const uint8_t** rows, int count, const OutRow& out_row);

  ConstImageView source_;
  ImageView out_;
  int channels_;
  int group_;  // rows that go through the horizontal pass at once
  AxisTable across_;
  AxisTable down_;
  size_t in_row_bytes_ = 0;
  size_t out_row_bytes_ = 0;
  int ring_rows_ = 0;
  bool is_narrow_ = false;  // a row has fewer pixels than the kernel reads
  uint8_t* in_rows_ = nullptr;
  uint8_t* out_rows_ = nullptr;
  const uint8_t** row_pointers_ = nullptr;
  uint8_t* spare_row_ = nullptr;  // where the rows of a group go that the image doesn't have
  uint8_t* grey_in_ = nullptr;
  uint8_t* grey_out_ = nullptr;
  ResizeKernels kernels_ = resize_kernels();
};

/// What resize_by takes of `work`.
template <class Axis>
size_t resize_bytes(const Axis& x_axis, const Axis& y_axis, const ResizeGeometry& geometry, int channels) {
  const Region support = axes_support(x_axis, y_axis, geometry.window);
  Layout measure(nullptr);
  ResizePasses(x_axis, y_axis, {nullptr, support.width, support.height, channels, 0},
               {nullptr, geometry.window.width, geometry.window.height, channels, 0}, measure);
  return measure.needed();
}

/// Writes `geometry.window` to `out`; `source` holds the pixels that axes_support names.
template <class Axis>
void resize_by(const Axis& x_axis, const Axis& y_axis, const ResizeGeometry& geometry,
               const ConstImageView& source, const ImageView& out, bool mirror,
               std::vector<std::byte>& work) {
  const size_t needed = resize_bytes(x_axis, y_axis, geometry, out.channels);
  if (work.size() < needed) work.resize(needed);
  Layout layout(work.data());
  ResizePasses(x_axis, y_axis, source, out, layout).run(x_axis, y_axis, geometry, mirror);
}

/// Whether resize_by takes pictures of so many channels.
inline bool has_fast_resize(int channels) {
  return channels == 1 || channels == 3 || channels == 4;
}

}  // namespace dlpipe::augment
