// randaugment(n, magnitude, bins): n ops, each drawn evenly from fourteen, all at one magnitude (Cubuk et al., "RandAugment",
// 2019; torchvision's RandAugment).
#include "dlpipe/augment/policy_space.h"

namespace dlpipe::augment {

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
      arguments.refuse({ErrorCode::kMisuse,
                        concat("magnitude counts from 0 to bins - 1 = ", bins - 1, ", got ", magnitude)});
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
          .help = "of all of them",
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

}  // namespace dlpipe::augment
