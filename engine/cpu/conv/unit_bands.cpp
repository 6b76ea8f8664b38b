#include "dlpipe/engine/cpu/conv/unit_bands.h"

#include <algorithm>

#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/conv/unit_bf16.h"
#include "dlpipe/engine/cpu/conv/unit_parts.h"

namespace dlpipe::engine::cpu {

namespace {

constexpr int kInSlot = 1, kOutSlot = 2;  // of worker_scratch

// Of a panel's rows in front of the convolution: half of a second-level cache of 1 MiB; a third where the rows behind it stay
// there, too, to be narrowed. Bands that follow one another compute some rows twice, the fewer the more rows they have.
constexpr int64_t kBandBytes = int64_t{576} << 10;
constexpr int64_t kNarrowedBandBytes = int64_t{384} << 10;
constexpr int64_t kFewSlices = 8;

class Bands {
 public:
  Bands(const Conv2dShape& s, const Tensor& taps, const UnitTail& tail, const Tensor& residual,
        const Tensor& y)
      : s_(s), taps_(taps), tail_(tail), residual_(residual), y_(y), begins_(panels_of(s.c)) {}

  void run(const std::function<void(const UnitBand&)>& fill) const {
    const int64_t lanes = unit_kernels().lanes;
    const int64_t widest = (begins_[1] - begins_[0]) * lanes;  // no later panel is wider
    const int64_t most_rows =
        (narrows() ? kNarrowedBandBytes : kBandBytes) / (s_.w * widest * static_cast<int64_t>(sizeof(float)));
    const int64_t own_rows = std::max<int64_t>(1, (most_rows - reach()) / s_.stride[0] + 1);
    const int64_t down = s_.h <= most_rows ? 1 : divide_up(s_.oh, own_rows);
    const auto panels = static_cast<int64_t>(begins_.size()) - 1;
    const int64_t across = std::min(panels, divide_up(kFewSlices, s_.n * down));
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
    Conv2dShape own = s_;  // the answer has this panel's channels alone
    own.c = own.o = own.groups = band.width;
    float* const rows = scratch(kOutSlot, (last - first) * s_.ow * band.width);
    depthwise(band, own, tail_, first, last, rows - first * s_.ow * band.width - channel);
    const int64_t to = ((band.n * s_.oh + first) * s_.ow) * s_.c + channel;
    narrow_rows({(last - first) * s_.ow, channels, band.width, s_.c}, rows,
                residual_.defined() ? residual_.data<BFloat16>() + to : nullptr, y_.data<BFloat16>() + to);
  }

  /// `shape` says how the answer lies.
  void depthwise(const UnitBand& band, const Conv2dShape& shape, const UnitTail& tail, int64_t first,
                 int64_t last, float* y) const {
    const int64_t channel = band.begin * unit_kernels().lanes;
    UnitDepthwise p;
    p.x = band.x - channel;  // as if all channels were there
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
