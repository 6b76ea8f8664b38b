"""Recipes of other libraries as chains: programs, what print writes, what Albumentations saves. None of the libraries is needed."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dlpipe
import numpy as np
import pytest
from dlpipe.recipes import converted_text

GOLDEN = Path(__file__).with_name("golden")
IMAGENET = " normalize(0.485:0.456:0.406,0.229:0.224:0.225)"


def converted(program, recipe=""):
    """"name: chain" of each recipe, with its notes and what has no equal below it."""
    try:
        all_ = converted_text(program, recipe)
    except dlpipe.Error as error:
        return [str(error)]
    lines = []
    for one in all_:
        lines += [f"{one.name}: {one.augment}", *(f"note {line}" for line in one.notes), *(f"without {line}" for line in one.no_equal)]
    return lines


def one(text):
    (only,) = converted_text(text)
    return only


def expression(text):
    made = one(text)
    assert made.no_equal == []
    return made.augment


def saved(*transforms, version="1.3.1"):
    """A recipe as Albumentations saves it."""
    return json.dumps({"__version__": version, "transform": {
        "__class_fullname__": "Compose", "p": 1.0, "transforms": [json.loads(one) if isinstance(one, str) else one for one in transforms],
        "bbox_params": None, "keypoint_params": None, "additional_targets": {}, "is_check_shapes": True}})  # fmt: skip


# Programs

# The form of torchvision's tutorial of transfer learning.
TUTORIAL = """
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
"""


def test_a_dictionary_of_recipes_gives_each_by_its_key():
    val = "val: resize(256) center_crop(224)" + IMAGENET
    assert converted(TUTORIAL) == ["train: rrc(224,0.08..1,3/4..4/3) hflip(0.5)" + IMAGENET, val]
    assert converted(TUTORIAL, "val") == [val]
    assert converted(TUTORIAL, "data_transforms.train")[0].startswith("train: rrc(224,")
    assert "there is no recipe test; there are train, val" in converted(TUTORIAL, "test")[0]


def test_a_functions_recipe_has_its_name():
    assert converted("import torch\n\ndef build(size):\n    return T.Compose([T.CenterCrop(8), T.Resize(size)])\n") == [
        "build: center_crop(8)", "without line 4: Resize: size is size, not a number; write its value"]  # fmt: skip
    # What the function takes when it is given nothing.
    assert converted("size = 3\n"
                     "def get_transforms(train: bool, size: int = 224, *, mean=(0.5, 0.5, 0.5)) -> T.Compose:\n"
                     '    """Docs, with T.Compose([...])."""\n'
                     "    if train:\n"
                     "        return T.Compose([T.RandomCrop(size), T.Normalize(mean, mean)])\n"
                     "    else: return T.Compose([T.CenterCrop(size)]); x = 3\n") == [
        "get_transforms:5: random_crop(224) normalize(0.5:0.5:0.5,0.5:0.5:0.5)", "note size is 224, its default in get_transforms",
        "note mean is (0.5, 0.5, 0.5), its default in get_transforms",
        "get_transforms:6: center_crop(224)", "note size is 224, its default in get_transforms"]  # fmt: skip


# The form of SimCLR's published code.
def test_products_of_numbers_are_computed():
    assert converted("class TransformsSimCLR:\n"
                     "    def __init__(self, size=224, s=0.5):\n"
                     "        color_jitter = T.ColorJitter(0.8 * s, 0.8*s, 0.8 * s, 0.2 * s)\n"
                     "        self.train_transform = T.Compose([\n"
                     "            T.RandomApply([color_jitter], p=0.8),\n"
                     "            T.CenterCrop(size),\n"
                     "        ])\n") == [
        "train_transform: one_of(color_jitter(0.4,0.4,0.4,0.1),p=0.8) center_crop(224)",
        "note s is 0.5, its default in TransformsSimCLR", "note size is 224, its default in TransformsSimCLR"]  # fmt: skip
    assert converted("T.RandomResizedCrop(9, ratio=(1./2, 3 / 2.))") == [": rrc(9,0.08..1,0.5..1.5)"]


@pytest.mark.parametrize("size, crop", [
    ("n * 2 + 1", 17), ("1 + n * 2", 17), ("(n - 2) * (1 + 1)", 12), ("10 - n - -n", 10), ("-n * -2", 16), ("4 * 4", 16),
    ("((n - 1))", 7), ("n // 3", 2), ("-(-n // 3)", 3), ("n % 3", 2), ("-n % 3", 1), ("n ** 2", 64), ("8 + -2 ** 2", 4),
    ("2 ** -1 ** 2 * n", 4), ("int(n * 1.14)", 9), ("int(n / 0.875)", 9), ("int(n*256/224) // 2", 4), ("round(n / 3)", 3),
    ("round(2.5)", 2), ("math.floor(n / 3)", 2), ("math.ceil(n / 3)", 3), ("max(n, 3)", 8), ("min(n // 1, 3) * 3", 9),
    ("int(math.sqrt(n * n))", 8), ("abs(-n)", 8)])  # fmt: skip
def test_arithmetic(size, crop):
    assert converted(f"n = 8\ntf = T.Compose([T.CenterCrop({size})])") == [f"tf: center_crop({crop})"]


@pytest.mark.parametrize("size", ["n / 0", "n // 0", "n % 0", "0 ** -1", "n if n else 3", "n * m", "int(n * m)", "int(x=n)", "my.floor(n)",
                                  "round(n, 1, 2)", "4611686018427387904 * n", "~n", "n < 3", "n ** 99", "9 ** 9 ** 9"])  # fmt: skip
def test_what_is_no_number_is_left_out_by_its_text(size):
    assert converted(f"n = 8\ntf = T.Compose([T.CenterCrop({size})])")[1] == (
        f"without line 2: CenterCrop: size is {ast.unparse(ast.parse(size))}, not a number; write its value")


def test_annotations_and_other_targets_are_names():
    assert converted("x: T.Compose = T.Compose([T.CenterCrop(1)])\n"
                     "a, b = T.Compose([T.CenterCrop(2)]), T.Compose([T.CenterCrop(3)])\n"
                     "c = d = T.Compose([T.CenterCrop(4)])\n"
                     "class Data(LightningDataModule):\n"
                     "    size: int = 5\n"
                     "    def __init__(self):\n"
                     "        self.train_tf = T.Compose([T.CenterCrop(self.size)])\n"
                     "        self.val_tf = T.Compose(\n"
                     "            [T.CenterCrop(6)])\n"
                     "tf['e'] = T.Compose([T.CenterCrop(7)])\n") == [
        "x: center_crop(1)", "a: center_crop(2)", "b: center_crop(3)", "c: center_crop(4)", "train_tf: center_crop(5)",
        "val_tf: center_crop(6)", "e: center_crop(7)"]  # fmt: skip


def test_recipes_in_calls_have_the_name_of_their_use():
    assert converted("train_set = datasets.CIFAR10('data', train=True, transform=T.Compose([T.CenterCrop(1)]))\n"
                     "test_set = datasets.CIFAR10('data', train=False, transform=T.Compose([T.CenterCrop(2)]))\n") == [
        "train_set.transform: center_crop(1)", "test_set.transform: center_crop(2)"]  # fmt: skip
    assert converted("loader = DataLoader(ImageFolder('x', T.Compose([T.CenterCrop(1)])), batch_size=4)\n"
                     "for x, y in loader:\n    y = T.Resize(3)(x)\n") == ["loader: center_crop(1)"]  # fmt: skip
    assert converted("tf = T.Compose([T.CenterCrop(1)]) if train else T.Compose([T.CenterCrop(2)])\n") == [
        "tf:1: center_crop(1)", "tf:1: center_crop(2)"]  # fmt: skip
    assert converted("images = T.Compose([T.CenterCrop(1)])(images)\n") == ["images: center_crop(1)"]


def test_what_has_no_equal_is_named_with_its_line():
    assert converted("tf = T.Compose([\n"
                     "    T.CenterCrop(8),\n"
                     "    T.Lambda(lambda x: x.repeat(3, 1, 1) if x.shape[0] == 1 else x),\n"
                     "    T.RandomHorizontalFlip() if train else T.Identity(),\n"
                     "    *more,\n"
                     "    MyNoise(0.1),\n"
                     "    T.Resize(int(8 * scale)),\n"
                     "    T.RandomVerticalFlip(),\n"
                     "])\n") == [
        "tf: center_crop(8) vflip(0.5)",
        "without line 3: Lambda: it is your own Python code; dlpipe.Loader runs such code over batches with transform=, or compiled "
        "(dlpipe.add_augmentation)",
        "without line 4: T.RandomHorizontalFlip() if train else T.Identity(): it is only known when the program runs",
        "without line 5: *more: it is only known when the program runs",
        "without line 6: MyNoise: dlpipe has no such op",
        "without line 7: Resize: size is int(8 * scale), not a number; write its value"]  # fmt: skip
    assert converted("tf = T.Compose(get_list())") == ["tf: ", "without Compose: transforms is get_list(), not a list of transforms"]


# As where a part of a class was pasted.
def test_what_is_selfs_outside_of_a_class_is_the_programs_own():
    assert converted("self.tf = T.Compose([T.CenterCrop(8)])\nimages = self.tf(images)\n") == ["tf: center_crop(8)"]


# A container whose list can't be read is not what of it can.
@pytest.mark.parametrize("list_", ["[T.RandomHorizontalFlip()] + more", "[T.RandomHorizontalFlip()] if train else []"])
@pytest.mark.parametrize("name", ["T.RandomApply", "T.RandomChoice", "A.OneOf"])
def test_what_containers_take_from_is_read_whole_or_not_at_all(name, list_):
    assert converted(f"{name}({list_})") == [": ", f"without {list_}: it is only known when the program runs"]


def test_lists_that_grow_are_followed():
    assert converted("flips = [T.RandomHorizontalFlip()]\n"
                     "steps = [T.CenterCrop(8), *flips] + [T.Grayscale(3)]\n"
                     "steps.append(T.RandomVerticalFlip())\n"
                     "if noisy:\n"
                     "    steps += [T.GaussianBlur(3)]\n"
                     "steps.extend([T.ToTensor(), T.Normalize([0.5] * 3, (0.5,) * 3)])\n"
                     "tf = T.Compose(steps)\n") == [
        "tf: center_crop(8) hflip(0.5) grayscale vflip(0.5) normalize(0.5:0.5:0.5,0.5:0.5:0.5)",
        "without line 5: [T.GaussianBlur(3)], which is added to steps under a condition: it is only known when the program runs",
    ]  # fmt: skip


# The form of torchvision's presets of classification.
def test_presets_take_their_defaults():
    assert converted("class Preset:\n"
                     "    def __init__(self, *, crop_size, mean=(0.5, 0.5, 0.5), "
                     "interpolation=InterpolationMode.BICUBIC, flip=0.5):\n"
                     "        trans = [transforms.RandomResizedCrop(9, interpolation=interpolation)]\n"
                     "        if flip > 0:\n"
                     "            trans.append(transforms.RandomHorizontalFlip(flip))\n"
                     "        trans.extend([transforms.CenterCrop(crop_size), transforms.Normalize(mean, mean)])\n"
                     "        self.transforms = transforms.Compose(trans)\n") == [
        "transforms: rrc(9,0.08..1,3/4..4/3,interpolation=bicubic) normalize(0.5:0.5:0.5,0.5:0.5:0.5)",
        "note interpolation is InterpolationMode.BICUBIC, its default in Preset",
        "note mean is (0.5, 0.5, 0.5), its default in Preset",
        "without line 5: transforms.RandomHorizontalFlip(flip), which is added to trans under a condition: it is only known when the "
        "program runs",
        "without line 6: CenterCrop: size is crop_size, not a number; write its value"]  # fmt: skip
    assert converted("T.CenterCrop(S), T.CenterCrop(S)") == [": "] + ["without CenterCrop: size is S, not a number; write its value"] * 2


def test_a_name_with_a_value_for_each_branch_is_noted():
    assert converted("if plus:\n    steps = [T.CenterCrop(1)]\nelse:\n    steps = [T.CenterCrop(2)]\n"
                     "data = ImageFolder('x', TwoCrops(T.Compose(steps)))\n") == [
        "steps:2: center_crop(1)", "data: center_crop(2)",
        "note steps has the value from line 4; depending on a condition it may have the one from line 2"]  # fmt: skip
    assert converted("size = 5\nsize = 6\ntf = T.Compose([T.CenterCrop(size)])\n") == ["tf: center_crop(6)"]


@pytest.mark.parametrize("program", [
    "import albumentations as AA\ntf = AA.Compose([AA.CenterCrop(20, 24)])\n",
    "import albumentations\ntf = albumentations.Compose([albumentations.CenterCrop(20, 24)])\n",
    "from albumentations import (Compose,\n CenterCrop)\ntf = Compose([CenterCrop(20, 24)])\n",
    "from albumentations import *\ntf = Compose([CenterCrop(20, 24)])\n",
    "from albumentations.augmentations.crops import CenterCrop as Middle\nfrom albumentations import Compose\ntf = Compose([Middle(20, 24)])\n",
])  # fmt: skip
def test_albumentations_is_told_by_its_import(program):
    made, note = converted(program)
    assert made == "tf: center_crop(20x24)" and "CenterCrop: it begins one pixel later in dlpipe if the margin is 3, 7, 11" in note


def test_recipes_of_a_function_and_its_variables():
    assert converted("def get(split):\n"
                     "    if split == 'train':\n"
                     "        return A.Compose([A.CenterCrop(20, 24)], bbox_params=A.BboxParams(format='coco'))\n"
                     "    tf = A.Compose([A.CenterCrop(9, 9)])\n"
                     "    return tf\n")[::2] == ["get: center_crop(20x24)", "tf: center_crop(9x9)"]  # fmt: skip


def test_classes_and_functions_of_every_kind_are_followed():
    assert converted("class Data:\n    size = 8\n    def images(self):\n"
                     "        return T.Compose([T.CenterCrop(self.size)])\n") == ["images: center_crop(8)"]  # fmt: skip
    assert converted("async def load(size=7):\n    return T.Compose([T.CenterCrop(size)])\n") == [
        "load: center_crop(7)", "note size is 7, its default in load"]  # fmt: skip


def test_transforms_that_stand_alone_are_one_recipe():
    assert converted("    T.CenterCrop(8),\n    MyNoise(),\n    T.RandomHorizontalFlip(),\n") == [
        ": center_crop(8) hflip(0.5)", "without line 2: MyNoise: dlpipe has no such op"]  # fmt: skip
    assert converted("Sequential(\n  (0): CenterCrop(size=(8, 8))\n  (1): RandomHorizontalFlip(p=0.5)\n)") == [": center_crop(8x8) hflip(0.5)"]
    assert converted("main()\nTrainer()\ntf = T.Compose([T.CenterCrop(8)])\n") == ["tf: center_crop(8)"]


@pytest.mark.parametrize("program, said", [
    ("x = 1\ny = T.Compose([T.CenterCrop(8)\n", "line 2"), ("x = 1\n)", "line 2"), ("x = 'a\n", "line 1"), ("x = '''a\n\n", "line 1"),
    ("x = 1\n", "it has no transforms"), ("", "it has no transforms"), ('{"cells": [], "nbformat": 4}', "jupyter nbconvert"),
    ("Compose([", "line 1"), ('{"a": 1}', "transform"), ('{"a"', "line 1"), ("3 4", "line 1"), ("Flip)", "line 1"), ("'never", "line 1"),
    ("a: - __class_fullname__", "no transforms"), ("x = 1\0", "null bytes"), ('{"transform": {"__class_fullname__": "Comp', "JSON"),
    ('{"transform": {"p": 1}}', "__class_fullname__")])  # fmt: skip
def test_what_is_no_program_is_named_with_its_line(program, said):
    (line,) = converted(program)
    assert said in line


# Lists that double with every line, and brackets without end, must neither fill the memory nor the stack.
def test_holds_out_against_any_program():
    doubling = "a0 = [T.CenterCrop(8)]\n" + "".join(f"a{i} = [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
    nesting = "tf = T.Compose([T.CenterCrop(8)])\n"
    programs = [doubling + "tf = T.Compose(a59)\n", f"tf = T.Compose({'[' * 100_000}{']' * 100_000})", "-" * 5_000 + "x",
                "tf = f" + "()" * 5_000, "else:" * 100_000, nesting + "tf = T.Compose([tf])\n" * 300, nesting + "tf = T.Compose([tf, tf])\n" * 60,
                "x = (" + "1 + " * 20_000 + "1)\ntf = T.Compose([T.CenterCrop(x)])"]  # fmt: skip
    odd = ["=", ":", "a = ", "def", "def f(", "def f(:", "return", "x[", "if", "@", ";;", "a.", "(0): ", "*", "lambda", "{:}", "{a:}", "f(a=)",
           "a = = b", "class", "import", "from", "async", "...", "x +=", "match x:\n case 1:\n  T.CenterCrop(8)\n", "x: int", "return",
           "try:\n T.CenterCrop(8)\nexcept* E:\n pass\n", "[*x]", "{**x}", "T.CenterCrop(*x, **y)", "yield T.CenterCrop(8)", "del x",
           "T.CenterCrop(1)(2)(3).x[4]", "x = yield", "f'{T.CenterCrop(8)}'"]  # fmt: skip
    for text in programs + odd:
        assert converted(text)


# Whose class it is


@pytest.mark.parametrize("program, whose", [
    ("import utils\nfrom torchvision import transforms as T\ntf = T.Compose([T.CenterCrop(8), utils.GaussianBlur(1.0)])\n",
     "GaussianBlur: it is utils.GaussianBlur"),
    ("from torchvision import transforms as T\ntf = T.Compose([T.CenterCrop(8), utils.GaussianBlur(1.0)])\n",
     "GaussianBlur: it is utils.GaussianBlur"),
    ("from moco.loader import GaussianBlur\nfrom torchvision import transforms as T\ntf = T.Compose([T.CenterCrop(8), GaussianBlur([.1, 2.])])\n",
     "GaussianBlur: it is moco.loader.GaussianBlur"),
    ("from .transforms import Resize\nfrom torchvision import transforms as T\ntf = T.Compose([T.CenterCrop(8), Resize(4)])\n",
     "Resize: it is .transforms.Resize"),
    ("from torchvision import transforms as T\nclass Resize:\n    def __init__(self, size): pass\ntf = T.Compose([T.CenterCrop(8), Resize(4)])\n",
     "Resize: it is the script's own class"),
    ("from torchvision import transforms as T\nfrom fastai.vision.all import *\ntf = T.Compose([T.CenterCrop(8), Resize(4)])\n",
     "Resize: it is possibly from fastai.vision.all"),
    ("import torchvision.transforms as T\ndef Grayscale(n):\n    return lambda x: x\ntf = T.Compose([T.CenterCrop(8), Grayscale(3)])\n",
     "Grayscale: it is the script's own function"),
    ("import transforms as R\nfrom torchvision import transforms as T\ntf = T.Compose([T.CenterCrop(8), R.RandomHorizontalFlip()])\n",
     "RandomHorizontalFlip: it is transforms.RandomHorizontalFlip"),
    ("import cv2, torchvision.transforms as T\ntf = T.Compose([T.CenterCrop(8), cv2.GaussianBlur(1)])\n", "GaussianBlur: it is cv2.GaussianBlur"),
])  # fmt: skip
def test_a_class_of_the_scripts_own_or_of_another_module_is_refused_by_name(program, whose):
    made = one(program)
    assert made.augment == "center_crop(8)"
    assert len(made.no_equal) == 1 and whose in made.no_equal[0] and "not torchvision's" in made.no_equal[0]


def test_names_of_the_libraries_are_followed():
    assert expression("from torchvision.transforms import v2\nCrop = v2.CenterCrop\ntf = v2.Compose([Crop(8)])\n") == "center_crop(8)"
    assert expression("from torchvision.transforms.transforms import *\ntf = Compose([Resize(8, 3)])\n") == "resize(8,interpolation=bicubic)"
    assert expression("import torchvision\ntf = torchvision.transforms.Compose([torchvision.transforms.v2.RGB(), "
                      "torchvision.transforms.CenterCrop(8)])\n") == "center_crop(8)"  # fmt: skip
    # Without an import, by the classes that only one library has, and by the arguments.
    assert expression("Compose([RandomCrop(32, 24), HorizontalFlip()])") == "random_crop(32x24) hflip(0.5)"
    assert expression("Compose([RandomCrop(32, 24), RandomHorizontalFlip()])") == "pad_crop(32,24) hflip(0.5)"


# What torchvision's arguments mean


@pytest.mark.parametrize("given, made", [
    *[(f"T.Resize(8, {i})", f"resize(8{name})") for i, name in enumerate((
        ",interpolation=nearest", ",interpolation=lanczos", "", ",interpolation=bicubic", ",interpolation=area"))],
    ("T.Resize(8, interpolation=3)", "resize(8,interpolation=bicubic)"),
    ("T.Resize(8, Image.BICUBIC)", "resize(8,interpolation=bicubic)"),
    ("T.RandomResizedCrop(8, (0.5, 1), (1, 1), 3)", "rrc(8,0.5..1,1..1,interpolation=bicubic)"),
    ("T.RandomRotation(9, 2)", "rotate(9,interpolation=bilinear)"), ("T.RandomRotation(9, 0)", "rotate(9,interpolation=nearest)"),
    ("T.RandomRotation(9, resample=2)", "rotate(9,interpolation=bilinear)"),
    ("T.RandomRotation(9, resample=PIL.Image.BILINEAR)", "rotate(9,interpolation=bilinear)"),
    ("T.RandomAffine(9, None, None, None, 2)", "affine(9,0,0,1,0,interpolation=bilinear)"),
    ("T.RandomAffine(9, resample=2, fillcolor=7)", "affine(9,0,0,1,0,interpolation=bilinear,fill=7)"),
    ("T.RandomPerspective(0.5, 0.5, 0)", "perspective(0.5,interpolation=nearest,p=0.5)"),
    ("T.RandomPerspective(interpolation=2)", "perspective(0.5,interpolation=bilinear,p=0.5)"),
    ("T.RandAugment(2, 9, 31, 2)", "randaugment(2,9,31,interpolation=bilinear)"),
    *[(f"A.Resize(8, 8, {i})", f"resize(8x8{name})") for i, name in enumerate((
        ",interpolation=nearest", "", ",interpolation=bicubic", ",interpolation=area", ",interpolation=lanczos"))],
    ("A.Resize(8, 8, interpolation=cv2.INTER_CUBIC)", "resize(8x8,interpolation=bicubic)"),
    ("A.Resize(8, 8, interpolation=cv2.INTER_AREA)", "resize(8x8,interpolation=area)"),
    ("A.Rotate(9, 0, p=1)", "rotate(9,interpolation=nearest)")])  # fmt: skip
def test_numbers_of_filters_are_the_librarys_own(given, made):
    assert expression(given) == made


@pytest.mark.parametrize("given, said", [("T.RandomRotation(9, 3)", "interpolation=bicubic is left out"),
                                         ("T.RandomAffine(9, interpolation=3)", "interpolation=bicubic is left out"),
                                         ("T.RandomRotation(9, resample=3)", "interpolation=bicubic is left out")])  # fmt: skip
def test_a_filter_that_warps_lack_is_noted(given, said):
    assert said in one(given).notes[0]


@pytest.mark.parametrize("given, said", [
    ("T.RandomRotation(9, center=(0, 0))", "center is (0, 0)"), ("T.RandomRotation(9, 0, False, (0, 0))", "center is (0, 0)"),
    ("T.RandomAffine(9, center=(0, 0))", "center is (0, 0)"), ("T.Resize(8, interpolation=5)", "interpolation is 5, not a filter"),
    ("T.GaussianBlur((3, 5))", "its kernel isn't square"), ("A.Erasing(ratio=(0, 1))", "not above 0")])  # fmt: skip
def test_what_changes_all_is_refused(given, said):
    assert said in one(given).no_equal[0]


@pytest.mark.parametrize("given, said", [
    ("T.Grayscale()", "give channels=1"), ("T.Grayscale(1)", "give channels=1"), ("T.Grayscale(3)", "give channels=3"), ("A.ToGray(num_output_channels=1)", "num_output_channels=1"),
    ("T.Resize(224, max_size=300)", "max_size=300 is left out"), ("T.Resize(9, antialias=False)", "antialias=False is left out"),
    ("T.RandomRotation(15, expand=True)", "expand=True is left out"), ("T.CenterCrop(9, 7)", "its argument 2, 7, is left out"),
    ("T.TenCrop(9, vertical_flip=True)", "vertical_flip=True is left out"), ("v2.GaussianNoise(clip=False)", "clip=False is left out"),
    ("A.Normalize(max_pixel_value=1.0)", "max_pixel_value=1.0 is left out"), ("A.Resize(9, 9, p=0.5)", "p=0.5 is left out"),
    ("A.MotionBlur(allow_shifted=False)", "is stronger to one side"), ("A.MotionBlur(9, False, (45, 45), (0, 0))", "counts twice in dlpipe"),
    ("T.RandomErasing(value='random')", "from a normal distribution"), ("A.Erasing()", "draws the logarithm of the ratio uniformly"),
    ("A.GridDistortion()", "up to one pixel further away"), ("A.GridDistortion(distort_limit=(0.3, 0.3))", "up to one pixel further away"),
    ("A.Affine(translate_percent=0.11)", "truncated in Albumentations"), ("A.ShiftScaleRotate((0.1, 0.1))", "truncated in Albumentations"),
    ("A.GaussNoise(per_channel=False)", "per_channel=False"),
    ("A.Equalize(by_channels=False)", "by_channels=False"), ("A.Affine(fit_output=True)", "fit_output=True")])  # fmt: skip
def test_what_it_leaves_out_of_a_transform_is_noted(given, said):
    assert any(said in note for note in one(given).notes_of_text())


def test_what_depends_on_the_image_is_noted_where_it_matters():
    notes = one("A.Compose([A.Resize(43, 43, interpolation=6), A.CenterCrop(20, 22)])").notes
    assert len(notes) == 1 and "CenterCrop: it begins one pixel later" in notes[0]
    assert one("A.Compose([A.Resize(44, 44, interpolation=6), A.CenterCrop(20, 22)])").notes == []
    nearest = "v2.Resize(8, InterpolationMode.NEAREST)"
    assert one(f"v2.Compose([{nearest}, v2.ToImage()])").notes == []
    for recipe in (f"v2.Compose([v2.ToImage(), {nearest}])", f"v2.Compose([v2.PILToTensor(), {nearest}])", f"T.Compose([T.ToTensor(), {nearest}])"):
        assert "nearest of tensors picks other pixels" in one(recipe).notes[0]
    assert one(f"T.Compose([T.ToTensor(), T.ToPILImage(), {nearest}])").notes == []
    assert one("v2.Compose([v2.ToImage(), v2.Resize(8, InterpolationMode.NEAREST_EXACT)])").notes == []


def test_normalize_takes_the_numbers_as_they_are_there():
    normalize = "v2.Normalize([51, 102, 153], [51, 51, 51])"
    expected = "normalize(0.2:0.4:0.6,0.2:0.2:0.2)"
    assert expression(f"v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32), {normalize}])") == expected
    scaled = "v2.Normalize([0.2, 0.4, 0.6], [0.2, 0.2, 0.2])"
    assert expression(f"v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), {scaled}])") == expected
    # Behind it 0 is the mean, which frames what is smaller than a crop.
    assert expression("T.Compose([T.ToTensor(), T.Normalize(0.5, 0.5), T.CenterCrop(8)])") == (
        "pad_to(8,fill=128) center_crop(8) normalize(0.5,0.5)")
    assert expression("T.Compose([T.CenterCrop(8), T.ToTensor(), T.Normalize(0.5, 0.5)])") == "center_crop(8) normalize(0.5,0.5)"


@pytest.mark.parametrize("given", ["T.Grayscale(3)", "A.Normalize(max_pixel_value=255)", "A.GaussNoise()", "A.PadIfNeeded(8, 8)",
                                   "A.Rotate(9, fill_mask=3)", "T.RandomErasing(inplace=True)", "T.Resize(9, antialias=True)"])  # fmt: skip
def test_what_is_so_anyway_is_not_noted(given):
    assert one(given).notes == []


def test_numbers_behind_to_tensor_are_shares():
    for to_float in ("T.ToTensor()", "v2.ToDtype(torch.float32, scale=True)", "T.ConvertImageDtype(torch.float)"):
        assert expression(f"T.Compose([{to_float}, T.RandomSolarize(0.5, 1)])") == "solarize(127.5,1) normalize(0,1)"
        assert expression(f"T.Compose([{to_float}, T.RandomErasing(1, value=0.5)])").endswith("fill=128,p=1) normalize(0,1)")
        assert expression(f"T.Compose([{to_float}, T.Pad(2, fill=1)])") == "pad(2,constant,fill=255) normalize(0,1)"
        assert expression(f"T.Compose([{to_float}, T.RandomRotation(9, fill=(1, 0.5, 0))])").endswith("fill=255:128:0) normalize(0,1)")
    for to_bytes in ("T.PILToTensor()", "v2.ToImage()", "v2.ToDtype(torch.uint8, scale=True)", "T.ToTensor(), T.ToPILImage()"):
        assert expression(f"T.Compose([{to_bytes}, T.RandomSolarize(128, 1), T.Pad(2, fill=1)])") == "solarize(128,1) pad(2,constant,fill=1)"
    # Floats of 0..255.
    assert expression("T.Compose([v2.ToDtype(torch.float32), T.RandomSolarize(128, 1)])") == "solarize(128,1) normalize(0,0.00392156863)"
    # Behind Normalize, 0 is the mean.
    assert expression("T.Compose([T.ToTensor(), T.Normalize(0.5, 0.5), T.Pad(2)])") == "pad(2,constant,fill=128) normalize(0.5,0.5)"


# Of torchvision and timm, written and printed


def test_takes_torchvision_as_written_in_a_program():
    assert expression("transforms.Compose([\n"
                      "    transforms.RandomResizedCrop(224, interpolation=InterpolationMode.BICUBIC),  # the crop\n"
                      "    transforms.RandomHorizontalFlip(),\n"
                      "    transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),\n"
                      "    transforms.ToTensor(),\n"
                      "    transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),\n"
                      "])") == ("rrc(224,0.08..1,3/4..4/3,interpolation=bicubic) hflip(0.5) "
                                "one_of(color_jitter(0.4,0.4,0.4,0.1),p=0.8)" + IMAGENET)  # fmt: skip


def test_takes_timms_functions_and_transforms():
    assert expression("from timm.data import create_transform\n"
                      "train = create_transform(input_size=224, is_training=True, auto_augment='rand-m9-mstd0.5-inc1',\n"
                      "    interpolation='bicubic', re_prob=0.25, re_mode='pixel')\n") == (
        "rrc(224,0.08..1,3/4..4/3,interpolation=bicubic) hflip(0.5) repeat(2,randaugment(1,27,31,fill=124:116:104,p=0.5)) "
        "random_erasing(0.02..1/3,0.3..10/3,mode=noise,p=0.25)" + IMAGENET)  # fmt: skip
    assert expression("val = create_transform((3, 224, 224), interpolation='bicubic', crop_pct=0.95)\n") == (
        "resize(235,interpolation=bicubic) center_crop(224x224)" + IMAGENET)  # fmt: skip
    assert expression("t = transforms.Compose([\n"
                      "    RandomResizedCropAndInterpolation(224, scale=(0.2, 1.0), interpolation='random'),\n"
                      "    rand_augment_transform('rand-m7-n3', {'img_mean': (124, 116, 104)}),\n"
                      "    transforms.ToTensor(), transforms.Normalize(mean=[0.5, 0.5, 0.5], std=[0.5, 0.5, 0.5]),\n"
                      "    RandomErasing(probability=0.1, mode='const', max_count=1, device='cpu')])\n") == (
        "one_of(rrc(224,0.2..1,3/4..4/3) | rrc(224,0.2..1,3/4..4/3,interpolation=bicubic)) "
        "repeat(3,randaugment(1,21,31,fill=124:116:104,p=0.5)) "
        "random_erasing(0.02..1/3,0.3..3.3333333333333335,fill=128:128:128,p=0.1) normalize(0.5:0.5:0.5,0.5:0.5:0.5)")  # fmt: skip


def test_takes_torchvision_as_printed():
    assert expression("Compose(\n"
                      "      RandomResizedCrop(size=(224, 192), scale=(0.2, 1.0), ratio=(0.75, 1.25), "
                      "interpolation=bilinear, antialias=True)\n"
                      "      AutoAugment(interpolation=nearest, policy=AutoAugmentPolicy.CIFAR10)\n"
                      "      RandomErasing(p=0.25, scale=(0.02, 0.33), ratio=(0.3, 3.3), value=[0.0], inplace=False)\n"
                      ")") == ("rrc(224x192,0.2..1,0.75..1.25) auto_augment(cifar10,interpolation=nearest) "
                               "random_erasing(0.02..0.33,0.3..3.3,fill=0,p=0.25)")  # fmt: skip
    assert expression("Compose(\n    RandomApply(\n    p=0.8\n    ColorJitter(brightness=(0.6, 1.4), contrast=None, saturation=None, hue=None)\n)\n"
                      "    Grayscale(num_output_channels=3)\n)") == "one_of(color_jitter(0.6..1.4,0,0,0),p=0.8) grayscale"  # fmt: skip


# torchvision's references/detection, as print writes what its presets hold.
def test_takes_detection_presets_of_torchvision():
    assert expression("Compose(\n"
                      "      RandomPhotometricDistort(brightness=(0.875, 1.125), contrast=(0.5, 1.5), hue=(-0.05, 0.05), "
                      "saturation=(0.5, 1.5), p=0.5)\n"
                      "      RandomHorizontalFlip(p=0.5)\n"
                      "      FixedSizeCrop(size=(640, 640), fill={'others': (123, 117, 104)}, padding_mode=constant)\n"
                      "      SanitizeBoundingBoxes(min_size=1.0, min_area=1.0)\n"
                      "      ClampBoundingBoxes()\n"
                      ")") == ("brightness(0.875..1.125,p=0.5) one_of(contrast(0.5..1.5,p=0.5) saturation(0.5..1.5,p=0.5) "
                               "hue(-0.05..0.05,p=0.5) | saturation(0.5..1.5,p=0.5) hue(-0.05..0.05,p=0.5) contrast(0.5..1.5,p=0.5)) "
                               "channel_shuffle(0.5) hflip(0.5) pad_to(640x640,fill=123:117:104) random_crop(640x640) "
                               "drop_boxes(0,1,1)")  # fmt: skip
    assert expression("[T.RandomShortestSize((480, 512)), T.RandomCrop(400)]") == "one_of(resize(480) | resize(512)) random_crop(400)"


def test_knows_clahe_and_jpeg():
    assert expression("Compose([CLAHE(), CLAHE(3, (4, 6), p=1), JPEG((5, 50)), JPEG(40), ImageCompression(quality_range=(50, 90), p=1)])") == (
        "clahe(1..4,8x8,p=0.5) clahe(1..3,6x4) jpeg(5..50) jpeg(40) jpeg(50..90)")
    webp = one("Compose([ImageCompression('webp', (50, 90), p=1)])")
    assert webp.augment == "jpeg(50..90)"
    assert "WebP" in webp.notes[0]


def test_crops_of_evaluation_are_views():
    made = one("Compose([Resize(256), TenCrop(224)])")
    assert made.augment == "resize(256) center_crop(256)"
    assert "--tta ten_crop" in made.notes[0]
    assert expression("FiveCrop((100, 100))") == "center_crop(115)", "7/8 of 115 are 100"


@pytest.mark.parametrize("recipe, said", [
    ("T.Normalize(MEAN, STD)", "Normalize: mean is MEAN, not a number; write its value"),
    ("T.Normalize((0.5, M, 0.5), 0.5)", "Normalize: mean is M, not a number"),
    ("T.RandomHorizontalFlip(p=FLIP)", "RandomHorizontalFlip: p is FLIP"),
    ("T.ColorJitter(brightness=B, contrast=0.2)", "ColorJitter: brightness is B"),
    ("T.RandomRotation(degrees=DEG)", "RandomRotation: degrees is DEG"),
    ("T.RandAugment(num_ops=N, magnitude=M)", "RandAugment: num_ops is N"),
    ("T.RandomErasing(p=ERASE)", "RandomErasing: p is ERASE"),
    ("T.RandomCrop(SIZE)", "RandomCrop: size is SIZE"),
    ("T.GaussianBlur(K)", "GaussianBlur: kernel_size is K"),
    ("T.GaussianBlur((3, 5))", "GaussianBlur: its kernel isn't square"),
    ("T.Resize(224, interpolation=HOW)", "Resize: interpolation is HOW, not a filter"),
    ("A.PadIfNeeded(32, 32, border_mode=MODE)", "PadIfNeeded: border_mode is MODE"),
    ("T.RandomAffine(10, translate=(args.shift, args.shift))", "translate is args.shift"),
    ("T.RandomAffine(10, translate=args.shift)", "translate is args.shift"),
    ("T.RandomAffine(10, shear=(1, 2, 3))", "is (1, 2, 3), not one number or two"),
    ("T.RandomRotation((1, 2, 3))", "is (1, 2, 3), not one number or two"),
    ("create_transform(224, is_training=train)", "is_training is train"),
    ("create_transform(224, is_training=True, auto_augment=args.aa)", "auto_augment is args.aa"),
    ("create_transform(224, is_training=True, color_jitter=args.cj)", "color_jitter is args.cj"),
    ("create_transform(224, is_training=True, color_jitter_prob=args.p)", "color_jitter_prob is args.p"),
    ("create_transform(224, is_training=True, re_prob=0.25, re_mode=args.remode)", "re_mode is args.remode"),
    ("rand_augment_transform(cfg)", "config_str is cfg"),
    ("A.Mosaic(grid_yx=(3, 3))", "Mosaic: grid_yx is"),
    ("T.Resize()", "Resize: its size is not given")])  # fmt: skip
def test_names_without_a_value_are_no_values(recipe, said):
    assert said in one(recipe).no_equal[0]


@pytest.mark.parametrize("recipe", ["T.RandomChoice([T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)], p=WEIGHTS)",
                                    "T.RandomApply([T.RandomHorizontalFlip(1)], p=P)", "A.SomeOf([A.HorizontalFlip()], n=N)"])  # fmt: skip
def test_what_is_left_out_is_not_in_the_chain(recipe):
    made = one(recipe)
    assert made.augment == "" and made.no_equal


def test_torchs_sequential_always_runs():
    assert expression("nn.Sequential(T.RandomHorizontalFlip(), T.CenterCrop(20))") == "hflip(0.5) center_crop(20)"
    assert expression("torch.nn.Sequential(T.CenterCrop(20))") == "center_crop(20)"
    assert expression("A.Sequential([A.HorizontalFlip(), A.CenterCrop(20, 20)])") == "one_of(hflip(0.5) center_crop(20x20),p=0.5)"


def test_reads_what_stands_around_a_recipe():
    assert expression("import torch\nfrom torchvision import (datasets,\n    transforms as T)\n"
                      "MEAN = (0.485, 0.456, 0.406)\nSTD = [0.229, 0.224, 0.225]\nSIZE = 64\n"
                      "normalize = T.Normalize(MEAN, STD)\n"
                      "steps = [T.CenterCrop(SIZE), T.ToTensor(), normalize]\n"
                      "train_tf = T.Compose(steps)\n") == "center_crop(64)" + IMAGENET  # fmt: skip


# torchvision's own order: RandomErasing takes tensors.
def test_normalize_comes_last():
    assert expression("T.Compose([T.RandomResizedCrop(224), T.ToTensor(), T.Normalize(0.5, 0.5), T.RandomErasing(0.25)])") == (
        "rrc(224,0.08..1,3/4..4/3) random_erasing(0.02..0.33,0.3..3.3,fill=128,p=0.25) normalize(0.5,0.5)")
    assert expression("T.Compose([T.Normalize((0.4, 0.5, 0.6), (0.2, 0.2, 0.2)), T.RandomErasing(1, value=(1, 0, -9))])") == (
        "random_erasing(0.02..0.33,0.3..3.3,fill=153:128:0,p=1) normalize(0.4:0.5:0.6,0.2:0.2:0.2)")
    assert any("inside OneOf" in line for line in one("A.OneOf([A.Normalize(), A.HorizontalFlip()])").no_equal)
    assert one("T.Compose([T.Normalize(0.5, 0.5), T.RandomHorizontalFlip()])").notes == []
    assert "it comes after Normalize" in one("T.Compose([T.Normalize(0.5, 0.5), T.ColorJitter(0.4)])").notes[0]


@pytest.mark.parametrize("recipe, made", [
    ("T.RandomCrop(32, padding=4, fill=255)", "pad(4,constant,fill=255) random_crop(32)"),
    ("T.RandomCrop(32, padding=4, padding_mode='edge')", "pad(4,edge) random_crop(32)"),
    ("A.Normalize()", IMAGENET[1:]),
    ("A.Affine(scale=(0.9, 1.1), rotate=(-15, 15), p=1)", "affine(-15..15,0,0,0.9..1.1,0,0,interpolation=bilinear)"),
    ("A.Compose([A.Resize(256, 240), A.RandomCrop(32, 24)])", "resize(256x240) random_crop(32x24)"),
    # One number is drawn from -x..x by the ops here, and by torchvision; of Affine it is the same for every image.
    ("T.RandomAffine(15, shear=10)", "affine(15,0,0,1,10,interpolation=nearest)"),
    ("A.Affine(rotate=15, translate_percent=0.1, p=1)", "affine(-15..-15,0.1..0.1,0.1..0.1,1,0,0,interpolation=bilinear)"),
    ("A.Affine(scale={'x': 1.5, 'y': 1.5}, rotate=0, shear={'x': 3}, p=1)", "affine(0..0,0,0,1.5..1.5,3..3,0..0,interpolation=bilinear)"),
    ("A.Affine(rotate=(-9, 5), shear={'x': (-4, 2)}, p=1)",
     "affine(-5..9,0,0,1,interpolation=bilinear) affine(0..0,0,0,1,-4..2,0,interpolation=bilinear)"),
    ("T.RandomAffine(10, shear=(-5, 5, -10, 10))", "affine(10,0,0,1,-5..5,-10..10,interpolation=nearest)"),
    ("T.RandomAffine(10, shear=(-5, 5))", "affine(10,0,0,1,-5..5,interpolation=nearest)"),
    ("T.RandomAffine(0, translate=(0.1, 0.2), scale=(0.8, 1.2))", "affine(0,0.1,0.2,0.8..1.2,0,interpolation=nearest)"),
    ("A.ShiftScaleRotate(rotate_limit=(10, 30), p=1)",
     "affine(-30..-10,-0.0625..0.0625,-0.0625..0.0625,0.9..1.1,interpolation=bilinear)"),
    ("T.RandomIoUCrop(), T.Resize((300, 300))", "ssd_crop(0.3..1,0.5..2) resize(300x300)"),
    ("T.RandomIoUCrop(0.5, 0.9, 0.7, 1.5, sampler_options=[0.5, 1.0], trials=10)", "ssd_crop(0.5..0.9,0.7..1.5,overlaps=0.5:1,trials=10)"),
    ("T.AugMix(chain_depth=2)", "augmix(3,3,2,alpha=1,interpolation=bilinear)"),
    ("A.Compose([A.BBoxSafeRandomCrop(erosion_rate=0.2), A.Resize(64, 48)])", "safe_crop(0.2) resize(64x48)"),
    ("A.RandomSizedBBoxSafeCrop(height=320, width=480, erosion_rate=0.1, p=0.5)", "one_of(safe_crop(0.1) resize(320x480),p=0.5)"),
    ("A.UnsharpMask(p=1)", "unsharp(0.8..1.4,0.2..0.5)"),
    ("A.UnsharpMask(blur_limit=(5, 9), sigma_limit=0, p=1)", "unsharp(1.1..1.7,0.2..0.5)"),
    ("A.UnsharpMask(sigma_limit=(1, 2), p=1)", "unsharp(1..2,0.2..0.5)"),
    ("A.RandomBrightnessContrast(brightness_limit=0.25, contrast_limit=0.5, p=1)", "one_of(brightness(0.75..1.25) contrast(0.5..1.5))"),
    ("A.ShiftScaleRotate(scale_limit=0.25, rotate_limit=30, p=1)",
     "affine(-30..30,-0.0625..0.0625,-0.0625..0.0625,0.75..1.25,interpolation=bilinear)"),
    ("A.Blur(blur_limit=5, p=1)", "box_blur(3..5)"),
    ("T.GaussianBlur(1)", "gaussian_blur(size=1,sigma=0.1..2)"),
    ("T.GaussianBlur((3, 3), (0.5, 1.5))", "gaussian_blur(size=3,sigma=0.5..1.5)"),
    ("T.RandAugment(3, 7, 11)", "randaugment(3,7,11,interpolation=nearest)"),
    ("T.SanitizeBoundingBoxes()", "drop_boxes(0,1,1)"), ("T.SanitizeBoundingBoxes(3, 5)", "drop_boxes(0,3,5)"),
    ("A.RandomBrightnessContrast(0.1, 0.3, p=1)", "one_of(brightness(0.9..1.1) contrast(0.7..1.3))"),
    ("A.GaussNoise(var_limit=50, p=1)", "gaussian_noise(0..0.02773,0)"),
    ("A.GaussNoise(var_limit=(10, 50), p=1)", "gaussian_noise(0.0124..0.02773,0)"),
    ("A.OneOrOther(A.HorizontalFlip(), A.VerticalFlip(), p=1)", "one_of(hflip(1))"),
    ("A.OneOrOther(A.HorizontalFlip(), A.VerticalFlip(), p=0)", "one_of(vflip(1))"),
    ("create_transform(224, is_training=True)", "rrc(224,0.08..1,3/4..4/3) hflip(0.5) color_jitter(0.4,0.4,0.4,0)" + IMAGENET),
    ("create_transform(224, is_training=True, color_jitter=0)", "rrc(224,0.08..1,3/4..4/3) hflip(0.5)" + IMAGENET),
    ("create_transform(224, is_training=True, color_jitter=(0.1, 0.2))",
     "rrc(224,0.08..1,3/4..4/3) hflip(0.5) color_jitter(0.1,0.2,0,0)" + IMAGENET),
    ("create_transform(224, is_training=True, auto_augment='augmix-m3-w4-d1', color_jitter=0)",
     "rrc(224,0.08..1,3/4..4/3) hflip(0.5) augmix(3,4,1,alpha=1,fill=124:116:104)" + IMAGENET),
    ("create_transform(224, is_training=True, auto_augment='3a', color_jitter=0.3)",
     "rrc(224,0.08..1,3/4..4/3) hflip(0.5) three_augment(0) color_jitter(0.3,0.3,0.3,0)" + IMAGENET),
    ("rand_augment_transform('rand-m5')", "repeat(2,randaugment(1,15,31,fill=128,p=0.5))"),
    # albumentations/core/composition.py: what OneOf draws runs whatever its p is, which is its weight.
    ("A.OneOf([A.HorizontalFlip(), A.VerticalFlip(p=0.5)], p=1)", "one_of(hflip(1) | vflip(1))"),
    ("A.OneOf([A.HorizontalFlip(p=0.2), A.VerticalFlip(p=0.6)], p=0.3)", "one_of(hflip(1) | vflip(1),p=0.3,weights=0.2:0.6)"),
    ("A.OneOf([A.Sequential([A.HorizontalFlip(p=0.2), A.CenterCrop(8, 8)]), A.VerticalFlip()], p=1)",
     "one_of(hflip(0.2) center_crop(8x8) | vflip(1))"),
    ("A.OneOf([A.HorizontalFlip(), A.NoOp()], p=1)", "one_of(hflip(1),p=0.5)"),
    ("A.OneOrOther(A.HorizontalFlip(), A.VerticalFlip(), p=0.25)", "one_of(hflip(1) | vflip(1),weights=0.25:0.75)"),
    ("A.OneOrOther(first=A.HorizontalFlip(), second=A.VerticalFlip())", "one_of(hflip(1) | vflip(1))"),
    ("A.SomeOf([A.HorizontalFlip(p=0.2), A.VerticalFlip(p=1)], n=1)", "some_of(1, hflip(0.2) | vflip(1))"),
    ("A.RandomOrder([A.HorizontalFlip(p=0.2), A.VerticalFlip(p=1)], n=2)", "any_order(hflip(0.2) | vflip(1))"),
    ("T.RandomChoice([T.RandomHorizontalFlip(1), T.RandomVerticalFlip(1)], p=[0.9, 0.1])", "one_of(hflip(1) | vflip(1),weights=0.9:0.1)"),
    ("A.Compose([A.Mosaic(target_size=(640, 640), cell_shape=(512, 512), center_range=(0.3, 0.7), p=1), A.D4()])",
     "resize(512) mosaic(320,center=0.3..0.7,fill=0) one_of(rot90(0..3) hflip(0.5))"),
    ("A.Mosaic(target_size=(64, 64))", "resize(512) mosaic(32,center=0.3..0.7,fill=0,p=0.5) pad_to(64) center_crop(64)"),
    ("A.Compose([A.Resize(320, 320)], bbox_params=A.BboxParams(format='coco', min_visibility=0.3, min_area=16, min_width=4, min_height=4, "
     "label_fields=['l']))", "resize(320x320) drop_boxes(0.3,4,16)"),
    ("A.Compose([A.Resize(32, 32)], bbox_params=A.BboxParams('coco'))", "resize(32x32)"),
    # Width over height there, and clockwise.
    ("A.Erasing((0.2, 0.2), (2, 4), p=1)", "random_erasing(0.2..0.2,0.25..0.5,p=1)"),
    ("A.MotionBlur((9, 9), False, (20, 30), (0, 0), p=1)", "motion_blur(9..9,-30..-20)"),
    ("A.FancyPCA(0.5)", "fancy_pca(0.055,p=0.5)"), ("A.ISONoise(intensity=(0.4, 0.4), p=1)", "iso_noise(0..0,0.034..0.034)")])  # fmt: skip
def test_every_argument_has_its_place_and_its_default(recipe, made):
    assert expression(recipe) == made


# A letterbox: all images have one size at the end, which the loader has to know.
@pytest.mark.parametrize("recipe, made", [
    ("A.LongestMaxSize(64), A.PadIfNeeded(64, 64)", "resize(64,side=longer) pad_to(64x64) center_crop(64x64)"),
    ("A.LongestMaxSize(64, interpolation=cv2.INTER_CUBIC), A.HorizontalFlip(), A.PadIfNeeded(64, 96, fill=114)",
     "resize(64,interpolation=bicubic,side=longer) hflip(0.5) pad_to(64x96,fill=114) center_crop(64x96)"),
    ("A.Sequential([A.LongestMaxSize(64), A.Rotate(10, p=1)], p=1), A.RandomRotate90(), A.PadIfNeeded(64, 64)",
     "resize(64,side=longer) rotate(10,interpolation=bilinear) rot90(0..3) pad_to(64x64) center_crop(64x64)"),
    ("A.LongestMaxSize(64), A.D4(), A.PadIfNeeded(64, 64)",
     "resize(64,side=longer) one_of(rot90(0..3) hflip(0.5)) pad_to(64x64) center_crop(64x64)"),
    ("A.OneOf([A.Sequential([A.LongestMaxSize(32), A.PadIfNeeded(64, 64)], p=1), A.Sequential([A.PadIfNeeded(64, 64), A.VerticalFlip()], p=1)], p=1)",
     "one_of(resize(32,side=longer) pad_to(64x64) center_crop(64x64) | pad_to(64x64) vflip(0.5))"),
    # A longer side than the padding has, one that isn't limited, or not always.
    ("A.LongestMaxSize(65), A.PadIfNeeded(64, 80)", "resize(65,side=longer) pad_to(64x80)"),
    ("A.SmallestMaxSize(64), A.PadIfNeeded(64, 64)", "resize(64) pad_to(64x64)"),
    ("A.LongestMaxSize(32), A.SmallestMaxSize(64), A.PadIfNeeded(64, 64)", "resize(32,side=longer) resize(64) pad_to(64x64)"),
    ("A.Sequential([A.LongestMaxSize(64)], p=0.5), A.PadIfNeeded(64, 64)", "one_of(resize(64,side=longer),p=0.5) pad_to(64x64)"),
    ("A.PadIfNeeded(64, 64)", "pad_to(64x64)")])  # fmt: skip
def test_a_letterbox_has_one_size(recipe, made):
    assert expression(f"A.Compose([{recipe}])") == made


# What Albumentations saves

# What albumentations 2.0.8 writes for Compose([RandomResizedCrop((224, 224)), HorizontalFlip(), OneOf([GaussianBlur(p=1),
# MotionBlur(p=1)], p=0.3)]).
SAVED = """{"__version__": "2.0.8", "transform": {"__class_fullname__": "Compose", "p": 1.0, "transforms": [
    {"__class_fullname__": "RandomResizedCrop", "p": 1.0, "area_for_downscale": null, "interpolation": 1, "ratio": [0.75, 1.25],
     "scale": [0.08, 1.0], "size": [224, 224]}, {"__class_fullname__": "HorizontalFlip", "p": 0.5},
    {"__class_fullname__": "OneOf", "p": 0.3, "transforms": [{"__class_fullname__": "GaussianBlur", "p": 1.0,
     "blur_limit": [0, 0], "sigma_limit": [0.5, 3.0]}, {"__class_fullname__": "MotionBlur", "p": 1.0,
     "angle_range": [0.0, 360.0], "blur_limit": [3, 7]}]}], "bbox_params": null}}"""
SAVED_EXPRESSION = "rrc(224x224,0.08..1,0.75..1.25) hflip(0.5) one_of(gaussian_blur(sigma=0.5..3) | motion_blur(3..7,0..360),p=0.3)"
SAVED_LINES = [": " + SAVED_EXPRESSION, "note RandomResizedCrop: dlpipe smooths images when it shrinks them, as Pillow does; "
               "Albumentations does not: images differ by 3 of 255 on average at half the size", "note MotionBlur: dlpipe's line is centred and even; "
               "Albumentations' may be shifted and is stronger to one side"]  # fmt: skip


def test_takes_what_albumentations_saves():
    assert converted(SAVED) == SAVED_LINES
    assert "leave --recipe out" in converted(SAVED, "val")[0]
    whole = SAVED.replace('"HorizontalFlip"', '"albumentations.augmentations.transforms.HorizontalFlip"')
    assert converted(whole) == SAVED_LINES
    own = one(SAVED.replace('"HorizontalFlip"', '"my.transforms.HorizontalFlip"'))
    assert "HorizontalFlip: it is my.transforms.HorizontalFlip" in own.no_equal[0]


def test_takes_its_yaml_too():
    yaml = pytest.importorskip("yaml")
    assert converted(yaml.dump(json.loads(SAVED))) == SAVED_LINES
    assert "YAML" in converted("__class_fullname__: [")[0]


def test_takes_what_happens_to_boxes():
    assert expression(json.dumps({"transform": {"__class_fullname__": "Compose", "p": 1.0, "transforms": [
        {"__class_fullname__": "Resize", "p": 1, "height": 320, "width": 320, "interpolation": 1}],
        "bbox_params": {"format": "pascal_voc", "label_fields": ["l"], "min_area": 16, "min_visibility": 0.3,
                        "min_width": 4, "min_height": 4, "clip": False}}})) == "resize(320x320) drop_boxes(0.3,4,16)"  # fmt: skip


@pytest.mark.parametrize("transforms, options, said", [
    ("A.Affine(scale=(2, 2))", "max_accept_ratio=3", "max_accept_ratio=3 of its bbox_params is left out"),
    ("A.HorizontalFlip(), A.Affine(scale=(2, 2))", "min_area=9", "Albumentations after each transform"),
    ("A.RandomGamma(), A.Affine(scale=(2, 2))", "min_width=3, min_height=3", "Albumentations after each transform"),
    ("A.RandomCrop(9, 9), A.Affine(scale=(2, 2))", "min_visibility=0.3", "Albumentations after each transform"),
    ("A.RandomCrop(9, 9), A.Affine(scale=(2, 2))", "min_visibility=0.3, check_each_transform=False", ""),
    ("A.HorizontalFlip(), A.Affine(scale=(2, 2))", "min_visibility=0.3", ""), ("A.RandomCrop(9, 9), A.HorizontalFlip()", "min_area=9", "")])
def test_boxes_that_are_dropped_on_the_way_there_are_noted(transforms, options, said):
    notes = one(f"A.Compose([{transforms}], bbox_params=A.BboxParams('coco', {options}))").notes
    assert any(said in note for note in notes) if said else notes == []


RESIZE = '{"__class_fullname__": "Resize", "always_apply": false, "p": 1, "height": 200, "width": 400, "interpolation": 1}'


@pytest.mark.parametrize("transforms, made, said", [
    (['{"__class_fullname__": "GaussNoise", "always_apply": false, "p": 0.5, "var_limit": [10.0, 50.0], "per_channel": true, "mean": 51}'],
     "gaussian_noise(0.0124..0.02773,0.2,p=0.5)", ""),
    (['{"__class_fullname__": "GaussNoise", "always_apply": true, "p": 0.5, "var_limit": [10.0, 50.0], "per_channel": true, "mean": 0}'],
     "gaussian_noise(0.0124..0.02773,0)", ""),
    ([RESIZE, '{"__class_fullname__": "CoarseDropout", "always_apply": false, "p": 0.5, "max_holes": 8, "max_height": 8, "max_width": 8, '
      '"min_holes": 2, "min_height": 4, "min_width": null, "fill_value": 7, "mask_fill_value": null}'],
     "resize(200x400) coarse_dropout(2..8,0.02..0.045,0.02125,fill=7,p=0.5)", "Resize: dlpipe smooths images"),
    (['{"__class_fullname__": "CoarseDropout", "p": 1, "max_holes": 3, "max_height": 0.2, "max_width": 0.25, "min_holes": null, '
      '"min_height": 0.1, "min_width": null, "fill_value": 0}'], "coarse_dropout(3..3,0.1..0.2,0.25..0.25)", ""),
    ([RESIZE, '{"__class_fullname__": "Cutout", "p": 0.5, "num_holes": 4, "max_h_size": 8, "max_w_size": 8, "fill_value": 0}'],
     "resize(200x400) coarse_dropout(4..4,0.0425,0.02125,p=0.5)", "Resize: dlpipe smooths images"),
    (['{"__class_fullname__": "ImageCompression", "p": 0.5, "quality_lower": 60, "quality_upper": 90, "compression_type": 0}'],
     "jpeg(60..90,p=0.5)", "swaps JPEG's red and blue"),
    (['{"__class_fullname__": "ImageCompression", "p": 1, "quality_lower": 60, "quality_upper": 90, "compression_type": 1}'],
     "jpeg(60..90)", "WebP"),
    (['{"__class_fullname__": "Downscale", "p": 0.5, "scale_min": 0.25, "scale_max": 0.5}'], "downscale(0.25..0.5,p=0.5)", "nearest picks other pixels"),
    (['{"__class_fullname__": "Solarize", "p": 0.5, "threshold": [64, 100]}'], "solarize(64..100,p=0.5)", ""),
    (['{"__class_fullname__": "GaussianBlur", "p": 0.5, "blur_limit": [3, 7], "sigma_limit": [0, 0]}'],
     "gaussian_blur(sigma=0.8..1.4,p=0.5)", ""),
    (['{"__class_fullname__": "ElasticTransform", "p": 1, "alpha": 120, "sigma": 6, "alpha_affine": 3.6, "interpolation": 1, '
      '"border_mode": 4, "value": null, "mask_value": null, "approximate": false}'],
     "elastic(11.78,10,interpolation=bilinear)", "alpha_affine=3.6 is left out"),
    (['{"__class_fullname__": "Rotate", "p": 0.5, "limit": [-15, 15], "interpolation": 1, "border_mode": 4, "value": null, '
      '"mask_value": null, "rotate_method": "largest_box", "crop_border": false}'],
     "rotate(-15..15,interpolation=bilinear,p=0.5)", "Rotate: dlpipe fills the outside with one colour"),
    (['{"__class_fullname__": "ShiftScaleRotate", "p": 0.5, "shift_limit_x": [-0.1, 0.1], "shift_limit_y": [-0.1, 0.1], '
      '"scale_limit": [-0.25, 0.25], "rotate_limit": [-30, 30], "interpolation": 1, "border_mode": 0, "value": [1, 2, 3], "mask_value": null}'],
     "affine(-30..30,-0.1..0.1,-0.1..0.1,0.75..1.25,interpolation=bilinear,fill=1:2:3,p=0.5)", ""),
    (['{"__class_fullname__": "PadIfNeeded", "p": 1, "min_height": 64, "min_width": 48, "pad_height_divisor": null, '
      '"position": "PositionType.CENTER", "border_mode": 0, "value": 9}'], "pad_to(64x48,fill=9)", ""),
    (['{"__class_fullname__": "HorizontalFlip", "p": 0.5, "banana": 3}'], "hflip(0.5)", "HorizontalFlip: banana=3 is left out"),
    (['{"__class_fullname__": "SomeOf", "p": 1, "n": 1, "replace": false, "transforms": [{"__class_fullname__": "HorizontalFlip", "p": 0.5}, '
      '{"__class_fullname__": "VerticalFlip", "p": 0.5}]}'], "some_of(1, hflip(1) | vflip(1))", ""),
    (['{"__class_fullname__": "OneOf", "p": 1, "transforms": [{"__class_fullname__": "HorizontalFlip", "p": 0.5}, '
      '{"__class_fullname__": "VerticalFlip", "p": 0.5}]}'], "one_of(hflip(1) | vflip(1))", ""),
    (['{"__class_fullname__": "ShiftScaleRotate", "p": 1, "shift_limit_x": [0, 0], "shift_limit_y": [0, 0], "scale_limit": [0, 0], '
      '"rotate_limit": [10, 30], "interpolation": 1, "border_mode": 0}'], "affine(-30..-10,0..0,0..0,1..1,interpolation=bilinear)", "")])  # fmt: skip
def test_knows_the_parameters_of_albumentations_first_releases(transforms, made, said):
    only = one(saved(*transforms))
    assert (only.augment, only.no_equal) == (made, [])
    assert any(said in note for note in only.notes) if said else only.notes == []


# As measured with 1.3.1, and as the sources of 1.0.0, 1.2.0, 1.2.1, 1.4.18 and 1.4.19 are.
def test_affine_of_older_releases():
    def affine(version, shear):
        return one(saved({"__class_fullname__": "Affine", "p": 1, "scale": {"x": [1, 1], "y": [1, 1]}, "rotate": [10, 30], "mode": 0,
                          "shear": {"x": [shear, shear], "y": [0, 0]}, "translate_percent": None, "translate_px": {"x": [0, 0], "y": [0, 0]},
                          "cval": 0, "cval_mask": 0}, version=version))  # fmt: skip

    for version, angles in (("1.2.0", "10..30"), ("1.2.1", "-30..-10"), ("1.3.1", "-30..-10"), ("2.0.8", "-30..-10")):
        made = affine(version, 0)
        assert (made.augment, made.notes) == (f"affine({angles},0,0,1,0,0,interpolation=bilinear)", [])
    assert "scikit-image" in affine("1.4.18", 5).no_equal[0]
    assert affine("1.4.19", 5).no_equal == []


def test_holes_in_pixels_need_the_images_size():
    pixels = one(saved('{"__class_fullname__": "CoarseDropout", "p": 0.5, "max_holes": 8, "max_height": 8, "max_width": 8, "min_holes": 8, '
                       '"min_height": 8, "min_width": 8, "fill_value": 0}'))  # fmt: skip
    assert "CoarseDropout: its holes are in pixels" in pixels.no_equal[0]


def lines_of(name):
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def ranges_of(chain, op):
    """The ends of an op's arguments: "affine(-20..20,0.1,x=1)" has (-20, 20) and (0.1, 0.1)."""
    inner = re.search(rf"{op}\(([^)]*)\)", chain)[1].split("=")[0]
    return [tuple(map(float, (one.split("..") * 2)[:2])) for one in inner.split(",") if re.match(r"-?[\d.]", one)]


# first_albumentations.golden is of Albumentations 1.3.1. The ends of 4000 draws are within a hundredth of the range from
# those that they were drawn between; deviations and means are of 30000 pixels' noise each, within 2 %; the sides of holes
# are whole pixels of 100 there, and shares that are cut off to such here.
@pytest.mark.parametrize("case", lines_of("first_albumentations.golden"), ids=lambda case: case["op"])
def test_arguments_of_its_first_releases_mean_what_these_drew(case):
    made = one(json.dumps(case["saved"])).augment
    ranges = ranges_of(made, case["op"])
    assert len(ranges) >= len(case["arguments"]), made
    for (low, high), drawn in zip(ranges, case["arguments"]):
        more = {"gaussian_noise": 0.02 * drawn[1], "coarse_dropout": 0.01}.get(case["op"], 1e-9)
        assert (low, high) == pytest.approx(drawn, abs=0.01 * (drawn[1] - drawn[0]) + more), made


def values_of(chain):
    """A chain with all its numbers as pairs: 3/4, 0.75 and 0.75..0.75 are one."""
    def pair(found):
        ends = [one.split("/") for one in found[0].split("..")]
        return str([round(float(one[0]) / float((one * 2)[1] if len(one) == 2 else 1), 9) for one in (ends * 2)[:2]])

    return re.sub(r"-?\d[\d.]*?(?:/\d+)?(?:\.\.-?\d[\d./]*)?(?![\d./])", pair, chain)


# A program leaves out what it doesn't change; the library saves all.
@pytest.mark.parametrize("case", lines_of("albumentations_defaults.golden"), ids=lambda case: case["call"])
def test_arguments_that_a_program_leaves_out_are_what_albumentations_takes(case):
    written = one(f"import albumentations as A\nrecipe = A.Compose([{case['call']}])\n")
    stored = one(json.dumps(case["saved"]))
    assert written.no_equal == stored.no_equal == []
    assert [re.sub(r"^line \d+: ", "", note) for note in written.notes] == stored.notes
    assert values_of(written.augment) == values_of(stored.augment)


# Pixels, as the libraries made them

WARPS = lines_of("warps.golden")


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """All images of warps.png, and a dataset of the source."""
    images = np.asarray(pytest.importorskip("PIL.Image").open(GOLDEN / "warps.png"))
    folder = tmp_path_factory.mktemp("warps") / "data"
    with dlpipe.Writer(folder) as writer:
        writer.write(image=images[:81, :101], label=0)
    return images, folder


@pytest.mark.parametrize("case", WARPS, ids=lambda case: case["call"])
def test_images_are_those_of_the_library(case, source):
    images, folder = source
    height, width = case["size"]
    expected = images[case["row"]:case["row"] + height, :width].astype(float)
    for text in (case["call"], *([json.dumps(case["saved"])] if case["saved"] else [])):
        (image,) = next(iter(dlpipe.Loader(folder, augment=expression(text), train=False, batch=1, as_="numpy"))).image
        assert image.shape == expected.shape
        assert np.abs(image - expected).mean() < 1, one(text).augment


# The command


def run(*arguments, text=None):
    return subprocess.run([sys.executable, "-m", "dlpipe", "convert-augment", *map(str, arguments)], input=text, capture_output=True, text=True)


def test_several_recipes_of_a_program_are_printed_by_name(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("data_transforms = {\n"
                       "    'train': T.Compose([T.CenterCrop(3), T.Resize(9, max_size=9)]),\n"
                       "    'val': T.Compose([T.CenterCrop(4), Rain()])}\n")  # fmt: skip
    done = run(program)
    assert done.returncode == 1  # a chain was asked for, and nobody said which
    assert done.stdout == "train: center_crop(3) resize(9)\nval: center_crop(4)\n"
    assert "train: line 2: Resize: max_size=9 is left out" in done.stderr
    assert "val: left out, because it can't be converted: line 3: Rain" in done.stderr
    assert "there are 2 recipes, train, val; choose one with --recipe NAME" in done.stderr
    answer = json.loads(run(program, "--json").stdout)
    assert (answer["augment"], answer["recipes"][0]["recipe"], answer["recipes"][1]["line"]) == (None, "train", 3)
    documented = (Path(__file__).parents[2] / "docs/json.md").read_text().partition("## `python -m dlpipe convert-augment`")[2]
    keys = {*answer} - {"recipes"} | {*(f"recipes[].{key}" for key in answer["recipes"][0])}
    assert set(re.findall(r"^\| `([^`]+)`", documented, re.M)) == keys
    answer = json.loads(run(program, "--json", "--recipe", "val").stdout)
    assert (answer["augment"], answer["no_equal"]) == ("center_crop(4)", ["line 3: Rain: dlpipe has no such op"])


def test_the_command_ends_as_the_programs_do(tmp_path):
    done = run("-", text="T.CenterCrop(4)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "center_crop(4)\n", "")
    assert run().returncode == 2
    done = run("-", "--recipe", "nope", text="T.CenterCrop(4)")
    assert (done.returncode, done.stdout) == (2, "") and "there is no recipe nope" in done.stderr
    for wrong in (tmp_path / "missing", tmp_path, "/dev/zero"):
        done = run(wrong)
        assert done.returncode == 1 and "[convert-augment]" in done.stderr and str(wrong) in done.stderr, done.stderr
    odd = tmp_path / "odd.py"
    odd.write_bytes(b"\xef\xbb\xbftf = T.Compose([T.CenterCrop(4)])  # \xff\n")
    assert run(odd).stdout == "center_crop(4)\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_the_answer_is_written_as_the_programs_is(tmp_path, options):
    program = tmp_path / "train.py"
    program.write_text("a = T.Compose([T.CenterCrop(4)])\n")
    command = [sys.executable, "-m", "dlpipe", "convert-augment", program, *options]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "dlpipe: [convert-augment] cannot write to stdout: No space left on device\n")
    read, write = os.pipe()
    os.close(read)  # who reads has gone
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1 and "cannot write to stdout: Bad file descriptor" in done.stderr
