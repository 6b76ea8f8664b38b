// conv_pair on the CPU: a panel of channels at a time goes from the product to the depthwise convolution within a core's
// second-level cache; or both as conv_units.
#include "dlpipe/engine/ops/conv_pair.h"

#include <algorithm>
#include <vector>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/engine/core/measured_kernels.h"
#include "dlpipe/engine/core/parallel.h"
#include "dlpipe/engine/cpu/conv/conv2d_choice.h"
#include "dlpipe/engine/cpu/conv/unit_kernels.h"
#include "dlpipe/engine/cpu/conv/unit_parts.h"
#include "dlpipe/engine/cpu/loops/supports.h"

namespace dlpipe::engine {

extern const Kernels conv_unit_cpu;

namespace {

constexpr const char* kPair = "pair";
constexpr const char* kUnits = "units";
constexpr int kBetweenSlot = 1;  // of worker_scratch

// Of a panel's rows between the two convolutions: half of a second-level cache of 1 MiB. Bands that follow one another
// compute some rows twice, the fewer the more rows they have.
constexpr int64_t kBandBytes = int64_t{576} << 10;
constexpr int64_t kFewSlices = 8;

class PairCall {
 public:
  explicit PairCall(const ForwardArgs& args)
      : x_(args.inputs[0].data<float>()), y_(args.outputs[0].data<float>()), c_(args.inputs[0].size(3)) {
    const auto& attrs = args.attrs.as<ConvPairAttrs>();
    const Shape& x = args.inputs[0].shape();
    const int64_t middle = args.inputs[1].size(0);
    s_ = conv2d_shape({x[0], x[1], x[2], middle}, args.inputs[2].shape(), attrs.outer(middle).conv2d());
    const auto bias = [&](size_t i) {
      return cpu::vectors_of_bias(has_input(args.inputs, i) ? args.inputs[i] : Tensor(), middle);
    };
    inner_bias_ = bias(3);
    outer_bias_ = bias(4);
    inner_ = cpu::tail_of(attrs.inner_tail, attrs.inner_low, attrs.inner_high, inner_bias_);
    outer_ = cpu::tail_of(attrs.tail, attrs.low, attrs.high, outer_bias_);
    panels_ = cpu::panels_of_weights(args.inputs[1]);
    taps_ = cpu::taps_of_weights(args.inputs[2]);
    begins_ = cpu::panels_of(middle);
  }

  void run() const {
    const int64_t lanes = cpu::unit_kernels().lanes;
    const int64_t widest = (begins_[1] - begins_[0]) * lanes;  // no later panel is wider
    const int64_t most_rows = kBandBytes / (s_.w * widest * static_cast<int64_t>(sizeof(float)));
    const int64_t own_rows = std::max<int64_t>(1, (most_rows - reach()) / s_.stride[0] + 1);
    const int64_t down = s_.h <= most_rows ? 1 : divide_up(s_.oh, own_rows);
    const auto panels = static_cast<int64_t>(begins_.size()) - 1;
    const int64_t across = std::min(panels, divide_up(kFewSlices, s_.n * down));
    parallel_slices(s_.n * down * across, [&](int64_t index) {
      const int64_t n = index / (down * across), band = index / across % down, part = index % across;
      const int64_t first = band * s_.oh / down, last = (band + 1) * s_.oh / down;
      const int64_t in_first = std::clamp<int64_t>(first * s_.stride[0] - s_.padding[0], 0, s_.h);
      const int64_t in_last = std::clamp((last - 1) * s_.stride[0] - s_.padding[0] + reach(), in_first, s_.h);
      const int64_t pixels = (in_last - in_first) * s_.w;
      auto* const between = reinterpret_cast<float*>(
          worker_scratch(kBetweenSlot, static_cast<size_t>(pixels * widest) * sizeof(float)));
      for (int64_t panel = part * panels / across; panel < (part + 1) * panels / across; ++panel) {
        const int64_t begin = begins_[static_cast<size_t>(panel)],
                      end = begins_[static_cast<size_t>(panel) + 1];
        const int64_t width = (end - begin) * lanes;
        cpu::UnitProduct product;
        product.a = x_ + (n * s_.h + in_first) * s_.w * c_;
        product.a_row = c_;
        product.terms = c_;
        product.b = panels_.data<float>();
        product.y = between;
        product.y_row = width;
        product.rows = pixels;
        product.first_vector = begin;
        product.last_vector = end;
        product.columns = s_.c;
        product.tail = inner_;
        cpu::unit_kernels().product(product);
        depthwise(n, first, last, {width, in_first}, begin * lanes, between);
      }
    });
  }

 private:
  int64_t reach() const { return (s_.kh - 1) * s_.dilation[0] + 1; }

  void depthwise(int64_t n, int64_t first, int64_t last, const cpu::UnitImage& image, int64_t channel,
                 const float* between) const {
    cpu::UnitDepthwise p;
    // As if all channels were there.
    p.x = between - channel;
    p.y = y_ + n * s_.oh * s_.ow * s_.c;
    p.weights = taps_.data<float>();
    p.weights_row = cpu::padded(s_.c);
    p.tap_row = s_.dilation[0] * s_.w * image.pixel;
    p.tap_column = s_.dilation[1] * image.pixel;
    p.filter_columns = s_.kw;
    p.first_channel = channel;
    p.last_channel = std::min(s_.c, channel + image.pixel);
    p.tail = outer_;
    const cpu::DepthwisePieces pieces(s_, image, first, last);
    for (const std::vector<cpu::UnitPiece>& group : pieces.groups()) {
      p.pieces = group.data();
      p.piece_count = static_cast<int64_t>(group.size());
      cpu::unit_kernels().depthwise(p);
    }
  }

  const float* x_;
  float* y_;
  int64_t c_;
  Conv2dShape s_;  // of the depthwise convolution
  Tensor inner_bias_, outer_bias_, panels_, taps_;
  cpu::UnitTail inner_, outer_;
  std::vector<int64_t> begins_;
};

std::string key_of(std::span<const TensorSpec> inputs, const ConvPairAttrs& attrs) {
  const Shape& x = inputs[0].shape;
  const int64_t middle = inputs[1].shape[0];
  const Conv2dShape s =
      conv2d_shape({x[0], x[1], x[2], middle}, inputs[2].shape, attrs.outer(middle).conv2d());
  return concat("conv_pair c", x[3], " ", cpu::conv_key(s, inputs[0].dtype));
}

KernelChoice choice_of(const std::string& key) {
  KernelChoice choice = kernel_table().find_or_add(key, [] { return KernelChoice{kPair}; });
  if (choice.kernel == kPair || choice.kernel == kUnits) return choice;
  throw Error(Status(ErrorCode::kCorrupt, concat("[kernels] '", choice.kernel, "' is no kernel for '", key,
                                                 "' in kernels.json; use ", kPair, " or ", kUnits)));
}

bool fits(DType dtype) {
  return dtype == DType::kF32 && kernel_isa() >= KernelIsa::kAvx2;
}

void forward(const ForwardArgs& args) {
  if (args.inputs[0].size(0) == 0) return;
  if (!fits(args.inputs[0].dtype())) return run_as_units(conv_unit_cpu, args);
  const std::string key = key_of(specs_of(args.inputs), args.attrs.as<ConvPairAttrs>());
  const auto run = [&] {
    choice_of(key).kernel == kPair ? PairCall(args).run() : run_as_units(conv_unit_cpu, args);
  };
  cpu::measure_choices(
      key,
      [] {
        return std::vector<KernelChoice>{{kPair}, {kUnits}};
      },
      run);
  run();
}

std::string explain(std::span<const TensorSpec> inputs, const Attrs& attrs, bool /*backward*/) {
  if (inputs[0].shape[0] == 0) return "nothing to do";
  return fits(inputs[0].dtype) ? choice_of(key_of(inputs, attrs.as<ConvPairAttrs>())).kernel : kUnits;
}

}  // namespace

extern const Kernels conv_pair_cpu;
const Kernels conv_pair_cpu{
    .forward = forward,
    .supports = cpu::supports_first_f32_bf16,
    .explain = explain,
    .same_bits_on_every_isa = false,  // conv2d's kernels
};

}  // namespace dlpipe::engine
