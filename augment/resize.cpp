// Separable resizes: tables of weights, passing rows through the kernels, the slow reference version, and the filters.
#include "augment/resize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numbers>
#include <vector>

#include "augment/copy.h"
#include "augment/layout.h"
#include "augment/resize_kernels.h"

namespace dlpipe::augment {

// --- The two passes of a separable resize, for any filter: tables of weights, and passing rows through the
// kernels. An Axis gives the source pixels of each output pixel: ResizeAxis (arithmetic/resize_axis.h), or a
// class with the same functions.

/// One axis of the window, in the form that the kernels need: every output pixel has the same number of
/// weights; missing ones are zero.
struct AxisTable {
  int size = 0;                   // output pixels
  int most_taps = 0;              // an upper bound of source pixels for one output pixel
  bool is_identity = false;       // every output pixel is one source pixel
  int pairs = 0;                  // pairs of weights per output pixel
  int32_t* begin = nullptr;       // [size + 3] first source pixel, relative to the support
  int32_t* taps = nullptr;        // [size + 3] source pixels with a weight
  WeightPair* weights = nullptr;  // [size + 3][pairs]
  uint8_t* has_low = nullptr;     // [size + 3] whether any weight's low part isn't 0
  double* places = nullptr;       // [size] position of the centre, relative to the first source pixel
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

  /// Computes the weights of output pixels [first, first + size), in reverse order if `mirror`. `by_four`: the horizontal
  /// kernel processes taps by four, or two if there are no more, and also reads taps without weight. An output pixel that
  /// would then read beyond the `limit` existing source pixels begins earlier instead, if there are enough.
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
      // With a whole scale, as in halving, nearly all output pixels have the same position between source pixels.
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

/// The part of the source that determines the window's pixels.
template <class Axis>
Region axes_support(const Axis& across, const Axis& down, const Region& window) {
  const int x = across.begin(window.x);
  const int y = down.begin(window.y);
  return {x, y, across.end(window.x + window.width - 1) - x, down.end(window.y + window.height - 1) - y};
}

/// The passes of one call. Rows go through in groups, so that the values between the passes stay in the cache.
class ResizePasses {
 public:
  /// `source` is the part of the image that axes_support returns; `out` has the window's size. Images have 1,
  /// 3 or 4 channels.
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
  uint8_t* spare_row_ = nullptr;  // for rows of a group that the image does not have
  uint8_t* grey_in_ = nullptr;
  uint8_t* grey_out_ = nullptr;
  ResizeKernels kernels_ = resize_kernels();
};

/// The memory of `work` that resize_by uses.
template <class Axis>
size_t resize_bytes(const Axis& x_axis, const Axis& y_axis, const ResizeGeometry& geometry, int channels) {
  const Region support = axes_support(x_axis, y_axis, geometry.window);
  Layout measure(nullptr);
  ResizePasses(x_axis, y_axis, {nullptr, support.width, support.height, channels, 0},
               {nullptr, geometry.window.width, geometry.window.height, channels, 0}, measure);
  return measure.needed();
}

/// Writes `geometry.window` to `out`; `source` has the pixels of axes_support.
template <class Axis>
void resize_by(const Axis& x_axis, const Axis& y_axis, const ResizeGeometry& geometry,
               const ConstImageView& source, const ImageView& out, bool mirror,
               std::vector<std::byte>& work) {
  const size_t needed = resize_bytes(x_axis, y_axis, geometry, out.channels);
  if (work.size() < needed) work.resize(needed);
  Layout layout(work.data());
  ResizePasses(x_axis, y_axis, source, out, layout).run(x_axis, y_axis, geometry, mirror);
}

/// Whether resize_by supports images with this number of channels.
inline bool has_fast_resize(int channels) {
  return channels == 1 || channels == 3 || channels == 4;
}

void ResizePasses::take_rows(Layout& layout) {
  const auto channels = static_cast<size_t>(channels_);
  // Rows before and after the horizontal pass, each with room for the bytes that the kernel reads and writes beyond its end.
  const auto row_bytes = [&](int width) {
    const size_t bytes = static_cast<size_t>(width) * channels + kRowPadding;
    return (bytes + Layout::kAlignment - 1) / Layout::kAlignment * Layout::kAlignment;
  };
  in_row_bytes_ = row_bytes(std::max(source_.width, across_.most_taps + 4));
  out_row_bytes_ = row_bytes(out_.width);
  ring_rows_ = down_.most_taps + group_;
  in_rows_ = layout.take<uint8_t>(in_row_bytes_ * static_cast<size_t>(group_));
  out_rows_ = layout.take<uint8_t>(out_row_bytes_ * static_cast<size_t>(ring_rows_));
  row_pointers_ = layout.take<const uint8_t*>(static_cast<size_t>(down_.most_taps) + 2);
  spare_row_ = layout.take<uint8_t>(out_row_bytes_);
  if (channels_ == 1) {
    grey_in_ = layout.take<uint8_t>(4 * in_row_bytes_ * kRowGroup);
    grey_out_ = layout.take<uint8_t>(4 * out_row_bytes_ * kRowGroup);
  }
}

void ResizePasses::prepare_across() {
  const int32_t pixel_bytes = channels_ == 1 ? 4 : channels_;
  for (int i = 0; i < across_.size; ++i) across_.begin[i] *= pixel_bytes;
  // The kernel computes four pixels at a time; pixels that are not needed get no weight.
  std::fill_n(across_.begin + across_.size, 3, 0);
  std::fill_n(across_.weights + ptrdiff_t{across_.size} * across_.pairs, 3 * across_.pairs, WeightPair{});
  std::fill_n(across_.has_low + across_.size, 3, 0);
  is_narrow_ = source_.width < 2 * across_.pairs;
}

void ResizePasses::run_across() {
  for (int y = 0; y < out_.height; y += group_) {
    const int count = std::min(group_, out_.height - y);
    across(y, count, [&](int r) { return out_.row(y + r); });
  }
}

void ResizePasses::run_down() {
  // The support begins with the window's first column, and may have one more than the window.
  const auto source_row = [&](int row) { return source_.row(row); };
  for (int y = 0; y < out_.height; ++y) down(y, source_row, out_.width, out_.row(y));
}

/// Horizontal pass first, into a ring of rows that holds what the next output row needs.
void ResizePasses::run_across_down() {
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

void ResizePasses::run_down_across() {
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
void ResizePasses::down(int y, const RowOf& row_of, int width, uint8_t* out) {
  for (int t = 0; t < 2 * down_.pairs; ++t) {
    row_pointers_[t] = row_of(down_.begin[y] + std::min(t, down_.taps[y] - 1));
  }
  kernels_.vertical(row_pointers_, down_.weights + ptrdiff_t{y} * down_.pairs, down_.pairs,
                    down_.has_low[y] != 0, static_cast<size_t>(width) * static_cast<size_t>(channels_), out);
}

/// The horizontal pass of source rows [first, first + count), count <= group_.
template <class OutRow>
void ResizePasses::across(int first, int count, const OutRow& out_row) {
  const auto row_bytes = ptrdiff_t{source_.width} * channels_;
  const uint8_t* end = source_.row(source_.height - 1) + row_bytes;
  const uint8_t* rows[4 * kRowGroup];
  for (int r = 0; r < count; ++r) {
    rows[r] = source_.row(first + r);
    // The kernel may read beyond a row, but not beyond the image.
    if (is_narrow_ || end - rows[r] < row_bytes + ptrdiff_t{kRowPadding}) {
      uint8_t* copy = in_rows_ + size_t(r) * in_row_bytes_;
      std::memcpy(copy, rows[r], static_cast<size_t>(row_bytes));
      rows[r] = copy;
    }
  }
  across_rows(rows, count, out_row);
}

template <class OutRow>
void ResizePasses::across_rows(const uint8_t** rows, int count, const OutRow& out_row) {
  const HorizontalTable table{across_.begin, across_.weights, across_.has_low, across_.pairs, across_.size};
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

// --- A separable resize by plain loops, for any filter: the reference for the kernels, and the code for
// images of two channels.

/// The source pixels of an output pixel.
struct Taps {
  int begin = 0;  // relative to the source's first existing pixel
  std::vector<int32_t> weights;
};

/// The weights of output pixels [first, first + count) of an axis, as above.
template <class Axis>
std::vector<Taps> axis_taps(const Axis& axis, int first, int count) {
  std::vector<Taps> all(static_cast<size_t>(count));
  std::vector<double> real(static_cast<size_t>(axis.max_taps()));
  for (int i = 0; i < count; ++i) {
    Taps& taps = all[static_cast<size_t>(i)];
    const int begin = axis.begin(first + i);
    taps.begin = begin - axis.begin(first);
    taps.weights.resize(static_cast<size_t>(axis.end(first + i) - begin));
    axis.weights(first + i, real.data(), taps.weights.data());
  }
  return all;
}

namespace {

uint8_t clipped_pixel(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

void resize_rows(const std::vector<Taps>& across, const ConstImageView& in, const ImageView& out) {
  for (int y = 0; y < out.height; ++y) {
    uint8_t* to = out.row(y);
    for (const Taps& taps : across) {
      for (int c = 0; c < out.channels; ++c) {
        int32_t sum = kWeightHalf;
        const uint8_t* from = in.row(y) + ptrdiff_t{taps.begin} * in.channels + c;
        for (int32_t weight : taps.weights) {
          sum += weight * *from;
          from += in.channels;
        }
        *to++ = clipped_pixel(sum);
      }
    }
  }
}

void resize_columns(const std::vector<Taps>& down, const ConstImageView& in, const ImageView& out) {
  for (int y = 0; y < out.height; ++y) {
    const Taps& taps = down[y];
    for (int i = 0; i < out.width * out.channels; ++i) {
      int32_t sum = kWeightHalf;
      for (size_t t = 0; t < taps.weights.size(); ++t) {
        sum += taps.weights[t] * in.row(taps.begin + static_cast<int>(t))[i];
      }
      out.row(y)[i] = clipped_pixel(sum);
    }
  }
}

}  // namespace

void resize_scalar(const ResizeGeometry& geometry, std::vector<Taps> across, const std::vector<Taps>& down,
                   const ConstImageView& source, const ImageView& out, bool mirror) {
  if (mirror) std::reverse(across.begin(), across.end());
  const bool columns_first = is_vertical_first(geometry);
  const int width = columns_first ? source.width : out.width;
  const int height = columns_first ? out.height : source.height;
  const ptrdiff_t stride = ptrdiff_t{width} * out.channels;
  std::vector<uint8_t> pixels(static_cast<size_t>(stride * height));
  const ImageView between{pixels.data(), width, height, out.channels, stride};
  if (columns_first) {
    resize_columns(down, source, between);
    resize_rows(across, between, out);
  } else {
    resize_rows(across, source, between);
    resize_columns(down, between, out);
  }
}

template <class Axis>
void resize_scalar_by(const Axis& across, const Axis& down, const ResizeGeometry& geometry,
                      const ConstImageView& source, const ImageView& out, bool mirror) {
  const Region& window = geometry.window;
  resize_scalar(geometry, axis_taps(across, window.x, window.width), axis_taps(down, window.y, window.height),
                source, out, mirror);
}

void resize_scalar(const ResizeGeometry& geometry, const ConstImageView& source, const ImageView& out,
                   bool mirror) {
  resize_scalar_by(horizontal_axis(geometry), vertical_axis(geometry), geometry, source, out, mirror);
}

// --- the bilinear resize

ResizeGeometry whole_resize(int width, int height, int out_width, int out_height) {
  return {width, height, {0, 0, width, height}, out_width, out_height, {0, 0, out_width, out_height}};
}

Region resize_support(const ResizeGeometry& g) {
  return axes_support(horizontal_axis(g), vertical_axis(g), g.window);
}

static bool is_copy(const ResizeGeometry& g) {
  return horizontal_axis(g).is_identity() && vertical_axis(g).is_identity();
}

size_t resize_work_bytes(const ResizeGeometry& g, int channels) {
  if (is_copy(g) || !has_fast_resize(channels)) return 0;
  return resize_bytes(horizontal_axis(g), vertical_axis(g), g, channels);
}

void resize(const ResizeGeometry& g, const ConstImageView& source, const ImageView& out, bool mirror,
            std::vector<std::byte>& work) {
  if (is_copy(g)) return copy_image(source, out, mirror);
  if (!has_fast_resize(out.channels)) return resize_scalar(g, source, out, mirror);
  resize_by(horizontal_axis(g), vertical_axis(g), g, source, out, mirror, work);
}

// --- Pillow's other filters

namespace {

double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

/// sin(pi x) for |x| <= 1, within 2^-51.
double sine_of_half_turns(double x) {
  constexpr std::array kTaylor = [] {
    std::array<double, 12> terms{};  // of the series of sin(pi x) / x in x^2; the next one is below 2^-59
    double term = std::numbers::pi;
    for (size_t k = 0; k < terms.size(); ++k) {
      terms[k] = term;
      term *= -std::numbers::pi * std::numbers::pi / static_cast<double>((2 * k + 2) * (2 * k + 3));
    }
    return terms;
  }();
  if (std::fabs(x) > 0.5) x = std::copysign(1.0, x) - x;
  double sum = 0;
  for (size_t k = kTaylor.size(); k-- > 0;) sum = sum * (x * x) + kTaylor[k];
  return sum * x;
}

/// sinc(x) sinc(x / 3), computed from one sine: sin 3a = (3 - 4 sin^2 a) sin a.
double lanczos(double x) {
  if (x < -3.0 || x >= 3.0) return 0;
  if (x == 0.0) return 1;
  const double sine = sine_of_half_turns(x / 3);
  const double triple = (3 - 4 * sine * sine) * sine;
  constexpr double kScale = 3 / (std::numbers::pi * std::numbers::pi);
  return kScale * triple * sine / (x * x);
}

double filter_weight(Interpolation interpolation, double x) {
  if (interpolation == Interpolation::kArea) return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
  return interpolation == Interpolation::kBicubic ? cubic(x) : lanczos(x);
}

double filter_support(Interpolation interpolation) {
  if (interpolation == Interpolation::kArea) return 0.5;
  return interpolation == Interpolation::kBicubic ? 2.0 : 3.0;
}

/// One axis: the source pixels of an output pixel, and their weights.
class FilterAxis {
 public:
  FilterAxis(Interpolation interpolation, int source_size, int out_size)
      : interpolation_(interpolation),
        source_size_(source_size),
        is_identity_(source_size == out_size),
        scale_(static_cast<double>(source_size) / out_size),
        support_(filter_support(interpolation) * std::max(scale_, 1.0)) {}

  /// An axis of the same size is unchanged, as in Pillow.
  bool is_identity() const { return is_identity_; }
  int max_taps() const { return static_cast<int>(std::ceil(support_)) * 2 + 1; }
  double center(int i) const { return (i + 0.5) * scale_; }
  int begin(int i) const {
    return is_identity_ ? i : std::max(static_cast<int>(std::floor(center(i) - support_ + 0.5)), 0);
  }
  int end(int i) const {
    return is_identity_ ? i + 1
                        : std::min(static_cast<int>(std::floor(center(i) + support_ + 0.5)), source_size_);
  }
  /// The same functions as in ResizeAxis.
  void weights(int i, double* real, int32_t* fixed) const {
    const int first = begin(i);
    weights_at(center(i) - first, end(i) - first, real, fixed);
  }
  void weights_at(double place, int taps, double* real, int32_t* fixed) const {
    const double per_pixel = 1.0 / std::max(scale_, 1.0);
    double sum = 0;
    for (int t = 0; t < taps; ++t) {
      real[t] = filter_weight(interpolation_, (t - place + 0.5) * per_pixel);
      sum += real[t];
    }
    for (int t = 0; t < taps; ++t) {
      const double weight = sum != 0 ? real[t] / sum : real[t];
      fixed[t] = static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kWeightBits));
    }
  }

 private:
  Interpolation interpolation_;
  int source_size_;
  bool is_identity_;
  double scale_;  // source pixels per output pixel
  double support_;
};

/// Pillow adds the scale pixel by pixel, which accumulates rounding errors; this does the same.
std::vector<int> nearest_pixels(int source_size, int out_size, int first, int count) {
  const double scale = static_cast<double>(source_size) / out_size;
  double at = scale * 0.5;
  std::vector<int> pixels;
  for (int i = 0; i < first + count; ++i, at += scale) {
    if (i >= first) pixels.push_back(std::clamp(static_cast<int>(at), 0, source_size - 1));
  }
  return pixels;
}

void resample_nearest(const ResizeGeometry& g, const ConstImageView& source, const ImageView& out,
                      bool mirror) {
  std::vector<int> columns = nearest_pixels(g.source_width, g.out_width, g.window.x, g.window.width);
  const std::vector<int> rows = nearest_pixels(g.source_height, g.out_height, g.window.y, g.window.height);
  const Region support = resample_support(Interpolation::kNearest, g);
  if (mirror) std::reverse(columns.begin(), columns.end());
  for (int y = 0; y < out.height; ++y) {
    const uint8_t* const from = source.row(rows[static_cast<size_t>(y)] - support.y);
    uint8_t* to = out.row(y);
    if (out.channels == 3) {
      for (const int column : columns) {
        std::memcpy(to, from + ptrdiff_t{column - support.x} * 3, 3);
        to += 3;
      }
      continue;
    }
    for (const int column : columns) {
      std::memcpy(to, from + ptrdiff_t{column - support.x} * out.channels, size_t(out.channels));
      to += out.channels;
    }
  }
}

}  // namespace

OpParam resize_interpolation_parameter() {
  return {.name = "interpolation",
          .kind = "string",
          .default_value = "bilinear",
          .help = "the filter, as in Pillow",
          .choices = {"nearest", "area", "bilinear", "bicubic", "lanczos"},
          .is_late = true};
}

Interpolation parse_interpolation(const std::string& name) {
  if (name == "nearest") return Interpolation::kNearest;
  if (name == "area") return Interpolation::kArea;
  if (name == "bicubic") return Interpolation::kBicubic;
  return name == "lanczos" ? Interpolation::kLanczos : Interpolation::kBilinear;
}

Region resample_support(Interpolation interpolation, const ResizeGeometry& g) {
  if (interpolation == Interpolation::kBilinear) return resize_support(g);
  const Region& window = g.window;
  if (interpolation == Interpolation::kNearest) {
    // If the window shows a whole axis, the support is all of it, as with the other filters, even if the outermost pixels
    // are not used.
    const auto span = [](int source_size, int out_size, int first, int count, int* begin) {
      const std::vector<int> pixels = nearest_pixels(source_size, out_size, first, count);
      *begin = first == 0 ? 0 : pixels.front();
      return (first + count == out_size ? source_size : pixels.back() + 1) - *begin;
    };
    Region support;
    support.width = span(g.source_width, g.out_width, window.x, window.width, &support.x);
    support.height = span(g.source_height, g.out_height, window.y, window.height, &support.y);
    return support;
  }
  return axes_support(FilterAxis(interpolation, g.source_width, g.out_width),
                      FilterAxis(interpolation, g.source_height, g.out_height), window);
}

size_t resample_work_bytes(Interpolation interpolation, const ResizeGeometry& g, int channels) {
  if (interpolation == Interpolation::kBilinear) return resize_work_bytes(g, channels);
  if (interpolation == Interpolation::kNearest || !has_fast_resize(channels)) return 0;
  return resize_bytes(FilterAxis(interpolation, g.source_width, g.out_width),
                      FilterAxis(interpolation, g.source_height, g.out_height), g, channels);
}

void resample(Interpolation interpolation, const ResizeGeometry& g, const ConstImageView& source,
              const ImageView& out, bool mirror, std::vector<std::byte>& work) {
  if (interpolation == Interpolation::kBilinear) return resize(g, source, out, mirror, work);
  if (interpolation == Interpolation::kNearest) return resample_nearest(g, source, out, mirror);
  const FilterAxis across(interpolation, g.source_width, g.out_width);
  const FilterAxis down(interpolation, g.source_height, g.out_height);
  if (across.is_identity() && down.is_identity()) return copy_image(source, out, mirror);
  if (!has_fast_resize(out.channels)) return resize_scalar_by(across, down, g, source, out, mirror);
  resize_by(across, down, g, source, out, mirror, work);
}

void resample_scalar(Interpolation interpolation, const ResizeGeometry& g, const ConstImageView& source,
                     const ImageView& out, bool mirror) {
  resize_scalar_by(FilterAxis(interpolation, g.source_width, g.out_width),
                   FilterAxis(interpolation, g.source_height, g.out_height), g, source, out, mirror);
}

}  // namespace dlpipe::augment
