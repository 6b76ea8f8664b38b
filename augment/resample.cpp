#include "dlpipe/augment/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>

#include "dlpipe/augment/copy.h"
#include "dlpipe/augment/resize_passes.h"
#include "dlpipe/augment/resize_scalar.h"

namespace dlpipe::augment {

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

/// sinc(x) sinc(x / 3), of one sine: sin 3a = (3 - 4 sin^2 a) sin a.
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

/// One axis: which source pixels an output pixel takes, and with what weight.
class FilterAxis {
 public:
  FilterAxis(Interpolation interpolation, int source_size, int out_size)
      : interpolation_(interpolation),
        source_size_(source_size),
        is_identity_(source_size == out_size),
        scale_(static_cast<double>(source_size) / out_size),
        support_(filter_support(interpolation) * std::max(scale_, 1.0)) {}

  /// An axis of the same size is left as it is, as Pillow does.
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
  /// As ResizeAxis has them.
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

/// Pillow adds the scale pixel by pixel, and so collects its rounding errors.
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
          .help = "the filter, Pillow's",
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
    // All of an axis that is shown in whole, as with the other filters, though the outermost pixels may not be taken.
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
