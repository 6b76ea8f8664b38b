#include "engine/cpu/conv/conv2d_choice.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text.h"
#include "engine/core/measured_kernels.h"
#include "engine/core/parallel.h"
#include "engine/cpu/conv/conv2d_depthwise.h"
#include "engine/cpu/conv/conv2d_product.h"
#include "engine/cpu/conv/conv2d_taps.h"
#include "engine/cpu/conv/conv2d_winograd.h"
#include "engine/cpu/onednn/onednn.h"

namespace dlpipe::engine::cpu {
namespace {

// Work of one slice: some milliseconds of one core, so that neither the call nor an uneven end shows.
constexpr double kSliceFlops = 1.5e8;
constexpr int64_t kMostSlices = 64;
// Small problems still use a few cores, down to slices of tens of microseconds.
constexpr double kSmallSliceFlops = 2e6;
constexpr int64_t kFewSlices = 8;
// Partial sums of weight gradients: at most 64 MB of f32.
constexpr int64_t kMostPartialElements = int64_t{1} << 24;
// Winograd transforms the weights in every call: slices of 16 images keep the full rate, slices of 4 halve it
// in deep layers (shared measurements, Zen 4).
constexpr int64_t kWinogradImages = 16;
// Our Winograd, on Zen 3 (AVX2): a forward slice of 48 tiles or more keeps its rate; a slice of the weights'
// gradient transforms its sums back, which wants four times as many. Parts of 64 channels lose a tenth to
// transforming images once per part.
constexpr int64_t kTilesASlice = 48;
constexpr int64_t kTilesAWeightsSlice = 192;
constexpr int64_t kMostWeightsSlices = 16;
constexpr int64_t kChannelsAPart = 64;
constexpr int64_t kFewestTiles = 8;
// Of a 3x3 convolution by our product of windows.
constexpr int64_t kFewPixels = 64;
// Of a multiplication by Winograd's method, with the transforms, in multiplications by taps (Sapphire Rapids: 1.2 to 1.5).
constexpr double kWinogradCost = 1.3;
// Fewer channels make products of taps too small (Sapphire Rapids, f32, a training step beside oneDNN 2's kernels): 64 of them
// with a dilation of 24 on 32x32 pixels 2.1 times as fast, 32 with 12 0.75.
constexpr int64_t kTapsChannels = 64;
// From this width on oneDNN 2's kernel for the gradient of weights does not support a kernel: it falls back to reference loops.
constexpr int64_t kWideKernel = 14;
// Smaller ones, such as 3x3 in the last layers of a network for small images, are not worth a look-up.
constexpr int64_t kSmallKernel = 5;
// Channels planes of a stem may have to be worth a blocked output.
constexpr int64_t kMostPlanes = 4;

int64_t wanted_slices(double flops) {
  const auto by_size = static_cast<int64_t>(flops / kSliceFlops);
  const auto small = std::min(kFewSlices, static_cast<int64_t>(flops / kSmallSliceFlops));
  return std::clamp<int64_t>(std::max(by_size, small), 1, kMostSlices);
}

// The largest divisor of `n` up to `most`.
int64_t divisor_up_to(int64_t n, int64_t most) {
  for (int64_t d = std::min(n, most); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

// oneDNN 2 has Winograd F(4x4,3x3) for AVX-512 in nChw16c.
bool has_winograd(const Conv2dShape& s, int block) {
  return onednn::kHasWinograd && kernel_isa() >= KernelIsa::kAvx512 && block == 16 && s.groups == 1 &&
         s.kh == 3 && s.kw == 3 && s.stride == std::array{1, 1} && s.dilation == std::array{1, 1} &&
         s.padding[0] <= 1 && s.padding[1] <= 1 && s.c % 16 == 0 && s.o % 16 == 0;
}

// Whether ours is worth thinking of: with fused multiply-add, and not where oneDNN computes bf16 itself. Beside oneDNN 2's on
// AVX-512 (Zen 4, a training step in f32): 1.18 times as fast in ResNet-18 at 32, 0.97 to 1.02 in ResNets and VGG at 64 and
// 224; measuring takes the better one of each shape.
bool wants_own_winograd(DType dtype) {
  return kernel_isa() >= KernelIsa::kAvx2 && !(dtype == DType::kBF16 && computes_bf16());
}

// Two kinds of small problem stay with the direct kernels: outputs that fill their tiles badly (2x2 fills a
// quarter, which is all that is saved), and so few tiles that transforming the weights outweighs them.
bool prefers_own_winograd(ConvPass pass, const Conv2dShape& s, DType dtype) {
  if (!wants_own_winograd(dtype) || !winograd_fits(s)) return false;
  const int64_t tiles = winograd_tiles_an_image(pass, s);
  const int64_t pixels = pass == ConvPass::kBackwardData ? s.h * s.w : s.oh * s.ow;
  return 5 * pixels >= 2 * 16 * tiles && s.n * tiles >= kFewestTiles;
}

// Slices of the batch, as even as they can be.
int64_t images_a_slice(int64_t images, int64_t slices) {
  return std::max<int64_t>(1, divide_up(images, std::max<int64_t>(slices, 1)));
}

KernelChoice weights_rule(const Conv2dShape& s, int block, int64_t slices) {
  const int64_t images = s.n * s.oh * s.ow * s.o;
  slices = std::min(slices, std::max<int64_t>(1, kMostPartialElements / s.weights()));
  if (block > 1 && s.groups == 1 && s.o % block == 0 && s.weights() * std::min(slices, s.n) > images) {
    // Four blocks of channels a slice keep the kernel's inner loops full.
    const int64_t blocks = s.o / block;
    const int64_t parts = divisor_up_to(blocks, std::max<int64_t>(1, std::min(kMostSlices, blocks / 4)));
    if (parts > 1) return {"direct", s.n, parts};
  }
  return {"direct", images_a_slice(s.n, slices), 1};
}

// dlpipe's Winograd: a slice's work before and after its tiles only pays with enough tiles; then channels are cut.
KernelChoice own_winograd_rule(ConvPass pass, const Conv2dShape& s) {
  const int64_t tiles_an_image = winograd_tiles_an_image(pass, s);
  const bool weights = pass == ConvPass::kBackwardWeights;
  const int64_t most_slices =
      std::max<int64_t>(1, s.n * tiles_an_image / (weights ? kTilesAWeightsSlice : kTilesASlice));
  const int64_t slices =
      std::min({most_slices, wanted_slices(s.flops()), weights ? kMostWeightsSlices : s.n});
  const int64_t images = images_a_slice(s.n, slices);
  const int64_t wanted_parts =
      divide_up(std::min(kFewSlices, wanted_slices(s.flops())), divide_up(s.n, images));
  const int64_t channels = pass == ConvPass::kBackwardData ? s.c : s.o;
  const int64_t blocks = divide_up(channels, kChannelsAPart) * (weights ? divide_up(s.c, kChannelsAPart) : 1);
  if (weights) return {kOwnWinograd, images, std::min(wanted_parts, blocks)};
  const int64_t rows = std::max<int64_t>(1, images * tiles_an_image / kWinogradTilesAPart);
  return {kOwnWinograd, images, std::min(wanted_parts, rows * blocks)};
}

}  // namespace

bool is_pointwise(const Conv2dShape& s) {
  return s.kh == 1 && s.kw == 1 && s.stride == std::array{1, 1} && s.padding == std::array{0, 0};
}

bool computes_bf16() {
  return kernel_isa() >= KernelIsa::kAvx512Bf16;
}

std::string conv_key(const Conv2dShape& s, DType dtype) {
  const auto pair = [](const std::array<int, 2>& values) { return concat(values[0], "x", values[1]); };
  return concat("n", s.n, " ", s.h, "x", s.w, "x", s.c, " o", s.o, " k", s.kh, "x", s.kw, " s",
                pair(s.stride), " p", pair(s.padding), " d", pair(s.dilation), " g", s.groups, " ",
                dtype_name(dtype), " ", isa_name(kernel_isa()));
}

namespace {

KernelChoice direct_rule(ConvPass pass, const Conv2dShape& s, int block) {
  const int64_t slices = wanted_slices(s.flops());
  if (pass == ConvPass::kBackwardWeights) return weights_rule(s, block, slices);
  if (slices <= s.n || s.n == 0) return {"direct", images_a_slice(s.n, slices), 1};
  const int64_t parts = divide_up(slices, s.n);
  if (block > 1) {
    const int64_t channels = pass == ConvPass::kForward ? s.o : s.c;
    const bool whole = s.groups == 1 && channels % block == 0;
    return {"direct", 1, whole ? divisor_up_to(channels / block, parts) : 1};
  }
  // Backward data of plain images keeps whole images: an input row needs rows of several slices.
  return {"direct", 1, pass == ConvPass::kForward ? std::min(parts, s.oh) : 1};
}

bool can_be_product(ConvPass pass, const Conv2dShape& s, DType dtype, int block) {
  return pass == ConvPass::kForward && dtype == DType::kF32 && product_fits(s) && block == product_block();
}

// On AVX-512, where slices are parts of an image. Beside oneDNN 2's on two cores of a Zen 4, one image of ResNet-50's shapes at
// 224: 1x1 1.03 to 1.06 times as fast, 1.08 where the stride is 2, whose pixels are copied; 3x3 on 7x7 pixels 1.12, on more of
// them 0.93 to 0.98, as nine times the image is copied. In batches of 32, and on AVX2, both are as fast.
bool prefers_product(ConvPass pass, const Conv2dShape& s, DType dtype, int block) {
  if (!can_be_product(pass, s, dtype, block) || prefers_own_winograd(pass, s, dtype)) return false;
  return kernel_isa() >= KernelIsa::kAvx512 && wanted_slices(s.flops()) > s.n &&
         (s.kh * s.kw == 1 || s.n * s.oh * s.ow <= kFewPixels);
}

KernelChoice product_rule(const char* kernel, const Conv2dShape& s) {
  const int64_t slices = wanted_slices(s.flops()), images = images_a_slice(s.n, slices);
  return {kernel, images, divide_up(slices, divide_up(s.n, images))};
}

bool is_dilated(const Conv2dShape& s) {
  return s.dilation != std::array{1, 1} && s.kh * s.kw > 1;
}

bool is_wide(const Conv2dShape& s) {
  return std::max(s.kh, s.kw) >= kWideKernel;
}

/// Without dilation: kernels for which oneDNN has only slow gradients, or of which most taps read padding.
bool is_large(const Conv2dShape& s) {
  return is_wide(s) || (std::min(s.kh, s.kw) > kSmallKernel && (s.kh > s.h || s.kw > s.w));
}

bool can_be_taps(const Conv2dShape& s, DType dtype) {
  if (is_dilated(s)) return taps_fit(s) && wants_own_winograd(dtype);
  return is_large(s) && taps_fit(s) && kernel_isa() >= KernelIsa::kAvx2;
}

bool prefers_taps(ConvPass pass, const Conv2dShape& s, DType dtype) {
  if (!can_be_taps(s, dtype)) return false;
  const bool is_deep = std::min(s.c, s.o) >= kTapsChannels;
  if (!is_dilated(s)) return pass != ConvPass::kForward && (is_deep || is_wide(s));
  if (!is_deep) return false;
  if (!prefers_own_winograd(pass, s, dtype)) return true;
  const auto tiles = static_cast<double>(winograd_tiles_an_image(pass, s));
  const int64_t pixels = pass == ConvPass::kBackwardData ? s.h * s.w : s.oh * s.ow;
  return taps_inside(s) < kWinogradCost * kWinogradFrequencies * tiles / static_cast<double>(pixels);
}

bool can_be_depthwise(ConvPass pass, const Conv2dShape& s) {
  return pass == ConvPass::kBackwardWeights && depthwise_fits(s) && kernel_isa() >= KernelIsa::kAvx2;
}

// oneDNN's fast kernel for 3x3 takes 0.8 of this one's time, its others 5 to 12 times as much (Sapphire Rapids, f32).
bool prefers_depthwise(ConvPass pass, const Conv2dShape& s) {
  const bool has_other = s.kh == 3 && s.kw == 3 && s.dilation == std::array{1, 1};
  return can_be_depthwise(pass, s) && !has_other;
}

KernelChoice choice_rule(ConvPass pass, const Conv2dShape& s, DType dtype, int block) {
  // In inference the kernel is that of one image, whatever the batch, so that its batch doesn't change an image's bits.
  Conv2dShape judged = s;
  if (is_inference()) judged.n = std::min<int64_t>(s.n, 1);
  if (prefers_depthwise(pass, judged)) return {kOwnDepthwise, s.n, 1};
  if (prefers_taps(pass, judged, dtype)) return product_rule(kOwnTaps, s);
  if (prefers_product(pass, judged, dtype, block)) return product_rule(kOwnProduct, s);
  return prefers_own_winograd(pass, judged, dtype) ? own_winograd_rule(pass, s) : direct_rule(pass, s, block);
}

/// What is worth measuring, the rule's choice first.
std::vector<KernelChoice> candidates(ConvPass pass, const Conv2dShape& s, DType dtype, int block) {
  std::vector<KernelChoice> all = {choice_rule(pass, s, dtype, block)};
  const auto add = [&](const KernelChoice& choice) {
    if (std::find(all.begin(), all.end(), choice) == all.end()) all.push_back(choice);
  };
  add(direct_rule(pass, s, block));
  if (can_be_product(pass, s, dtype, block)) add(product_rule(kOwnProduct, s));
  if (can_be_depthwise(pass, s)) add({kOwnDepthwise, s.n, 1});
  if (can_be_taps(s, dtype)) add(product_rule(kOwnTaps, s));
  if (has_winograd(s, block)) add({"winograd", std::min(s.n, kWinogradImages), 1});
  // With few tiles, the transformed weights, four times as large, are read from memory: fast on an idle machine, but not under
  // load.
  const bool has_tiles = s.n * winograd_tiles_an_image(pass, s) >= kFewestTiles;
  if (kernel_isa() >= KernelIsa::kAvx2 && winograd_fits(s) && has_tiles) add(own_winograd_rule(pass, s));
  return all;
}

std::string choice_key(ConvPass pass, const Conv2dShape& s, DType dtype) {
  constexpr std::array kPassNames = {"forward", "backward_data", "backward_weights"};
  return concat("conv2d ", kPassNames.at(static_cast<size_t>(pass)), " ", conv_key(s, dtype));
}

int output_block(const Conv2dShape& s) {
  return layout_block(conv_layouts(s, DType::kF32).outputs);
}

}  // namespace

KernelChoice conv_choice(ConvPass pass, const Conv2dShape& s, DType dtype, int block) {
  if (is_inference()) return choice_rule(pass, s, dtype, block);  // nothing that a run measured or was told
  const std::string key = choice_key(pass, s, dtype);
  KernelChoice choice = kernel_table().find_or_add(key, [&] { return choice_rule(pass, s, dtype, block); });
  const bool known =
      choice.kernel == "direct" || choice.kernel == "winograd" ||
      (choice.kernel == kOwnWinograd && winograd_fits(s)) ||
      (choice.kernel == kOwnTaps && can_be_taps(s, dtype)) ||
      (choice.kernel == kOwnDepthwise && pass == ConvPass::kBackwardWeights && depthwise_fits(s)) ||
      (choice.kernel == kOwnProduct && pass == ConvPass::kForward && product_fits(s));
  if (!known) {
    throw Error(Status(ErrorCode::kCorrupt,
                       concat("[kernels] '", choice.kernel, "' is not a kernel for '", key,
                              "' in kernels.json; use direct, winograd, ", kOwnWinograd,
                              " (3x3, stride 1, channels a multiple of 8), ", kOwnTaps,
                              " (dilated or a large kernel, stride 1, one group), ", kOwnDepthwise,
                              " (backward_weights, a group per channel) or ", kOwnProduct,
                              " (forward, one group, channels that fill whole vectors)")));
  }
  return choice;
}

void measure_conv(ConvPass pass, const Conv2dShape& s, DType dtype, const std::function<void()>& run) {
  if (kernel_table().measured() == nullptr || is_inference()) return;  // no need of a key
  measure_choices(
      choice_key(pass, s, dtype), [&] { return candidates(pass, s, dtype, output_block(s)); }, run);
}

static std::string why_not_winograd(ConvPass pass, const Conv2dShape& s, DType dtype) {
  if (s.kh != 3 || s.kw != 3) return concat(s.kh, "x", s.kw);
  if (s.stride != std::array{1, 1}) return concat("stride ", s.stride[0], "x", s.stride[1]);
  if (s.groups > 1) return concat(s.groups, " groups");
  if (!winograd_fits(s)) return "channels not a multiple of 8, or much padding";
  if (kernel_isa() < KernelIsa::kAvx2) return "no fused multiply-add";
  if (s.n * winograd_tiles_an_image(pass, s) < kFewestTiles)
    return "too few tiles to pay for transforming the weights";
  if (!wants_own_winograd(dtype)) return "oneDNN's kernels";
  return prefers_own_winograd(pass, s, dtype) ? "kernels.json selects it" : "images fill their tiles badly";
}

std::string conv_explanation(ConvPass pass, const Conv2dShape& s, DType dtype) {
  const KernelChoice choice = conv_choice(pass, s, dtype, output_block(s));
  if (!choice.why.empty()) return concat(choice.kernel, ", measured");
  if (choice.kernel != "direct") return choice.kernel;
  return concat("direct: ", why_not_winograd(pass, s, dtype));
}

std::optional<KernelChoice> winograd_choice(ConvPass pass, const Conv2dShape& s, DType dtype) {
  if (!winograd_fits(s)) return std::nullopt;
  KernelChoice choice = conv_choice(pass, s, dtype, output_block(s));
  if (choice.kernel != kOwnWinograd) return std::nullopt;
  return choice;
}

std::optional<KernelChoice> taps_choice(ConvPass pass, const Conv2dShape& s, DType dtype) {
  if (!can_be_taps(s, dtype)) return std::nullopt;
  KernelChoice choice = conv_choice(pass, s, dtype, output_block(s));
  if (choice.kernel != kOwnTaps) return std::nullopt;
  return choice;
}

bool chooses_depthwise(const Conv2dShape& s, DType dtype) {
  return depthwise_fits(s) &&
         conv_choice(ConvPass::kBackwardWeights, s, dtype, output_block(s)).kernel == kOwnDepthwise;
}

std::optional<KernelChoice> product_choice(const Conv2dShape& s, DType dtype, LayoutChoice held) {
  const auto is_blocked = [](Layout layout) {
    return layout != Layout::kPlain && layout_block(layout) == product_block();
  };
  if (!product_fits(s) || dtype != DType::kF32 || !is_blocked(held.inputs) || !is_blocked(held.outputs))
    return std::nullopt;
  KernelChoice choice = conv_choice(ConvPass::kForward, s, dtype, output_block(s));
  if (choice.kernel != kOwnProduct) return std::nullopt;
  return choice;
}

namespace {

// Blocked layouts where they were faster: on AVX2 (Zen 3, one core, GFLOP/s, blocked against plain) 3x3
// 56x56x64 forward 95/72, data 97/76, weights 70/51; 14x14x256 90/83, 101/92, 69/59; 1x1 14x14x1024->256
// 95/55, 90/83, 87/63. On AVX-512 Winograd needs nChw16c.
LayoutChoice layout_rule(const Conv2dShape& s) {
  const KernelIsa isa = kernel_isa();
  if (isa == KernelIsa::kSse41) return {};
  const Layout layout = isa >= KernelIsa::kAvx512 ? Layout::kBlocked16 : Layout::kBlocked8;
  const int block = layout_block(layout);
  if (s.o % block != 0) return {};
  const bool depthwise = s.groups > 1 && s.groups == s.c && s.c == s.o;
  if (depthwise) return {layout, layout};
  if (s.groups > 1 && (s.c_group() % block != 0 || s.o_group() % block != 0)) return {};
  if (s.c % block == 0) return {layout, layout};
  return s.c <= kMostPlanes ? LayoutChoice{Layout::kPlain, layout} : LayoutChoice{};
}

Layout parse_layout(const std::string& name, const std::string& key) {
  for (Layout layout : {Layout::kPlain, Layout::kBlocked8, Layout::kBlocked16}) {
    if (name == layout_name(layout)) return layout;
  }
  throw Error(Status(ErrorCode::kCorrupt, concat("[kernels] unknown layout '", name, "' for '", key,
                                                 "' in kernels.json; use ", "plain, blocked8 or blocked16")));
}

}  // namespace

LayoutChoice conv_layouts(const Conv2dShape& s, DType dtype) {
  if (dtype != DType::kF32 || s.n == 0) return {};
  if (is_inference()) return layout_rule(s);
  const std::string key = concat("conv2d layout ", conv_key(s, dtype));
  const KernelChoice choice = kernel_table().find_or_add(key, [&] {
    const LayoutChoice rule = layout_rule(s);
    return KernelChoice{concat(layout_name(rule.inputs), " ", layout_name(rule.outputs)), 1, 1};
  });
  const size_t blank = choice.kernel.find(' ');
  return {parse_layout(choice.kernel.substr(0, blank), key),
          parse_layout(blank == std::string::npos ? "" : choice.kernel.substr(blank + 1), key)};
}

}  // namespace dlpipe::engine::cpu
