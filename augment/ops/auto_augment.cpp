// auto_augment(policy): one of the 25 pairs of ops that were found for a data set, each op with its own probability and
// magnitude (Cubuk et al., "AutoAugment", 2018, tables 7 to 9; torchvision's AutoAugment).
#include <array>
#include <span>

#include "dlpipe/augment/policy_space.h"

namespace dlpipe::augment {

namespace {

constexpr int kBins = 10;

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
          expression +=
              concat(expression.empty() ? "" : " ", signed_expression(op, magnitude_of(op, part.bin, kBins),
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
    .help = "one of 25 pairs of ops that were found for a data set (AutoAugment)",
    .version = 1,
    .params = {{.name = "policy",
                .kind = "string",
                .default_value = "imagenet",
                .help = "the data set",
                .choices = {"imagenet", "cifar10", "svhn"}},
               interpolation_parameter("nearest"),
               fill_parameter(),
               probability()},
    .build = nullptr,
    .build_policy = build_policy<AutoAugment>};

}  // namespace dlpipe::augment
