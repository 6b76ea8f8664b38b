#include "dlpipe/run/convert/transform_rules.h"

#include "dlpipe/base/text.h"

namespace dlpipe::run {

const TransformRules& policy_rules() {
  static const TransformRules all = {
      {"RandAugment",
       [](const TransformCall& t) -> TransformText {
         return concat("randaugment(", number_text(t.value("num_ops", 0, 2)), ",",
                       number_text(t.value("magnitude", 1, 9)), ",",
                       number_text(t.value("num_magnitude_bins", 2, 31)), t.warp_filter("nearest"), t.fill(),
                       ")");
       }},
      {"TrivialAugmentWide",
       [](const TransformCall& t) -> TransformText {
         return concat("trivial_augment(", number_text(t.value("num_magnitude_bins", 0, 31)),
                       t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"AutoAugment",
       [](const TransformCall& t) -> TransformText {
         const std::string policy = last_word(t.get("policy", 0).as_string());
         return concat("auto_augment(", policy.empty() ? "imagenet" : policy, t.warp_filter("nearest"),
                       t.fill(), ")");
       }},
      {"AugMix",
       [](const TransformCall& t) -> TransformText {
         if (t.value("chain_depth", 2, -1) > 0)
           t.note("chains are one to three ops long, there as deep as chain_depth says");
         if (!t.get("all_ops", 4).as_bool(true))
           t.note("all ops are drawn from, there not those of colour and sharpness");
         return concat("augmix(", number_text(t.value("severity", 0, 3)), ",",
                       number_text(t.value("mixture_width", 1, 3)),
                       ",alpha=", number_text(t.value("alpha", 3, 1)), t.warp_filter("bilinear"), t.fill(),
                       ")");
       }},
      {"Normalize",
       [](const TransformCall& t) -> TransformText {
         const size_t unread = t.conversion.result.no_equal.size();
         // albumentations' own defaults; torchvision has none
         const bool is_default = t.get("mean", 0).is_null() && t.get("std", 1).is_null();
         const std::string mean = is_default ? "0.485:0.456:0.406" : t.list("mean", 0);
         const std::string std = is_default ? "0.229:0.224:0.225" : t.list("std", 1);
         if (t.conversion.result.no_equal.size() == unread) t.normalize(mean, std);
         return "";
       }},
  };
  return all;
}

}  // namespace dlpipe::run
