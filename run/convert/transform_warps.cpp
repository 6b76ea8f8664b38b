#include "dlpipe/run/convert/transform_rules.h"

#include <algorithm>
#include <cmath>

#include "dlpipe/augment/value.h"
#include "dlpipe/base/text.h"

namespace dlpipe::run {

namespace {

using formats::Json;

/// Both libraries smooth one random move per pixel with a Gaussian of width sigma. The spline here has the same width where its
/// spacing is sqrt(3) sigma (a cubic B-spline's variance is a third of its spacing squared), and pixels move as far on average
/// where alpha is that of the noise there times 0.589 / sigma: smoothing leaves 1 / (2 sqrt(pi) sigma) of the noise's
/// deviation, the spline 151/315 of its control points'.
TransformText elastic(const TransformCall& t) {
  const bool is_torchvision = !t.is_saved() && !t.is_albumentations() && t.get("p").is_null();
  const auto side = [&](const char* name, size_t place, double fallback) {
    const Json& given = t.get(name, place);
    const bool has_two = given.is_array() && given.items().size() == 2;
    if (has_two && !(given.items()[0] == given.items()[1]))
      t.note(concat(name, " is one for both directions here, the first"));
    return has_two ? t.number(name, given.items()[0]) : t.value(name, place, fallback);
  };
  const double sigma = std::max(side("sigma", 1, is_torchvision ? 5 : 50), 0.5);
  double alpha = side("alpha", 0, is_torchvision ? 50 : 1);
  if (is_torchvision) alpha /= 2;  // it is a share of a grid from -1 to 1
  const Json& noise = t.get("noise_distribution");
  // Releases 1.x drew evenly and didn't name it.
  const bool is_normal = noise.is_null() ? !is_torchvision && !t.is_saved() : noise.as_string() == "gaussian";
  if (is_normal) alpha *= std::sqrt(3.0);
  t.note("elastic draws its field in another way, of the same width and mean size; look at dlpipe preview");
  const auto short_text = [](double value) { return number_text(std::round(value * 1e4) / 1e4); };
  return concat("elastic(", short_text(alpha * 0.589 / sigma), ",",
                number_text(std::max(std::round(sigma * std::sqrt(3.0)), 2.0)), t.warp_filter("bilinear"),
                t.outside(), t.p(is_torchvision ? 1 : 0.5), ")");
}

/// Of x, or of x and y where four numbers are given.
std::string torchvision_shear(const TransformCall& t) {
  const Json& given = t.get("shear", 3);
  if (given.items().size() != 4) return t.range("shear", 3, "0");
  const auto pair = [&](size_t first) {
    return augment::range_text(
        {t.number("shear", given.items()[first]), t.number("shear", given.items()[first + 1])});
  };
  return concat(pair(0), ",", pair(2));
}

}  // namespace

const TransformRules& warp_rules() {
  static const TransformRules all = {
      {"RandomHorizontalFlip", chance("hflip", 0, 0.5)},
      {"RandomVerticalFlip", chance("vflip", 0, 0.5)},
      {"HorizontalFlip", chance("hflip", 99, 0.5)},
      {"VerticalFlip", chance("vflip", 99, 0.5)},
      {"Transpose", chance("transpose", 99, 0.5)},
      {"RandomRotate90",
       [](const TransformCall& t) -> TransformText { return concat("rot90(0..3", t.p(1), ")"); }},
      {"RandomRotation",
       [](const TransformCall& t) -> TransformText {
         return concat("rotate(", t.range("degrees", 0, "0"), t.warp_filter("nearest"), t.fill(), ")");
       }},
      {"Rotate",
       [](const TransformCall& t) -> TransformText {
         return concat("rotate(", t.range("limit", 0, "90"), t.warp_filter("bilinear"), t.outside(), t.p(0.5),
                       ")");
       }},
      {"RandomAffine",
       [](const TransformCall& t) -> TransformText {
         const Json& move = t.get("translate", 1);
         const auto share = [&](size_t i) {
           return number_text(i < move.items().size() ? t.number("translate", move.items()[i]) : 0);
         };
         if (!move.is_null() && move.items().size() != 2)
           t.cannot_read("translate", move, "two numbers, a share of the width and one of the height");
         return concat("affine(", t.range("degrees", 0, "0"), ",", share(0), ",", share(1), ",",
                       t.range("scale", 2, "1"), ",", torchvision_shear(t), t.warp_filter("nearest"),
                       t.fill(), ")");
       }},
      {"Affine",
       [](const TransformCall& t) -> TransformText {
         const auto of = [&](const char* name, const char* axis, const char* fallback) {
           const Json& given = t.get(name);
           const Json& range = given.is_object() ? given[axis] : given;
           if (range.is_null()) return std::string(fallback);
           if (range.items().size() == 2)
             return augment::range_text({t.number(name, range.items()[0]), t.number(name, range.items()[1])});
           // Every picture's, where the ops here would draw from -x..x.
           const double value = t.number(name, range);
           return augment::range_text({value, value});
         };
         if (!t.get("translate_percent")["x"].is_array() && of("translate_px", "x", "0..0") != "0..0")
           t.note("moves in pixels are left out; write translate(x, y, pixels)");
         return concat("affine(", of("rotate", "x", "0..0"), ",", of("translate_percent", "x", "0"), ",",
                       of("translate_percent", "y", "0"), ",", of("scale", "x", "1"), ",",
                       of("shear", "x", "0"), ",", of("shear", "y", "0"), t.warp_filter("bilinear"),
                       t.outside(), t.p(0.5), ")");
       }},
      {"ShiftScaleRotate",
       [](const TransformCall& t) -> TransformText {
         const auto shift = [&](const char* axis) {
           return t.range(axis, 99, t.range("shift_limit", 0, "-0.0625..0.0625"));
         };
         return concat("affine(", t.range("rotate_limit", 2, "-45..45"), ",", shift("shift_limit_x"), ",",
                       shift("shift_limit_y"), ",", t.range("scale_limit", 1, "0.9..1.1", 1, 1),
                       t.warp_filter("bilinear"), t.outside(), t.p(0.5), ")");
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
                       t.range("distort_limit", 1, "0.3"), t.warp_filter("bilinear"), t.outside(), t.p(0.5),
                       ")");
       }},
      {"ElasticTransform", elastic},
  };
  return all;
}

}  // namespace dlpipe::run
