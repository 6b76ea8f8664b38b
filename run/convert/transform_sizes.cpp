#include "dlpipe/run/convert/transform_rules.h"

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

/// torchvision's FiveCrop and TenCrop: --tta takes 7/8 of a picture, which is made that much larger here.
TransformRule crops(const char* views) {
  return [=](const TransformCall& t) -> TransformText {
    const Json& given = t.get("size", 0);
    const Json& side = given.is_array() && !given.items().empty() ? given.items()[0] : given;
    const auto size = static_cast<int64_t>(t.number("size", side));
    if (size < 1 || size > augment::kMaxSize) return std::nullopt;
    t.note(concat("eval --tta ", views, " takes the crops, from the middle square of the picture"));
    return concat("center_crop(", (size * 8 + 6) / 7, ")");
  };
}

/// One of several sizes, drawn.
TransformText shortest_sizes(const TransformCall& t) {
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
TransformText mosaic(const TransformCall& t) {
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

}  // namespace

const TransformRules& size_rules() {
  static const TransformRules all = {
      {"RandomResizedCrop",
       [](const TransformCall& t) -> TransformText {
         TransformText size = t.size();
         if (!size) return size;
         const std::string scale = t.range("scale", 1, "0.08..1");
         const std::string ratio = t.range("ratio", 2, "3/4..4/3");
         return concat("rrc(", *size, ",", scale, ",", ratio, t.filter(3), ")");
       }},
      {"Resize",
       [](const TransformCall& t) -> TransformText {
         const TransformText size = t.size();
         return size ? TransformText(concat("resize(", *size, t.filter(1), ")")) : size;
       }},
      {"SmallestMaxSize",
       [](const TransformCall& t) -> TransformText {
         const TransformText size = t.size("max_size");
         return size ? TransformText(concat("resize(", *size, t.filter(), ")")) : size;
       }},
      {"LongestMaxSize",
       [](const TransformCall& t) -> TransformText {
         const TransformText size = t.size("max_size");
         return size ? TransformText(concat("resize(", *size, t.filter(), ",side=longer)")) : size;
       }},
      {"CenterCrop",
       [](const TransformCall& t) -> TransformText {
         return t.size() ? TransformText(concat("center_crop(", *t.size(), ")")) : t.size();
       }},
      {"RandomIoUCrop",
       [](const TransformCall& t) -> TransformText {
         const auto range = [&](const char* low, size_t place, double a, const char* high, double b) {
           return augment::range_text({t.value(low, place, a), t.value(high, place + 1, b)});
         };
         const std::string overlaps = t.list("sampler_options", t.get("sampler_options", 4));
         const double trials = t.value("trials", 5, 40);
         return concat("ssd_crop(", range("min_scale", 0, 0.3, "max_scale", 1), ",",
                       range("min_aspect_ratio", 2, 0.5, "max_aspect_ratio", 2),
                       overlaps.empty() ? "" : ",overlaps=", overlaps,
                       trials == 40 ? std::string() : concat(",trials=", number_text(trials)), ")");
       }},
      {"BBoxSafeRandomCrop",
       [](const TransformCall& t) -> TransformText {
         return concat("safe_crop(", number_text(t.value("erosion_rate", 0, 0)), t.p(1), ")");
       }},
      {"RandomSizedBBoxSafeCrop",
       [](const TransformCall& t) -> TransformText {
         TransformText size = t.size();
         if (!size) return size;
         const std::string both = concat("safe_crop(", number_text(t.value("erosion_rate", 1, 0)),
                                         ") resize(", *size, t.filter(2), ")");
         const std::string p = t.p(1);
         return p.empty() ? both : concat("one_of(", both, p, ")");
       }},
      {"FiveCrop", crops("five_crop")},
      {"TenCrop", crops("ten_crop")},
      {"RandomCrop",
       [](const TransformCall& t) -> TransformText {
         const TransformText size = t.size();
         const Json& padding = t.get("padding", 1);
         if (!size || padding.is_null())
           return size ? TransformText(concat("random_crop(", *size, ")")) : size;
         const Json& given = t.get("padding_mode", 4);
         const std::string mode = given.is_null() ? "constant" : last_word(given.as_string());
         const std::string fill = t.get("fill", 3).is_null() ? "" : t.fill();
         if (!padding.is_array() && fill.empty() && (mode == "constant" || mode == "reflect"))
           return concat("pad_crop(", *size, ",", number_text(t.number("padding", padding)),
                         mode == "reflect" ? ",reflect)" : ")");
         return concat("pad(", t.list("padding", 1), ",", mode, fill, ") random_crop(", *size, ")");
       }},
      {"FixedSizeCrop",
       [](const TransformCall& t) -> TransformText {
         const TransformText size = t.size();
         return size ? TransformText(concat("pad_to(", *size, t.fill(), ") random_crop(", *size, ")")) : size;
       }},
      {"RandomShortestSize", shortest_sizes},
      {"Mosaic", mosaic},
      {"PadIfNeeded",
       [](const TransformCall& t) -> TransformText {
         const auto side = [&](const char* name, size_t place, const char* divisor) {
           return number_text(t.value(name, place, t.get(divisor).is_null() ? 1024 : 1));
         };
         const std::string height = side("min_height", 0, "pad_height_divisor"),
                           width = side("min_width", 1, "pad_width_divisor");
         if (!t.get("pad_height_divisor").is_null() || !t.get("pad_width_divisor").is_null())
           t.note("it is padded to a size here, and to no multiple of its divisors");
         return concat("pad_to(", height, "x", width, t.border(), t.fill(), ")");
       }},
      {"Pad",
       [](const TransformCall& t) -> TransformText {
         const std::string mode =
             t.get("padding_mode", 2).is_null() ? "constant" : t.get("padding_mode", 2).as_string();
         return concat("pad(", t.list("padding", 0), ",", mode, t.fill(), ")");
       }},
  };
  return all;
}

}  // namespace dlpipe::run
