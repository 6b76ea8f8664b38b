#include "dlpipe/run/use/transform_rules.h"

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

}  // namespace

const TransformRules& warp_rules() {
  static const TransformRules all = {
      {"RandomHorizontalFlip", chance("hflip", 0, 0.5)},
      {"RandomVerticalFlip", chance("vflip", 0, 0.5)},
      {"HorizontalFlip", chance("hflip", 99, 0.5)},
      {"VerticalFlip", chance("vflip", 99, 0.5)},
      {"Transpose", chance("transpose", 99, 0.5)},
      {"RandomRotate90",
       [](const TransformCall& t) -> TransformText { return concat("rot90(0..3", t.p(0.5), ")"); }},
      {"RandomRotation",
       [](const TransformCall& t) -> TransformText {
         return concat("rotate(", t.range("degrees", 0, "0"), t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"Rotate",
       [](const TransformCall& t) -> TransformText {
         return concat("rotate(", t.range("limit", 0, "90"), t.warp_filter("bilinear"), t.fill(), t.p(0.5),
                       ")");
       }},
      {"RandomAffine",
       [](const TransformCall& t) -> TransformText {
         const Json& move = t.get("translate", 1);
         const auto share = [&](size_t i) {
           return number_text(i < move.items().size() ? move.items()[i].as_double() : 0);
         };
         return concat("affine(", t.range("degrees", 0, "0"), ",", share(0), ",", share(1), ",",
                       t.range("scale", 2, "1"), ",", t.range("shear", 3, "0"), t.warp_filter("nearest"),
                       t.fill(), ")");
       }},
      {"Affine",
       [](const TransformCall& t) -> TransformText {
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
       [](const TransformCall& t) -> TransformText {
         const auto shift = [&](const char* axis) {
           return t.range(axis, 99, t.range("shift_limit", 0, "-0.0625..0.0625"));
         };
         if (!t.border().empty()) t.note("what comes from outside is one colour, there the picture mirrored");
         return concat("affine(", t.range("rotate_limit", 2, "-45..45"), ",", shift("shift_limit_x"), ",",
                       shift("shift_limit_y"), ",", t.range("scale_limit", 1, "0.9..1.1", 1, 1),
                       t.warp_filter("bilinear"), t.fill(), t.p(0.5), ")");
       }},
      {"D4",
       [](const TransformCall& t) -> TransformText {
         return concat("one_of(rot90(0..3) hflip(0.5)", t.p(1), ")");
       }},
      {"SquareSymmetry",
       [](const TransformCall& t) -> TransformText {
         return concat("one_of(rot90(0..3) hflip(0.5)", t.p(1), ")");
       }},
      {"SanitizeBoundingBoxes",
       [](const TransformCall& t) -> TransformText {
         return concat("drop_boxes(0,", number_text(t.value("min_size", 0, 1)), ",",
                       number_text(t.value("min_area", 1, 1)), ")");
       }},
      {"RandomPerspective",
       [](const TransformCall& t) -> TransformText {
         return concat("perspective(", number_text(t.value("distortion_scale", 0, 0.5)),
                       t.warp_filter("bilinear"), t.fill(), ",p=", number_text(t.value("p", 1, 0.5)), ")");
       }},
      {"GridDistortion",
       [](const TransformCall& t) -> TransformText {
         return concat("grid_distortion(", number_text(t.value("num_steps", 0, 5)), ",",
                       t.range("distort_limit", 1, "0.3"), t.warp_filter("bilinear"), t.p(0.5), ")");
       }},
      {"ElasticTransform",
       [](const TransformCall& t) -> TransformText {
         t.note(
             "elastic draws its field in another way; its alpha is the largest move in pixels, so look at "
             "dlpipe preview");
         return concat("elastic(8,32", t.warp_filter("bilinear"), t.p(t.get("p").is_null() ? 1 : 0.5), ")");
       }},
  };
  return all;
}

}  // namespace dlpipe::run
