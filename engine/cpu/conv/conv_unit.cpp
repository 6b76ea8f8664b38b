// conv_unit on the CPU: our loops (unit_kernels.h) on plain images, or conv2d's kernels and then the other ops one by one.
#include "engine/ops/conv_unit.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/text.h"
#include "engine/core/kernel_table.h"
#include "engine/core/measured_kernels.h"
#include "engine/core/parallel.h"
#include "engine/cpu/conv/conv2d_choice.h"
#include "engine/cpu/conv/unit_kernels.h"
#include "engine/cpu/conv/unit_parts.h"
#include "engine/cpu/loops/elementwise.h"
#include "engine/ops/window.h"

namespace dlpipe::engine {

extern const Kernels add_cpu;
extern const Kernels clip_cpu;
extern const Kernels conv2d_cpu;
extern const Kernels silu_cpu;

namespace {

constexpr const char* kUnit = "unit";      // our loops
constexpr const char* kConv2d = "conv2d";  // conv2d's choice
constexpr int kWindowsSlot = 1;            // of worker_scratch

// The least work per slice: some tens of microseconds on a core. Each panel of the weights reads a slice's memory again, so
// slices should stay in the second-level cache.
constexpr double kSliceFlops = 1.5e6;
constexpr double kDepthwiseSliceFlops = 3e5;  // they run at a third of the rate
constexpr int64_t kFewSlices = 8;
constexpr int64_t kSliceFloats = 1 << 15;
constexpr int64_t kFewestRows = 48, kMostRows = 512;
constexpr int64_t kFewestImageRows = 7, kMostImageRows = 16;  // a core can follow this many streams

bool is_depthwise(const Conv2dShape& s) {
  return s.groups > 1 && s.groups == s.c && s.c == s.o;
}

// In bf16, terms come in pairs. 1x1 convolutions need an even number of channels; windows are copied and padded.
bool unit_fits(const Conv2dShape& s, DType dtype) {
  if (!cpu::has_units(dtype) || (s.groups != 1 && !is_depthwise(s))) return false;
  return dtype == DType::kF32 || s.c % 2 == 0 || !cpu::is_pointwise(s);
}

// With many channels conv2d is better: the unit would copy each channel once per tap, and Winograd saves multiplications.
KernelChoice rule(const Conv2dShape& s) {
  constexpr int64_t kMostCopiedChannels = 32;
  const bool copies = s.groups == 1 && !cpu::is_pointwise(s);
  return {copies && s.c > kMostCopiedChannels && s.kh * s.kw > 1 ? kConv2d : kUnit};
}

/// A call with our loops, on plain images of T (f32, bf16).
template <class T>
class UnitCall {
 public:
  UnitCall(const Conv2dShape& shape, const ForwardArgs& args)
      : s_(shape), x_(args.inputs[0].data<T>()), y_(args.outputs[0]), weight_(args.inputs[1]) {
    const Tensor bias = has_input(args.inputs, 2) ? args.inputs[2] : Tensor();
    bias_ = cpu::vectors_of_bias(bias, s_.o);
    const auto& attrs = args.attrs.as<ConvUnitAttrs>();
    tail_ = cpu::tail_of(attrs.tail, attrs.low, attrs.high, bias_);
    if (has_input(args.inputs, 3)) residual_ = args.inputs[3];
  }

  void run() const {
    if (!is_depthwise(s_)) return product();
    if constexpr (kLow) {
      widened_depthwise();
    } else {
      depthwise();
    }
  }

 private:
  static constexpr bool kLow = std::is_same_v<T, BFloat16>;
  static constexpr int64_t kTogether = kLow ? 2 : 1;  // terms per step
  using Product = std::conditional_t<kLow, cpu::UnitProductBf16, cpu::UnitProduct>;

  void product() const {
    const int64_t rows = s_.n * s_.oh * s_.ow, terms = divide_up(s_.kh * s_.kw * s_.c, kTogether) * kTogether;
    const Tensor panels = cpu::panels_of_weights(weight_);
    const std::vector<int64_t> begins = cpu::panels_of(s_.o);
    const auto most_columns = static_cast<int64_t>(begins.size()) - 1;
    const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(s_.flops() / kSliceFlops), 1, kFewSlices);
    int64_t down = divide_up(rows, std::clamp(kSliceFloats / terms, kFewestRows, kMostRows));
    if (down < wanted) down = std::clamp<int64_t>(rows / kFewestRows, 1, wanted);
    const int64_t across = std::min(most_columns, divide_up(wanted, down));
    parallel_slices(down * across, [&](int64_t index) {
      const int64_t part = index % across, first = index / across * rows / down;
      Product p;
      p.rows = (index / across + 1) * rows / down - first;
      p.terms = terms;
      p.b = panels.data<T>();
      p.first_vector = begins[static_cast<size_t>(part * most_columns / across)];
      p.last_vector = begins[static_cast<size_t>((part + 1) * most_columns / across)];
      p.columns = s_.o;
      const int64_t offset = first * s_.o + p.first_vector * cpu::unit_kernels().lanes;
      p.y = y_.data<T>() + offset;
      p.y_row = s_.o;
      p.tail = tail_;
      const T* const residual = residual_.defined() ? residual_.data<T>() + offset : nullptr;
      if constexpr (kLow) {
        p.residual = residual;
      } else {
        p.tail.residual = residual;
      }
      if (cpu::is_pointwise(s_)) {
        p.a = x_ + first * s_.c;
        p.a_row = s_.c;
      } else {
        const auto values =
            static_cast<size_t>(p.rows * terms + kChunk);  // the last chunk may write past the values
        auto* const windows = reinterpret_cast<T*>(worker_scratch(kWindowsSlot, values * sizeof(T)));
        copy_windows(first, p.rows, terms, windows);
        p.a = windows;
        p.a_row = terms;
      }
      if constexpr (kLow) {
        cpu::unit_product_bf16(p);
      } else {
        cpu::unit_kernels().product(p);
      }
    });
  }

  static constexpr int64_t kChunk = 16;

  /// Copies the windows of `count` output pixels, one per row of `terms` values. Pixels outside of the image are 0.
  void copy_windows(int64_t first, int64_t count, int64_t terms, T* to) const {
    const T* const end = x_ + s_.n * s_.h * s_.w * s_.c;
    int64_t n = first / (s_.oh * s_.ow), oy = first / s_.ow % s_.oh, ox = first % s_.ow;
    for (int64_t i = 0; i < count; ++i) {
      std::fill(copy_window(n, oy, ox, to, end), to + terms, T());
      to += terms;
      if (++ox < s_.ow) continue;
      ox = 0;
      if (++oy < s_.oh) continue;
      oy = 0;
      ++n;
    }
  }

  T* copy_window(int64_t n, int64_t oy, int64_t ox, T* to, const T* end) const {
    const int64_t x = ox * s_.stride[1] - s_.padding[1], last = x + (s_.kw - 1) * s_.dilation[1];
    const bool is_run = x >= 0 && last < s_.w && s_.dilation[1] == 1;  // a row of taps is contiguous
    const int64_t values = s_.kw * s_.c;
    for (int64_t ky = 0; ky < s_.kh; ++ky) {
      const int64_t y = oy * s_.stride[0] - s_.padding[0] + ky * s_.dilation[0];
      const bool is_inside = y >= 0 && y < s_.h;
      const T* const row = x_ + (n * s_.h + y) * s_.w * s_.c;
      if (!is_inside) {
        to = std::fill_n(to, values, T());
      } else if (is_run && values <= kChunk && row + x * s_.c + kChunk <= end) {
        std::memcpy(to, row + x * s_.c, kChunk * sizeof(T));  // a call costs more than extra values
        to += values;
      } else if (is_run) {
        to = std::copy_n(row + x * s_.c, values, to);
      } else {
        for (int64_t column = x; column <= last; column += s_.dilation[1]) {
          to = column >= 0 && column < s_.w ? std::copy_n(row + column * s_.c, s_.c, to)
                                            : std::fill_n(to, s_.c, T());
        }
      }
    }
    return to;
  }

  void depthwise() const {
    const Tensor taps = cpu::taps_of_weights(weight_);
    const int64_t vectors = cpu::vectors_of(s_.c), lanes = cpu::unit_kernels().lanes;
    const int64_t wanted =
        std::clamp<int64_t>(static_cast<int64_t>(s_.flops() / kDepthwiseSliceFlops), 1, kFewSlices);
    const int64_t parts = divide_up(wanted, s_.n);  // per image
    const int64_t down =
        std::max(divide_up(s_.oh, kMostImageRows), std::clamp<int64_t>(s_.oh / kFewestImageRows, 1, parts));
    const int64_t across = std::min(vectors, divide_up(parts, down));
    parallel_slices(s_.n * down * across, [&](int64_t index) {
      const int64_t n = index / (down * across), part = index / across % down, piece = index % across;
      cpu::UnitDepthwise p;
      p.x = x_ + n * s_.h * s_.w * s_.c;
      p.y = y_.data<T>() + n * s_.oh * s_.ow * s_.c;
      p.weights = taps.data<float>();
      p.weights_row = cpu::padded(s_.c);
      p.tap_row = s_.dilation[0] * s_.w * s_.c;
      p.tap_column = s_.dilation[1] * s_.c;
      p.filter_columns = s_.kw;
      p.first_channel = piece * vectors / across * lanes;
      p.last_channel = std::min(s_.c, (piece + 1) * vectors / across * lanes);
      p.tail = tail_;
      if (residual_.defined()) p.tail.residual = residual_.data<T>() + n * s_.oh * s_.ow * s_.c;
      const cpu::DepthwisePieces pieces(s_, {s_.c, 0}, part * s_.oh / down, (part + 1) * s_.oh / down);
      for (const std::vector<cpu::UnitPiece>& group : pieces.groups()) {
        p.pieces = group.data();
        p.piece_count = static_cast<int64_t>(group.size());
        cpu::unit_kernels().depthwise(p);
      }
    });
  }

  void widened_depthwise() const {
    cpu::run_in_bands(
        s_, cpu::taps_of_weights(weight_), tail_, residual_, y_, [&](const cpu::UnitBand& band) {
          const int64_t channel = band.begin * cpu::unit_kernels().lanes;
          cpu::widen_rows(
              {(band.last - band.first) * s_.w, std::min(band.width, s_.c - channel), s_.c, band.width},
              x_ + (band.n * s_.h + band.first) * s_.w * s_.c + channel, band.x);
        });
  }

  Conv2dShape s_;
  const T* x_;
  Tensor y_, weight_, bias_, residual_;
  cpu::UnitTail tail_;
};

std::string unit_key(const Conv2dShape& s, DType dtype) {
  return concat("conv_unit ", cpu::conv_key(s, dtype));
}

KernelChoice unit_choice(const std::string& key, const Conv2dShape& s) {
  KernelChoice choice = kernel_table().find_or_add(key, [&] { return rule(s); });
  if (choice.kernel == kUnit || choice.kernel == kConv2d) return choice;
  throw Error(Status(ErrorCode::kCorrupt, concat("[kernels] '", choice.kernel, "' is not a kernel for '", key,
                                                 "' in kernels.json; use ", kUnit, " or ", kConv2d)));
}

void conv_unit_forward(const ForwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Conv2dShape s =
      conv2d_shape(x.shape(), args.inputs[1].shape(), args.attrs.as<ConvUnitAttrs>().conv2d());
  if (s.n == 0) return;
  const auto by_parts = [&] { run_in_parts({conv2d_cpu, clip_cpu, silu_cpu, add_cpu}, args); };
  if (!unit_fits(s, x.dtype())) return by_parts();
  const std::string key = unit_key(s, x.dtype());
  const auto run = [&] {
    if (unit_choice(key, s).kernel != kUnit) return by_parts();
    x.dtype() == DType::kBF16 ? UnitCall<BFloat16>(s, args).run() : UnitCall<float>(s, args).run();
  };
  const auto candidates = [&] {
    const KernelChoice first = rule(s);
    return std::vector<KernelChoice>{first, {first.kernel == kUnit ? kConv2d : kUnit}};
  };
  cpu::measure_choices(key, candidates, run);
  run();
}

std::string explain_conv_unit(std::span<const TensorSpec> inputs, const Attrs& attrs, bool /*backward*/) {
  const Conv2dShape s = conv2d_shape(inputs[0].shape, inputs[1].shape, attrs.as<ConvUnitAttrs>().conv2d());
  if (s.n == 0) return "nothing to do";
  return unit_fits(s, inputs[0].dtype) ? unit_choice(unit_key(s, inputs[0].dtype), s).kernel : kConv2d;
}

}  // namespace

extern const Kernels conv_unit_cpu;
const Kernels conv_unit_cpu{
    .forward = conv_unit_forward,
    .supports = cpu::supports_first_f32_bf16,
    .explain = explain_conv_unit,
    .same_bits_on_every_isa = false,  // it may run conv2d's kernels
};

// conv_pair on the CPU. The product passes one panel of channels at a time to the depthwise convolution, within a core's
// second-level cache. The other candidate runs both as conv_units.

namespace {

constexpr const char* kPair = "pair";
constexpr const char* kUnits = "units";

void run_pair(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<ConvPairAttrs>();
  const Tensor& x = args.inputs[0];
  const int64_t middle = args.inputs[1].size(0), channels = x.size(3),
                image = x.size(1) * x.size(2) * channels;
  const Conv2dShape s = conv2d_shape({x.size(0), x.size(1), x.size(2), middle}, args.inputs[2].shape(),
                                     attrs.outer(middle).conv2d());
  const auto bias = [&](size_t i) {
    return cpu::vectors_of_bias(has_input(args.inputs, i) ? args.inputs[i] : Tensor(), middle);
  };
  const Tensor inner_bias = bias(3), outer_bias = bias(4), panels = cpu::panels_of_weights(args.inputs[1]);
  const cpu::UnitTail inner = cpu::tail_of(attrs.inner_tail, attrs.inner_low, attrs.inner_high, inner_bias);
  const cpu::UnitTail outer = cpu::tail_of(attrs.tail, attrs.low, attrs.high, outer_bias);
  const auto product = [&]<class Product>(Product p, const cpu::UnitBand& band, const auto* images) {
    p.a = images + band.n * image + band.first * s.w * channels;
    p.a_row = p.terms = channels;
    p.rows = (band.last - band.first) * s.w;
    p.y_row = band.width;
    p.first_vector = band.begin;
    p.last_vector = band.end;
    p.columns = middle;
    p.tail = inner;
    return p;
  };
  cpu::run_in_bands(s, cpu::taps_of_weights(args.inputs[2]), outer, Tensor(), args.outputs[0],
                    [&](const cpu::UnitBand& band) {
                      if (x.dtype() == DType::kBF16) {
                        auto p = product(cpu::UnitProductBf16(), band, x.data<BFloat16>());
                        p.b = panels.data<BFloat16>();
                        p.wide = band.x;
                        cpu::unit_product_bf16(p);
                      } else {
                        auto p = product(cpu::UnitProduct(), band, x.data<float>());
                        p.b = panels.data<float>();
                        p.y = band.x;
                        cpu::unit_kernels().product(p);
                      }
                    });
}

std::string pair_key(std::span<const TensorSpec> inputs, const ConvPairAttrs& attrs) {
  const Shape& x = inputs[0].shape;
  const int64_t middle = inputs[1].shape[0];
  const Conv2dShape s =
      conv2d_shape({x[0], x[1], x[2], middle}, inputs[2].shape, attrs.outer(middle).conv2d());
  return concat("conv_pair c", x[3], " ", cpu::conv_key(s, inputs[0].dtype));
}

KernelChoice pair_choice(const std::string& key) {
  KernelChoice choice = kernel_table().find_or_add(key, [] { return KernelChoice{kPair}; });
  if (choice.kernel == kPair || choice.kernel == kUnits) return choice;
  throw Error(Status(ErrorCode::kCorrupt, concat("[kernels] '", choice.kernel, "' is not a kernel for '", key,
                                                 "' in kernels.json; use ", kPair, " or ", kUnits)));
}

// In bf16, terms come in pairs, so the number of channels must be even.
bool pair_fits(const TensorSpec& x) {
  return cpu::has_units(x.dtype) && (x.dtype == DType::kF32 || x.shape[3] % 2 == 0);
}

void conv_pair_forward(const ForwardArgs& args) {
  if (args.inputs[0].size(0) == 0) return;
  if (!pair_fits(args.inputs[0].spec())) return run_as_units(conv_unit_cpu, args);
  const std::string key = pair_key(specs_of(args.inputs), args.attrs.as<ConvPairAttrs>());
  const auto run = [&] {
    pair_choice(key).kernel == kPair ? run_pair(args) : run_as_units(conv_unit_cpu, args);
  };
  cpu::measure_choices(
      key,
      [] {
        return std::vector<KernelChoice>{{kPair}, {kUnits}};
      },
      run);
  run();
}

std::string explain_conv_pair(std::span<const TensorSpec> inputs, const Attrs& attrs, bool /*backward*/) {
  if (inputs[0].shape[0] == 0) return "nothing to do";
  return pair_fits(inputs[0]) ? pair_choice(pair_key(inputs, attrs.as<ConvPairAttrs>())).kernel : kUnits;
}

}  // namespace

extern const Kernels conv_pair_cpu;
const Kernels conv_pair_cpu{
    .forward = conv_pair_forward,
    .supports = cpu::supports_first_f32_bf16,
    .explain = explain_conv_pair,
    .same_bits_on_every_isa = false,  // it may run conv2d's kernels
};

}  // namespace dlpipe::engine
