#include "dlpipe/run/use/transform_rules.h"

#include <algorithm>
#include <map>

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;
using Text = std::optional<std::string>;
using Rules = std::map<std::string, TransformRule, std::less<>>;

/// Of an op whose only parameter is its probability: op(p).
TransformRule chance(const char* op, size_t place, double fallback) {
  return [=](const TransformCall& t) -> Text {
    return concat(op, "(", number_text(t.value("p", place, fallback)), ")");
  };
}

/// torchvision's FiveCrop and TenCrop: --tta takes 7/8 of a picture, which is made that much larger here.
TransformRule crops(const char* views) {
  return [=](const TransformCall& t) -> Text {
    const Json& given = t.get("size", 0);
    const Json& side = given.is_array() && !given.items().empty() ? given.items()[0] : given;
    const auto size = static_cast<int64_t>(t.number("size", side));
    if (size < 1 || size > augment::kMaxSize) return std::nullopt;
    t.note(concat("eval --tta ", views, " takes the crops, from the middle square of the picture"));
    return concat("center_crop(", (size * 8 + 6) / 7, ")");
  };
}

/// OpenCV's way to go on beyond an edge: its number or its name; nothing where it is one colour.
std::string border(const TransformCall& t) {
  const Json& given = t.get("border_mode");
  const std::string word = given.is_string() ? last_word(given.as_string()) : std::to_string(given.as_int());
  if (word == "4" || word == "border_reflect_101" || word == "border_default") return ",reflect";
  if (word != "0" && word != "border_constant")
    t.cannot_read("border_mode", given, "one that dlpipe knows (constant, reflect_101)");
  return {};
}

/// One of several sizes, drawn.
Text shortest_sizes(const TransformCall& t) {
  const Json& given = t.get("min_size", 0);
  if (!t.get("max_size", 1).is_null()) t.note("max_size is left out: a longer side may be longer");
  const std::vector<Json> sizes = given.is_array() ? given.items() : std::vector<Json>{given};
  std::string all;
  for (const Json& size : sizes)
    all += concat(all.empty() ? "" : " | ", "resize(", number_text(t.number("min_size", size)), t.filter(2),
                  ")");
  return sizes.size() == 1 ? all : concat("one_of(", all, ")");
}

/// Albumentations' Mosaic of two by two. Its cells meet at a point of the output, as here; pictures are cut at random there,
/// here where they meet.
Text mosaic(const TransformCall& t) {
  const auto side = [&](const char* name, double fallback) {
    const Json& given = t.get(name);
    if (given.items().size() == 2 && !(given.items()[0] == given.items()[1]))
      t.cannot_read(name, given, "a square");
    return given.items().empty() ? fallback : t.number(name, given.items()[0]);
  };
  const Json& grid = t.get("grid_yx");
  for (const Json& one : grid.items()) {
    if (one.as_double() != 2) t.cannot_read("grid_yx", grid, "2 by 2");
  }
  const auto target = static_cast<int64_t>(side("target_size", 512)),
             cell = static_cast<int64_t>(side("cell_shape", 512));
  if (target % 2 != 0) t.cannot_read("target_size", t.get("target_size"), "an even number");
  const bool is_contained = t.get("fit_mode").as_string() == "contain";
  const std::string p = t.p(0.5), fill = t.fill();
  t.note("pictures are cut where they meet, there at random; the others are drawn from the dataset");
  return concat("resize(", cell, t.filter(), is_contained ? ",side=longer" : "", ") mosaic(", target / 2,
                ",center=", t.range("center_range", 99, "0.3..0.7"), fill.empty() ? ",fill=0" : fill, p, ")",
                p.empty() ? std::string() : concat(" pad_to(", target, ") center_crop(", target, ")"));
}

// sizes and places
const Rules& sizes_and_places() {
  static const Rules all = {
      {"RandomResizedCrop",
       [](const TransformCall& t) -> Text {
         Text size = t.size();
         if (!size) return size;
         const std::string scale = t.range("scale", 1, "0.08..1");
         const std::string ratio = t.range("ratio", 2, "3/4..4/3");
         return concat("rrc(", *size, ",", scale, ",", ratio, t.filter(3), ")");
       }},
      {"Resize",
       [](const TransformCall& t) -> Text {
         const Text size = t.size();
         return size ? Text(concat("resize(", *size, t.filter(1), ")")) : size;
       }},
      {"SmallestMaxSize",
       [](const TransformCall& t) -> Text {
         const Text size = t.size("max_size");
         return size ? Text(concat("resize(", *size, t.filter(), ")")) : size;
       }},
      {"LongestMaxSize",
       [](const TransformCall& t) -> Text {
         const Text size = t.size("max_size");
         return size ? Text(concat("resize(", *size, t.filter(), ",side=longer)")) : size;
       }},
      {"CenterCrop",
       [](const TransformCall& t) -> Text {
         return t.size() ? Text(concat("center_crop(", *t.size(), ")")) : t.size();
       }},
      {"FiveCrop", crops("five_crop")},
      {"TenCrop", crops("ten_crop")},
      {"RandomCrop",
       [](const TransformCall& t) -> Text {
         const Text size = t.size();
         const Json& padding = t.get("padding", 1);
         if (!size || padding.is_null()) return size ? Text(concat("random_crop(", *size, ")")) : size;
         const Json& given = t.get("padding_mode", 4);
         const std::string mode = given.is_null() ? "constant" : last_word(given.as_string());
         const std::string fill = t.get("fill", 3).is_null() ? "" : t.fill();
         if (!padding.is_array() && fill.empty() && (mode == "constant" || mode == "reflect"))
           return concat("pad_crop(", *size, ",", number_text(t.number("padding", padding)),
                         mode == "reflect" ? ",reflect)" : ")");
         return concat("pad(", t.list("padding", 1), ",", mode, fill, ") random_crop(", *size, ")");
       }},
      {"FixedSizeCrop",
       [](const TransformCall& t) -> Text {
         const Text size = t.size();
         return size ? Text(concat("pad_to(", *size, t.fill(), ") random_crop(", *size, ")")) : size;
       }},
      {"RandomShortestSize", shortest_sizes},
      {"Mosaic", mosaic},
      {"PadIfNeeded",
       [](const TransformCall& t) -> Text {
         const std::string height = number_text(t.value("min_height", 0, 1)),
                           width = number_text(t.value("min_width", 1, 1));
         return concat("pad_to(", height, "x", width, border(t), t.fill(), ")");
       }},
      {"Pad",
       [](const TransformCall& t) -> Text {
         const std::string mode =
             t.get("padding_mode", 2).is_null() ? "constant" : t.get("padding_mode", 2).as_string();
         return concat("pad(", t.list("padding", 0), ",", mode, t.fill(), ")");
       }},
  };
  return all;
}

// flips and turns
const Rules& turns_and_warps() {
  static const Rules all = {
      {"RandomHorizontalFlip", chance("hflip", 0, 0.5)},
      {"RandomVerticalFlip", chance("vflip", 0, 0.5)},
      {"HorizontalFlip", chance("hflip", 99, 0.5)},
      {"VerticalFlip", chance("vflip", 99, 0.5)},
      {"Transpose", chance("transpose", 99, 0.5)},
      {"RandomRotate90", [](const TransformCall& t) -> Text { return concat("rot90(0..3", t.p(0.5), ")"); }},
      {"RandomRotation",
       [](const TransformCall& t) -> Text {
         return concat("rotate(", t.range("degrees", 0, "0"), t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"Rotate",
       [](const TransformCall& t) -> Text {
         return concat("rotate(", t.range("limit", 0, "90"), t.warp_filter("bilinear"), t.fill(), t.p(0.5),
                       ")");
       }},
      {"RandomAffine",
       [](const TransformCall& t) -> Text {
         const Json& move = t.get("translate", 1);
         const auto share = [&](size_t i) {
           return number_text(i < move.items().size() ? move.items()[i].as_double() : 0);
         };
         return concat("affine(", t.range("degrees", 0, "0"), ",", share(0), ",", share(1), ",",
                       t.range("scale", 2, "1"), ",", t.range("shear", 3, "0"), t.warp_filter("nearest"),
                       t.fill(), ")");
       }},
      {"Affine",
       [](const TransformCall& t) -> Text {
         const auto of = [&](const char* name, const char* axis, const char* fallback) {
           const Json& given = t.get(name);
           const Json& range = given.is_object() ? given[axis] : given;
           if (range.is_null()) return std::string(fallback);
           if (range.items().size() != 2) return number_text(t.number(name, range));
           return augment::range_text({t.number(name, range.items()[0]), t.number(name, range.items()[1])});
         };
         if (!t.get("translate_percent")["x"].is_array() && of("translate_px", "x", "0..0") != "0..0")
           t.note("moves in pixels are left out; write translate(x, y, pixels)");
         return concat("affine(", t.range("rotate", 99, "0..0"), ",", of("translate_percent", "x", "0"), ",",
                       of("translate_percent", "y", "0"), ",", of("scale", "x", "1"), ",",
                       of("shear", "x", "0"), ",", of("shear", "y", "0"), t.warp_filter("bilinear"), t.fill(),
                       t.p(0.5), ")");
       }},
      {"ShiftScaleRotate",
       [](const TransformCall& t) -> Text {
         const auto shift = [&](const char* axis) {
           return t.range(axis, 99, t.range("shift_limit", 0, "-0.0625..0.0625"));
         };
         if (!border(t).empty()) t.note("what comes from outside is one colour, there the picture mirrored");
         return concat("affine(", t.range("rotate_limit", 2, "-45..45"), ",", shift("shift_limit_x"), ",",
                       shift("shift_limit_y"), ",", t.range("scale_limit", 1, "0.9..1.1", 1, 1),
                       t.warp_filter("bilinear"), t.fill(), t.p(0.5), ")");
       }},
      {"D4",
       [](const TransformCall& t) -> Text { return concat("one_of(rot90(0..3) hflip(0.5)", t.p(1), ")"); }},
      {"SquareSymmetry",
       [](const TransformCall& t) -> Text { return concat("one_of(rot90(0..3) hflip(0.5)", t.p(1), ")"); }},
      {"SanitizeBoundingBoxes",
       [](const TransformCall& t) -> Text {
         return concat("drop_boxes(0,", number_text(t.value("min_size", 0, 1)), ",",
                       number_text(t.value("min_area", 1, 1)), ")");
       }},
      {"RandomPerspective",
       [](const TransformCall& t) -> Text {
         return concat("perspective(", number_text(t.value("distortion_scale", 0, 0.5)),
                       t.warp_filter("bilinear"), t.fill(), ",p=", number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"GridDistortion",
       [](const TransformCall& t) -> Text {
         return concat("grid_distortion(", number_text(t.value("num_steps", 0, 5)), ",",
                       t.range("distort_limit", 1, "0.3"), t.warp_filter("bilinear"), t.p(0.5), ")");
       }},
      {"ElasticTransform",
       [](const TransformCall& t) -> Text {
         t.note(
             "elastic draws its field in another way; its alpha is the largest move in pixels, so look at "
             "dlpipe preview");
         return concat("elastic(8,32", t.warp_filter("bilinear"), t.p(t.get("p").is_null() ? 1 : 0.5), ")");
       }},
  };
  return all;
}

// colours
const Rules& colours() {
  static const Rules all = {
      {"RandomGrayscale", chance("grayscale", 0, 0.1)},
      {"ToGray", chance("grayscale", 99, 0.5)},
      {"RandomInvert", chance("invert", 0, 0.5)},
      {"InvertImg", chance("invert", 99, 0.5)},
      {"RandomAutocontrast", chance("autocontrast", 0, 0.5)},
      {"AutoContrast", chance("autocontrast", 99, 0.5)},
      {"RandomEqualize", chance("equalize", 0, 0.5)},
      {"Equalize", chance("equalize", 99, 0.5)},
      {"ChannelShuffle", chance("channel_shuffle", 99, 0.5)},
      {"ColorJitter",
       [](const TransformCall& t) -> Text {
         return concat("color_jitter(", t.range("brightness", 0, "0"), ",", t.range("contrast", 1, "0"), ",",
                       t.range("saturation", 2, "0"), ",", t.range("hue", 3, "0"), t.p(1), ")");
       }},
      {"RandomBrightnessContrast",
       [](const TransformCall& t) -> Text {
         t.note("brightness is a factor here, there a share of 255 that is added");
         return concat("one_of(brightness(", t.range("brightness_limit", 0, "0.2", 1, 1), ") contrast(",
                       t.range("contrast_limit", 1, "0.2", 1, 1), ")", t.p(0.5), ")");
       }},
      {"HueSaturationValue",
       [](const TransformCall& t) -> Text {
         t.note("saturation and value are factors here, there numbers that are added");
         return concat("one_of(hue(", t.range("hue_shift_limit", 0, "0.1", 1.0 / 180), ") saturation(",
                       t.range("sat_shift_limit", 1, "0.1", 1.0 / 255, 1), ") brightness(",
                       t.range("val_shift_limit", 2, "0.1", 1.0 / 255, 1), ")", t.p(0.5), ")");
       }},
      {"Grayscale", [](const TransformCall&) -> Text { return "grayscale"; }},
      {"RandomPosterize",
       [](const TransformCall& t) -> Text {
         return concat("posterize(", number_text(t.value("bits", 0, 4)), ",",
                       number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"Posterize",
       [](const TransformCall& t) -> Text {
         return concat("posterize(", t.range("num_bits", 99, "4"), t.p(0.5), ")");
       }},
      {"RandomSolarize",
       [](const TransformCall& t) -> Text {
         return concat("solarize(", number_text(t.value("threshold", 0, 128)), ",",
                       number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"Solarize",
       [](const TransformCall& t) -> Text {
         return concat("solarize(", t.range("threshold_range", 0, "128", 255), t.p(0.5), ")");
       }},
      {"RandomAdjustSharpness",
       [](const TransformCall& t) -> Text {
         const std::string factor = number_text(t.value("sharpness_factor", 0, 1));
         return concat("sharpness(", factor, "..", factor, ",", number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"RandomGamma",
       [](const TransformCall& t) -> Text {
         return concat("gamma(", t.range("gamma_limit", 0, "0.8..1.2", 0.01), t.p(0.5), ")");
       }},
      {"FancyPCA",
       [](const TransformCall& t) -> Text {
         t.note("the components are ImageNet's, there each picture's own");
         return concat("fancy_pca(", number_text(t.value("alpha", 0, 0.1)), t.p(0.5), ")");
       }},
      {"CLAHE",
       [](const TransformCall& t) -> Text {
         const Json& limit = t.get("clip_limit", 0);
         const Json& grid = t.get("tile_grid_size", 1);
         const bool given = grid.is_array() && grid.items().size() == 2;
         // OpenCV takes the tiles across first.
         const std::string tiles = given ? concat(number_text(grid.items()[1].as_double()), "x",
                                                  number_text(grid.items()[0].as_double()))
                                         : "8";
         return concat("clahe(", limit.is_number() ? "1.." : "", t.range("clip_limit", 0, "1..4"), ",", tiles,
                       t.p(0.5), ")");
       }},
      {"RandomPhotometricDistort",
       [](const TransformCall& t) -> Text {
         const std::string p = t.p(0.5);
         const std::string contrast = concat("contrast(", t.range("contrast", 1, "0.5..1.5"), p, ")");
         const std::string colour = concat("saturation(", t.range("saturation", 2, "0.5..1.5"), p, ") hue(",
                                           t.range("hue", 3, "-0.05..0.05"), p, ")");
         return concat("brightness(", t.range("brightness", 0, "0.875..1.125"), p, ") one_of(", contrast, " ",
                       colour, " | ", colour, " ", contrast, ") channel_shuffle(",
                       number_text(t.value("p", 4, 0.5)), ")");
       }},
      {"RandomChannelPermutation", [](const TransformCall&) -> Text { return "channel_shuffle"; }},
      {"ChannelDropout",
       [](const TransformCall& t) -> Text {
         return concat("channel_drop(", t.range("channel_drop_range", 99, "1"), t.p(0.5), ")");
       }},
  };
  return all;
}

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
    fill += concat(i == 0 ? ",fill=" : ":", static_cast<int64_t>(std::clamp(pixel, 0.0, 255.0) + 0.5));
  }
  return fill;
}

// blurs, noise, holes
const Rules& blurs_and_noise() {
  static const Rules all = {
      {"GaussianBlur",
       [](const TransformCall& t) -> Text {
         const Json& kernel = t.get("kernel_size", 0);
         const std::string sigma = t.range("sigma_limit", 99, t.range("sigma", 1, "0.1..2"));
         const Json& side = kernel.is_array() && !kernel.items().empty() ? kernel.items()[0] : kernel;
         const auto size = side.is_null() ? 0 : static_cast<int64_t>(t.number("kernel_size", side));
         return concat("gaussian_blur(", size > 0 ? concat("size=", size, ",") : std::string(),
                       "sigma=", sigma, t.p(t.get("sigma_limit").is_null() ? 1 : 0.5), ")");
       }},
      {"Blur",
       [](const TransformCall& t) -> Text {
         return concat("box_blur(", t.range("blur_limit", 99, "3..7"), t.p(0.5), ")");
       }},
      {"MedianBlur",
       [](const TransformCall& t) -> Text {
         return concat("median_blur(", t.range("blur_limit", 99, "3..7"), t.p(0.5), ")");
       }},
      {"MotionBlur",
       [](const TransformCall& t) -> Text {
         return concat("motion_blur(", t.range("blur_limit", 99, "3..7"), ",",
                       t.range("angle_range", 99, "0..360"), t.p(0.5), ")");
       }},
      {"UnsharpMask",
       [](const TransformCall& t) -> Text {
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
       [](const TransformCall& t) -> Text {
         return concat("emboss(", t.range("alpha", 0, "0.2..0.5"), ",", t.range("strength", 1, "0.2..0.7"),
                       t.p(0.5), ")");
       }},
      {"Downscale",
       [](const TransformCall& t) -> Text {
         return concat("downscale(", t.range("scale_range", 0, "0.25"), t.p(0.5), ")");
       }},
      {"JPEG",
       [](const TransformCall& t) -> Text { return concat("jpeg(", t.range("quality", 0, "1..100"), ")"); }},
      {"ImageCompression",
       [](const TransformCall& t) -> Text {
         if (t.get("compression_type", 0).as_string() == "webp")
           t.note("what is lost is JPEG's, there WebP's");
         return concat("jpeg(", t.range("quality_range", 1, "99..100"), t.p(0.5), ")");
       }},
      {"GaussNoise",
       [](const TransformCall& t) -> Text {
         return concat("gaussian_noise(", t.range("std_range", 0, "0.2..0.44"), ",",
                       t.range("mean_range", 1, "0"), t.p(0.5), ")");
       }},
      {"GaussianNoise",
       [](const TransformCall& t) -> Text {
         return concat("gaussian_noise(", number_text(t.value("sigma", 1, 0.1)), ",",
                       number_text(t.value("mean", 0, 0)), ")");
       }},
      {"ISONoise",
       [](const TransformCall& t) -> Text {
         t.note("the noise is drawn in RGB, there in HLS");
         return concat("iso_noise(", t.range("color_shift", 0, "0.01..0.05"), ",",
                       t.range("intensity", 1, "0.1..0.5"), t.p(0.5), ")");
       }},
      {"CoarseDropout",
       [](const TransformCall& t) -> Text {
         return concat("coarse_dropout(", t.range("num_holes_range", 99, "1..2"), ",",
                       t.range("hole_height_range", 99, "0.1..0.2"), ",",
                       t.range("hole_width_range", 99, "0.1..0.2"), t.fill(), t.p(0.5), ")");
       }},
      {"RandomErasing",
       [](const TransformCall& t) -> Text {
         return concat("random_erasing(", t.range("scale", 1, "0.02..0.33"), ",",
                       t.range("ratio", 2, "0.3..3.3"), erased(t), ",p=", number_text(t.value("p", 0, 0.5)),
                       ")");
       }},
      {"Erasing",
       [](const TransformCall& t) -> Text {
         return concat("random_erasing(", t.range("scale", 0, "0.02..0.33"), ",",
                       t.range("ratio", 1, "0.3..3.3"), t.fill(), ",p=", number_text(t.value("p", 99, 0.5)),
                       ")");
       }},
  };
  return all;
}

// policies
const Rules& policies() {
  static const Rules all = {
      {"RandAugment",
       [](const TransformCall& t) -> Text {
         return concat("randaugment(", number_text(t.value("num_ops", 0, 2)), ",",
                       number_text(t.value("magnitude", 1, 9)), ",",
                       number_text(t.value("num_magnitude_bins", 2, 31)), t.warp_filter("nearest"), t.fill(),
                       ")");
       }},
      {"TrivialAugmentWide",
       [](const TransformCall& t) -> Text {
         return concat("trivial_augment(", number_text(t.value("num_magnitude_bins", 0, 31)),
                       t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"AutoAugment",
       [](const TransformCall& t) -> Text {
         const std::string policy = last_word(t.get("policy", 0).as_string());
         return concat("auto_augment(", policy.empty() ? "imagenet" : policy, t.warp_filter("nearest"),
                       t.fill(), ")");
       }},
      {"AugMix",
       [](const TransformCall& t) -> Text {
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
       [](const TransformCall& t) -> Text {
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

}  // namespace

TransformRule transform_rule(std::string_view name) {
  for (const Rules* rules :
       {&sizes_and_places(), &turns_and_warps(), &colours(), &blurs_and_noise(), &policies()}) {
    if (const auto found = rules->find(name); found != rules->end()) return found->second;
  }
  return nullptr;
}

}  // namespace dlpipe::run
