// Recipes as people's own programs hold them. What single transforms become: tests/cli/commands/convert_augment_test.cpp.
#include "dlpipe/run/convert/convert_augment.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "dlpipe/base/text.h"

namespace dlpipe::run {
namespace {

/// "name: expression" of each, with its notes and what has no equal below it.
std::vector<std::string> converted(std::string_view program, std::string_view recipe = {}) {
  const auto all = convert_augments(program, "train.py", recipe);
  if (!all.ok()) return {all.status().message()};
  std::vector<std::string> lines;
  for (const ConvertedAugment& one : *all) {
    lines.push_back(one.name + ": " + one.expression);
    for (const std::string& line : one.notes) lines.push_back("note " + line);
    for (const std::string& line : one.no_equal) lines.push_back("without " + line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

// The form of torchvision's tutorial of transfer learning.
TEST(ConvertProgram, ADictionaryOfRecipesGivesEachByItsKey) {
  const char* program = R"(
import torch, torchvision
from torchvision import datasets, models, transforms
plt.ion()   # interactive mode

# Data augmentation and normalization for training
# Just normalization for validation
data_transforms = {
    'train': transforms.Compose([
        transforms.RandomResizedCrop(224),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    ]),
    'val': transforms.Compose([
        transforms.Resize(256),
        transforms.CenterCrop(224),
        transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    ]),
}

data_dir = 'data/hymenoptera_data'
image_datasets = {x: datasets.ImageFolder(os.path.join(data_dir, x),
                                          data_transforms[x])
                  for x in ['train', 'val']}
dataset_sizes = {x: len(image_datasets[x]) for x in ['train', 'val']}
device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
print(f"Using {device} device")

def train_model(model, criterion, optimizer, scheduler, num_epochs=25):
    with TemporaryDirectory() as tempdir:
        for epoch in range(num_epochs):
            print(f'Epoch {epoch}/{num_epochs - 1}'); print('-' * 10)
            if phase == 'train': model.train()
            else: model.eval()
    return model

model_ft.fc = nn.Linear(num_ftrs, 2)
)";
  EXPECT_EQ(
      converted(program),
      (Lines{"train: rrc(224,0.08..1,3/4..4/3) hflip(0.5) normalize(0.485:0.456:0.406,0.229:0.224:0.225)",
             "val: resize(256) center_crop(224) normalize(0.485:0.456:0.406,0.229:0.224:0.225)"}));
  EXPECT_EQ(converted(program, "val"),
            Lines{"val: resize(256) center_crop(224) normalize(0.485:0.456:0.406,0.229:0.224:0.225)"});
  EXPECT_EQ(converted(program, "data_transforms.train")[0].substr(0, 15), "train: rrc(224,");
  EXPECT_NE(converted(program, "test")[0].find("train.py: there is no recipe test; there are train, val"),
            std::string::npos);
}

TEST(ConvertProgram, AFunctionsRecipeHasItsName) {
  EXPECT_EQ(
      converted(
          "import torch\n\ndef build(size):\n    return T.Compose([T.CenterCrop(8), T.Resize(size)])\n"),
      (Lines{"build: center_crop(8)",
             "without line 4: Resize: size is size, and not a number; write its value"}));
  // What the function takes when it is given nothing.
  EXPECT_EQ(
      converted("size = 3\n"
                "def get_transforms(train: bool, size: int = 224, *, mean=(0.5, 0.5, 0.5)) -> T.Compose:\n"
                "    \"\"\"Docs, with T.Compose([...]).\"\"\"\n"
                "    if train:\n"
                "        return T.Compose([T.RandomCrop(size), T.Normalize(mean, mean)])\n"
                "    else: return T.Compose([T.CenterCrop(size)]); x = 3\n"),
      (Lines{"get_transforms:5: random_crop(224) normalize(0.5:0.5:0.5,0.5:0.5:0.5)",
             "note size is 224, its default in get_transforms",
             "note mean is (0.5, 0.5, 0.5), its default in get_transforms",
             "get_transforms:6: center_crop(224)", "note size is 224, its default in get_transforms"}));
}

// The form of SimCLR's published code.
TEST(ConvertProgram, ProductsOfNumbersAreComputed) {
  EXPECT_EQ(converted("class TransformsSimCLR:\n"
                      "    def __init__(self, size=224, s=0.5):\n"
                      "        color_jitter = T.ColorJitter(0.8 * s, 0.8*s, 0.8 * s, 0.2 * s)\n"
                      "        self.train_transform = T.Compose([\n"
                      "            T.RandomApply([color_jitter], p=0.8),\n"
                      "            T.CenterCrop(size),\n"
                      "        ])\n"),
            (Lines{"train_transform: one_of(color_jitter(0.4,0.4,0.4,0.1),p=0.8) center_crop(224)",
                   "note s is 0.5, its default in TransformsSimCLR",
                   "note size is 224, its default in TransformsSimCLR"}));
  const auto size_of = [](const std::string& size) {
    return converted(concat("n = 8\ntf = T.Compose([T.CenterCrop(", size, ")])"));
  };
  for (const auto& [size, crop] : {std::pair("n * 2 + 1", 17),
                                   std::pair("1 + n * 2", 17),
                                   std::pair("(n - 2) * (1 + 1)", 12),
                                   std::pair("10 - n - -n", 10),
                                   std::pair("-n * -2", 16),
                                   std::pair("4 * 4", 16),
                                   std::pair("((n - 1))", 7),
                                   std::pair("n // 3", 2),
                                   std::pair("-(-n // 3)", 3),
                                   std::pair("n % 3", 2),
                                   std::pair("-n % 3", 1),
                                   std::pair("n ** 2", 64),
                                   std::pair("8 + -2 ** 2", 4),
                                   std::pair("2 ** -1 ** 2 * n", 4),
                                   std::pair("int(n * 1.14)", 9),
                                   std::pair("int(n / 0.875)", 9),
                                   std::pair("int(n*256/224) // 2", 4),
                                   std::pair("round(n / 3)", 3),
                                   std::pair("round(2.5)", 2),
                                   std::pair("math.floor(n / 3)", 2),
                                   std::pair("math.ceil(n / 3)", 3),
                                   std::pair("max(n, 3)", 8),
                                   std::pair("min(n // 1, 3) * 3", 9),
                                   std::pair("int(math.sqrt(n * n))", 8),
                                   std::pair("abs(-n)", 8)})
    EXPECT_EQ(size_of(size), Lines{concat("tf: center_crop(", crop, ")")}) << size;
  for (const char* size :
       {"n / 0", "n // 0", "n % 0", "0 ** -1", "n if n else 3", "n * m", "int(n * m)", "int(x=n)",
        "my.floor(n)", "round(n, 1, 2)", "4611686018427387904 * n", "~n", "n < 3", "n ** 99"})
    EXPECT_EQ(size_of(size)[1],
              concat("without line 2: CenterCrop: size is ", size, ", and not a number; write its value"))
        << size;
  EXPECT_EQ(converted("T.RandomResizedCrop(9, ratio=(1./2, 3 / 2.))"), Lines{": rrc(9,0.08..1,0.5..1.5)"});
}

TEST(ConvertProgram, AnnotationsAndOtherTargetsAreNames) {
  EXPECT_EQ(converted("x: T.Compose = T.Compose([T.CenterCrop(1)])\n"
                      "a, b = T.Compose([T.CenterCrop(2)]), T.Compose([T.CenterCrop(3)])\n"
                      "c = d = T.Compose([T.CenterCrop(4)])\n"
                      "class Data(LightningDataModule):\n"
                      "    size: int = 5\n"
                      "    def __init__(self):\n"
                      "        self.train_tf = T.Compose([T.CenterCrop(self.size)])\n"
                      "        self.val_tf = T.Compose(\n"
                      "            [T.CenterCrop(6)])\n"
                      "tf['e'] = T.Compose([T.CenterCrop(7)])\n"),
            (Lines{"x: center_crop(1)", "a: center_crop(2)", "b: center_crop(3)", "c: center_crop(4)",
                   "train_tf: center_crop(5)", "val_tf: center_crop(6)", "e: center_crop(7)"}));
}

TEST(ConvertProgram, RecipesInCallsHaveTheNameOfTheirUse) {
  EXPECT_EQ(
      converted("train_set = datasets.CIFAR10('data', train=True, transform=T.Compose([T.CenterCrop(1)]))\n"
                "test_set = datasets.CIFAR10('data', train=False, transform=T.Compose([T.CenterCrop(2)]))\n"),
      (Lines{"train_set.transform: center_crop(1)", "test_set.transform: center_crop(2)"}));
  EXPECT_EQ(converted("loader = DataLoader(ImageFolder('x', T.Compose([T.CenterCrop(1)])), batch_size=4)\n"
                      "for x, y in loader:\n    y = T.Resize(3)(x)\n"),
            Lines{"loader: center_crop(1)"});
  EXPECT_EQ(converted("tf = T.Compose([T.CenterCrop(1)]) if train else T.Compose([T.CenterCrop(2)])\n"),
            (Lines{"tf:1: center_crop(1)", "tf:1: center_crop(2)"}));
}

TEST(ConvertProgram, WhatHasNoEqualIsNamedWithItsLine) {
  EXPECT_EQ(
      converted("tf = T.Compose([\n"
                "    T.CenterCrop(8),\n"
                "    T.Lambda(lambda x: x.repeat(3, 1, 1) if x.shape[0] == 1 else x),\n"
                "    T.RandomHorizontalFlip() if train else T.Identity(),\n"
                "    *more,\n"
                "    MyNoise(0.1),\n"
                "    T.Resize(int(8 * scale)),\n"
                "    T.RandomVerticalFlip(),\n"
                "])\n"),
      (Lines{"tf: center_crop(8) vflip(0.5)",
             "without line 3: Lambda: Python code of your own; dlpipe.Loader runs such over batches, with "
             "transform=, or compiled (dlpipe.add_augmentation)",
             "without line 4: T.RandomHorizontalFlip() if train else T.Identity(): it is known only when "
             "the program runs",
             "without line 5: *more: it is known only when the program runs",
             "without line 6: MyNoise: dlpipe has no such op",
             "without line 7: Resize: size is int(8 * scale), and not a number; write its value"}));
  EXPECT_EQ(converted("tf = T.Compose(get_list())"),
            (Lines{"tf: ", "without Compose: transforms is get_list(), and not a list of transforms"}));
}

// As where a part of a class was pasted.
TEST(ConvertProgram, WhatIsSelfsOutsideOfAClassIsTheProgramsOwn) {
  EXPECT_EQ(converted("self.tf = T.Compose([T.CenterCrop(8)])\nimages = self.tf(images)\n"),
            Lines{"tf: center_crop(8)"});
}

// A container whose list can't be read is not what of it can.
TEST(ConvertProgram, WhatContainersTakeFromIsReadWholeOrNotAtAll) {
  for (const char* list :
       {"[T.RandomHorizontalFlip()] + more", "[T.RandomHorizontalFlip()] if train else []"}) {
    const std::string left_out = concat("without ", list, ": it is known only when the program runs");
    for (const char* name : {"T.RandomApply", "T.RandomChoice", "A.OneOf"})
      EXPECT_EQ(converted(concat(name, "(", list, ")")), (Lines{": ", left_out})) << name;
  }
}

TEST(ConvertProgram, ListsThatGrowAreFollowed) {
  EXPECT_EQ(converted("flips = [T.RandomHorizontalFlip()]\n"
                      "steps = [T.CenterCrop(8), *flips] + [T.Grayscale()]\n"
                      "steps.append(T.RandomVerticalFlip())\n"
                      "if noisy:\n"
                      "    steps += [T.GaussianBlur(3)]\n"
                      "steps.extend([T.ToTensor(), T.Normalize([0.5] * 3, (0.5,) * 3)])\n"
                      "tf = T.Compose(steps)\n"),
            (Lines{"tf: center_crop(8) hflip(0.5) grayscale vflip(0.5) normalize(0.5:0.5:0.5,0.5:0.5:0.5)",
                   "without line 5: [T.GaussianBlur(3)], which is added to steps under a condition: it is "
                   "known only when the program runs"}));
}

// The form of torchvision's presets of classification.
TEST(ConvertProgram, PresetsTakeTheirDefaults) {
  EXPECT_EQ(
      converted("class Preset:\n"
                "    def __init__(self, *, crop_size, mean=(0.5, 0.5, 0.5), "
                "interpolation=InterpolationMode.BICUBIC, flip=0.5):\n"
                "        trans = [transforms.RandomResizedCrop(9, interpolation=interpolation)]\n"
                "        if flip > 0:\n"
                "            trans.append(transforms.RandomHorizontalFlip(flip))\n"
                "        trans.extend([transforms.CenterCrop(crop_size), transforms.Normalize(mean, mean)])\n"
                "        self.transforms = transforms.Compose(trans)\n"),
      (Lines{"transforms: rrc(9,0.08..1,3/4..4/3,interpolation=bicubic) normalize(0.5:0.5:0.5,0.5:0.5:0.5)",
             "note interpolation is InterpolationMode.BICUBIC, its default in Preset",
             "note mean is (0.5, 0.5, 0.5), its default in Preset",
             "without line 5: transforms.RandomHorizontalFlip(flip), which is added to trans under a "
             "condition: it is "
             "known only when the program runs",
             "without line 6: CenterCrop: size is crop_size, and not a number; write its value"}));
  EXPECT_EQ(converted("T.CenterCrop(S), T.CenterCrop(S)"),
            (Lines{": ", "without CenterCrop: size is S, and not a number; write its value",
                   "without CenterCrop: size is S, and not a number; write its value"}));
}

TEST(ConvertProgram, ANameWithAValueForEachBranchIsNoted) {
  EXPECT_EQ(converted("if plus:\n    steps = [T.CenterCrop(1)]\nelse:\n    steps = [T.CenterCrop(2)]\n"
                      "data = ImageFolder('x', TwoCrops(T.Compose(steps)))\n"),
            (Lines{"steps:2: center_crop(1)", "data: center_crop(2)",
                   "note steps is what line 4 says; by a condition it may be that of line 2"}));
  EXPECT_EQ(converted("size = 5\nsize = 6\ntf = T.Compose([T.CenterCrop(size)])\n"),
            Lines{"tf: center_crop(6)"});
}

TEST(ConvertProgram, AlbumentationsIsToldByItsImport) {
  const Lines made = {"tf: center_crop(20x24)"};
  EXPECT_EQ(converted("import albumentations as AA\ntf = AA.Compose([AA.CenterCrop(20, 24)])\n"), made);
  EXPECT_EQ(
      converted("import albumentations\ntf = albumentations.Compose([albumentations.CenterCrop(20, 24)])\n"),
      made);
  EXPECT_EQ(
      converted("from albumentations import (Compose,\n CenterCrop)\ntf = Compose([CenterCrop(20, 24)])\n"),
      made);
  EXPECT_EQ(converted("from albumentations import *\ntf = Compose([CenterCrop(20, 24)])\n"), made);
  EXPECT_EQ(
      converted("def get(split):\n"
                "    if split == 'train':\n"
                "        return A.Compose([A.CenterCrop(20, 24)], bbox_params=A.BboxParams(format='coco'))\n"
                "    tf = A.Compose([A.CenterCrop(9, 9)])\n"
                "    return tf\n"),
      (Lines{"get: center_crop(20x24)", "tf: center_crop(9x9)"}));
}

TEST(ConvertProgram, ClassesAndFunctionsOfEveryKindAreFollowed) {
  EXPECT_EQ(converted("class Data:\n    size = 8\n    def pictures(self):\n"
                      "        return T.Compose([T.CenterCrop(self.size)])\n"),
            Lines{"pictures: center_crop(8)"});
  EXPECT_EQ(converted("async def load(size=7):\n    return T.Compose([T.CenterCrop(size)])\n"),
            (Lines{"load: center_crop(7)", "note size is 7, its default in load"}));
}

TEST(ConvertProgram, TransformsThatStandAloneAreOneRecipe) {
  EXPECT_EQ(converted("    T.CenterCrop(8),\n    MyNoise(),\n    T.RandomHorizontalFlip(),\n"),
            (Lines{": center_crop(8) hflip(0.5)", "without line 2: MyNoise: dlpipe has no such op"}));
  EXPECT_EQ(converted("Sequential(\n  (0): CenterCrop(size=(8, 8))\n  (1): RandomHorizontalFlip(p=0.5)\n)"),
            Lines{": center_crop(8x8) hflip(0.5)"});
  EXPECT_EQ(converted("main()\nTrainer()\ntf = T.Compose([T.CenterCrop(8)])\n"), Lines{"tf: center_crop(8)"});
}

TEST(ConvertProgram, WhatIsNoProgramIsNamedWithItsLine) {
  for (const auto& [program, said] : std::vector<std::pair<std::string, std::string>>{
           {"x = 1\ny = T.Compose([T.CenterCrop(8)\n", "no end of the '[' in line 2"},
           {"x = 1\n)", "unexpected ')' in line 2"},
           {"x = 'a\n", "a quoted word that doesn't end in line 1"},
           {"x = '''a\n\n", "a quoted word that doesn't end in line 1"},
           {"x = 1\n", "no transforms in it"},
           {"", "no transforms in it"},
           {R"({"cells": [], "nbformat": 4})", "jupyter nbconvert"}}) {
    const Lines lines = converted(program);
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_NE(lines[0].find(said), std::string::npos) << lines[0];
    EXPECT_NE(lines[0].find("train.py"), std::string::npos) << lines[0];
  }
}

// Lists that double with every line, and brackets without end, must neither fill the memory nor the stack.
TEST(ConvertProgram, HoldsOutAgainstAnyProgram) {
  std::string doubling = "a0 = [T.CenterCrop(8)]\n";
  for (int i = 1; i < 60; ++i)
    doubling +=
        "a" + std::to_string(i) + " = [*a" + std::to_string(i - 1) + ", *a" + std::to_string(i - 1) + "]\n";
  EXPECT_FALSE(converted(doubling + "tf = T.Compose(a59)\n").empty());
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_FALSE(converted("tf = T.Compose(" + deep + ")").empty());
  EXPECT_FALSE(converted(std::string(100'000, '-') + "x").empty());
  std::string calls = "tf = f", blocks, nesting = "tf = T.Compose([T.CenterCrop(8)])\n";
  for (int i = 0; i < 100'000; ++i) {
    calls += "()";
    blocks += "else:";
    if (i < 300) nesting += "tf = T.Compose([tf])\n";
  }
  for (const std::string& text : {calls, blocks, nesting}) EXPECT_FALSE(converted(text).empty());
  EXPECT_FALSE(converted("tf = T.Compose([tf, tf])\ntf = T.Compose([tf, tf])\n").empty());
  for (const char* odd :
       {"=",       ":",     "a = ",   "def",   "def f(", "def f(:", "return", "x[",   "if",
        "@",       ";;",    "a.",     "(0): ", "*",      "lambda",  "{:}",    "{a:}", "f(a=)",
        "a = = b", "class", "import", "from",  "async",  "...",     "x +="})
    EXPECT_FALSE(converted(odd).empty()) << odd;
}

}  // namespace
}  // namespace dlpipe::run
