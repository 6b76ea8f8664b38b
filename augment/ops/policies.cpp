// The published policies: which ops they choose from, at which magnitudes.
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "augment/arguments.h"
#include "augment/kinds.h"
#include "augment/noise.h"
#include "augment/warp.h"
#include "base/portable_math.h"
#include "base/text.h"

namespace dlpipe::augment {

// The ops that published policies (AutoAugment, RandAugment, TrivialAugment, AugMix) choose from, as expressions,
// with their published names and scales. Cubuk et al., "AutoAugment" (2018), table 6; torchvision's scales.
namespace {

/// One op of a policy: its magnitude ranges from `first` to `last` in equal steps.
struct PolicyOpScale {
  enum Sign { kOne, kBoth };  // both: the magnitude is negated half of the time
  std::string_view name;
  double first = 0;
  double last = 0;
  Sign sign = kOne;
  bool has_magnitude() const { return first != last; }
};

/// AutoAugment's ops and scales. RandAugment draws from all but the first.
constexpr PolicyOpScale kAutoAugmentSpace[] = {{"invert"},
                                               {"identity"},
                                               {"shear_x", 0, 0.3, PolicyOpScale::kBoth},
                                               {"shear_y", 0, 0.3, PolicyOpScale::kBoth},
                                               {"translate_x", 0, 150.0 / 331, PolicyOpScale::kBoth},
                                               {"translate_y", 0, 150.0 / 331, PolicyOpScale::kBoth},
                                               {"rotate", 0, 30, PolicyOpScale::kBoth},
                                               {"brightness", 0, 0.9, PolicyOpScale::kBoth},
                                               {"saturation", 0, 0.9, PolicyOpScale::kBoth},
                                               {"contrast", 0, 0.9, PolicyOpScale::kBoth},
                                               {"sharpness", 0, 0.9, PolicyOpScale::kBoth},
                                               {"posterize", 8, 4},
                                               {"solarize", 1, 0},
                                               {"autocontrast"},
                                               {"equalize"}};
constexpr std::span<const PolicyOpScale> kRandAugmentSpace = std::span(kAutoAugmentSpace).subspan(1);

std::string number(double value) {
  const std::string range = range_text({value, value});
  return range.substr(0, range.find(".."));
}

/// atan in degrees, for a slope of at most 1: the series in u = x / (1 + sqrt(1 + x^2)), which halves the angle.
/// Not from the C library, because the angle is written into an expression, which must be the same text everywhere.
double degrees_of_slope(double slope) {
  double u = slope / (1 + std::sqrt(1 + slope * slope));
  u = u / (1 + std::sqrt(1 + u * u));
  double power = u;
  double sum = 0;
  for (int k = 0; k < 20; ++k, power *= -u * u) sum += power / (2 * k + 1);
  return 4 * sum * (180 / 3.14159265358979323846);
}

/// The magnitude of `bin` of `bins`; a whole number for posterize. These are torch.linspace's f32 numbers
/// (computed from the nearer end, with an f32 step), because the last bit of a factor affects how values are
/// truncated.
double magnitude_of(const PolicyOpScale& op, int bin, int bins) {
  const auto first = static_cast<float>(op.first);
  const auto last = static_cast<float>(op.last);
  const double step = static_cast<double>(bins > 1 ? (last - first) / static_cast<float>(bins - 1) : 0);
  const double magnitude = bin < bins / 2 ? static_cast<double>(first) + step * bin
                                          : static_cast<double>(last) - step * (bins - 1 - bin);
  return op.name == "posterize" ? std::nearbyint(magnitude)
                                : static_cast<double>(static_cast<float>(magnitude));
}

/// `name` with a magnitude, as an expression: "rotate(-10..-10,nearest,0)". `how` has the last parameters of geometric ops,
/// interpolation and fill. Translations are fractions of the image's sides, except those of translate_x_pixels and
/// translate_y_pixels.
std::string policy_expression(std::string_view name, double magnitude, std::string_view how) {
  const auto range = [](double value) { return range_text({value, value}); };
  if (name == "identity") return "";
  if (name == "shear_x") return concat("shear(", range(degrees_of_slope(magnitude)), ",0,corner,", how, ")");
  if (name == "shear_y") return concat("shear(0,", range(degrees_of_slope(magnitude)), ",corner,", how, ")");
  if (name == "translate_x") return concat("translate(", range(magnitude), ",0,share,", how, ")");
  if (name == "translate_y") return concat("translate(0,", range(magnitude), ",share,", how, ")");
  if (name == "translate_x_pixels") return concat("translate(", range(magnitude), ",0,pixels,", how, ")");
  if (name == "translate_y_pixels") return concat("translate(0,", range(magnitude), ",pixels,", how, ")");
  if (name == "rotate") return concat("rotate(", range(magnitude), ",", how, ")");
  if (name == "posterize") return concat("posterize(", number(magnitude), ")");
  if (name == "solarize") return concat("solarize(", number(255 * magnitude), ")");
  if (name == "brightness" || name == "contrast" || name == "saturation" || name == "sharpness")
    return concat(name, "(", range(1 + magnitude), ")");
  return std::string(name);  // autocontrast, equalize, invert
}

/// One op at one magnitude, with either sign if it has one.
std::string signed_expression(const PolicyOpScale& op, double magnitude, std::string_view how,
                              std::string_view p = "1") {
  std::string one = policy_expression(op.name, magnitude, how);
  const bool both = op.sign == PolicyOpScale::kBoth && magnitude != 0;
  if (!both && p == "1") return one;
  return concat("one_of(", one,
                both ? concat(" | ", policy_expression(op.name, -magnitude, how)) : std::string(), ", p=", p,
                ")");
}

/// "nearest,0": the parameters interpolation and fill, as policy_expression expects them.
std::string how_text(OpArguments& arguments) {
  return concat(arguments.text("interpolation"), ",", arguments.text("fill"));
}

}  // namespace

// auto_augment(policy): one of the 25 pairs of ops that were found for a dataset, each op with its own
// probability and magnitude (Cubuk et al., "AutoAugment", 2018, tables 7 to 9; torchvision's AutoAugment).
namespace {

constexpr int kAutoAugmentBins = 10;

struct Part {
  std::string_view name;
  std::string_view probability;
  int bin;
};
using Pair = std::array<Part, 2>;

constexpr Pair kImageNet[] = {{{{"posterize", "0.4", 8}, {"rotate", "0.6", 9}}},
                              {{{"solarize", "0.6", 5}, {"autocontrast", "0.6", 0}}},
                              {{{"equalize", "0.8", 0}, {"equalize", "0.6", 0}}},
                              {{{"posterize", "0.6", 7}, {"posterize", "0.6", 6}}},
                              {{{"equalize", "0.4", 0}, {"solarize", "0.2", 4}}},
                              {{{"equalize", "0.4", 0}, {"rotate", "0.8", 8}}},
                              {{{"solarize", "0.6", 3}, {"equalize", "0.6", 0}}},
                              {{{"posterize", "0.8", 5}, {"equalize", "1", 0}}},
                              {{{"rotate", "0.2", 3}, {"solarize", "0.6", 8}}},
                              {{{"equalize", "0.6", 0}, {"posterize", "0.4", 6}}},
                              {{{"rotate", "0.8", 8}, {"saturation", "0.4", 0}}},
                              {{{"rotate", "0.4", 9}, {"equalize", "0.6", 0}}},
                              {{{"equalize", "0", 0}, {"equalize", "0.8", 0}}},
                              {{{"invert", "0.6", 0}, {"equalize", "1", 0}}},
                              {{{"saturation", "0.6", 4}, {"contrast", "1", 8}}},
                              {{{"rotate", "0.8", 8}, {"saturation", "1", 2}}},
                              {{{"saturation", "0.8", 8}, {"solarize", "0.8", 7}}},
                              {{{"sharpness", "0.4", 7}, {"invert", "0.6", 0}}},
                              {{{"shear_x", "0.6", 5}, {"equalize", "1", 0}}},
                              {{{"saturation", "0.4", 0}, {"equalize", "0.6", 0}}},
                              {{{"equalize", "0.4", 0}, {"solarize", "0.2", 4}}},
                              {{{"solarize", "0.6", 5}, {"autocontrast", "0.6", 0}}},
                              {{{"invert", "0.6", 0}, {"equalize", "1", 0}}},
                              {{{"saturation", "0.6", 4}, {"contrast", "1", 8}}},
                              {{{"equalize", "0.8", 0}, {"equalize", "0.6", 0}}}};
constexpr Pair kCifar10[] = {{{{"invert", "0.1", 0}, {"contrast", "0.2", 6}}},
                             {{{"rotate", "0.7", 2}, {"translate_x", "0.3", 9}}},
                             {{{"sharpness", "0.8", 1}, {"sharpness", "0.9", 3}}},
                             {{{"shear_y", "0.5", 8}, {"translate_y", "0.7", 9}}},
                             {{{"autocontrast", "0.5", 0}, {"equalize", "0.9", 0}}},
                             {{{"shear_y", "0.2", 7}, {"posterize", "0.3", 7}}},
                             {{{"saturation", "0.4", 3}, {"brightness", "0.6", 7}}},
                             {{{"sharpness", "0.3", 9}, {"brightness", "0.7", 9}}},
                             {{{"equalize", "0.6", 0}, {"equalize", "0.5", 0}}},
                             {{{"contrast", "0.6", 7}, {"sharpness", "0.6", 5}}},
                             {{{"saturation", "0.7", 7}, {"translate_x", "0.5", 8}}},
                             {{{"equalize", "0.3", 0}, {"autocontrast", "0.4", 0}}},
                             {{{"translate_y", "0.4", 3}, {"sharpness", "0.2", 6}}},
                             {{{"brightness", "0.9", 6}, {"saturation", "0.2", 8}}},
                             {{{"solarize", "0.5", 2}, {"invert", "0", 0}}},
                             {{{"equalize", "0.2", 0}, {"autocontrast", "0.6", 0}}},
                             {{{"equalize", "0.2", 0}, {"equalize", "0.6", 0}}},
                             {{{"saturation", "0.9", 9}, {"equalize", "0.6", 0}}},
                             {{{"autocontrast", "0.8", 0}, {"solarize", "0.2", 8}}},
                             {{{"brightness", "0.1", 3}, {"saturation", "0.7", 0}}},
                             {{{"solarize", "0.4", 5}, {"autocontrast", "0.9", 0}}},
                             {{{"translate_y", "0.9", 9}, {"translate_y", "0.7", 9}}},
                             {{{"autocontrast", "0.9", 0}, {"solarize", "0.8", 3}}},
                             {{{"equalize", "0.8", 0}, {"invert", "0.1", 0}}},
                             {{{"translate_y", "0.7", 9}, {"autocontrast", "0.9", 0}}}};
constexpr Pair kSvhn[] = {{{{"shear_x", "0.9", 4}, {"invert", "0.2", 0}}},
                          {{{"shear_y", "0.9", 8}, {"invert", "0.7", 0}}},
                          {{{"equalize", "0.6", 0}, {"solarize", "0.6", 6}}},
                          {{{"invert", "0.9", 0}, {"equalize", "0.6", 0}}},
                          {{{"equalize", "0.6", 0}, {"rotate", "0.9", 3}}},
                          {{{"shear_x", "0.9", 4}, {"autocontrast", "0.8", 0}}},
                          {{{"shear_y", "0.9", 8}, {"invert", "0.4", 0}}},
                          {{{"shear_y", "0.9", 5}, {"solarize", "0.2", 6}}},
                          {{{"invert", "0.9", 0}, {"autocontrast", "0.8", 0}}},
                          {{{"equalize", "0.6", 0}, {"rotate", "0.9", 3}}},
                          {{{"shear_x", "0.9", 4}, {"solarize", "0.3", 3}}},
                          {{{"shear_y", "0.8", 8}, {"invert", "0.7", 0}}},
                          {{{"equalize", "0.9", 0}, {"translate_y", "0.6", 6}}},
                          {{{"invert", "0.9", 0}, {"equalize", "0.6", 0}}},
                          {{{"contrast", "0.3", 3}, {"rotate", "0.8", 4}}},
                          {{{"invert", "0.8", 0}, {"translate_y", "0", 2}}},
                          {{{"shear_y", "0.7", 6}, {"solarize", "0.4", 8}}},
                          {{{"invert", "0.6", 0}, {"rotate", "0.8", 4}}},
                          {{{"shear_y", "0.3", 7}, {"translate_x", "0.9", 3}}},
                          {{{"shear_x", "0.1", 6}, {"invert", "0.6", 0}}},
                          {{{"solarize", "0.7", 2}, {"translate_y", "0.6", 7}}},
                          {{{"shear_y", "0.8", 4}, {"invert", "0.8", 0}}},
                          {{{"shear_x", "0.7", 9}, {"translate_y", "0.8", 3}}},
                          {{{"shear_y", "0.8", 5}, {"autocontrast", "0.7", 0}}},
                          {{{"shear_x", "0.7", 2}, {"invert", "0.1", 0}}}};

class AutoAugment : public ChainPolicy {
 public:
  explicit AutoAugment(OpArguments& arguments) : ChainPolicy(arguments, expressions(arguments)) {}
  Count times() const override { return {1, 1}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override {
    chosen.push_back(static_cast<int>(rng.below(static_cast<uint32_t>(count()))));
  }

 private:
  static std::vector<std::string> expressions(OpArguments& arguments) {
    const std::string policy = arguments.text("policy");
    const std::span<const Pair> pairs = policy == "imagenet"  ? std::span<const Pair>(kImageNet)
                                        : policy == "cifar10" ? std::span<const Pair>(kCifar10)
                                                              : std::span<const Pair>(kSvhn);
    std::vector<std::string> all;
    for (const Pair& pair : pairs) {
      std::string expression;
      for (const Part& part : pair) {
        for (const PolicyOpScale& op : kAutoAugmentSpace) {
          if (op.name != part.name) continue;
          expression += concat(expression.empty() ? "" : " ",
                               signed_expression(op, magnitude_of(op, part.bin, kAutoAugmentBins),
                                                 how_text(arguments), part.probability));
        }
      }
      all.push_back(expression);
    }
    return all;
  }
};

}  // namespace

extern const OpRecord auto_augment_augmentation = {
    .name = "auto_augment",
    .help = "one of 25 pairs of ops found for a dataset (AutoAugment)",
    .version = 1,
    .params = {{.name = "policy",
                .kind = "string",
                .default_value = "imagenet",
                .help = "the dataset",
                .choices = {"imagenet", "cifar10", "svhn"}},
               interpolation_parameter("nearest"),
               fill_parameter(),
               probability()},
    .build = nullptr,
    .build_policy = build_policy<AutoAugment>};

// randaugment(n, magnitude, bins): n ops, each drawn uniformly from fourteen, all with the same magnitude
// (Cubuk et al., "RandAugment", 2019; torchvision's RandAugment).
namespace {

class RandAugment : public ChainPolicy {
 public:
  explicit RandAugment(OpArguments& arguments)
      : ChainPolicy(arguments, expressions(arguments)), n_(arguments.integer("n")) {}
  Count times() const override { return {n_, n_}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override {
    for (int i = 0; i < n_; ++i)
      chosen.push_back(static_cast<int>(rng.below(static_cast<uint32_t>(count()))));
  }

 private:
  static std::vector<std::string> expressions(OpArguments& arguments) {
    const int magnitude = arguments.integer("magnitude");
    const int bins = arguments.integer("bins");
    if (magnitude >= bins)
      arguments.refuse(
          {ErrorCode::kMisuse, concat("magnitude must be 0 to bins - 1 = ", bins - 1, ", got ", magnitude)});
    std::vector<std::string> all;
    for (const PolicyOpScale& op : kRandAugmentSpace)
      all.push_back(signed_expression(op, magnitude_of(op, magnitude, bins), how_text(arguments)));
    return all;
  }

  int n_;
};

}  // namespace

extern const OpRecord randaugment_augmentation = {
    .name = "randaugment",
    .help = "ops drawn from fourteen, all at one magnitude (RandAugment)",
    .version = 1,
    .params =
        {{.name = "n", .kind = "int", .default_value = "2", .help = "how many ops", .low = 0, .high = 100},
         {.name = "magnitude",
          .kind = "int",
          .default_value = "9",
          .help = "magnitude of all of them",
          .low = 0,
          .high = 1000,
          .unit = "bins"},
         {.name = "bins",
          .kind = "int",
          .default_value = "31",
          .help = "how many magnitudes there are",
          .low = 2,
          .high = 1000},
         interpolation_parameter("nearest"),
         fill_parameter(),
         probability()},
    .build = nullptr,
    .build_policy = build_policy<RandAugment>};

// trivial_augment(bins): one op, drawn uniformly from fourteen, with a uniformly drawn magnitude (Mueller and
// Hutter, "TrivialAugment", 2021; torchvision's TrivialAugmentWide).
namespace {

constexpr PolicyOpScale kTrivialAugmentSpace[] = {{"identity"},
                                                  {"shear_x", 0, 0.99, PolicyOpScale::kBoth},
                                                  {"shear_y", 0, 0.99, PolicyOpScale::kBoth},
                                                  {"translate_x_pixels", 0, 32, PolicyOpScale::kBoth},
                                                  {"translate_y_pixels", 0, 32, PolicyOpScale::kBoth},
                                                  {"rotate", 0, 135, PolicyOpScale::kBoth},
                                                  {"brightness", 0, 0.99, PolicyOpScale::kBoth},
                                                  {"saturation", 0, 0.99, PolicyOpScale::kBoth},
                                                  {"contrast", 0, 0.99, PolicyOpScale::kBoth},
                                                  {"sharpness", 0, 0.99, PolicyOpScale::kBoth},
                                                  {"posterize", 8, 2},
                                                  {"solarize", 1, 0},
                                                  {"autocontrast"},
                                                  {"equalize"}};

class TrivialAugment : public ChainPolicy {
 public:
  explicit TrivialAugment(OpArguments& arguments)
      : ChainPolicy(arguments, expressions(arguments)), bins_(arguments.integer("bins")) {}
  Count times() const override { return {1, 1}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override {
    const uint32_t op = rng.below(static_cast<uint32_t>(std::size(kTrivialAugmentSpace)));
    const uint32_t bin = rng.below(static_cast<uint32_t>(bins_));
    chosen.push_back(static_cast<int>(op) * bins_ + static_cast<int>(bin));
  }

 private:
  /// [op][bin]
  static std::vector<std::string> expressions(OpArguments& arguments) {
    const int bins = arguments.integer("bins");
    std::vector<std::string> all;
    for (const PolicyOpScale& op : kTrivialAugmentSpace) {
      for (int bin = 0; bin < bins; ++bin)
        all.push_back(signed_expression(op, magnitude_of(op, bin, bins), how_text(arguments)));
    }
    return all;
  }

  int bins_;
};

}  // namespace

extern const OpRecord trivial_augment_augmentation = {
    .name = "trivial_augment",
    .help = "one op of fourteen at any magnitude (TrivialAugmentWide)",
    .version = 1,
    .params = {{.name = "bins",
                .kind = "int",
                .default_value = "31",
                .help = "how many magnitudes there are",
                .low = 2,
                .high = 100},
               interpolation_parameter("nearest"),
               fill_parameter(),
               probability()},
    .build = nullptr,
    .build_policy = build_policy<TrivialAugment>};

// augmix(severity, width, depth, alpha): mixes the image with the results of several chains of ops, with random weights
// (Hendrycks et al., "AugMix", 2020; torchvision's AugMix, whose ops and scales are used). Reads the whole image.
namespace {

constexpr PolicyOpScale kAugMixSpace[] = {{"shear_x", 0, 0.3, PolicyOpScale::kBoth},
                                          {"shear_y", 0, 0.3, PolicyOpScale::kBoth},
                                          {"translate_x", 0, 1.0 / 3, PolicyOpScale::kBoth},
                                          {"translate_y", 0, 1.0 / 3, PolicyOpScale::kBoth},
                                          {"rotate", 0, 30, PolicyOpScale::kBoth},
                                          {"posterize", 4, 0},
                                          {"solarize", 1, 0},
                                          {"autocontrast"},
                                          {"equalize"},
                                          {"brightness", 0, 0.9, PolicyOpScale::kBoth},
                                          {"saturation", 0, 0.9, PolicyOpScale::kBoth},
                                          {"contrast", 0, 0.9, PolicyOpScale::kBoth},
                                          {"sharpness", 0, 0.9, PolicyOpScale::kBoth}};
constexpr int kAugMixBins = 10;
constexpr int kAugMixMostWidth = 6;

/// A Gamma(alpha, 1) variate: Marsaglia and Tsang (2000), computed from alpha + 1 if alpha is below 1.
double draw_gamma(double alpha, RandomStream& rng) {
  const double boost = alpha < 1 ? portable_exp(portable_log(1 - rng.uniform_double()) / alpha) : 1;
  const double d = (alpha < 1 ? alpha + 1 : alpha) - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = rng.normal();
    const double v = 1 + c * x;
    if (v <= 0) continue;
    const double cube = v * v * v;
    const double u = 1 - rng.uniform_double();
    if (portable_log(u) < 0.5 * x * x + d - d * cube + d * portable_log(cube)) return boost * d * cube;
  }
}

class AugMix : public Op {
 public:
  explicit AugMix(OpArguments& arguments)
      : width_(arguments.integer("width")), alpha_(arguments.number("alpha")) {
    const int severity = arguments.integer("severity");
    const std::string how = how_text(arguments);
    std::string ops;
    for (const PolicyOpScale& op : kAugMixSpace) {
      std::string bins;
      for (int bin = 0; bin < (op.has_magnitude() ? severity : 1); ++bin)
        bins +=
            concat(bins.empty() ? "" : " | ", signed_expression(op, magnitude_of(op, bin, kAugMixBins), how));
      ops += concat(ops.empty() ? "" : " | ", "one_of(", bins, ")");
    }
    const Drawn depth = arguments.drawn("depth");
    Result<Chain> chain = Chain::parse(concat("repeat(", range_text(depth), ",", ops, ")"));
    if (!chain.ok()) arguments.refuse({ErrorCode::kInternal, chain.status().message()});
    if (chain.ok()) chain_ = *std::move(chain);
  }

  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    // values[0] is the image's own weight, then one per chain.
    const double own = draw_gamma(alpha_, rng);
    const double mixed = draw_gamma(alpha_, rng);
    const double share = own + mixed > 0 ? mixed / (own + mixed) : 0.5;
    std::array<double, kAugMixMostWidth> weights{};
    double sum = 0;
    for (int i = 0; i < width_; ++i) sum += weights[static_cast<size_t>(i)] = draw_gamma(alpha_, rng);
    draw.values[0] = static_cast<float>(1 - share);
    for (int i = 0; i < width_; ++i) {
      const double weight = sum > 0 ? weights[static_cast<size_t>(i)] / sum : 1.0 / width_;
      draw.values[static_cast<size_t>(i) + 1] = static_cast<float>(share * weight);
    }
    draw.key = draw_key(rng);
    return {};
  }

  Status apply(const OpDraw& draw, const ConstImageView& in, const ImageView& out,
               ChainScratch& scratch) const override {
    if (scratch.inner == nullptr) scratch.inner = std::make_unique<ChainScratch>();
    const size_t row = size_t(out.width) * size_t(out.channels);
    const size_t size = row * size_t(out.height);
    if (scratch.work.size() < size * sizeof(uint32_t)) scratch.work.resize(size * sizeof(uint32_t));
    if (scratch.rows.size() < size) scratch.rows.resize(size);
    auto* sums = reinterpret_cast<uint32_t*>(scratch.work.data());
    const ImageView one{reinterpret_cast<uint8_t*>(scratch.rows.data()), out.width, out.height, out.channels,
                        static_cast<ptrdiff_t>(row)};
    std::fill_n(sums, size, uint32_t{0});
    add(in, draw.values[0], sums);
    ChainPlan plan;
    for (int i = 0; i < width_; ++i) {
      DLPIPE_RETURN_IF_ERROR(chain_.plan(draw.in, {.seed = draw.key, .position = i}, plan));
      DLPIPE_RETURN_IF_ERROR(chain_.apply(plan, in, one, *scratch.inner));
      add(one, draw.values[static_cast<size_t>(i) + 1], sums);
    }
    for (int y = 0; y < out.height; ++y) {
      for (size_t i = 0; i < row; ++i) out.row(y)[i] = static_cast<uint8_t>(std::min(*sums++ >> 16, 255u));
    }
    return {};
  }

  size_t scratch_bytes(const OpDraw& draw, int channels) const override {
    const size_t size = static_cast<size_t>(draw.window.width) * static_cast<size_t>(draw.window.height) *
                        static_cast<size_t>(channels);
    size_t bytes = size * (sizeof(uint32_t) + 1);
    ChainPlan plan;  // the chains use one scratch in turn
    for (int i = 0; i < width_; ++i) {
      if (chain_.plan(draw.in, {.seed = draw.key, .position = i}, plan).ok())
        bytes += Chain::scratch_bytes(plan);
    }
    return bytes;
  }

 private:
  static void add(const ConstImageView& image, float weight, uint32_t* sums) {
    const auto fixed = static_cast<uint32_t>(std::floor(static_cast<double>(weight) * 65536 + 0.5));
    for (int y = 0; y < image.height; ++y) {
      const uint8_t* const from = image.row(y);
      for (int i = 0; i < image.width * image.channels; ++i) *sums++ += fixed * from[i];
    }
  }

  int width_;
  double alpha_;
  Chain chain_;
};

}  // namespace

extern const OpRecord augmix_augmentation = {
    .name = "augmix",
    .help = "mix the image with several augmented copies of itself (AugMix)",
    .version = 1,
    .params = {{.name = "severity",
                .kind = "int",
                .default_value = "3",
                .help = "how many of the ten magnitudes to draw from, lowest first",
                .low = 1,
                .high = kAugMixBins},
               {.name = "width",
                .kind = "int",
                .default_value = "3",
                .help = "chains",
                .low = 1,
                .high = kAugMixMostWidth},
               {.name = "depth",
                .kind = "ints",
                .default_value = "1..3",
                .help = "ops per chain",
                .low = 1,
                .high = 10},
               {.name = "alpha",
                .kind = "float",
                .default_value = "1",
                .help = "parameter of the Dirichlet distribution of the weights",
                .low = 0.01,
                .high = 100},
               interpolation_parameter("bilinear"),
               fill_parameter(),
               probability()},
    .build = build_op<AugMix>,
    .traits = {.blends = true}};

// three_augment(jitter): grayscale, solarize or a blur, then a color jitter (Touvron et al., "DeiT III", 2022, section 3.2).
namespace {

class ThreeAugment : public ChainPolicy {
 public:
  explicit ThreeAugment(OpArguments& arguments) : ChainPolicy(arguments, {expression(arguments)}) {}
  Count times() const override { return {1, 1}; }
  void choose(RandomStream&, std::vector<int>& chosen) const override { chosen.push_back(0); }

 private:
  static std::string expression(OpArguments& arguments) {
    const std::string jitter = shortest_decimal(arguments.number("jitter"));
    return concat("one_of(grayscale | solarize(128) | gaussian_blur(sigma=0.1..2)) color_jitter(", jitter,
                  ",", jitter, ",", jitter, ")");
  }
};

}  // namespace

extern const OpRecord three_augment_augmentation = {
    .name = "three_augment",
    .help = "grayscale, solarize or gaussian_blur, then color_jitter (DeiT III's 3-Augment)",
    .version = 1,
    .params = {{.name = "jitter",
                .kind = "float",
                .default_value = "0.3",
                .help = "jitter of brightness, contrast and saturation",
                .low = 0,
                .high = 1},
               probability()},
    .build = nullptr,
    .build_policy = build_policy<ThreeAugment>};

}  // namespace dlpipe::augment
