#include "dlpipe/augment/resize.h"

#include <algorithm>
#include <cstring>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/resize_axis.h"
#include "dlpipe/augment/resize_kernels.h"

namespace dlpipe::augment {

namespace {

constexpr size_t kAlignment = 64;

/// Cuts one block of memory into arrays. With a null block it only adds up what is needed.
class Layout {
 public:
  explicit Layout(std::byte* block) : block_(block) {
    if (block != nullptr) used_ = (0 - reinterpret_cast<uintptr_t>(block)) % kAlignment;
  }
  template <class T>
  T* take(size_t count) {
    T* array = block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return array;
  }
  size_t needed() const { return used_ + kAlignment; }

 private:
  std::byte* block_;
  size_t used_ = 0;
};

/// One axis of the window, as the kernels want it: every output pixel has the same number of weights, the
/// missing ones zero.
struct AxisTable {
  int size = 0;                   // output pixels
  int pairs = 0;                  // pairs of weights per output pixel
  int32_t* begin = nullptr;       // [size + 3] first source pixel, relative to the support
  int32_t* taps = nullptr;        // [size + 3] source pixels with a weight
  WeightPair* weights = nullptr;  // [size + 3][pairs]
  int32_t* fixed = nullptr;       // one output pixel's weights before pairing
  double* real = nullptr;

  AxisTable(const ResizeAxis& axis, int size_in, Layout& layout) : size(size_in) {
    const size_t most_taps = static_cast<size_t>(axis.max_taps());
    const size_t padded = static_cast<size_t>(size) + 3;
    begin = layout.take<int32_t>(padded);
    taps = layout.take<int32_t>(padded);
    weights = layout.take<WeightPair>(padded * ((most_taps + 3) / 2));
    fixed = layout.take<int32_t>(most_taps + 3);
    real = layout.take<double>(most_taps);
  }

  /// The weights of output pixels [first, first + size), in reverse order if `mirror`. `by_four`: the
  /// horizontal kernel takes four taps at a time, or two, and reads those of no weight too; an output pixel
  /// whose reading would go behind the `limit` source pixels that there are begins earlier instead, if there
  /// are enough.
  void compute(const ResizeAxis& axis, int first, int support_begin, bool mirror, int limit, bool by_four) {
    const auto pixel = [&](int i) { return mirror ? first + size - 1 - i : first + i; };
    int most = 0;
    for (int i = 0; i < size; ++i) {
      const int from = axis.begin(pixel(i));
      begin[i] = from - support_begin;
      taps[i] = axis.end(pixel(i)) - from;
      most = std::max(most, taps[i]);
    }
    pairs = (most + 1) / 2;
    if (by_four && pairs > 1) pairs = (pairs + 1) / 2 * 2;
    WeightPair* to = weights;
    for (int i = 0; i < size; ++i) {
      const int earlier = by_four ? std::clamp(begin[i] + 2 * pairs - limit, 0, begin[i]) : 0;
      begin[i] -= earlier;
      std::fill_n(fixed, 2 * pairs, 0);
      axis.weights(pixel(i), real, fixed + earlier);
      for (int p = 0; p < pairs; ++p) *to++ = weight_pair(fixed[2 * p], fixed[2 * p + 1]);
    }
  }
};

/// The passes of one call. Rows go through in groups, so that what stands between the passes stays in the
/// cache.
class Resizer {
 public:
  Resizer(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out, Layout& layout)
      : geometry_(geometry),
        source_(source),
        out_(out),
        channels_(out.channels),
        group_(channels_ == 1 ? 4 * kRowGroup : kRowGroup),
        x_axis_(horizontal_axis(geometry)),
        y_axis_(vertical_axis(geometry)),
        across_(x_axis_, geometry.window.width, layout),
        down_(y_axis_, geometry.window.height, layout) {
    const auto taps_bound = [](const ResizeAxis& axis) { return static_cast<size_t>(axis.max_taps()) + 4; };
    const auto channels = static_cast<size_t>(channels_);
    // Rows before and behind the horizontal pass, each with room for what the kernel reads and writes behind
    // it.
    in_row_bytes_ = (std::max(static_cast<size_t>(source.width), taps_bound(x_axis_)) * channels +
                     kRowPadding + kAlignment - 1) /
                    kAlignment * kAlignment;
    out_row_bytes_ =
        (static_cast<size_t>(out.width) * channels + kRowPadding + kAlignment - 1) / kAlignment * kAlignment;
    ring_rows_ = y_axis_.max_taps() + group_;
    in_rows_ = layout.take<uint8_t>(in_row_bytes_ * static_cast<size_t>(group_));
    out_rows_ = layout.take<uint8_t>(out_row_bytes_ * static_cast<size_t>(ring_rows_));
    row_pointers_ = layout.take<const uint8_t*>(static_cast<size_t>(y_axis_.max_taps()) + 2);
    spare_row_ = layout.take<uint8_t>(out_row_bytes_);
    if (channels_ == 1) {
      grey_in_ = layout.take<uint8_t>(4 * in_row_bytes_ * kRowGroup);
      grey_out_ = layout.take<uint8_t>(4 * out_row_bytes_ * kRowGroup);
    }
  }

  void run(const Region& support, bool mirror) {
    kernels_ = resize_kernels();
    const bool only_down = x_axis_.is_identity() && !mirror;
    const bool only_across = y_axis_.is_identity();
    if (!only_down) {
      across_.compute(x_axis_, geometry_.window.x, support.x, mirror, source_.width, true);
      const int32_t pixel_bytes = channels_ == 1 ? 4 : channels_;
      for (int i = 0; i < across_.size; ++i) across_.begin[i] *= pixel_bytes;
      // The kernel computes four pixels at a time; those that nobody wants get no weight.
      std::fill_n(across_.begin + across_.size, 3, 0);
      std::fill_n(across_.weights + ptrdiff_t{across_.size} * across_.pairs, 3 * across_.pairs, WeightPair{});
      is_narrow_ = source_.width < 2 * across_.pairs;
    }
    if (only_across) return run_across();
    down_.compute(y_axis_, geometry_.window.y, support.y, false, source_.height, false);
    if (only_down) return run_down();
    if (is_vertical_first(geometry_)) return run_down_across();
    run_across_down();
  }

 private:
  void run_across() {
    for (int y = 0; y < out_.height; y += group_) {
      const int count = std::min(group_, out_.height - y);
      across(y, count, [&](int r) { return out_.row(y + r); });
    }
  }

  void run_down() {
    // The support begins with the window's first column, and may have one more than the window.
    const auto source_row = [&](int row) { return source_.row(row); };
    for (int y = 0; y < out_.height; ++y) down(y, source_row, out_.width, out_.row(y));
  }

  /// Horizontal pass first, into a ring of rows that holds what the next output row needs.
  void run_across_down() {
    int done = 0;
    const auto ring_row = [&](int row) { return out_rows_ + size_t(row % ring_rows_) * out_row_bytes_; };
    for (int y = 0; y < out_.height; ++y) {
      while (done < down_.begin[y] + down_.taps[y]) {
        const int first = done;
        done = std::min(done + group_, source_.height);
        across(first, done - first, [&](int r) { return ring_row(first + r); });
      }
      down(y, ring_row, out_.width, out_.row(y));
    }
  }

  void run_down_across() {
    for (int y = 0; y < out_.height; y += group_) {
      const int count = std::min(group_, out_.height - y);
      const uint8_t* rows[4 * kRowGroup];
      for (int r = 0; r < count; ++r) {
        uint8_t* row = in_rows_ + size_t(r) * in_row_bytes_;
        down(
            y + r, [&](int source_row) { return source_.row(source_row); }, source_.width, row);
        rows[r] = row;
      }
      across_rows(rows, count, [&](int r) { return out_.row(y + r); });
    }
  }

  /// The vertical pass of output row y over rows of `width` pixels.
  template <class RowOf>
  void down(int y, const RowOf& row_of, int width, uint8_t* out) {
    for (int t = 0; t < 2 * down_.pairs; ++t) {
      row_pointers_[t] = row_of(down_.begin[y] + std::min(t, down_.taps[y] - 1));
    }
    kernels_.vertical(row_pointers_, down_.weights + ptrdiff_t{y} * down_.pairs, down_.pairs,
                      static_cast<size_t>(width) * static_cast<size_t>(channels_), out);
  }

  /// The horizontal pass of source rows [first, first + count), count <= group_.
  template <class OutRow>
  void across(int first, int count, const OutRow& out_row) {
    const auto row_bytes = ptrdiff_t{source_.width} * channels_;
    const uint8_t* end = source_.row(source_.height - 1) + row_bytes;
    const uint8_t* rows[4 * kRowGroup];
    for (int r = 0; r < count; ++r) {
      rows[r] = source_.row(first + r);
      // The kernel may read behind a row, but not behind the image.
      if (is_narrow_ || end - rows[r] < row_bytes + ptrdiff_t{kRowPadding}) {
        uint8_t* copy = in_rows_ + size_t(r) * in_row_bytes_;
        std::memcpy(copy, rows[r], static_cast<size_t>(row_bytes));
        rows[r] = copy;
      }
    }
    across_rows(rows, count, out_row);
  }

  template <class OutRow>
  void across_rows(const uint8_t** rows, int count, const OutRow& out_row) {
    const HorizontalTable table{across_.begin, across_.weights, across_.pairs, across_.size};
    uint8_t* out[4 * kRowGroup];
    for (int r = 0; r < group_; ++r) {
      rows[r] = rows[std::min(r, count - 1)];
      out[r] = r < count ? out_row(r) : spare_row_;
    }
    if (channels_ != 1) {
      kernels_.horizontal(rows, channels_, table, out);
      return;
    }
    // Four grey rows are resized as one row of four channels.
    const uint8_t* wide_rows[kRowGroup];
    uint8_t* wide_out[kRowGroup];
    for (int w = 0; w < kRowGroup; ++w) {
      uint8_t* wide = grey_in_ + size_t(w) * 4 * in_row_bytes_;
      kernels_.interleave(rows + 4 * w, static_cast<size_t>(source_.width), wide);
      wide_rows[w] = wide;
      wide_out[w] = grey_out_ + size_t(w) * 4 * out_row_bytes_;
    }
    kernels_.horizontal(wide_rows, 4, table, wide_out);
    for (int w = 0; w < kRowGroup; ++w) {
      kernels_.deinterleave(wide_out[w], static_cast<size_t>(across_.size), out + 4 * w);
    }
  }

  const ResizeGeometry& geometry_;
  ConstImageView source_;
  ImageView out_;
  int channels_;
  int group_;  // rows that go through the horizontal pass at once
  ResizeAxis x_axis_;
  ResizeAxis y_axis_;
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
  ResizeKernels kernels_{};
};

}  // namespace

ResizeGeometry whole_resize(int width, int height, int out_width, int out_height) {
  return {width, height, {0, 0, width, height}, out_width, out_height, {0, 0, out_width, out_height}};
}

Region resize_support(const ResizeGeometry& g) {
  const ResizeAxis across = horizontal_axis(g);
  const ResizeAxis down = vertical_axis(g);
  const int x = across.begin(g.window.x);
  const int y = down.begin(g.window.y);
  return {x, y, across.end(g.window.x + g.window.width - 1) - x,
          down.end(g.window.y + g.window.height - 1) - y};
}

/// Whether resize() has neither the whole picture to copy nor channels that only the plain loops take.
static bool takes_work(const ResizeGeometry& geometry, int channels) {
  const bool is_copy = horizontal_axis(geometry).is_identity() && vertical_axis(geometry).is_identity();
  return !is_copy && (channels == 1 || channels == 3 || channels == 4);
}

size_t resize_work_bytes(const ResizeGeometry& geometry, int channels) {
  if (!takes_work(geometry, channels)) return 0;
  const Region support = resize_support(geometry);
  const ptrdiff_t in_row = ptrdiff_t{support.width} * channels,
                  out_row = ptrdiff_t{geometry.window.width} * channels;
  Layout measure(nullptr);
  Resizer(geometry, ConstImageView(nullptr, support.width, support.height, channels, in_row),
          {nullptr, geometry.window.width, geometry.window.height, channels, out_row}, measure);
  return measure.needed();
}

void resize(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out, bool mirror,
            std::vector<std::byte>& work) {
  if (horizontal_axis(geometry).is_identity() && vertical_axis(geometry).is_identity()) {
    return copy_image(source, out, mirror);
  }
  if (out.channels != 1 && out.channels != 3 && out.channels != 4) {
    return resize_scalar(geometry, source, out, mirror);
  }
  Layout measure(nullptr);
  Resizer(geometry, source, out, measure);
  if (work.size() < measure.needed()) work.resize(measure.needed());
  Layout layout(work.data());
  Resizer(geometry, source, out, layout).run(resize_support(geometry), mirror);
}

}  // namespace dlpipe::augment
