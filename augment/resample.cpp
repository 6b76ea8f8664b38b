#include "dlpipe/augment/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "dlpipe/augment/resample_kernels.h"
#include "dlpipe/augment/resize_axis.h"
#include "dlpipe/base/portable_math.h"

namespace dlpipe::augment {

namespace {

double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::fabs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

double sinc(double x) {
  if (x == 0.0) return 1.0;
  x *= 3.14159265358979323846;
  return portable_sine_and_cosine(x).sine / x;
}

double filter_weight(Interpolation interpolation, double x) {
  if (interpolation == Interpolation::kArea) return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
  if (interpolation == Interpolation::kBicubic) return cubic(x);
  return -3.0 <= x && x < 3.0 ? sinc(x) * sinc(x / 3) : 0.0;
}

double filter_support(Interpolation interpolation) {
  if (interpolation == Interpolation::kArea) return 0.5;
  return interpolation == Interpolation::kBicubic ? 2.0 : 3.0;
}

/// One axis: which source pixels an output pixel takes.
struct Axis {
  int source_size;
  int out_size;
  double scale;
  double support;

  Axis(Interpolation interpolation, int source_size_in, int out_size_in)
      : source_size(source_size_in),
        out_size(out_size_in),
        scale(static_cast<double>(source_size) / out_size),
        support(filter_support(interpolation) * std::max(scale, 1.0)) {}
  double center(int i) const { return (i + 0.5) * scale; }
  int begin(int i) const { return std::max(static_cast<int>(std::floor(center(i) - support + 0.5)), 0); }
  int end(int i) const {
    return std::min(static_cast<int>(std::floor(center(i) + support + 0.5)), source_size);
  }
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

ResampleTable make_table(Interpolation interpolation, const Axis& axis, int first, int count,
                         int support_begin) {
  ResampleTable table;
  std::vector<double> real;
  for (int i = first; i < first + count; ++i) {
    const int begin = axis.begin(i);
    real.clear();
    double sum = 0;
    for (int j = begin; j < axis.end(i); ++j) {
      sum += real.emplace_back(
          filter_weight(interpolation, (j - axis.center(i) + 0.5) * (1.0 / std::max(axis.scale, 1.0))));
    }
    table.begin.push_back(begin - support_begin);
    table.first_weight.push_back(static_cast<int>(table.weights.size()));
    for (double weight : real) {
      if (sum != 0) weight /= sum;
      table.weights.push_back(static_cast<int32_t>((weight < 0 ? -0.5 : 0.5) + weight * (1 << kWeightBits)));
    }
  }
  table.first_weight.push_back(static_cast<int>(table.weights.size()));
  return table;
}

void reverse(ResampleTable& table) {
  ResampleTable turned;
  for (size_t i = table.begin.size(); i-- > 0;) {
    turned.begin.push_back(table.begin[i]);
    turned.first_weight.push_back(static_cast<int>(turned.weights.size()));
    turned.weights.insert(turned.weights.end(), table.weights.begin() + table.first_weight[i],
                          table.weights.begin() + table.first_weight[i + 1]);
  }
  turned.first_weight.push_back(static_cast<int>(turned.weights.size()));
  table = std::move(turned);
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
  const Axis across(interpolation, g.source_width, g.out_width);
  const Axis down(interpolation, g.source_height, g.out_height);
  const int x = across.begin(window.x);
  const int y = down.begin(window.y);
  return {x, y, across.end(window.x + window.width - 1) - x, down.end(window.y + window.height - 1) - y};
}

void resample(Interpolation interpolation, const ResizeGeometry& g, const ConstImageView& source,
              const ImageView& out, bool mirror, std::vector<std::byte>& work) {
  if (interpolation == Interpolation::kBilinear) return resize(g, source, out, mirror, work);
  if (interpolation == Interpolation::kNearest) return resample_nearest(g, source, out, mirror);
  const Region support = resample_support(interpolation, g);
  ResampleTable across = make_table(interpolation, Axis(interpolation, g.source_width, g.out_width),
                                    g.window.x, g.window.width, support.x);
  if (mirror) reverse(across);
  const ResampleTable down = make_table(interpolation, Axis(interpolation, g.source_height, g.out_height),
                                        g.window.y, g.window.height, support.y);
  // An axis of the same size is left as it is, as Pillow does.
  const bool only_across = g.source_height == g.out_height;
  const bool only_down = g.source_width == g.out_width && !mirror;
  if (only_across) return resample_rows(across, source, out);
  if (only_down) return resample_columns(down, source, out);
  const bool columns_first = is_vertical_first(g);
  const int width = columns_first ? support.width : g.window.width;
  const int height = columns_first ? g.window.height : support.height;
  const ptrdiff_t stride = ptrdiff_t{width} * out.channels;
  const size_t bytes = static_cast<size_t>(stride * height);
  if (work.size() < bytes) work.resize(bytes);
  const ImageView between{reinterpret_cast<uint8_t*>(work.data()), width, height, out.channels, stride};
  if (columns_first) {
    resample_columns(down, source, between);
    resample_rows(across, between, out);
  } else {
    resample_rows(across, source, between);
    resample_columns(down, between, out);
  }
}

}  // namespace dlpipe::augment
