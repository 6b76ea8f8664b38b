// augmix(severity, width, depth, alpha): the picture mixed with several chains of ops of itself, with random weights
// (Hendrycks et al., "AugMix", 2020; torchvision's AugMix, whose space and scales these are). Looks at the whole picture.
#include <cmath>

#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/noise.h"
#include "dlpipe/augment/policy_space.h"
#include "dlpipe/base/portable_math.h"

namespace dlpipe::augment {

namespace {

constexpr PolicyOpScale::Sign kBoth = PolicyOpScale::kBoth;
constexpr PolicyOpScale kSpace[] = {{"shear_x", 0, 0.3, kBoth},
                                    {"shear_y", 0, 0.3, kBoth},
                                    {"translate_x", 0, 1.0 / 3, kBoth},
                                    {"translate_y", 0, 1.0 / 3, kBoth},
                                    {"rotate", 0, 30, kBoth},
                                    {"posterize", 4, 0},
                                    {"solarize", 1, 0},
                                    {"autocontrast"},
                                    {"equalize"},
                                    {"brightness", 0, 0.9, kBoth},
                                    {"saturation", 0, 0.9, kBoth},
                                    {"contrast", 0, 0.9, kBoth},
                                    {"sharpness", 0, 0.9, kBoth}};
constexpr int kBins = 10;
constexpr int kMostWidth = 6;

/// Gamma(alpha, 1) times any one factor: Marsaglia and Tsang (2000), for alpha below 1 of alpha + 1.
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
    for (const PolicyOpScale& op : kSpace) {
      std::string bins;
      for (int bin = 0; bin < (op.has_magnitude() ? severity : 1); ++bin)
        bins += concat(bins.empty() ? "" : " | ", signed_expression(op, magnitude_of(op, bin, kBins), how));
      ops += concat(ops.empty() ? "" : " | ", "one_of(", bins, ")");
    }
    const Drawn depth = arguments.drawn("depth");
    Result<Chain> chain = Chain::parse(concat("repeat(", range_text(depth), ",", ops, ")"));
    if (!chain.ok()) arguments.refuse({ErrorCode::kInternal, chain.status().message()});
    if (chain.ok()) chain_ = *std::move(chain);
  }

  Status plan(const ImageSize&, RandomStream& rng, OpDraw& draw) const override {
    // values[0] is the picture's own weight, then one per chain.
    const double own = draw_gamma(alpha_, rng);
    const double mixed = draw_gamma(alpha_, rng);
    const double share = own + mixed > 0 ? mixed / (own + mixed) : 0.5;
    std::array<double, kMostWidth> weights{};
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
    ChainPlan plan;  // the chains grow one scratch by turns
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
    .help = "mixed with several chains of ops of itself (AugMix)",
    .version = 1,
    .params = {{.name = "severity",
                .kind = "int",
                .default_value = "3",
                .help = "how many of ten magnitudes are drawn from, the lowest first",
                .low = 1,
                .high = kBins},
               {.name = "width",
                .kind = "int",
                .default_value = "3",
                .help = "chains",
                .low = 1,
                .high = kMostWidth},
               {.name = "depth",
                .kind = "ints",
                .default_value = "1..3",
                .help = "ops per chain",
                .low = 1,
                .high = 10},
               {.name = "alpha",
                .kind = "float",
                .default_value = "1",
                .help = "of the Dirichlet distributions of the weights",
                .low = 0.01,
                .high = 100},
               interpolation_parameter("bilinear"),
               fill_parameter(),
               probability()},
    .build = build_op<AugMix>,
    .traits = {.blends = true}};

}  // namespace dlpipe::augment
