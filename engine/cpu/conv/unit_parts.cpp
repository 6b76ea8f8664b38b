#include "engine/cpu/conv/unit_parts.h"

#include <algorithm>
#include <limits>

#include "engine/core/constant_cache.h"
#include "engine/core/kernel_table.h"
#include "engine/core/parallel.h"
#include "engine/cpu/conv/unit_kernels.h"

namespace dlpipe::engine::cpu {

bool has_units(DType dtype) {
  if (dtype == DType::kBF16) return has_unit_bf16();
  return dtype == DType::kF32 && kernel_isa() >= KernelIsa::kAvx2;
}

int64_t vectors_of(int64_t channels) {
  return divide_up(channels, unit_kernels().lanes);
}
int64_t padded(int64_t channels) {
  return vectors_of(channels) * unit_kernels().lanes;
}
std::vector<int64_t> panels_of(int64_t channels) {
  std::vector<int64_t> begins = {0};
  for (const int64_t vectors = vectors_of(channels); begins.back() < vectors;)
    begins.push_back(begins.back() + unit_panel(vectors - begins.back()));
  return begins;
}

namespace {

uint64_t panels_form() {
  static const uint64_t form = next_constant_form();
  return form;
}
uint64_t taps_form() {
  static const uint64_t form = next_constant_form();
  return form;
}
uint64_t bias_form() {
  static const uint64_t form = next_constant_form();
  return form;
}

float value_at(const Tensor& tensor, int64_t i) {
  return tensor.dtype() == DType::kBF16 ? static_cast<float>(tensor.data<BFloat16>()[i])
                                        : tensor.data<float>()[i];
}

Tensor packed_bias(const Tensor& bias, int64_t channels) {
  Tensor packed = Tensor::zeros({padded(channels)});
  if (!bias.defined()) return packed;
  for (int64_t c = 0; c < channels; ++c) packed.data<float>()[c] = value_at(bias, c);
  return packed;
}

// Each group of kTogether terms of a column is adjacent.
template <class T, int kTogether>
Tensor packed_panels(const Tensor& weight) {
  const int64_t outs = weight.size(0), channels = weight.size(1);
  const int64_t lanes = unit_kernels().lanes, taps = weight.size(2) * weight.size(3), terms = taps * channels;
  const int64_t padded_terms = divide_up(terms, kTogether) * kTogether;
  Tensor packed = Tensor::zeros({padded(outs) * padded_terms}, weight.dtype());
  const std::vector<int64_t> begins = panels_of(outs);
  for (size_t i = 0; i + 1 < begins.size(); ++i) {
    const int64_t first = begins[i] * lanes, width = (begins[i + 1] - begins[i]) * lanes;
    T* const to = packed.data<T>() + first * padded_terms;
    for (int64_t o = 0; o < std::min(width, outs - first); ++o) {
      const T* const from = weight.data<T>() + (first + o) * terms;
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const int64_t term = tap * channels + c;
          to[(term / kTogether * width + o) * kTogether + term % kTogether] = from[c * taps + tap];
        }
      }
    }
  }
  return packed;
}

Tensor packed_taps(const Tensor& weight) {
  const int64_t channels = weight.size(0), taps = weight.size(2) * weight.size(3), row = padded(channels);
  Tensor packed = Tensor::zeros({taps * row});
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t tap = 0; tap < taps; ++tap)
      packed.data<float>()[tap * row + c] = value_at(weight, c * taps + tap);
  }
  return packed;
}

}  // namespace

Tensor panels_of_weights(const Tensor& weight) {
  return cached_or(weight, panels_form(), [&] {
    return weight.dtype() == DType::kBF16 ? packed_panels<BFloat16, 2>(weight)
                                          : packed_panels<float, 1>(weight);
  });
}

Tensor taps_of_weights(const Tensor& weight) {
  return cached_or(weight, taps_form(), [&] { return packed_taps(weight); });
}

Tensor vectors_of_bias(const Tensor& bias, int64_t channels) {
  if (!bias.defined()) return packed_bias(bias, channels);
  return cached_or(bias, bias_form(), [&] { return packed_bias(bias, channels); });
}

UnitTail tail_of(ConvTail tail, double low, double high, const Tensor& bias) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool clips = tail == ConvTail::kClip;
  return {bias.data<float>(), clips ? static_cast<float>(low) : -kInfinity,
          clips ? static_cast<float>(high) : kInfinity, tail == ConvTail::kSilu, nullptr};
}

DepthwisePieces::DepthwisePieces(const Conv2dShape& s, const UnitImage& x, int64_t first_row,
                                 int64_t last_row)
    : s_(s), x_(x) {
  const int taps_apart = s.stride[1] % s.dilation[1] == 0 ? s.stride[1] / s.dilation[1] : 0;
  const bool shares = s.kw == 3 || s.kw == 5 || (s.kw == 7 && taps_apart == 1);
  shared_stride_ = shares && taps_apart <= 2 ? taps_apart : 0;
  const Range all = {first_row, last_row};
  const Range rows = whole(0, s.kh, s.h, all), columns = whole(1, s.kw, s.w, {0, s.ow});
  const int64_t width = columns.to - columns.from;
  const int64_t groups = std::max<int64_t>(1, divide_up(width, kUnitPixels));
  groups_.reserve(static_cast<size_t>(groups));
  for (int64_t g = 0; g < groups; ++g) {
    groups_.emplace_back();
    const int64_t from = columns.from + g * width / groups, to = columns.from + (g + 1) * width / groups;
    const auto add_rows = [&](int64_t begin, int64_t end) {
      for (int64_t y = begin; from < to && y < end; ++y)
        add(y, from, to - from, Direction::kRight, taps(y, 0, s.kh, s.h), {0, s.kw});
    };
    add_rows(first_row, rows.from);
    if (from < to && rows.from < rows.to) {
      add(rows.from, from, to - from, Direction::kRight, {0, s.kh}, {0, s.kw});
      UnitPiece& same = groups_.back().back();
      same.repeats = rows.to - rows.from;
      same.x_repeat = s.stride[0] * s.w * x.pixel;
      same.y_repeat = s.ow * s.c;
    }
    add_rows(rows.to, last_row);
    if (g == 0) add_border({0, columns.from}, rows, all);
    if (g + 1 == groups) add_border({columns.to, s.ow}, rows, all);
  }
}

UnitTaps DepthwisePieces::taps(int64_t o, size_t axis, int64_t count, int64_t size) const {
  const int64_t begin = o * s_.stride[axis] - s_.padding[axis], step = s_.dilation[axis];
  const int64_t from = begin >= 0 ? 0 : std::min(count, divide_up(-begin, step));
  const int64_t to = begin >= size ? 0 : (size - 1 - begin) / step + 1;
  return {from, std::clamp(to, from, count)};
}

DepthwisePieces::Range DepthwisePieces::whole(size_t axis, int64_t count, int64_t size, Range range) const {
  const int64_t stride = s_.stride[axis], padding = s_.padding[axis];
  const int64_t last = size - 1 - (count - 1) * s_.dilation[axis] + padding;  // where a filter may begin
  const int64_t from = std::clamp(divide_up(padding, stride), range.from, range.to);
  return {from, std::clamp(last < 0 ? 0 : last / stride + 1, from, range.to)};
}

void DepthwisePieces::add_border(Range columns, Range rows, Range all) {
  for (int64_t x = columns.from; x < columns.to; ++x) {
    const UnitTaps across = taps(x, 1, s_.kw, s_.w);
    for (int64_t y = all.from; y < all.to; ++y) {
      if (y < rows.from || y >= rows.to) {
        add(y, x, 1, Direction::kDown, taps(y, 0, s_.kh, s_.h), across);
        continue;
      }
      const int64_t count = std::min(kUnitPixels, rows.to - y);
      add(y, x, count, Direction::kDown, {0, s_.kh}, across);
      y += count - 1;
    }
  }
}

void DepthwisePieces::add(int64_t oy, int64_t ox, int64_t count, Direction direction, UnitTaps rows,
                          UnitTaps columns) {
  const bool down = direction == Direction::kDown;
  UnitPiece piece;
  piece.x = ((oy * s_.stride[0] - s_.padding[0] - x_.first_row) * s_.w + ox * s_.stride[1] - s_.padding[1]) *
            x_.pixel;
  piece.x_step = (down ? s_.stride[0] * s_.w : s_.stride[1]) * x_.pixel;
  piece.y = (oy * s_.ow + ox) * s_.c;
  piece.y_step = (down ? s_.ow : 1) * s_.c;
  piece.count = count;
  piece.rows = rows;
  piece.columns = columns;
  piece.stride = down ? 0 : shared_stride_;
  groups_.back().push_back(piece);
}

namespace {

constexpr int kInSlot = 1, kOutSlot = 2;  // of worker_scratch

// The memory for a panel's rows before the convolution: about half of a second-level cache of 1 MiB, or a third if the rows
// after it stay there, too, to be narrowed. Consecutive bands compute some rows twice; more rows per band make that rarer.
constexpr int64_t kBandBytes = int64_t{576} << 10;
constexpr int64_t kNarrowedBandBytes = int64_t{384} << 10;
constexpr int64_t kFewUnitSlices = 8;

class Bands {
 public:
  Bands(const Conv2dShape& s, const Tensor& taps, const UnitTail& tail, const Tensor& residual,
        const Tensor& y)
      : s_(s), taps_(taps), tail_(tail), residual_(residual), y_(y), begins_(panels_of(s.c)) {}

  void run(const std::function<void(const UnitBand&)>& fill) const {
    const int64_t lanes = unit_kernels().lanes;
    const int64_t widest = (begins_[1] - begins_[0]) * lanes;  // the first panel is the widest
    const int64_t most_rows =
        (narrows() ? kNarrowedBandBytes : kBandBytes) / (s_.w * widest * static_cast<int64_t>(sizeof(float)));
    const int64_t own_rows = std::max<int64_t>(1, (most_rows - reach()) / s_.stride[0] + 1);
    const int64_t down = s_.h <= most_rows ? 1 : divide_up(s_.oh, own_rows);
    const auto panels = static_cast<int64_t>(begins_.size()) - 1;
    const int64_t across = std::min(panels, divide_up(kFewUnitSlices, s_.n * down));
    parallel_slices(s_.n * down * across, [&](int64_t index) {
      const int64_t band = index / across % down, part = index % across;
      const int64_t first = band * s_.oh / down, last = (band + 1) * s_.oh / down;
      UnitBand one;
      one.n = index / (down * across);
      one.first = std::clamp<int64_t>(first * s_.stride[0] - s_.padding[0], 0, s_.h);
      one.last = std::clamp((last - 1) * s_.stride[0] - s_.padding[0] + reach(), one.first, s_.h);
      one.x = scratch(kInSlot, (one.last - one.first) * s_.w * widest);
      for (int64_t panel = part * panels / across; panel < (part + 1) * panels / across; ++panel) {
        one.begin = begins_[static_cast<size_t>(panel)];
        one.end = begins_[static_cast<size_t>(panel) + 1];
        one.width = (one.end - one.begin) * lanes;
        fill(one);
        narrows() ? narrowed(one, first, last) : straight(one, first, last);
      }
    });
  }

 private:
  bool narrows() const { return y_.dtype() == DType::kBF16; }
  int64_t reach() const { return (s_.kh - 1) * s_.dilation[0] + 1; }
  static float* scratch(int slot, int64_t floats) {
    return reinterpret_cast<float*>(worker_scratch(slot, static_cast<size_t>(floats) * sizeof(float)));
  }

  void straight(const UnitBand& band, int64_t first, int64_t last) const {
    const int64_t image = band.n * s_.oh * s_.ow * s_.c;
    UnitTail tail = tail_;
    if (residual_.defined()) tail.residual = residual_.data<float>() + image;
    depthwise(band, s_, tail, first, last, y_.data<float>() + image);
  }

  void narrowed(const UnitBand& band, int64_t first, int64_t last) const {
    const int64_t channel = band.begin * unit_kernels().lanes,
                  channels = std::min(band.width, s_.c - channel);
    Conv2dShape own = s_;  // the result has only this panel's channels
    own.c = own.o = own.groups = band.width;
    float* const rows = scratch(kOutSlot, (last - first) * s_.ow * band.width);
    depthwise(band, own, tail_, first, last, rows - first * s_.ow * band.width - channel);
    const int64_t to = ((band.n * s_.oh + first) * s_.ow) * s_.c + channel;
    narrow_rows({(last - first) * s_.ow, channels, band.width, s_.c}, rows,
                residual_.defined() ? residual_.data<BFloat16>() + to : nullptr, y_.data<BFloat16>() + to);
  }

  /// `shape` has the number of channels of y's memory.
  void depthwise(const UnitBand& band, const Conv2dShape& shape, const UnitTail& tail, int64_t first,
                 int64_t last, float* y) const {
    const int64_t channel = band.begin * unit_kernels().lanes;
    UnitDepthwise p;
    p.x = band.x - channel;  // the kernel adds the first channel's offset
    p.y = y;
    p.weights = taps_.data<float>();
    p.weights_row = padded(s_.c);
    p.tap_row = s_.dilation[0] * s_.w * band.width;
    p.tap_column = s_.dilation[1] * band.width;
    p.filter_columns = s_.kw;
    p.first_channel = channel;
    p.last_channel = std::min(s_.c, channel + band.width);
    p.tail = tail;
    const DepthwisePieces pieces(shape, {band.width, band.first}, first, last);
    for (const std::vector<UnitPiece>& group : pieces.groups()) {
      p.pieces = group.data();
      p.piece_count = static_cast<int64_t>(group.size());
      unit_kernels().depthwise(p);
    }
  }

  const Conv2dShape& s_;
  const Tensor& taps_;
  const UnitTail& tail_;
  const Tensor& residual_;
  const Tensor& y_;
  std::vector<int64_t> begins_;
};

}  // namespace

void run_in_bands(const Conv2dShape& s, const Tensor& taps, const UnitTail& tail, const Tensor& residual,
                  const Tensor& y, const std::function<void(const UnitBand&)>& fill) {
  Bands(s, taps, tail, residual, y).run(fill);
}

}  // namespace dlpipe::engine::cpu
