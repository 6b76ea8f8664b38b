// color_jitter(brightness, contrast, saturation, hue): each drawn on its own, run in a random order (torchvision's
// ColorJitter). What is left at its neutral value is left out.
#include "dlpipe/augment/kinds.h"
#include "dlpipe/augment/policy.h"

namespace dlpipe::augment {

namespace {

class ColorJitter : public ChainPolicy {
 public:
  explicit ColorJitter(OpArguments& arguments) : ChainPolicy(arguments, expressions(arguments)) {}
  Count times() const override { return {count(), count()}; }
  void choose(RandomStream& rng, std::vector<int>& chosen) const override { chosen = shuffled(count(), rng); }

 private:
  static std::vector<std::string> expressions(OpArguments& arguments) {
    std::vector<std::string> all;
    for (const char* name : {"brightness", "contrast", "saturation", "hue"}) {
      const Drawn range = arguments.drawn(name);
      const double neutral = std::string_view(name) == "hue" ? 0 : 1;
      if (range.low != neutral || range.high != neutral)
        all.push_back(concat(name, "(", range_text(range), ")"));
    }
    return all;
  }
};

}  // namespace

extern const OpRecord color_jitter_augmentation = {
    .name = "color_jitter",
    .help = "brightness, contrast, saturation and hue in a random order (ColorJitter)",
    .version = 1,
    .params = {factor_parameter("brightness", "0", "factors; 1 changes nothing"),
               factor_parameter("contrast", "0", "factors; 1 changes nothing"),
               factor_parameter("saturation", "0", "factors; 1 changes nothing"),
               {.name = "hue",
                .kind = "spread",
                .default_value = "0",
                .help = "share of the whole circle",
                .low = -0.5,
                .high = 0.5,
                .unit = "turns"},
               probability()},
    .build = nullptr,
    .build_policy = build_policy<ColorJitter>};

}  // namespace dlpipe::augment
