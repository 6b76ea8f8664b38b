// trivial_augment(bins): one op, drawn evenly from fourteen, at a magnitude drawn evenly (Mueller and Hutter,
// "TrivialAugment", 2021; torchvision's TrivialAugmentWide).
#include "dlpipe/augment/policy_space.h"

namespace dlpipe::augment {

namespace {

constexpr PolicyOpScale::Sign kBoth = PolicyOpScale::kBoth;
constexpr PolicyOpScale kSpace[] = {{"identity"},
                                    {"shear_x", 0, 0.99, kBoth},
                                    {"shear_y", 0, 0.99, kBoth},
                                    {"translate_x_pixels", 0, 32, kBoth},
                                    {"translate_y_pixels", 0, 32, kBoth},
                                    {"rotate", 0, 135, kBoth},
                                    {"brightness", 0, 0.99, kBoth},
                                    {"saturation", 0, 0.99, kBoth},
                                    {"contrast", 0, 0.99, kBoth},
                                    {"sharpness", 0, 0.99, kBoth},
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
    const uint32_t op = rng.below(static_cast<uint32_t>(std::size(kSpace)));
    const uint32_t bin = rng.below(static_cast<uint32_t>(bins_));
    chosen.push_back(static_cast<int>(op) * bins_ + static_cast<int>(bin));
  }

 private:
  /// [op][bin]
  static std::vector<std::string> expressions(OpArguments& arguments) {
    const int bins = arguments.integer("bins");
    std::vector<std::string> all;
    for (const PolicyOpScale& op : kSpace) {
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

}  // namespace dlpipe::augment
