#include "engine/cpu/conv/conv2d_taps.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "engine/core/constant_cache.h"
#include "engine/core/parallel.h"
#include "engine/cpu/gemm/block_product.h"
#include "engine/cpu/loops/activation.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/cpu/loops/image_copy.h"

namespace dlpipe::engine::cpu {
namespace {

constexpr int kTapsSlot = 1;  // of worker_scratch; 0 is oneDNN's
// Rows that are a power of two apart would share a few sets of the cache.
constexpr int64_t kRowsApart = 16;
// What is multiplied at once: weights of so many channels on both sides stay in the second-level cache, and so do the sums of
// so many pixels.
constexpr int64_t kMostIns = 128, kMostOuts = 256, kMostPixels = 512;
// Of the weights' gradient, whose slices are ranges of input channels.
constexpr int64_t kInsASlice = 64;
constexpr int64_t kRowsAPart = 4;

/// Along one axis: output pixel i reads input pixel i + offset, if `inside` contains i.
struct TapReach {
  int64_t offset;
  Range inside;
};

TapReach reach_of(int64_t inputs, int64_t outputs, int64_t offset) {
  const int64_t begin = std::clamp<int64_t>(-offset, 0, outputs);
  return {offset, {begin, std::clamp(inputs - offset, begin, outputs)}};
}

/// A tap of the forward pass (sign 1), or of the gradient of images, whose inputs and outputs are exchanged (-1).
struct Tap {
  TapReach y, x;
  bool is_dead() const { return y.inside.size() == 0 || x.inside.size() == 0; }
};

Tap tap_of(const Conv2dShape& s, int64_t index, int sign) {
  const auto along = [&](size_t axis, int64_t k, int64_t inputs, int64_t outputs) {
    if (sign < 0) std::swap(inputs, outputs);
    return reach_of(inputs, outputs, sign * (k * s.dilation[axis] - s.padding[axis]));
  };
  return {along(0, index / s.kw, s.h, s.oh), along(1, index % s.kw, s.w, s.ow)};
}

/// Images as f32, plain.
Tensor plain_f32(const Tensor& held) {
  if (held.layout() == Layout::kPlain && held.dtype() == DType::kF32) return held;
  const Shape& shape = held.shape();
  const int64_t pixels = shape[1] * shape[2], channels = shape[3], values = pixels * channels;
  Tensor made = Tensor::empty(shape);
  parallel_slices(shape[0], [&](int64_t n) {
    float* const to = made.data<float>() + n * values;
    if (held.dtype() == DType::kBF16) return widen(held.data<BFloat16>() + n * values, to, values);
    const auto* const from = static_cast<const float*>(held.raw()) + n * values;
    blocked_to_plain({1, pixels, channels, channels}, layout_block(held.layout()), from, to);
  });
  return made;
}

/// OIHW weights as [tap][in][out], rows of outs padded with zeros; for the gradient of images, ins are the outputs.
struct TapWeights {
  TapWeights(const Tensor& weight, bool is_gradient)
      : ins(weight.size(is_gradient ? 0 : 1)),
        outs(weight.size(is_gradient ? 1 : 0)),
        row(divide_up(outs, block_product().panel) * block_product().panel + kRowsApart) {
    const int64_t taps = weight.size(2) * weight.size(3);
    const int64_t in_step = is_gradient ? outs * taps : taps, out_step = is_gradient ? taps : ins * taps;
    const auto form = static_cast<uint64_t>(ConstantForm::kTaps) + (is_gradient ? 1 : 0);
    values = cached_or(weight, form, [&] {
      Tensor made = Tensor::zeros({taps * ins * row});
      const float* const from = weight.data<float>();
      auto* const to = made.data<float>();
      parallel_ranges(ins, kInsASlice, [&](int64_t begin, int64_t end) {
        for (int64_t in = begin; in < end; ++in)
          block_product().transpose(from + in * in_step, out_step, outs, taps, to + in * row, ins * row);
      });
      return made;
    });
  }

  int64_t ins, outs, row;
  Tensor values;
};

/// Forward, and backward data: images `x`, plain f32, to `y`.
class TapProduct {
 public:
  TapProduct(const Conv2dShape& shape, int sign, const Tensor& x, const TapWeights& weights,
             const Tensor& bias, const Tensor& y, Activation activation)
      : s_(shape),
        sign_(sign),
        x_(x.data<float>()),
        x_height_(x.size(1)),
        x_width_(x.size(2)),
        weights_(weights),
        w_(weights.values.data<float>()),
        bias_(bias.defined() ? bias.data<float>() : nullptr),
        y_(y),
        activation_(activation) {}

  void run(const KernelChoice& choice) const {
    const ImageCut cut(choice, s_.n, height_, kRowsAPart, divide_up(weights_.outs, product_.wide));
    const int64_t rows_at_once = std::max<int64_t>(1, kMostPixels / width_);
    parallel_slices(cut.slices(), [&](int64_t slice) {
      const int64_t first = cut.group(slice) * choice.images;
      const Range rows = cut.positions(slice, height_);
      const Range outs = cut.channels(slice, weights_.outs, product_.wide);
      for (int64_t n = first; n < std::min(s_.n, first + choice.images); ++n) {
        for (int64_t row = rows.begin; row < rows.end; row += rows_at_once) {
          for (int64_t out = outs.begin; out < outs.end; out += kMostOuts) {
            multiply(n, {row, std::min(rows.end, row + rows_at_once)},
                     {out, std::min(outs.end, out + kMostOuts)});
          }
        }
      }
    });
  }

 private:
  /// Some rows and channels of one image.
  void multiply(int64_t n, Range rows, Range outs) const {
    const int64_t columns = divide_up(outs.size(), product_.panel) * product_.panel;
    const int64_t sums_row = columns + kRowsApart, pixels = rows.size() * width_;
    const auto bytes = static_cast<size_t>(pixels * sums_row) * sizeof(float);
    auto* const sums = reinterpret_cast<float*>(worker_scratch(kTapsSlot, bytes));
    std::memset(sums, 0, bytes);
    for (int64_t index = 0; index < s_.kh * s_.kw; ++index) {
      const Tap tap = tap_of(s_, index, sign_);
      const Range live{std::max(rows.begin, tap.y.inside.begin), std::min(rows.end, tap.y.inside.end)};
      if (tap.is_dead()) continue;
      for (int64_t in = 0; in < weights_.ins; in += kMostIns) {
        const int64_t ins = std::min(kMostIns, weights_.ins - in);
        const float* const weights = w_ + (index * weights_.ins + in) * weights_.row + outs.begin;
        for (int64_t row = live.begin; row < live.end; ++row) {
          const int64_t source = (n * x_height_ + row + tap.y.offset) * x_width_ + tap.x.inside.begin;
          product_.run({x_ + (source + tap.x.offset) * weights_.ins + in, weights_.ins, 1}, weights,
                       weights_.row, ins,
                       sums + ((row - rows.begin) * width_ + tap.x.inside.begin) * sums_row, sums_row,
                       tap.x.inside.size(), columns, true);
        }
      }
    }
    if (bias_ != nullptr) {
      for (int64_t pixel = 0; pixel < pixels; ++pixel) {
        for (int64_t out = 0; out < outs.size(); ++out)
          sums[pixel * sums_row + out] += bias_[outs.begin + out];
      }
    }
    store(n, rows.begin * width_, pixels, outs, sums, sums_row);
  }

  /// Some pixels and channels of image n, activated.
  void store(int64_t n, int64_t first, int64_t pixels, Range outs, const float* sums,
             int64_t sums_row) const {
    const int64_t all = height_ * width_;
    const int64_t image = n * all * weights_.outs;
    if (y_.layout() != Layout::kPlain) {
      const int64_t block = layout_block(y_.layout());
      for (int64_t out = outs.begin; out < outs.end; out += block) {
        float* const to = static_cast<float*>(y_.raw()) + image + out * all + first * block;
        plain_to_blocked({1, pixels, block, sums_row}, static_cast<int>(block), sums + (out - outs.begin),
                         to);
        activate_rows(activation_, DType::kF32, to, to, 1, pixels * block, pixels * block);
      }
      return;
    }
    with_type(y_.dtype(), [&](auto type) {
      auto* const to = static_cast<decltype(type)*>(y_.raw()) + image + first * weights_.outs + outs.begin;
      for (int64_t pixel = 0; pixel < pixels; ++pixel)
        copy_row(sums + pixel * sums_row, to + pixel * weights_.outs, outs.size());
      activate_rows(activation_, y_.dtype(), to, to, pixels, outs.size(), weights_.outs);
    });
  }
  static void copy_row(const float* from, float* to, int64_t count) { std::copy_n(from, count, to); }
  static void copy_row(const float* from, BFloat16* to, int64_t count) { narrow(from, to, count); }

  const Conv2dShape& s_;
  int sign_;
  const float* x_;
  int64_t x_height_, x_width_;
  const TapWeights& weights_;
  const float* w_;
  const float* bias_;
  const Tensor& y_;
  Activation activation_;
  const BlockProduct& product_ = block_product();
  int64_t height_ = y_.size(1), width_ = y_.size(2);
};

/// The gradient of all taps' weights, of some input and output channels.
class TapWeightsGradient {
 public:
  TapWeightsGradient(const Conv2dShape& shape, const Tensor& x, const Tensor& dy)
      : s_(shape), x_(x.data<float>()), dy_(dy.data<float>()) {}

  void run(Range ins, Range outs, float* dweight) const {
    const int64_t columns = divide_up(outs.size(), product_.panel) * product_.panel;
    const int64_t most = std::max(kMostPixels, s_.ow);
    Gathered x{s_.c, ins, ins.size() + kRowsApart}, dy{s_.o, outs, columns + kRowsApart};
    const int64_t sums_row = columns + kRowsApart;
    const int64_t sums_floats = ins.size() * sums_row;
    const int64_t floats = most * (x.row + dy.row) + 2 * sums_floats;
    x.to = reinterpret_cast<float*>(worker_scratch(kTapsSlot, static_cast<size_t>(floats) * sizeof(float)));
    dy.to = x.to + most * x.row;
    float* const sums = dy.to + most * dy.row;
    float* const part = sums + sums_floats;
    std::memset(dy.to, 0, static_cast<size_t>(most * dy.row) * sizeof(float));  // columns after the last
    const int64_t taps = s_.kh * s_.kw;
    for (int64_t index = 0; index < taps; ++index) {
      const Tap tap = tap_of(s_, index, 1);
      std::memset(sums, 0, static_cast<size_t>(sums_floats) * sizeof(float));
      const int64_t count = tap.x.inside.size();
      int64_t pixels = 0;
      const auto multiply = [&] {
        product_.run({x.to, 1, x.row}, dy.to, dy.row, pixels, part, sums_row, ins.size(), columns, false);
        for (int64_t in = 0; in < ins.size(); ++in) {
          for (int64_t out = 0; out < columns; ++out) sums[in * sums_row + out] += part[in * sums_row + out];
        }
        pixels = 0;
      };
      for (int64_t n = 0; n < s_.n && !tap.is_dead(); ++n) {
        for (int64_t row = tap.y.inside.begin; row < tap.y.inside.end; ++row) {
          if (pixels + count > most) multiply();
          const int64_t column = tap.x.inside.begin;
          x.gather(x_, (n * s_.h + row + tap.y.offset) * s_.w + column + tap.x.offset, count, pixels);
          dy.gather(dy_, (n * s_.oh + row) * s_.ow + column, count, pixels);
          pixels += count;
        }
      }
      multiply();
      for (int64_t in = 0; in < ins.size(); ++in) {
        float* const to = dweight + (outs.begin * s_.c + ins.begin + in) * taps + index;
        for (int64_t out = 0; out < outs.size(); ++out) to[out * s_.c * taps] = sums[in * sums_row + out];
      }
    }
  }

 private:
  /// Pixels of some channels, side by side.
  struct Gathered {
    int64_t channels;  // of the images
    Range part;
    int64_t row;
    float* to = nullptr;

    void gather(const float* from, int64_t pixel, int64_t count, int64_t at) const {
      for (int64_t i = 0; i < count; ++i)
        std::copy_n(from + (pixel + i) * channels + part.begin, part.size(), to + (at + i) * row);
    }
  };

  const Conv2dShape& s_;
  const float *x_, *dy_;
  const BlockProduct& product_ = block_product();
};

}  // namespace

bool taps_fit(const Conv2dShape& s) {
  return s.groups == 1 && s.stride == std::array{1, 1};
}

double taps_inside(const Conv2dShape& s) {
  const auto along = [&](size_t axis, int64_t kernel, int64_t inputs, int64_t outputs) {
    int64_t inside = 0;
    for (int64_t k = 0; k < kernel; ++k)
      inside += reach_of(inputs, outputs, k * s.dilation[axis] - s.padding[axis]).inside.size();
    return static_cast<double>(inside) / static_cast<double>(outputs);
  };
  return along(0, s.kh, s.h, s.oh) * along(1, s.kw, s.w, s.ow);
}

void taps_forward(const Conv2dShape& s, const KernelChoice& choice, const Tensor& x, const Tensor& weight,
                  const Tensor& bias, const Tensor& y, Activation activation) {
  TapProduct(s, 1, plain_f32(x), TapWeights(weight, false), bias, y, activation).run(choice);
}

void taps_backward_data(const Conv2dShape& s, const KernelChoice& choice, const Tensor& dy,
                        const Tensor& weight, const Tensor& dx) {
  TapProduct(s, -1, plain_f32(dy), TapWeights(weight, true), Tensor(), dx, Activation::kNone).run(choice);
}

void taps_backward_weights(const Conv2dShape& s, const Tensor& x, const Tensor& dy, float* dweight,
                           float* dbias) {
  const Tensor plain_x = plain_f32(x), plain_dy = plain_f32(dy);
  const TapWeightsGradient gradient(s, plain_x, plain_dy);
  const int64_t out_parts = divide_up(s.o, kMostOuts);
  parallel_slices(divide_up(s.c, kInsASlice) * out_parts, [&](int64_t slice) {
    const int64_t in = slice / out_parts * kInsASlice, out = slice % out_parts * kMostOuts;
    gradient.run({in, std::min(s.c, in + kInsASlice)}, {out, std::min(s.o, out + kMostOuts)}, dweight);
  });
  if (dbias == nullptr) return;
  const float* const values = plain_dy.data<float>();
  parallel_ranges(s.o, kInsASlice, [&](int64_t begin, int64_t end) {
    std::fill(dbias + begin, dbias + end, 0.0f);
    std::array<float, kInsASlice> sums;
    for (int64_t row = 0; row < s.n * s.oh; ++row) {
      sums.fill(0);
      for (int64_t pixel = row * s.ow; pixel < (row + 1) * s.ow; ++pixel) {
        for (int64_t out = begin; out < end; ++out)
          sums[static_cast<size_t>(out - begin)] += values[pixel * s.o + out];
      }
      for (int64_t out = begin; out < end; ++out) dbias[out] += sums[static_cast<size_t>(out - begin)];
    }
  });
}

}  // namespace dlpipe::engine::cpu
