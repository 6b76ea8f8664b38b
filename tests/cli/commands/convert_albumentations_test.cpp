#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "dlpipe/augment/chain.h"
#include "tests/base/test_file.h"
#include "tests/cli/commands/convert_recipe.h"

namespace dlpipe::test {
namespace {

// What albumentations 2.0.8 writes for Compose([RandomResizedCrop((224, 224)), HorizontalFlip(), OneOf([GaussianBlur(p=1),
// MotionBlur(p=1)], p=0.3)]).
constexpr const char* kSaved =
    R"({"__version__": "2.0.8", "transform": {"__class_fullname__": "Compose", "p": 1.0, "transforms": [
    {"__class_fullname__": "RandomResizedCrop", "p": 1.0, "area_for_downscale": null, "interpolation": 1, "ratio": [0.75, 1.25],
     "scale": [0.08, 1.0], "size": [224, 224]}, {"__class_fullname__": "HorizontalFlip", "p": 0.5},
    {"__class_fullname__": "OneOf", "p": 0.3, "transforms": [{"__class_fullname__": "GaussianBlur", "p": 1.0,
     "blur_limit": [0, 0], "sigma_limit": [0.5, 3.0]}, {"__class_fullname__": "MotionBlur", "p": 1.0,
     "angle_range": [0.0, 360.0], "blur_limit": [3, 7]}]}], "bbox_params": null}})";
constexpr const char* kSavedExpression =
    "rrc(224x224,0.08..1,0.75..1.25) hflip(0.5) one_of(gaussian_blur(sigma=0.5..3) | "
    "motion_blur(3..7,0..360),p=0.3)\n";

TEST(ConvertAugment, TakesWhatAlbumentationsSaves) {
  EXPECT_EQ(expression(kSaved), kSavedExpression);
  EXPECT_NE(convert(kSaved, {"--recipe", "val"}).err.find("leave --recipe out"), std::string::npos);
}

/// The ends of an op's arguments: "affine(-20..20,0.1,x=1)" has (-20, 20) and (0.1, 0.1).
std::vector<std::pair<double, double>> ranges_of(const std::string& expression, const std::string& op) {
  const size_t begin = expression.find(op + "(") + op.size() + 1;
  std::vector<std::pair<double, double>> ranges;
  std::istringstream arguments(expression.substr(begin, expression.find(')', begin) - begin));
  for (std::string one; std::getline(arguments, one, ',') && one.find('=') == std::string::npos;) {
    const size_t dots = one.find("..");
    ranges.emplace_back(std::stod(one), std::stod(dots == std::string::npos ? one : one.substr(dots + 2)));
  }
  return ranges;
}

// first_albumentations.golden is of Albumentations 1.3.1. The ends of 4000 draws are within a hundredth of the range from
// those that they were drawn between; deviations and means are of 30000 pixels' noise each, within 2 %; the sides of holes
// are whole pixels of 100 there, and shares that are cut off to such here.
TEST(ConvertAugment, ArgumentsOfItsFirstReleasesMeanWhatTheseDrew) {
  std::ifstream golden(test_file("cli/commands/first_albumentations.golden"));
  int cases = 0;
  for (std::string line; std::getline(golden, line); ++cases) {
    const auto json = nlohmann::json::parse(line);
    const std::string op = json["op"];
    const std::string made = convert(json["saved"].dump()).out;
    const auto ranges = ranges_of(made, op);
    ASSERT_GE(ranges.size(), json["arguments"].size()) << op << ": " << made;
    for (size_t i = 0; i < json["arguments"].size(); ++i) {
      const double low = json["arguments"][i][0];
      const double high = json["arguments"][i][1];
      const double tolerance = 0.01 * (high - low) + (op == "gaussian_noise"   ? 0.02 * high
                                                      : op == "coarse_dropout" ? 0.01
                                                                               : 1e-9);
      EXPECT_NEAR(ranges[i].first, low, tolerance) << made << ", argument " << i;
      EXPECT_NEAR(ranges[i].second, high, tolerance) << made << ", argument " << i;
    }
  }
  EXPECT_EQ(cases, 12);
}

/// The chain of an expression as its canonical text, which writes a number and a range of it alike.
std::string canonical(const std::string& expression) {
  const auto chain = augment::Chain::parse(expression.substr(0, expression.find('\n')));
  return chain.ok() ? chain->canonical() : std::string(chain.status().message());
}

// A program leaves out what it doesn't change; the library saves all.
TEST(ConvertAugment, ArgumentsThatAProgramLeavesOutAreWhatAlbumentationsTakes) {
  std::ifstream golden(test_file("cli/commands/albumentations_defaults.golden"));
  int cases = 0;
  for (std::string line; std::getline(golden, line); ++cases) {
    const auto json = nlohmann::json::parse(line);
    const std::string call = json["call"];
    EXPECT_EQ(canonical(convert("import albumentations as A\nrecipe = A.Compose([" + call + "])\n").out),
              canonical(convert(json["saved"].dump()).out))
        << call;
  }
  EXPECT_EQ(cases, 47);
}

TEST(ConvertAugment, TakesItsYamlToo) {
  EXPECT_EQ(expression("__version__: 2.0.8\n"
                       "transform:\n"
                       "  __class_fullname__: Compose\n"
                       "  additional_targets: {}\n"
                       "  bbox_params: null\n"
                       "  p: 1.0\n"
                       "  transforms:\n"
                       "  - __class_fullname__: RandomResizedCrop\n"
                       "    interpolation: 1\n"
                       "    p: 1.0\n"
                       "    ratio:\n    - 0.75\n    - 1.25\n"
                       "    scale:\n    - 0.08\n    - 1.0\n"
                       "    size:\n    - 224\n    - 224\n"
                       "  - __class_fullname__: HorizontalFlip\n"
                       "    p: 0.5\n"
                       "  - __class_fullname__: OneOf\n"
                       "    p: 0.3\n"
                       "    transforms:\n"
                       "    - __class_fullname__: GaussianBlur\n"
                       "      p: 1.0\n"
                       "      sigma_limit:\n      - 0.5\n      - 3.0\n"
                       "    - __class_fullname__: MotionBlur\n"
                       "      angle_range:\n      - 0.0\n      - 360.0\n"
                       "      blur_limit:\n      - 3\n      - 7\n"
                       "      p: 1.0\n"),
            kSavedExpression);
}

// What bbox_params drop is no property of a transform: it was left out without a word.
TEST(ConvertAugment, TakesWhatHappensToBoxes) {
  const char* const said = "resize(320x320) drop_boxes(0.3,4,16)\n";
  EXPECT_EQ(expression(
                "A.Compose([A.Resize(320, 320)], bbox_params=A.BboxParams(format='coco', min_visibility=0.3, "
                "min_area=16, min_width=4, min_height=4, label_fields=['l']))"),
            said);
  EXPECT_EQ(expression(R"({"transform": {"__class_fullname__": "Compose", "p": 1.0, "transforms": [
      {"__class_fullname__": "Resize", "p": 1, "height": 320, "width": 320, "interpolation": 1}],
      "bbox_params": {"format": "pascal_voc", "label_fields": ["l"], "min_area": 16, "min_visibility": 0.3,
      "min_width": 4, "min_height": 4, "clip": false}}})"),
            said);
  EXPECT_EQ(expression("A.Compose([A.Resize(32, 32)], bbox_params=A.BboxParams('coco'))"), "resize(32x32)\n");
}

TEST(ConvertAugment, TakesMosaicAndSymmetries) {
  EXPECT_EQ(
      expression(
          "A.Compose([A.Mosaic(target_size=(640, 640), cell_shape=(512, 512), center_range=(0.3, 0.7), p=1), "
          "A.D4(), A.ShiftScaleRotate(p=1)])"),
      "resize(512) mosaic(320,center=0.3..0.7,fill=0) one_of(rot90(0..3) hflip(0.5)) "
      "affine(-45..45,-0.0625..0.0625,-0.0625..0.0625,0.9..1.1,interpolation=bilinear)\n");
  EXPECT_EQ(expression("A.Mosaic(target_size=(64, 64))"),
            "resize(512) mosaic(32,center=0.3..0.7,fill=0,p=0.5) pad_to(64) center_crop(64)\n");
  const Outcome outcome = convert("A.Mosaic(grid_yx=(3, 3))");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("Mosaic: grid_yx is"), std::string::npos) << outcome.err;
}

TEST(ConvertAugment, TakesCropsThatKeepBoxes) {
  EXPECT_EQ(expression("T.Compose([T.RandomIoUCrop(), T.Resize((300, 300))])"),
            "ssd_crop(0.3..1,0.5..2) resize(300x300)\n");
  EXPECT_EQ(expression("T.RandomIoUCrop(0.5, 0.9, 0.7, 1.5, sampler_options=[0.5, 1.0], trials=10)"),
            "ssd_crop(0.5..0.9,0.7..1.5,overlaps=0.5:1,trials=10)\n");
  EXPECT_EQ(expression("A.Compose([A.BBoxSafeRandomCrop(erosion_rate=0.2), A.Resize(64, 48)])"),
            "safe_crop(0.2) resize(64x48)\n");
  EXPECT_EQ(expression("A.RandomSizedBBoxSafeCrop(height=320, width=480, erosion_rate=0.1, p=0.5)"),
            "one_of(safe_crop(0.1) resize(320x480),p=0.5)\n");
}

TEST(ConvertAugment, AnUnsharpMaskWithoutSigmaHasItsKernels) {
  EXPECT_EQ(expression("A.UnsharpMask(p=1)"), "unsharp(0.8..1.4,0.2..0.5)\n");
  EXPECT_EQ(expression("A.UnsharpMask(blur_limit=(5, 9), sigma_limit=0, p=1)"),
            "unsharp(1.1..1.7,0.2..0.5)\n");
  EXPECT_EQ(expression("A.UnsharpMask(sigma_limit=(1, 2), p=1)"), "unsharp(1..2,0.2..0.5)\n");
}

/// A recipe of one transform as Albumentations 1.3.1 saves it.
std::string saved(const std::string& transform) {
  return R"({"__version__": "1.3.1", "transform": {"__class_fullname__": "Compose", "p": 1.0, "transforms": [)" +
         transform +
         R"(], "bbox_params": null, "keypoint_params": null, "additional_targets": {}, "is_check_shapes": true}})";
}

// Their newer defaults were taken without a word.
TEST(ConvertAugment, KnowsTheParametersOfAlbumentationsFirstReleases) {
  const std::string resize =
      R"({"__class_fullname__": "Resize", "always_apply": false, "p": 1, "height": 200, "width": 400,
      "interpolation": 1}, )";
  for (
      const auto& [transform, converted, said] : std::vector<std::array<std::string, 3>>{
          {R"({"__class_fullname__": "GaussNoise", "always_apply": false, "p": 0.5, "var_limit": [10.0, 50.0],
             "per_channel": true, "mean": 51})",
           "gaussian_noise(0.0124..0.02773,0.2,p=0.5)\n", ""},
          {R"({"__class_fullname__": "GaussNoise", "always_apply": true, "p": 0.5, "var_limit": [10.0, 50.0],
             "per_channel": false, "mean": 0})",
           "gaussian_noise(0.0124..0.02773,0)\n", ""},
          {resize +
               R"({"__class_fullname__": "CoarseDropout", "always_apply": false, "p": 0.5, "max_holes": 8,
             "max_height": 8, "max_width": 8, "min_holes": 2, "min_height": 4, "min_width": null,
             "fill_value": 7, "mask_fill_value": null})",
           "resize(200x400) coarse_dropout(2..8,0.02..0.045,0.02125,fill=7,p=0.5)\n", ""},
          {R"({"__class_fullname__": "CoarseDropout", "p": 1, "max_holes": 3, "max_height": 0.2,
             "max_width": 0.25, "min_holes": null, "min_height": 0.1, "min_width": null, "fill_value": 0})",
           "coarse_dropout(3..3,0.1..0.2,0.25..0.25)\n", ""},
          {resize + R"({"__class_fullname__": "Cutout", "p": 0.5, "num_holes": 4, "max_h_size": 8,
             "max_w_size": 8, "fill_value": 0})",
           "resize(200x400) coarse_dropout(4..4,0.0425,0.02125,p=0.5)\n", ""},
          {R"({"__class_fullname__": "ImageCompression", "p": 0.5, "quality_lower": 60, "quality_upper": 90,
             "compression_type": 0})",
           "jpeg(60..90,p=0.5)\n", ""},
          {R"({"__class_fullname__": "ImageCompression", "p": 1, "quality_lower": 60, "quality_upper": 90,
             "compression_type": 1})",
           "jpeg(60..90)\n", "WebP"},
          {R"({"__class_fullname__": "Downscale", "p": 0.5, "scale_min": 0.25, "scale_max": 0.5})",
           "downscale(0.25..0.5,p=0.5)\n", ""},
          {R"({"__class_fullname__": "Solarize", "p": 0.5, "threshold": [64, 100]})",
           "solarize(64..100,p=0.5)\n", ""},
          {R"({"__class_fullname__": "GaussianBlur", "p": 0.5, "blur_limit": [3, 7], "sigma_limit": [0, 0]})",
           "gaussian_blur(sigma=0.8..1.4,p=0.5)\n", ""},
          {R"({"__class_fullname__": "ElasticTransform", "p": 1, "alpha": 120, "sigma": 6, "alpha_affine": 3.6,
             "interpolation": 1, "border_mode": 4, "value": null, "mask_value": null, "approximate": false})",
           "elastic(11.78,10,interpolation=bilinear)\n", "alpha_affine=3.6 is left out"},
          {R"({"__class_fullname__": "Rotate", "p": 0.5, "limit": [-15, 15], "interpolation": 1, "border_mode": 4,
             "value": null, "mask_value": null, "rotate_method": "largest_box", "crop_border": false})",
           "rotate(-15..15,interpolation=bilinear,p=0.5)\n", "Rotate: what comes from outside is one colour"},
          {R"({"__class_fullname__": "ShiftScaleRotate", "p": 0.5, "shift_limit_x": [-0.1, 0.1],
             "shift_limit_y": [-0.1, 0.1], "scale_limit": [-0.25, 0.25], "rotate_limit": [-30, 30],
             "interpolation": 1, "border_mode": 0, "value": [1, 2, 3], "mask_value": null})",
           "affine(-30..30,-0.1..0.1,-0.1..0.1,0.75..1.25,interpolation=bilinear,fill=1:2:3,p=0.5)\n", ""},
          {R"({"__class_fullname__": "PadIfNeeded", "p": 1, "min_height": 64, "min_width": 48,
             "pad_height_divisor": null, "position": "PositionType.CENTER", "border_mode": 0, "value": 9})",
           "pad_to(64x48,fill=9)\n", ""},
          {R"({"__class_fullname__": "HorizontalFlip", "p": 0.5, "banana": 3})", "hflip(0.5)\n",
           "HorizontalFlip: banana=3 is left out"}}) {
    const Outcome outcome = convert(saved(transform));
    EXPECT_EQ(outcome.out, converted) << transform;
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    if (said.empty()) {
      EXPECT_EQ(outcome.err, "") << transform;
    } else {
      EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
    }
  }
  const Outcome pixels =
      convert(saved(R"({"__class_fullname__": "CoarseDropout", "p": 0.5, "max_holes": 8, "max_height": 8,
          "max_width": 8, "min_holes": 8, "min_height": 8, "min_width": 8, "fill_value": 0})"));
  EXPECT_EQ(pixels.exit_code, 1);
  EXPECT_NE(pixels.err.find("CoarseDropout: its holes are in pixels"), std::string::npos) << pixels.err;
}

TEST(ConvertAugment, OneNumberIsARangeWhereAlbumentationsTakesItForOne) {
  EXPECT_EQ(expression("A.RandomBrightnessContrast(brightness_limit=0.25, contrast_limit=0.5, p=1)"),
            "one_of(brightness(0.75..1.25) contrast(0.5..1.5))\n");
  EXPECT_EQ(expression("A.ShiftScaleRotate(scale_limit=0.25, rotate_limit=30, p=1)"),
            "affine(30,-0.0625..0.0625,-0.0625..0.0625,0.75..1.25,interpolation=bilinear)\n");
  EXPECT_EQ(expression("A.Blur(blur_limit=5, p=1)"), "box_blur(3..5)\n");
}

TEST(ConvertAugment, EveryArgumentHasItsPlaceAndItsDefault) {
  const std::string timm = "rrc(224,0.08..1,3/4..4/3) hflip(0.5)",
                    imagenet = " normalize(0.485:0.456:0.406,0.229:0.224:0.225)\n";
  for (const auto& [recipe, converted] : std::vector<std::pair<std::string, std::string>>{
           {"T.GaussianBlur(1)", "gaussian_blur(size=1,sigma=0.1..2)\n"},
           {"T.GaussianBlur((3, 3), (0.5, 1.5))", "gaussian_blur(size=3,sigma=0.5..1.5)\n"},
           {"T.RandAugment(3, 7, 11)", "randaugment(3,7,11,interpolation=nearest)\n"},
           {"T.SanitizeBoundingBoxes()", "drop_boxes(0,1,1)\n"},
           {"T.SanitizeBoundingBoxes(3, 5)", "drop_boxes(0,3,5)\n"},
           {"A.RandomBrightnessContrast(0.1, 0.3, p=1)", "one_of(brightness(0.9..1.1) contrast(0.7..1.3))\n"},
           {"A.GaussNoise(var_limit=50, p=1)", "gaussian_noise(0..0.02773,0)\n"},
           {"A.GaussNoise(var_limit=(10, 50), p=1)", "gaussian_noise(0.0124..0.02773,0)\n"},
           {"A.OneOrOther(A.HorizontalFlip(), A.VerticalFlip(), p=1)", "one_of(hflip(1))\n"},
           {"A.OneOrOther(A.HorizontalFlip(), A.VerticalFlip(), p=0)", "one_of(vflip(1))\n"},
           {"create_transform(224, is_training=True)", timm + " color_jitter(0.4,0.4,0.4,0)" + imagenet},
           {"create_transform(224, is_training=True, color_jitter=0)", timm + imagenet},
           {"create_transform(224, is_training=True, color_jitter=(0.1, 0.2))",
            timm + " color_jitter(0.1,0.2,0,0)" + imagenet},
           {"create_transform(224, is_training=True, auto_augment='augmix-m3-w4-d1', color_jitter=0)",
            timm + " augmix(3,4,1,alpha=1,fill=124:116:104)" + imagenet},
           {"create_transform(224, is_training=True, auto_augment='3a', color_jitter=0.3)",
            timm + " three_augment(0) color_jitter(0.3,0.3,0.3,0)" + imagenet}})
    EXPECT_EQ(expression(recipe), converted) << recipe;
}

// albumentations/core/composition.py: what OneOf draws runs whatever its p is, which is its weight.
TEST(ConvertAugment, ChoicesOfAlbumentationsTakePForAWeight) {
  for (const auto& [recipe, converted] : std::vector<std::pair<std::string, std::string>>{
           {"A.OneOf([A.HorizontalFlip(), A.VerticalFlip(p=0.5)], p=1)", "one_of(hflip(1) | vflip(1))\n"},
           {"A.OneOf([A.HorizontalFlip(p=0.2), A.VerticalFlip(p=0.6)], p=0.3)",
            "one_of(hflip(1) | vflip(1),p=0.3,weights=0.2:0.6)\n"},
           {"A.OneOf([A.Sequential([A.HorizontalFlip(p=0.2), A.CenterCrop(8, 8)]), A.VerticalFlip()], p=1)",
            "one_of(hflip(0.2) center_crop(8x8) | vflip(1))\n"},
           {"A.OneOf([A.HorizontalFlip(), A.NoOp()], p=1)", "one_of(hflip(1),p=0.5)\n"},
           {"A.OneOrOther(A.HorizontalFlip(), A.VerticalFlip(), p=0.25)",
            "one_of(hflip(1) | vflip(1),weights=0.25:0.75)\n"},
           {"A.OneOrOther(first=A.HorizontalFlip(), second=A.VerticalFlip())",
            "one_of(hflip(1) | vflip(1))\n"},
           {"A.SomeOf([A.HorizontalFlip(p=0.2), A.VerticalFlip(p=1)], n=1)",
            "some_of(1, hflip(0.2) | vflip(1))\n"},
           {"A.RandomOrder([A.HorizontalFlip(p=0.2), A.VerticalFlip(p=1)], n=2)",
            "any_order(hflip(0.2) | vflip(1))\n"},
           {"T.RandomChoice([T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)], p=[0.9, 0.1])",
            "one_of(hflip(1) | vflip(1),weights=0.9:0.1)\n"},
           {saved(R"({"__class_fullname__": "SomeOf", "p": 1, "n": 1, "replace": false, "transforms": [
             {"__class_fullname__": "HorizontalFlip", "p": 0.5}, {"__class_fullname__": "VerticalFlip", "p": 0.5}]})"),
            "some_of(1, hflip(1) | vflip(1))\n"},
           {saved(R"({"__class_fullname__": "OneOf", "p": 1, "transforms": [
             {"__class_fullname__": "HorizontalFlip", "p": 0.5}, {"__class_fullname__": "VerticalFlip", "p": 0.5}]})"),
            "one_of(hflip(1) | vflip(1))\n"}})
    EXPECT_EQ(expression(recipe), converted) << recipe;
}

}  // namespace
}  // namespace dlpipe::test
