#include "dlpipe/run/convert/transform_rules.h"

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

/// OpenCV takes a kernel's width for sigma, as 0.3 ((width - 1) / 2 - 1) + 0.8.
std::string sigma_of_widths(const TransformCall& t) {
  std::vector<double> widths = {3, 7};
  const Json& given = t.get("blur_limit");
  if (given.is_number()) widths[1] = given.as_double();
  for (size_t i = 0; i < 2 && given.items().size() == 2; ++i)
    widths[i] = t.number("blur_limit", given.items()[i]);
  const auto of_width = [](double width) { return (15 * width + 35) / 100; };
  return augment::range_text({of_width(widths[0]), of_width(widths[1])});
}

/// Releases 1.x gave the ends of some ranges by themselves.
std::string older_range(const TransformCall& t, const char* low, const char* high, const char* fallback) {
  const Json& from = t.get(low);
  const Json& to = t.get(high);
  if (from.is_null() && to.is_null()) return fallback;
  return augment::range_text(
      {t.number(low, from.is_null() ? to : from), t.number(high, to.is_null() ? from : to)});
}

/// GaussNoise's var_limit of releases 1.x: variances of pixels in 0..255; one number is the largest.
std::string older_deviation(const TransformCall& t, const char* fallback) {
  const Json& given = t.get("var_limit");
  if (given.is_null()) return fallback;
  const bool has_two = given.items().size() == 2;
  const auto deviation = [&](const Json& variance) {
    return std::round(std::sqrt(std::max(t.number("var_limit", variance), 0.0)) / 255 * 1e5) / 1e5;
  };
  return augment::range_text(
      {has_two ? deviation(given.items()[0]) : 0, deviation(has_two ? given.items()[1] : given)});
}

/// A side of CoarseDropout's holes as a share of the picture's. Whole numbers are pixels there; nothing where the picture's side
/// isn't known.
TransformText hole_side(const TransformCall& t, const char* name, const Json& least, const Json& most,
                        int side) {
  const double low = t.number(name, least), high = t.number(name, most);
  if (!most.is_integer()) return augment::range_text({low, high});
  if (side == 0) {
    t.conversion.result.no_equal.push_back(concat(
        t.name(), ": its holes are in pixels, here shares of the picture, whose size isn't known before it"));
    return std::nullopt;
  }
  // As many whole pixels, each equally often.
  const auto share = [&](double pixels) { return std::min(std::round(pixels / side * 1e5) / 1e5, 1.0); };
  if (low == high) return number_text(share(low + 0.5));
  return augment::range_text({share(low), share(high + 1)});
}

/// CoarseDropout, by its parameters or by those of releases 1.x, where a least that isn't given is the most; and Cutout.
TransformText holes(const TransformCall& t) {
  struct Parameter {
    const char* name;
    const char* least;
    const char* most;
    const char* cutout;
  };
  const bool is_cutout = t.name() == "Cutout";
  bool is_older = is_cutout;
  for (const char* key : {"max_holes", "max_height", "max_width"}) is_older |= !t.get(key).is_null();
  static const Json eight(8), one(1), two(2), tenth(0.1), fifth(0.2);
  const auto ends = [&](const Parameter& parameter, const Json& low, const Json& high) {
    const Json& range = t.get(parameter.name);
    if (range.items().size() == 2) return std::pair(&range.items()[0], &range.items()[1]);
    if (!range.is_null()) return std::pair(&range, &range);
    if (!is_older) return std::pair(&low, &high);
    const Json& most = t.get(is_cutout ? parameter.cutout : parameter.most);
    const Json& least = t.get(parameter.least);
    const Json* const upper = most.is_null() ? &eight : &most;
    return std::pair(least.is_null() ? upper : &least, upper);
  };
  const auto count = ends({"num_holes_range", "min_holes", "max_holes", "num_holes"}, one, two);
  const auto height = ends({"hole_height_range", "min_height", "max_height", "max_h_size"}, tenth, fifth);
  const auto width = ends({"hole_width_range", "min_width", "max_width", "max_w_size"}, tenth, fifth);
  TransformText tall = hole_side(t, "height", *height.first, *height.second, t.conversion.size.height);
  if (!tall) return tall;
  TransformText wide = hole_side(t, "width", *width.first, *width.second, t.conversion.size.width);
  if (!wide) return wide;
  return concat("coarse_dropout(",
                augment::range_text({t.number("holes", *count.first), t.number("holes", *count.second)}), ",",
                *tall, ",", *wide, t.fill(), t.p(0.5), ")");
}

}  // namespace

const TransformRules& noise_rules() {
  static const TransformRules all = {
      {"GaussianBlur",
       [](const TransformCall& t) -> TransformText {
         const Json& kernel = t.get("kernel_size", 0);
         const bool is_other = t.is_albumentations() || !t.get("sigma_limit").is_null();
         std::string sigma = t.range("sigma_limit", 99, is_other ? "0.5..3" : t.range("sigma", 1, "0.1..2"));
         // No sigma: the kernel's width tells it.
         if (sigma == "0..0" || sigma == "0") sigma = sigma_of_widths(t);
         const Json& side = kernel.is_array() && !kernel.items().empty() ? kernel.items()[0] : kernel;
         const auto size = side.is_null() ? 0 : static_cast<int64_t>(t.number("kernel_size", side));
         if (kernel.items().size() == 2 &&
             t.number("kernel_size", kernel.items()[1]) != static_cast<double>(size)) {
           t.conversion.result.no_equal.push_back(
               concat(t.name(), ": a kernel that isn't square (here sides are equal; sigma alone may do)"));
           return std::nullopt;
         }
         return concat("gaussian_blur(", size > 0 ? concat("size=", size, ",") : std::string(),
                       "sigma=", sigma, t.p(is_other ? 0.5 : 1), ")");
       }},
      {"Blur",
       [](const TransformCall& t) -> TransformText {
         return concat("box_blur(", t.widths("3..7"), t.p(0.5), ")");
       }},
      {"MedianBlur",
       [](const TransformCall& t) -> TransformText {
         return concat("median_blur(", t.widths("3..7"), t.p(0.5), ")");
       }},
      {"MotionBlur",
       [](const TransformCall& t) -> TransformText {
         return concat("motion_blur(", t.widths("3..7"), ",", t.range("angle_range", 99, "0..360"), t.p(0.5),
                       ")");
       }},
      {"UnsharpMask",
       [](const TransformCall& t) -> TransformText {
         std::string sigma = t.range("sigma_limit", 99, "0..0");
         if (sigma == "0..0" || sigma == "0") sigma = sigma_of_widths(t);
         if (t.value("threshold", 99, 10) > 0)
           t.note(
               "every pixel is sharpened here, there those that the blur changes by more than a threshold");
         return concat("unsharp(", sigma, ",", t.range("alpha", 99, "0.2..0.5"), t.p(0.5), ")");
       }},
      {"Emboss",
       [](const TransformCall& t) -> TransformText {
         return concat("emboss(", t.range("alpha", 0, "0.2..0.5"), ",", t.range("strength", 1, "0.2..0.7"),
                       t.p(0.5), ")");
       }},
      {"Downscale",
       [](const TransformCall& t) -> TransformText {
         return concat("downscale(",
                       t.range("scale_range", 0, older_range(t, "scale_min", "scale_max", "0.25")), t.p(0.5),
                       ")");
       }},
      {"JPEG",
       [](const TransformCall& t) -> TransformText {
         return concat("jpeg(", t.range("quality", 0, "1..100"), ")");
       }},
      {"ImageCompression",
       [](const TransformCall& t) -> TransformText {
         const Json& type = t.get("compression_type", 0);  // 1.x saves its number
         if (last_word(type.as_string()) == "webp" || type.as_int() == 1)
           t.note("what is lost is JPEG's, there WebP's");
         return concat(
             "jpeg(",
             t.range("quality_range", 1, older_range(t, "quality_lower", "quality_upper", "99..100")),
             t.p(0.5), ")");
       }},
      {"GaussNoise",
       [](const TransformCall& t) -> TransformText {
         const std::string mean = t.range("mean_range", 1, t.range("mean", 99, "0", 1.0 / 255));
         return concat("gaussian_noise(", t.range("std_range", 0, older_deviation(t, "0.2..0.44")), ",", mean,
                       t.p(0.5), ")");
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
      {"CoarseDropout", holes},
      {"Cutout", holes},  // of releases 1.x
      {"RandomErasing",
       [](const TransformCall& t) -> TransformText {
         if (!t.get("probability").is_null() || !t.get("max_count").is_null()) return timm_erasing(t);
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
