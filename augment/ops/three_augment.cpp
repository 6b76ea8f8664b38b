// three_augment(jitter): grayscale, solarize or a blur, then colours jittered (Touvron et al., "DeiT III", 2022, section 3.2).
#include "dlpipe/augment/policy.h"
#include "dlpipe/base/shortest_decimal.h"

namespace dlpipe::augment {

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
                .help = "of brightness, contrast and saturation",
                .low = 0,
                .high = 1},
               probability()},
    .build = nullptr,
    .build_policy = build_policy<ThreeAugment>};

}  // namespace dlpipe::augment
