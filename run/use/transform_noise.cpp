#include "dlpipe/run/use/transform_rules.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

/// What torchvision's RandomErasing leaves. Behind Normalize, where it mostly stands, its value is in units of the standard
/// deviation around the mean: 0 is the mean's colour.
std::string erased(const TransformCall& t) {
  const Json& value = t.get("value", 3);
  const std::vector<double>& mean = t.conversion.mean;
  if (value.is_string() && value.as_string() == "random") {
    if (!mean.empty()) t.note("its random values are a picture's, there those of a normal distribution");
    return ",mode=noise";
  }
  if (mean.empty()) return t.fill("value");
  std::string fill;
  for (size_t i = 0; i < mean.size(); ++i) {
    const Json& one = value.is_array() && value.items().size() == mean.size() ? value.items()[i]
                      : value.is_array() && !value.items().empty()            ? value.items()[0]
                                                                              : value;
    const double there = one.is_null() ? 0 : t.number("value", one);
    const double pixel = 255 * (there * t.conversion.std[i] + mean[i]);
    fill += concat(i == 0 ? ",fill=" : ":", std::lround(std::clamp(pixel, 0.0, 255.0)));
  }
  return fill;
}

}  // namespace

const TransformRules& noise_rules() {
  static const TransformRules all = {
      {"GaussianBlur",
       [](const TransformCall& t) -> TransformText {
         const Json& kernel = t.get("kernel_size", 0);
         const std::string sigma = t.range("sigma_limit", 99, t.range("sigma", 1, "0.1..2"));
         const Json& side = kernel.is_array() && !kernel.items().empty() ? kernel.items()[0] : kernel;
         const auto size = side.is_null() ? 0 : static_cast<int64_t>(t.number("kernel_size", side));
         return concat("gaussian_blur(", size > 0 ? concat("size=", size, ",") : std::string(),
                       "sigma=", sigma, t.p(t.get("sigma_limit").is_null() ? 1 : 0.5), ")");
       }},
      {"Blur",
       [](const TransformCall& t) -> TransformText {
         return concat("box_blur(", t.range("blur_limit", 99, "3..7"), t.p(0.5), ")");
       }},
      {"MedianBlur",
       [](const TransformCall& t) -> TransformText {
         return concat("median_blur(", t.range("blur_limit", 99, "3..7"), t.p(0.5), ")");
       }},
      {"MotionBlur",
       [](const TransformCall& t) -> TransformText {
         return concat("motion_blur(", t.range("blur_limit", 99, "3..7"), ",",
                       t.range("angle_range", 99, "0..360"), t.p(0.5), ")");
       }},
      {"UnsharpMask",
       [](const TransformCall& t) -> TransformText {
         // No sigma: OpenCV takes the kernel's width for it, as 0.3 ((width - 1) / 2 - 1) + 0.8.
         const auto of_width = [&](const Json& width) {
           return (15 * t.number("blur_limit", width) + 35) / 100;
         };
         const Json& widths = t.get("blur_limit");
         std::string sigma = t.range("sigma_limit", 99, "0..0");
         if (sigma == "0..0" || sigma == "0") {
           sigma = widths.items().size() == 2
                       ? augment::range_text({of_width(widths.items()[0]), of_width(widths.items()[1])})
                       : "0.8..1.4";
         }
         return concat("unsharp(", sigma, ",", t.range("alpha", 99, "0.2..0.5"), t.p(0.5), ")");
       }},
      {"Emboss",
       [](const TransformCall& t) -> TransformText {
         return concat("emboss(", t.range("alpha", 0, "0.2..0.5"), ",", t.range("strength", 1, "0.2..0.7"),
                       t.p(0.5), ")");
       }},
      {"Downscale",
       [](const TransformCall& t) -> TransformText {
         return concat("downscale(", t.range("scale_range", 0, "0.25"), t.p(0.5), ")");
       }},
      {"JPEG",
       [](const TransformCall& t) -> TransformText {
         return concat("jpeg(", t.range("quality", 0, "1..100"), ")");
       }},
      {"ImageCompression",
       [](const TransformCall& t) -> TransformText {
         if (t.get("compression_type", 0).as_string() == "webp")
           t.note("what is lost is JPEG's, there WebP's");
         return concat("jpeg(", t.range("quality_range", 1, "99..100"), t.p(0.5), ")");
       }},
      {"GaussNoise",
       [](const TransformCall& t) -> TransformText {
         return concat("gaussian_noise(", t.range("std_range", 0, "0.2..0.44"), ",",
                       t.range("mean_range", 1, "0"), t.p(0.5), ")");
       }},
      {"GaussianNoise",
       [](const TransformCall& t) -> TransformText {
         return concat("gaussian_noise(", number_text(t.value("sigma", 1, 0.1)), ",",
                       number_text(t.value("mean", 0, 0)), ")");
       }},
      {"ISONoise",
       [](const TransformCall& t) -> TransformText {
         t.note("the noise is drawn in RGB, there in HLS");
         return concat("iso_noise(", t.range("color_shift", 0, "0.01..0.05"), ",",
                       t.range("intensity", 1, "0.1..0.5"), t.p(0.5), ")");
       }},
      {"CoarseDropout",
       [](const TransformCall& t) -> TransformText {
         return concat("coarse_dropout(", t.range("num_holes_range", 99, "1..2"), ",",
                       t.range("hole_height_range", 99, "0.1..0.2"), ",",
                       t.range("hole_width_range", 99, "0.1..0.2"), t.fill(), t.p(0.5), ")");
       }},
      {"RandomErasing",
       [](const TransformCall& t) -> TransformText {
         return concat("random_erasing(", t.range("scale", 1, "0.02..0.33"), ",",
                       t.range("ratio", 2, "0.3..3.3"), erased(t), ",p=", number_text(t.value("p", 0, 0.5)),
                       ")");
       }},
      {"Erasing",
       [](const TransformCall& t) -> TransformText {
         return concat("random_erasing(", t.range("scale", 0, "0.02..0.33"), ",",
                       t.range("ratio", 1, "0.3..3.3"), t.fill(), ",p=", number_text(t.value("p", 99, 0.5)),
                       ")");
       }},
  };
  return all;
}

}  // namespace dlpipe::run
