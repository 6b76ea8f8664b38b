#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "dlpipe/augment/chain.h"
#include "tests/cli/commands/convert_recipe.h"

namespace dlpipe::test {
namespace {

TEST(ConvertAugment, TakesTorchvisionAsWrittenInAProgram) {
  EXPECT_EQ(
      expression(
          "transforms.Compose([\n"
          "    transforms.RandomResizedCrop(224, interpolation=InterpolationMode.BICUBIC),  # the crop\n"
          "    transforms.RandomHorizontalFlip(),\n"
          "    transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),\n"
          "    transforms.ToTensor(),\n"
          "    transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),\n"
          "])"),
      "rrc(224,0.08..1,3/4..4/3,interpolation=bicubic) hflip(0.5) "
      "one_of(color_jitter(0.4,0.4,0.4,0.1),p=0.8) normalize(0.485:0.456:0.406,0.229:0.224:0.225)\n");
}

TEST(ConvertAugment, TakesTimmsFunctionsAndTransforms) {
  EXPECT_EQ(
      expression(
          "from timm.data import create_transform\n"
          "train = create_transform(input_size=224, is_training=True, auto_augment='rand-m9-mstd0.5-inc1',\n"
          "    interpolation='bicubic', re_prob=0.25, re_mode='pixel')\n"),
      "rrc(224,0.08..1,3/4..4/3,interpolation=bicubic) hflip(0.5) "
      "repeat(2,randaugment(1,27,31,fill=124:116:104,p=0.5)) "
      "random_erasing(0.02..1/3,0.3..10/3,mode=noise,p=0.25) "
      "normalize(0.485:0.456:0.406,0.229:0.224:0.225)\n");
  EXPECT_EQ(expression("val = create_transform((3, 224, 224), interpolation='bicubic', crop_pct=0.95)\n"),
            "resize(235,interpolation=bicubic) center_crop(224x224) "
            "normalize(0.485:0.456:0.406,0.229:0.224:0.225)\n");
  EXPECT_EQ(
      expression(
          "t = transforms.Compose([\n"
          "    RandomResizedCropAndInterpolation(224, scale=(0.2, 1.0), interpolation='random'),\n"
          "    rand_augment_transform('rand-m7-n3', {'img_mean': (124, 116, 104)}),\n"
          "    transforms.ToTensor(), transforms.Normalize(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),\n"
          "    RandomErasing(probability=0.1, mode='const', max_count=1, device='cpu')])\n"),
      "one_of(rrc(224,0.2..1,3/4..4/3) | rrc(224,0.2..1,3/4..4/3,interpolation=bicubic)) "
      "repeat(3,randaugment(1,21,31,fill=124:116:104,p=0.5)) "
      "random_erasing(0.02..1/3,0.3..3.3333333333333335,fill=128:128:128,p=0.1) "
      "normalize(0.5:0.5:0.5,0.5:0.5:0.5)\n");
}

TEST(ConvertAugment, TakesTorchvisionAsPrinted) {
  EXPECT_EQ(
      expression(
          "Compose(\n"
          "      RandomResizedCrop(size=(224, 192), scale=(0.2, 1.0), ratio=(0.75, 1.25), "
          "interpolation=bilinear, antialias=True)\n"
          "      AutoAugment(interpolation=nearest, policy=AutoAugmentPolicy.CIFAR10)\n"
          "      RandomErasing(p=0.25, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=[0.0], inplace=False)\n"
          ")"),
      "rrc(224x192,0.2..1,0.75..1.25) auto_augment(cifar10,interpolation=nearest) "
      "random_erasing(0.02..0.33,0.3..3.3,fill=0,p=0.25)\n");
}

// torchvision's references/detection, as print writes what its presets hold.
TEST(ConvertAugment, TakesDetectionPresetsOfTorchvision) {
  EXPECT_EQ(
      expression(
          "Compose(\n"
          "      RandomPhotometricDistort(brightness=(0.875, 1.125), contrast=(0.5, 1.5), hue=(-0.05, 0.05), "
          "saturation=(0.5, 1.5), p=0.5)\n"
          "      RandomHorizontalFlip(p=0.5)\n"
          "      FixedSizeCrop(size=(640, 640), fill={'others': (123, 117, 104)}, padding_mode=constant)\n"
          "      SanitizeBoundingBoxes(min_size=1.0, min_area=1.0)\n"
          "      ClampBoundingBoxes()\n"
          ")"),
      "brightness(0.875..1.125,p=0.5) one_of(contrast(0.5..1.5,p=0.5) saturation(0.5..1.5,p=0.5) "
      "hue(-0.05..0.05,p=0.5) | saturation(0.5..1.5,p=0.5) hue(-0.05..0.05,p=0.5) contrast(0.5..1.5,p=0.5)) "
      "channel_shuffle(0.5) hflip(0.5) pad_to(640x640,fill=123:117:104) random_crop(640x640) "
      "drop_boxes(0,1,1)\n");
  EXPECT_EQ(expression("[T.RandomShortestSize((480, 512)), T.RandomCrop(400)]"),
            "one_of(resize(480) | resize(512)) random_crop(400)\n");
}

TEST(ConvertAugment, KnowsClaheAndJpeg) {
  EXPECT_EQ(expression("Compose([CLAHE(), CLAHE(3, (4, 6), p=1), JPEG((5, 50)), JPEG(40), "
                       "ImageCompression(quality_range=(50, 90), p=1)])"),
            "clahe(1..4,8x8,p=0.5) clahe(1..3,6x4) jpeg(5..50) jpeg(40) jpeg(50..90)\n");
  const Outcome webp = convert("Compose([ImageCompression('webp', (50, 90), p=1)])");
  EXPECT_EQ(webp.out, "jpeg(50..90)\n");
  EXPECT_NE(webp.err.find("WebP"), std::string::npos) << webp.err;
}

TEST(ConvertAugment, CropsOfEvaluationAreViews) {
  const Outcome outcome = convert("Compose([Resize(256), TenCrop(224)])");
  EXPECT_EQ(outcome.out, "resize(256) center_crop(256)\n");
  EXPECT_NE(outcome.err.find("--tta ten_crop"), std::string::npos) << outcome.err;
  EXPECT_EQ(expression("FiveCrop((100, 100))"), "center_crop(115)\n") << "7/8 of 115 are 100";
}

TEST(ConvertAugment, NamesWhatHasNoEqualAndLeavesItOut) {
  const Outcome outcome = convert("Compose([HorizontalFlip(), RandomRain(), Solarize()])", {"--json"});
  EXPECT_EQ(outcome.exit_code, 1);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_EQ(json["augment"], "hflip(0.5) solarize(127.5,p=0.5)");
  EXPECT_EQ(json["no_equal"], nlohmann::json({"RandomRain: dlpipe has no such op"}));
  EXPECT_NE(outcome.err.find("RandomRain"), std::string::npos);
}

TEST(ConvertAugment, NamesWithoutAValueAreNoNumbers) {
  for (const auto& [recipe, said] : std::vector<std::pair<std::string, std::string>>{
           {"T.Normalize(MEAN, STD)", "Normalize: mean is MEAN, and not a number; write its value"},
           {"T.Normalize((0.5, M, 0.5), 0.5)", "Normalize: mean is M, and"},
           {"T.RandomHorizontalFlip(p=FLIP)", "RandomHorizontalFlip: p is FLIP"},
           {"T.ColorJitter(brightness=B, contrast=0.2)", "ColorJitter: brightness is B"},
           {"T.RandomRotation(degrees=DEG)", "RandomRotation: degrees is DEG"},
           {"T.RandAugment(num_ops=N, magnitude=M)", "RandAugment: num_ops is N"},
           {"T.RandomErasing(p=ERASE)", "RandomErasing: p is ERASE"},
           {"T.RandomCrop(SIZE)", "RandomCrop: size is SIZE"},
           {"T.GaussianBlur(K)", "GaussianBlur: kernel_size is K"},
           {"T.GaussianBlur((3, 5))", "GaussianBlur: a kernel that isn't square"},
           {"T.Resize(224, interpolation=HOW)", "Resize: interpolation is HOW, and not a filter"},
           {"A.PadIfNeeded(32, 32, border_mode=MODE)", "PadIfNeeded: border_mode is MODE"}}) {
    const Outcome outcome = convert(recipe);
    EXPECT_EQ(outcome.exit_code, 1) << recipe << ": " << outcome.out;
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
}

TEST(ConvertAugment, ReadsWhatStandsAroundARecipe) {
  EXPECT_EQ(expression("import torch\nfrom torchvision import (datasets,\n    transforms as T)\n"
                       "MEAN = (0.485, 0.456, 0.406)\nSTD = [0.229, 0.224, 0.225]\nSIZE = 64\n"
                       "normalize = T.Normalize(MEAN, STD)\n"
                       "steps = [T.CenterCrop(SIZE), T.ToTensor(), normalize]\n"
                       "train_tf = T.Compose(steps)\n"),
            "center_crop(64) normalize(0.485:0.456:0.406,0.229:0.224:0.225)\n");
  const Outcome two = convert("train = T.Compose([T.CenterCrop(3)])\nval = T.Compose([T.CenterCrop(4)])\n");
  EXPECT_EQ(two.exit_code, 1);
  EXPECT_NE(two.err.find("2 recipes, train, val; choose one with --recipe NAME"), std::string::npos)
      << two.err;
  const std::string script =
      "train = T.Compose([T.CenterCrop(3)])\nval = T.Compose([T.CenterCrop(4)])\nsteps = [T.CenterCrop(5)]\n";
  EXPECT_EQ(convert(script, {"--recipe", "val"}).out, "center_crop(4)\n");
  EXPECT_EQ(convert(script, {"--recipe", "steps"}).out, "center_crop(5)\n");
  EXPECT_NE(convert(script, {"--recipe", "test"}).err.find("there is no recipe test; there are train, val"),
            std::string::npos);
  const Outcome program =
      convert("import torch\n\ndef build(size):\n    return T.Compose([T.CenterCrop(9), T.Resize(size)])\n");
  EXPECT_EQ(program.exit_code, 1);
  EXPECT_EQ(program.out, "center_crop(9)\n");
  EXPECT_NE(program.err.find("line 4: Resize: size is size, and not a number"), std::string::npos)
      << program.err;
}

TEST(ConvertAugment, SeveralRecipesOfAProgramArePrintedByName) {
  const std::string program =
      "data_transforms = {\n"
      "    'train': T.Compose([T.CenterCrop(3), T.Resize(9, max_size=9)]),\n"
      "    'val': T.Compose([T.CenterCrop(4), Rain()])}\n";
  const Outcome all = convert(program);
  EXPECT_EQ(all.exit_code, 1);  // a chain was asked for, and nobody said which
  EXPECT_EQ(all.out, "train: center_crop(3) resize(9)\nval: center_crop(4)\n");
  EXPECT_NE(all.err.find("train: line 2: Resize: max_size=9 is left out"), std::string::npos) << all.err;
  EXPECT_NE(all.err.find("val: left out, it has no equal: line 3: Rain"), std::string::npos) << all.err;
  EXPECT_NE(all.err.find("there are 2 recipes, train, val; choose one with --recipe NAME"),
            std::string::npos);
  const auto json = nlohmann::json::parse(convert(program, {"--json"}).out);
  EXPECT_EQ(json["recipes"][0]["recipe"], "train");
  EXPECT_EQ(json["recipes"][1]["augment"], "center_crop(4)");
  EXPECT_EQ(json["recipes"][1]["line"], 3);
  EXPECT_EQ(nlohmann::json::parse(convert(program, {"--json", "--recipe", "val"}).out)["augment"],
            "center_crop(4)");
}

TEST(ConvertAugment, TorchsSequentialAlwaysRuns) {
  EXPECT_EQ(expression("nn.Sequential(T.RandomHorizontalFlip(), T.CenterCrop(20))"),
            "hflip(0.5) center_crop(20)\n");
  EXPECT_EQ(expression("torch.nn.Sequential(T.CenterCrop(20))"), "center_crop(20)\n");
  EXPECT_EQ(expression("A.Sequential([A.HorizontalFlip(), A.CenterCrop(20, 20)])"),
            "one_of(hflip(0.5) center_crop(20x20),p=0.5)\n");
}

TEST(ConvertAugment, SaysWhatItLeavesOutOfATransform) {
  for (const auto& [recipe, converted, said] : std::vector<std::array<std::string, 3>>{
           {"T.Resize(224, max_size=300)", "resize(224)\n", "Resize: max_size=300 is left out"},
           {"T.RandomRotation(15, expand=True)", "rotate(15,interpolation=nearest)\n",
            "expand=true is left out"},
           {"T.CenterCrop(9, 7)", "center_crop(9)\n", "its argument 2, 7, is left out"}}) {
    const Outcome outcome = convert(recipe);
    EXPECT_EQ(outcome.out, converted);
    EXPECT_NE(outcome.err.find(said), std::string::npos) << outcome.err;
  }
  EXPECT_EQ(expression("T.RandomCrop(32, padding=4, fill=255)"),
            "pad(4,constant,fill=255) random_crop(32)\n");
  EXPECT_EQ(expression("T.RandomCrop(32, padding=4, padding_mode='edge')"), "pad(4,edge) random_crop(32)\n");
  EXPECT_EQ(expression("A.Normalize()"), "normalize(0.485:0.456:0.406,0.229:0.224:0.225)\n");
  EXPECT_EQ(expression("A.Affine(scale=(0.9, 1.1), rotate=(-15, 15), p=1)"),
            "affine(-15..15,0,0,0.9..1.1,0,0,interpolation=bilinear)\n");
  EXPECT_EQ(expression("A.Compose([A.Resize(256, 240), A.RandomCrop(32, 24)])"),
            "resize(256x240) random_crop(32x24)\n");
}

// One number is drawn from -x..x by the ops here, and by torchvision.
TEST(ConvertAugment, OneNumberOfAffineIsTheSameForEveryPicture) {
  EXPECT_EQ(expression("A.Affine(rotate=15, shear=10, translate_percent=0.1, p=1)"),
            "affine(15..15,0.1..0.1,0.1..0.1,1,10..10,10..10,interpolation=bilinear)\n");
  EXPECT_EQ(expression("A.Affine(scale={'x': 1.5, 'y': 1.5}, rotate=0, shear={'x': 3}, p=1)"),
            "affine(0..0,0,0,1.5..1.5,3..3,0,interpolation=bilinear)\n");
  EXPECT_EQ(expression("T.RandomAffine(15, shear=10)"), "affine(15,0,0,1,10,interpolation=nearest)\n");
}

TEST(ConvertAugment, RandomAffineShearsBothWays) {
  EXPECT_EQ(expression("T.RandomAffine(10, shear=(-5, 5, -10, 10))"),
            "affine(10,0,0,1,-5..5,-10..10,interpolation=nearest)\n");
  EXPECT_EQ(expression("T.RandomAffine(10, shear=(-5, 5))"),
            "affine(10,0,0,1,-5..5,interpolation=nearest)\n");
  for (const char* given : {"T.RandomAffine(10, shear=(1, 2, 3))", "T.RandomRotation((1, 2, 3))"}) {
    const Outcome outcome = convert(given);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
    EXPECT_NE(outcome.err.find("is [1,2,3], and not one number or two"), std::string::npos) << outcome.err;
  }
}

// Names of a script's variables are nobody's values.
TEST(ConvertAugment, WhatIsNoValueIsNotTakenForOne) {
  for (const auto& [given, named] : std::vector<std::pair<std::string, std::string>>{
           {"T.RandomAffine(10, translate=(args.shift, args.shift))", "translate is args.shift"},
           {"T.RandomAffine(10, translate=args.shift)", "translate is args.shift"},
           {"create_transform(224, is_training=train)", "is_training is train"},
           {"create_transform(224, is_training=True, auto_augment=args.aa)", "auto_augment is args.aa"},
           {"create_transform(224, is_training=True, color_jitter=args.cj)", "color_jitter is args.cj"},
           {"create_transform(224, is_training=True, color_jitter_prob=args.p)",
            "color_jitter_prob is args.p"},
           {"create_transform(224, is_training=True, re_prob=0.25, re_mode=args.remode)",
            "re_mode is args.remode"},
           {"rand_augment_transform(cfg)", "config_str is cfg"}}) {
    const Outcome outcome = convert(given);
    EXPECT_EQ(outcome.exit_code, 1) << given << "\n" << outcome.out;
    EXPECT_NE(outcome.err.find(named), std::string::npos) << given << "\n" << outcome.err;
  }
}

TEST(ConvertAugment, WhatIsLeftOutIsNotInTheChain) {
  for (const char* recipe :
       {"T.RandomChoice([T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)], p=WEIGHTS)",
        "T.RandomApply([T.RandomHorizontalFlip(1)], p=P)", "A.SomeOf([A.HorizontalFlip()], n=N)"}) {
    const Outcome outcome = convert(recipe);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "\n") << outcome.err;
  }
}

// torchvision's own order: RandomErasing takes tensors.
TEST(ConvertAugment, NormalizeComesLast) {
  EXPECT_EQ(
      expression("T.Compose([T.RandomResizedCrop(224), T.ToTensor(), T.Normalize(0.5, 0.5), "
                 "T.RandomErasing(0.25)])"),
      "rrc(224,0.08..1,3/4..4/3) random_erasing(0.02..0.33,0.3..3.3,fill=128,p=0.25) normalize(0.5,0.5)\n");
  EXPECT_EQ(
      expression(
          "T.Compose([T.Normalize((0.4, 0.5, 0.6), (0.2, 0.2, 0.2)), T.RandomErasing(1, value=(1, 0, -9))])"),
      "random_erasing(0.02..0.33,0.3..3.3,fill=153:128:0,p=1) normalize(0.4:0.5:0.6,0.2:0.2:0.2)\n");
  const Outcome choice = convert("A.OneOf([A.Normalize(), A.HorizontalFlip()])");
  EXPECT_EQ(choice.exit_code, 1);
  EXPECT_NE(choice.err.find("stands in OneOf"), std::string::npos) << choice.err;
}

TEST(ConvertAugment, WhatIsNoRecipeIsNamed) {
  for (const char* wrong :
       {"Compose([", "{\"a\": 1}", "{\"a\"", "3 4", "Flip)", "'never", "a: - __class_fullname__"}) {
    const Outcome outcome = convert(wrong);
    EXPECT_EQ(outcome.exit_code, 1) << wrong << outcome.out;
    EXPECT_NE(outcome.err.find("[convert-augment]"), std::string::npos) << wrong << ": " << outcome.err;
  }
  const ScratchDirectory dir;
  for (const std::string& wrong : {dir / "missing", dir.path()}) {
    const Outcome outcome = run_dlpipe({"convert-augment", wrong});
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_NE(outcome.err.find("[convert-augment] "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(wrong), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace dlpipe::test
