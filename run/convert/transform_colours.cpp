#include "dlpipe/run/convert/transform_rules.h"

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

using formats::Json;

const TransformRules& colour_rules() {
  static const TransformRules all = {
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
       [](const TransformCall& t) -> TransformText {
         const bool is_other =
             t.is_albumentations();  // torchvision's does nothing by default, and always runs
         const std::string factor = is_other ? "0.8..1.2" : "0";
         return concat("color_jitter(", t.range("brightness", 0, factor), ",", t.range("contrast", 1, factor),
                       ",", t.range("saturation", 2, factor), ",", t.range("hue", 3, is_other ? "0.5" : "0"),
                       t.p(is_other ? 0.5 : 1), ")");
       }},
      {"RandomBrightnessContrast",
       [](const TransformCall& t) -> TransformText {
         t.note("brightness is a factor here, there a share of 255 that is added");
         return concat("one_of(brightness(", t.range("brightness_limit", 0, "0.2", 1, 1), ") contrast(",
                       t.range("contrast_limit", 1, "0.2", 1, 1), ")", t.p(0.5), ")");
       }},
      {"HueSaturationValue",
       [](const TransformCall& t) -> TransformText {
         t.note("saturation and value are factors here, there numbers that are added");
         const auto shift = [&](const char* name, size_t place, double fallback, double most, double add) {
           const double far = fallback * (1 / most);
           return t.range(name, place, augment::range_text({add - far, add + far}), 1 / most, add);
         };
         return concat("one_of(hue(", shift("hue_shift_limit", 0, 20, 180, 0), ") saturation(",
                       shift("sat_shift_limit", 1, 30, 255, 1), ") brightness(",
                       shift("val_shift_limit", 2, 20, 255, 1), ")", t.p(0.5), ")");
       }},
      {"Grayscale", [](const TransformCall&) -> TransformText { return "grayscale"; }},
      {"RandomPosterize",
       [](const TransformCall& t) -> TransformText {
         return concat("posterize(", number_text(t.value("bits", 0, 4)), ",",
                       number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"Posterize",
       [](const TransformCall& t) -> TransformText {
         return concat("posterize(", t.range("num_bits", 99, "4"), t.p(0.5), ")");
       }},
      {"RandomSolarize",
       [](const TransformCall& t) -> TransformText {
         return concat("solarize(", number_text(t.value("threshold", 0, 128)), ",",
                       number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"Solarize",
       [](const TransformCall& t) -> TransformText {
         // 1.x: in steps of a pixel
         const std::string older = t.range("threshold", 99, "127.5");
         return concat("solarize(", t.range("threshold_range", 0, older, 255), t.p(0.5), ")");
       }},
      {"RandomAdjustSharpness",
       [](const TransformCall& t) -> TransformText {
         const std::string factor = number_text(t.value("sharpness_factor", 0, 1));
         return concat("sharpness(", factor, "..", factor, ",", number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"RandomGamma",
       [](const TransformCall& t) -> TransformText {
         return concat("gamma(", t.range("gamma_limit", 0, "0.8..1.2", 0.01), t.p(0.5), ")");
       }},
      {"FancyPCA",
       [](const TransformCall& t) -> TransformText {
         t.note("the components are ImageNet's, there each picture's own");
         return concat("fancy_pca(", number_text(t.value("alpha", 0, 0.1)), t.p(0.5), ")");
       }},
      {"CLAHE",
       [](const TransformCall& t) -> TransformText {
         const Json& limit = t.get("clip_limit", 0);
         const Json& grid = t.get("tile_grid_size", 1);
         const bool given = grid.is_array() && grid.items().size() == 2;
         // OpenCV takes the tiles across first.
         const std::string tiles = given ? concat(number_text(grid.items()[1].as_double()), "x",
                                                  number_text(grid.items()[0].as_double()))
                                         : "8x8";
         return concat("clahe(", limit.is_number() ? "1.." : "", t.range("clip_limit", 0, "1..4"), ",", tiles,
                       t.p(0.5), ")");
       }},
      {"RandomPhotometricDistort",
       [](const TransformCall& t) -> TransformText {
         const std::string p = t.p(0.5);
         const std::string contrast = concat("contrast(", t.range("contrast", 1, "0.5..1.5"), p, ")");
         const std::string colour = concat("saturation(", t.range("saturation", 2, "0.5..1.5"), p, ") hue(",
                                           t.range("hue", 3, "-0.05..0.05"), p, ")");
         return concat("brightness(", t.range("brightness", 0, "0.875..1.125"), p, ") one_of(", contrast, " ",
                       colour, " | ", colour, " ", contrast, ") channel_shuffle(",
                       number_text(t.value("p", 4, 0.5)), ")");
       }},
      {"RandomChannelPermutation", [](const TransformCall&) -> TransformText { return "channel_shuffle"; }},
      {"ChannelDropout",
       [](const TransformCall& t) -> TransformText {
         return concat("channel_drop(", t.range("channel_drop_range", 99, "1"), t.p(0.5), ")");
       }},
  };
  return all;
}

}  // namespace dlpipe::run
