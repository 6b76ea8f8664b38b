"""Live transforms of other libraries: as chains, as a loader's `augment`, and refused as its `transform`. Where a library isn't
installed, objects that look like its own stand in."""

import functools
import importlib
import inspect
import json
import logging
import re
import sys
import types

import dlpipe
import numpy as np
import pytest
from dlpipe import recipes
from loaders import Loader

VALUES = {"RandomHorizontalFlip": {"p": 1.0}, "CenterCrop": {"size": (24, 24)}, "Resize": {
    "size": [20], "interpolation": 3, "max_size": None, "antialias": True}}  # fmt: skip


def fake(module, name, **attributes):
    """An object whose class comes from such a module."""
    one = type(name, (), {"__module__": module, "__call__": lambda self, image: image})()
    one.__dict__.update(attributes)
    return one


def v2(name, **attributes):
    return fake("torchvision.transforms.v2._geometry", name, **{**VALUES.get(name, {}), **attributes})


def compose(*transforms):
    return v2("Compose", transforms=list(transforms))


FLIP, CROP = v2("RandomHorizontalFlip"), v2("CenterCrop")


def images_of(loader):
    return next(iter(loader)).image


@pytest.mark.parametrize("transform, chain", [
    (FLIP, "hflip(1)"), (v2("Resize"), "resize(20,interpolation=bicubic)"), (compose(v2("Resize"), CROP), "resize(20,interpolation=bicubic) center_crop(24x24)"),
    ([FLIP, CROP], "hflip(1) center_crop(24x24)"), (v2("RandomApply", transforms=[FLIP], p=0.3), "one_of(hflip(1),p=0.3)"),
    (v2("RandomErasing", p=1.0, scale=(0.1, 0.2), ratio=(0.3, 3.3), value=None, inplace=False),
     "random_erasing(0.1..0.2,0.3..3.3,mode=noise,p=1)"),
    (v2("Normalize", mean=np.float32([0.485, 0.5, 0.5]), std=[0.5] * 3), "normalize(0.485:0.5:0.5,0.5:0.5:0.5)"),
    (v2("RandomRotation", degrees=[-9.0, 9.0], fill={type("Image", (), {}): 7, "others": 0}), "rotate(-9..9,interpolation=nearest,fill=7)"),
    (compose(v2("ToDtype", dtype={type("Image", (), {}): "torch.float32", "others": None}, scale=True), v2("RandomSolarize", threshold=0.5, p=1.0)),
     "solarize(127.5,1) normalize(0,1)"),
    (fake("torchvision.transforms._presets", "ImageClassification", crop_size=[224], resize_size=[232], mean=[0.5] * 3, std=[0.25] * 3,
          interpolation="bilinear", antialias=True), "resize(232) center_crop(224) normalize(0.5:0.5:0.5,0.25:0.25:0.25)"),
    (fake("timm.data.random_erasing", "RandomErasing", probability=0.25, min_area=0.02, max_area=0.5, mode="pixel", max_count=1,
          log_aspect_ratio=(0.0, 0.0)), "random_erasing(0.02..0.5,1..1,mode=noise,p=0.25)"),
    (fake("kornia.augmentation._2d.geometric.horizontal_flip", "RandomHorizontalFlip", p=0.3), "hflip(0.3)"),
    (fake("albumentations.augmentations.geometric.transforms", "Rotate",
          to_dict=lambda: {"transform": {"__class_fullname__": "Rotate", "limit": [30, 30], "p": 1}}), "rotate(30..30,interpolation=bilinear)"),
    (fake("albumentations.core.composition", "OneOf", p=1.0, processors={}, transforms=[fake(
        "albumentations.augmentations.geometric.flip", "HorizontalFlip", to_dict=lambda: {"transform": {
            "__class_fullname__": "HorizontalFlip", "p": 0.5}})]), "one_of(hflip(1))")])  # fmt: skip
def test_live_transforms_are_chains(transform, chain):
    assert dlpipe.convert_augment(transform) == chain


@pytest.mark.parametrize("transform, said", [
    (compose(CROP, lambda image: image), "<lambda>"), (compose(CROP, functools.partial(len)), "partial"),
    (fake("my.code", "Resize", size=8), "my.code.Resize"), (v2("Lambda", lambd=len), "Lambda: it is your own Python code"),
    (v2("RandomRotation", degrees=[9, 9], center=[0, 0]), "center is (0, 0)"), (v2("CutMix"), "mixes batches"), (3, "builtins.int"),
    (fake("albumentations.augmentations.other", "Lambda", to_dict=lambda: 1 / 0), "Lambda: it is your own Python code")])  # fmt: skip
def test_what_has_no_equal_is_named(transform, said):
    with pytest.raises(dlpipe.UnsupportedError, match=r"\[convert-augment\]") as error:
        dlpipe.convert_augment(transform)
    assert said in str(error.value)


def test_what_works_in_another_way_is_logged(caplog):
    grey = v2("Grayscale", num_output_channels=1)
    assert dlpipe.convert_augment(grey) == "grayscale"
    assert "its images have one channel" in caplog.text


@pytest.mark.parametrize("transform, said", [
    (v2("Grayscale", num_output_channels=1), "give channels=1"), (v2("Grayscale", num_output_channels=3), "give channels=3"),
    (v2("RGB"), "give channels=3")])  # fmt: skip
def test_channels_belong_to_the_loader_and_are_logged_for_a_string(splits, caplog, transform, said):
    channels, transform = int(said[-1]), [v2("Resize", size=(32, 32), interpolation="bilinear"), transform]
    chain = dlpipe.convert_augment(transform)
    assert said in caplog.text
    for given in (0, channels):
        one = images_of(Loader(splits / "val", augment=transform, channels=given, train=False, batch=4))
        assert one.shape[-1] == channels
        np.testing.assert_array_equal(one, images_of(Loader(splits / "val", augment=chain, channels=channels, train=False, batch=4)))
    with pytest.raises(dlpipe.MisuseError, match=f"have {channels} channels?, but channels is {4 - channels}"):
        Loader(splits / "val", augment=transform, channels=4 - channels)


def test_a_model_is_trained_on_as_many_channels_as_its_transforms_give(splits, tmp_path):
    options = {"model": "lenet", "epochs": 1, "batch": 64, "max_steps": 1}
    for channels in (1, 3):
        grey = [v2("Resize", size=(28, 28), interpolation="bilinear"), v2("Grayscale", num_output_channels=channels)]
        run = tmp_path / str(channels)
        dlpipe.train(splits, augment=grey, val_augment=grey, out=run, **options)
        assert f'"channels":{channels}' in (run / "checkpoints/last/state.json").read_text().replace(" ", "")
        assert dlpipe.evaluate(run, splits)["samples"] == 80
    with pytest.raises(dlpipe.MisuseError, match="images of val_augment have 3 channels, but channels is 1"):
        dlpipe.train(splits, augment=v2("Grayscale", num_output_channels=1), val_augment=v2("RGB"), out=tmp_path / "none", **options)


def test_a_loader_takes_live_transforms(splits):
    options = {"train": False, "batch": 4}
    plain = images_of(Loader(splits / "val", augment="resize(32x32)", **options))
    resize = v2("Resize", size=(32, 32), interpolation="bilinear")
    np.testing.assert_array_equal(images_of(Loader(splits / "val", augment=compose(resize, FLIP), **options)), plain[:, :, ::-1])
    np.testing.assert_array_equal(images_of(Loader(splits / "val", augment=[resize, CROP], **options)), plain[:, 4:28, 4:28])
    assert images_of(Loader(splits / "val", augment=compose(resize, v2("Normalize", mean=[0.5] * 3, std=[0.5] * 3)), **options)).dtype == np.float32


@pytest.mark.parametrize("augment, error, said", [
    (compose(v2("RandomInvert", p=1.0), v2("Grayscale", num_output_channels=1)), dlpipe.UnsupportedError, "augment='invert(1) grayscale'"),
    (v2("RandomApply", transforms=[v2("Grayscale", num_output_channels=1)], p=0.5), dlpipe.UnsupportedError, "inside RandomApply"),
    (compose(v2("ToImage"), v2("ToDtype", dtype="torch.bfloat16", scale=True)), dlpipe.UnsupportedError, "give dtype='bf16'"),
    (compose(v2("ToImage"), v2("ToDtype", dtype="torch.float64", scale=True)), dlpipe.UnsupportedError, "values are float64"),
    (compose(v2("ToImage"), v2("ToDtype", dtype="torch.int64")), dlpipe.UnsupportedError, "values are int64"),
    (compose(v2("ToImage"), v2("ToDtype", dtype="torch.float32", scale=True), v2("ToDtype", dtype="torch.uint8")), dlpipe.UnsupportedError,
     "become 0 and 1"),
    (compose(CROP, v2("Resize", max_size=30)), dlpipe.UnsupportedError, "max_size=30"),
    (compose(CROP, len), dlpipe.UnsupportedError, "builtins.len"), (len, dlpipe.MisuseError, "give a string"), (3, dlpipe.MisuseError, "give a string"),
    ([3], dlpipe.MisuseError, "give a string"), (None, dlpipe.MisuseError, "give a string")])  # fmt: skip
def test_what_a_chain_does_not_mean_exactly_is_refused(splits, augment, error, said):
    with pytest.raises(error) as raised:
        Loader(splits / "val", augment=augment)
    assert said in str(raised.value)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """Smooth images of several sizes. The other side stays a whole number if the longer one becomes 64."""
    data = tmp_path_factory.mktemp("uneven") / "data"
    with dlpipe.Writer(data, classes=["a", "b"]) as writer:
        for i, (height, width) in enumerate([(24, 48), (48, 24), (32, 32), (40, 64), (64, 51), (64, 50), (8, 64)]):
            y, x = np.mgrid[:height, :width]
            writer.write(image=np.stack([x * 255 // width, y * 255 // height, (x + y) * 2], 2).astype(np.uint8), label=i % 2)
    return data


def letterboxed(data):
    """Albumentations' images, its transforms, and dlpipe's chain of them."""
    albumentations = pytest.importorskip("albumentations")
    recipe = albumentations.Compose([albumentations.LongestMaxSize(64), albumentations.PadIfNeeded(64, 64, fill=114)])
    return np.stack([recipe(image=sample.image)["image"] for sample in dlpipe.Dataset(data)]), recipe, dlpipe.convert_augment(recipe)


def test_a_letterbox_is_albumentations(uneven):
    expected, recipe, chain = letterboxed(uneven)
    images = images_of(Loader(uneven, augment=chain, train=False, batch=7)).astype(int)
    assert images.shape == expected.shape == (7, 64, 64, 3)
    assert np.abs(images - expected).max() <= 2  # a padding that is off by a pixel differs by 100
    with pytest.raises(dlpipe.UnsupportedError, match="nearest expression") as refused:
        Loader(uneven, augment=recipe)
    advised = re.search(r"augment='(.*?)'", str(refused.value))[1]
    np.testing.assert_array_equal(images_of(Loader(uneven, augment=advised, train=False, batch=7)), images)


def test_a_letterbox_of_a_validation(uneven, tmp_path):
    _, _, chain = letterboxed(uneven)
    dlpipe.train(uneven, model="lenet", augment=chain, val_augment=chain, epochs=1, batch=7, lr=0.05, out=tmp_path / "run")
    predictor = dlpipe.Predictor(tmp_path / "run", val_augment=chain)
    assert "center_crop(64x64)" in predictor.val_augment
    assert predictor([sample.image for sample in dlpipe.Dataset(uneven)]).shape == (7, 2)


def test_evaluation_takes_live_transforms_too(splits, tmp_path):
    run = tmp_path / "run"
    for augment in (compose(v2("Resize", size=(24, 24), interpolation="bilinear"), FLIP), "resize(24x24) hflip(1)"):
        dlpipe.train(splits, model="lenet", augment=augment, val_augment=augment, epochs=1, batch=64, lr=0.05, out=run / str(type(augment)))
        assert "hflip" in dlpipe.Predictor(run / str(type(augment))).val_augment
    upright = [v2("Resize", size=(24, 24), interpolation=2), v2("RandomVerticalFlip", p=1)]
    assert "vflip" in dlpipe.Predictor(run / str(str), val_augment=upright).val_augment
    assert dlpipe.evaluate(run / str(str), splits, val_augment=upright)["samples"] == 80


@pytest.mark.parametrize("transform, chain", [
    (FLIP, "hflip(1)"), (compose(v2("Resize", size=20, interpolation=2)), "resize(20)"), ([FLIP, CROP], "hflip(1) center_crop(24x24)"),
    (fake("torch.nn.modules.container", "Sequential", children=lambda: [FLIP, CROP]), "hflip(1) center_crop(24x24)"),
    (compose(len, FLIP), "hflip(1)"),
    (type("Own", (type(FLIP),), {"__module__": "my.code"})(), "Own: it is my.code.Own"),
    (fake("kornia.augmentation._2d.intensity.color_jiggle", "ColorJiggle"), "ColorJiggle: dlpipe has no such op")])  # fmt: skip
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_transforms_of_single_images_are_no_functions_of_batches(splits, transform, chain, layout):
    with pytest.raises(dlpipe.MisuseError, match=r"\[loader\] transform is") as error:
        Loader(splits / "val", transform=transform, layout=layout)
    assert chain in str(error.value) and ("augment=" in str(error.value) or "your own function" in str(error.value))


class Augment:
    """A caller's own object, which has the transforms."""

    def __init__(self, steps):
        self.steps = steps

    def __call__(self, batch):
        return self.steps["train"](batch)

    def flipped(self, batch):
        return self.steps["val"](batch)


def test_functions_that_refer_to_them_are_warned_about(splits, caplog):
    caplog.set_level(logging.WARNING, "dlpipe")
    local, by_split = CROP, {"train": FLIP, "val": CROP}
    for transform in (lambda batch: FLIP(batch), lambda batch: local(batch), functools.partial(lambda one, batch: one(batch), FLIP),
                      fake("my.code", "Module", modules=lambda: [FLIP]), lambda batch: by_split["train"](batch),
                      Augment({"train": FLIP}), Augment({"val": FLIP}).flipped, functools.partial(Augment({}).flipped, steps=by_split)):  # fmt: skip
        caplog.clear()
        Loader(splits / "val", augment="rrc(8)", transform=transform)
        assert "transform refers to torchvision's" in caplog.text
    caplog.clear()
    Loader(splits / "val", augment="rrc(8)", transform=lambda batch: FLIP(batch), layout="NCHW")
    for harmless in (lambda batch: batch, len, compose(len, lambda batch: batch), v2("Lambda", lambd=len)):
        Loader(splits / "val", augment="rrc(8)", transform=harmless)
    assert caplog.text == ""


def test_functions_of_single_images_are_warned_about_too(splits, caplog):
    functional = types.ModuleType("torchvision.transforms.functional")
    functional.hflip = types.FunctionType((lambda image: image).__code__, {"__name__": functional.__name__}, "hflip")
    torchvision = types.ModuleType("torchvision")
    torchvision.transforms = types.ModuleType("torchvision.transforms")
    torchvision.transforms.functional = functional
    hflip = functional.hflip
    for transform in (lambda batch: functional.hflip(batch), lambda batch: hflip(batch),
                      lambda batch: torchvision.transforms.functional.hflip(batch)):  # fmt: skip
        caplog.clear()
        Loader(splits / "val", augment="rrc(8)", transform=transform)
        assert "transform refers to torchvision.transforms" in caplog.text and "Give augment to draw for each image" in caplog.text
    caplog.clear()
    Loader(splits / "val", augment="rrc(8)", transform=lambda batch: (torchvision, batch))
    assert caplog.text == ""


def test_what_ends_with_a_tensor_gives_its_values_and_axes(train):
    tensor = fake("torchvision.transforms.transforms", "ToTensor")
    options = {"batch": 16, "seed": 1}
    bytes_ = images_of(Loader(train, augment="center_crop(24)", **options))
    assert bytes_.dtype == np.uint8 and bytes_.shape == (16, 24, 24, 3)
    shares = np.moveaxis(bytes_, 3, 1) / np.float32(255)
    given = images_of(Loader(train, augment=compose(CROP, tensor), **options))
    assert given.dtype == np.float32
    np.testing.assert_allclose(given, shares, rtol=0, atol=1e-6)
    # What is said otherwise counts.
    named = images_of(Loader(train, augment=compose(CROP, tensor), layout="NHWC", dtype="u8", **options))
    assert np.array_equal(named, bytes_)
    normalised = images_of(Loader(train, augment=compose(CROP, tensor), mean=[0.5] * 3, std=[0.25] * 3, **options))
    np.testing.assert_allclose(normalised, (shares - 0.5) / 0.25, rtol=0, atol=1e-5)
    whole = images_of(Loader(train, augment=compose(CROP, tensor, v2("Normalize", mean=[0.5] * 3, std=[0.25] * 3)), **options))
    assert np.array_equal(whole, normalised)
    for image in (v2("ToImage"), fake("torchvision.transforms.transforms", "PILToTensor"),
                  fake("albumentations.pytorch.transforms", "ToTensorV2",
                       to_dict=lambda: {"transform": {"__class_fullname__": "ToTensorV2", "transpose_mask": False, "p": 1.0}})):  # fmt: skip
        assert np.array_equal(images_of(Loader(train, augment=[CROP, image], **options)), np.moveaxis(bytes_, 3, 1))
    assert dlpipe.convert_augment(compose(CROP, tensor)) == "center_crop(24x24) normalize(0,1)"


def test_tensors_of_bytes_as_floats_and_of_presets_are_torchvisions(train):
    torch = pytest.importorskip("torch")
    v2_, presets = pytest.importorskip("torchvision.transforms.v2"), pytest.importorskip("torchvision.transforms._presets")
    options = {"batch": 16, "seed": 1}
    bytes_ = images_of(Loader(train, augment="center_crop(24)", **options))
    floats = images_of(Loader(train, augment=v2_.Compose([v2_.CenterCrop(24), v2_.ToImage(), v2_.ToDtype(torch.float32)]), **options))
    assert floats.dtype == np.float32 and floats.shape == (16, 3, 24, 24)
    np.testing.assert_allclose(floats, np.moveaxis(bytes_, 3, 1), rtol=0, atol=1e-4)
    unscaled = v2_.Compose([v2_.CenterCrop(24), v2_.ToImage(), v2_.ToDtype(torch.float32)])  # what is said otherwise counts
    assert images_of(Loader(train, augment=unscaled, mean=[0.5] * 3, std=[0.25] * 3, **options)).dtype == np.float32
    assert np.array_equal(images_of(Loader(train, augment=unscaled, dtype="u8", layout="NHWC", **options)), bytes_)
    preset = presets.ImageClassification(crop_size=24, resize_size=24)
    assert images_of(Loader(train, augment=preset, **options)).shape == (16, 3, 24, 24)


# The libraries themselves

TORCHVISION = [
    "T.RandomHorizontalFlip(0.3)", "T.RandomVerticalFlip()", "T.RandomGrayscale()", "T.RandomInvert()", "T.RandomAutocontrast()",
    "T.RandomEqualize()", "T.RandomPosterize(3)", "T.RandomSolarize(100)", "T.RandomAdjustSharpness(2)", "T.Grayscale(3)", "T.GaussianBlur(3)",
    "T.RandomErasing()", "T.RandomErasing(value='random')", "T.RandAugment(3, 7, 11)", "T.TrivialAugmentWide()",
    "T.AutoAugment(T.AutoAugmentPolicy.CIFAR10)", "T.AugMix(chain_depth=2)", "T.Normalize([0.485] * 3, [0.2] * 3)",
    "T.RandomResizedCrop((24, 20), interpolation=T.InterpolationMode.BICUBIC)", "T.Resize([8])", "T.Resize((8, 9), 3)", "T.CenterCrop((8, 7))",
    "T.RandomCrop((8, 8))", "T.RandomCrop((8, 8), padding=2)", "T.RandomCrop((8, 8), padding=2, fill=3)", "T.Pad(2)", "T.Pad((1, 2, 3, 4), 5, 'edge')",
    "T.RandomRotation((-9, 9))", "T.RandomAffine((-9, 9), (0.1, 0.2), (0.8, 1.2), (1, 2, 3, 4), 2, 9)", "T.RandomPerspective()",
    "T.Compose([T.ToTensor(), T.RandomSolarize(0.5), T.Normalize([0.5], [0.5])])", "T.RandomApply([T.CenterCrop((8, 8))], p=0.3)",
    "T.RandomOrder([T.RandomHorizontalFlip(), T.RandomVerticalFlip()])",
]  # fmt: skip


@pytest.mark.parametrize("module", ["torchvision.transforms", "torchvision.transforms.v2"])
@pytest.mark.parametrize("call", TORCHVISION)
def test_torchvisions_objects_are_what_is_written(call, module):
    from test_convert_augment import expression, values_of

    pytest.importorskip("torchvision")
    __import__(module)
    live = dlpipe.convert_augment(eval(call, {"T": sys.modules[module]}))
    assert values_of(live.replace("2:2:2:2", "2").replace(",fill=0,", ",")) == values_of(expression(f"import {module} as T\n{call}\n"))


@pytest.mark.parametrize("options", ["", "is_training=True", "is_training=True, auto_augment='rand-m9-n3', re_prob=0.25, re_mode='pixel'",
                                     "is_training=True, auto_augment='3a', re_prob=0.25", "is_training=True, auto_augment='augmix-m3-w4-d1'",
                                     "is_training=True, auto_augment='original', interpolation='bicubic'",
                                     "is_training=True, color_jitter=(0.1, 0.2, 0.3, 0.05), vflip=0.2, scale=(0.5, 1)"])  # fmt: skip
def test_timms_objects_are_what_is_written(options):
    from test_convert_augment import one, values_of

    data = pytest.importorskip("timm.data")
    live = dlpipe.convert_augment(eval(f"create_transform((224, 224), {options})", {"create_transform": data.create_transform}))
    written = one(f"from timm.data import create_transform\ncreate_transform((224, 224), {options})\n").augment

    def text(chain):  # one number x of color_jitter is 1-x..1+x of the object
        return values_of(chain.replace("color_jitter(0.4,0.4,0.4,0)", "color_jitter(0.6..1.4,0.6..1.4,0.6..1.4,0)").replace(
            "color_jitter(0.1,0.2,0.3,0.05)", "color_jitter(0.9..1.1,0.8..1.2,0.7..1.3,-0.05..0.05)"))  # fmt: skip

    assert text(live) == text(written)


def test_albumentations_objects_are_what_they_save(monkeypatch):
    from test_convert_augment import GOLDEN, expression, lines_of, values_of

    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")
    A = pytest.importorskip("albumentations")
    if not A.__version__.startswith("2.0.8"):
        pytest.skip(f"{GOLDEN} is of 2.0.8")
    for case in lines_of("albumentations_defaults.golden") + [case for case in lines_of("warps.golden") if case["saved"]]:
        live = A.Compose([eval(case["call"], {"A": A})])
        assert values_of(dlpipe.convert_augment(live)) == values_of(expression(json.dumps(case["saved"])))


# A parameter that a rule doesn't know would vanish; one in another place, or with another default, would be another's.
@pytest.mark.parametrize("library, modules", [("torchvision", ["torchvision.transforms", "torchvision.transforms.v2"]),
                                              ("albumentations", ["albumentations"]),
                                              ("timm", ["timm.data", "timm.data.transforms", "timm.data.random_erasing"])])  # fmt: skip
def test_rules_have_the_librarys_own_parameters(library, modules):
    from dlpipe.recipes.call import IDLE, parameters_of, same
    from dlpipe.recipes.rules import NOTHING, RULES
    from dlpipe.recipes.sources import _plain

    pytest.importorskip(library)
    compared = 0
    for name in RULES[library].keys() - NOTHING - {"create_transform"}:
        for kind in [getattr(importlib.import_module(one), name) for one in modules if hasattr(importlib.import_module(one), name)]:
            theirs = [one for one in inspect.signature(kind).parameters.values() if one.kind is not one.VAR_KEYWORD]
            ours, places = parameters_of(RULES[library][name])
            assert {one.name for one in theirs} <= {*ours, *IDLE}, name
            assert [one.name for one in theirs][:places] == list(ours)[:min(places, len(theirs))], name
            for one in theirs:
                usual = ours.get(one.name)
                if usual not in (None, ..., inspect.Parameter.empty) and one.default not in (None, inspect.Parameter.empty):
                    numbers = [eval(part) if isinstance(part, str) and "/" in part else part for part in (usual if isinstance(usual, tuple) else [usual])]
                    mirrored = [-numbers[0], numbers[0]] if isinstance(usual, (int, float)) else None
                    assert same(_plain(one.default), numbers[0] if len(numbers) == 1 else numbers) or _plain(one.default) == mirrored, (name, one)
                    compared += 1
    assert compared > 10


def test_kornias_objects():
    K = pytest.importorskip("kornia.augmentation")
    assert dlpipe.convert_augment(K.AugmentationSequential(K.RandomVerticalFlip(p=1.0), K.Normalize(mean=[0.5] * 3, std=[0.25] * 3))) == (
        "vflip(1) normalize(0.5:0.5:0.5,0.25:0.25:0.25)")
    for other in (K.ColorJitter(), K.RandomHorizontalFlip(same_on_batch=True), K.AugmentationSequential(K.RandomHorizontalFlip(), random_apply=1)):
        with pytest.raises(dlpipe.UnsupportedError, match="no such op"):
            dlpipe.convert_augment(other)


def test_what_drops_boxes_of_albumentations_objects(monkeypatch):
    monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")
    A = pytest.importorskip("albumentations")
    for options, said in (({"max_accept_ratio": 3}, ["Compose: max_accept_ratio=3 of its bbox_params is left out"]),
                          ({"min_area": 9, "check_each_transform": False}, [])):  # fmt: skip
        boxes = A.BboxParams("coco", label_fields=["l"], **options)
        assert recipes._converted(A.Compose([A.HorizontalFlip(), A.RandomCrop(9, 9)], bbox_params=boxes)).notes == said


# What convert_augment says is equal is compared with the libraries' own images: those of PIL for "P", tensors for "T". Images are equal
# where they are less than 1 of 255 apart on average.
EQUAL = [
    *(("A", call) for call in (
        "Resize(40, 50, interpolation=6)", "ToGray(p=1)", "InvertImg(p=1)", "Posterize(3, p=1)",
        "AutoContrast(method='pil', p=1)", "ColorJitter((1.3, 1.3), (1, 1), (1, 1), (0, 0), p=1)", "Solarize((0.4, 0.4), p=1)",
        "ColorJitter((1, 1), (1, 1), (1.5, 1.5), (0, 0), p=1)", "RandomGamma((150, 150), p=1)", "CLAHE((2, 2), p=1)", "Blur((5, 5), p=1)",
        "GaussianBlur(0, (1.5, 1.5), p=1)", "MedianBlur((5, 5), p=1)", "Emboss((0.3, 0.3), (0.5, 0.5), p=1)", "PadIfNeeded(90, 111)",
        "UnsharpMask((3, 7), (1, 1), (0.4, 0.4), 0, p=1)", "Rotate((20, 20), p=1)", "Transpose(p=1)",
        *(f"MotionBlur((15, 15), False, ({angle}, {angle}), (0, 0), p=1)" for angle in (0, 20, 90, 150)))),
    *((kind, call) for kind in "PT" for call in (
        "Resize((40, 50))", "Resize((33, 47), I.NEAREST_EXACT)", "Resize(30, I.BICUBIC)", "CenterCrop((40, 41))", "CenterCrop((90, 111))",
        "Grayscale(3)", "RandomInvert(1)", "RandomAutocontrast(1)", "RandomEqualize(1)", "RandomPosterize(3, 1)", "RandomSolarize(100, 1)",
        "RandomAdjustSharpness(2, 1)", "ColorJitter((1.3, 1.3), (1.4, 1.4))", "GaussianBlur(5, (1.5, 1.5))", "JPEG((50, 50))",
        "Pad(7, 3, 'reflect')", "RandomRotation((20, 20), I.BILINEAR)", "RandomAffine((10, 10), scale=(1.2, 1.2))")),
    ("P", "Resize((33, 47), I.NEAREST)"),
    *(("P", f"Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale={scale}), {last}])") for scale in (True, False) for last in (
        "v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])",
        "v2.Normalize([0.4] * 3, [0.25] * 3), v2.CenterCrop((90, 111))")),
    ("P", "Compose([v2.ToImage(), v2.ToDtype(torch.float32), v2.Normalize([123.675, 116.28, 103.53], [58.4, 57.1, 57.4])])"),
]
OTHER = [
    *(("A", call) for call in (
        *(f"Resize(33, 47, interpolation={i})" for i in range(5)), "RandomResizedCrop((40, 50), (1, 1), (1.25, 1.25))", "SmallestMaxSize(34)",
        "LongestMaxSize(43)", "CenterCrop(41, 38)", "AutoContrast(p=1)", "Equalize(p=1)", "Equalize('pil', p=1)", "Downscale((0.5, 0.5), p=1)",
        "ImageCompression('jpeg', (50, 50), p=1)", "MotionBlur((9, 9), False, (45, 45), (0, 0), p=1)",
        "GridDistortion(distort_limit=(0.3, 0.3), p=1)", "Affine(translate_percent=(0.187, 0.187), p=1)",
        "ShiftScaleRotate((0.187, 0.187), (0, 0), (0, 0), p=1)")),
    ("T", "Compose([v2.ToImage(), v2.Resize((33, 47), I.NEAREST)])"),
]  # fmt: skip


# What each draw changes, on average.
RANDOM = [
    *(("A", call) for call in (
        "MotionBlur(allow_shifted=False, direction_range=(0, 0), p=1)", "GaussNoise((0.1, 0.2), p=1)", "CoarseDropout(p=1)", "RandomGamma(p=1)",
        "CLAHE(p=1)", "ChannelDropout(p=1)", "Blur(p=1)", "MedianBlur(p=1)", "GaussianBlur(p=1)", "ColorJitter(p=1)", "Rotate(p=1)",
        "ElasticTransform(alpha=60, sigma=6, p=1)", "Erasing((0.2, 0.2), (0.5, 0.5), p=1)")),
    *(("P", call) for call in ("RandAugment()", "ColorJitter(0.4, 0.4, 0.4, 0.1)", "RandomPerspective(p=1)", "RandomRotation(30)",
                               "RandomAffine((-20, 20), (0.1, 0.1), (0.8, 1.2), (-5, 5))", "GaussianBlur(5)", "ElasticTransform()")),
]  # fmt: skip


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Edges, a soft ground and noise, 80 x 101: an image, and a dataset of it."""
    random = np.random.default_rng(5)
    y, x = np.mgrid[:80, :101]
    image = np.stack([40 + x, 60 + y, 80 + (x + y) // 2], -1) + np.kron(random.integers(-40, 60, (10, 13, 3)), np.ones((8, 8, 1)))[:, :101]
    image = (image + random.normal(0, 12, image.shape)).clip(0, 255).astype(np.uint8)
    folder = tmp_path_factory.mktemp("drawn") / "data"
    with dlpipe.Writer(folder) as writer:
        writer.write(image=image, label=0)
    return image, folder


def of_library(monkeypatch, kind, call, image):
    """The transform, and a function that gives what it makes of the image."""
    if kind == "A":
        monkeypatch.setenv("NO_ALBUMENTATIONS_UPDATE", "1")
        transform = eval(f"A.{call}", {"A": pytest.importorskip("albumentations")})
        return transform, lambda: transform(image=image)["image"]
    torch, v2 = pytest.importorskip("torch"), pytest.importorskip("torchvision.transforms.v2")
    transform = eval(f"v2.{call}", {"v2": v2, "torch": torch, "I": v2.InterpolationMode})
    given = torch.from_numpy(image).permute(2, 0, 1) if kind == "T" else pytest.importorskip("PIL.Image").fromarray(image)

    def make():
        made = transform(given)
        return made.permute(1, 2, 0).numpy() if isinstance(made, torch.Tensor) else np.asarray(made)

    return transform, make


@pytest.mark.parametrize("kind, call", EQUAL + OTHER)
def test_images_are_the_librarys_or_a_note_says_what_is_not(drawn, kind, call, monkeypatch):
    image, folder = drawn
    transform, make = of_library(monkeypatch, kind, call, image)
    one, expected = recipes._converted(transform), make()
    assert one.no_equal == []
    (ours,) = images_of(Loader(folder, augment=one.augment, train=False, batch=1))
    apart = None if ours.shape != expected.shape else np.abs(ours.astype(float) - expected).mean()
    if (kind, call) in EQUAL:
        assert apart is not None and apart < (1 if ours.dtype == np.uint8 else 0.02 * np.abs(expected).max()), one.augment
        assert one.notes == []
    else:
        assert apart is None or apart > 1
        assert one.notes != []


# Whatever a loader accepts has the library's shape, type and values (1.25 of 255 apart on average at most): what draws nothing, in each combination of the kinds of image
# that it may begin and end with. Each class of torchvision's with a rule is here, or draws.
FIXED = [
    "RandomHorizontalFlip(1)", "RandomVerticalFlip(1)", "RandomGrayscale(1)", "RandomInvert(1)", "RandomAutocontrast(1)", "RandomEqualize(1)",
    "RandomPosterize(3, 1)", "RandomSolarize(100, 1)", "RandomSolarize(0.4, 1)", "RandomAdjustSharpness(2, 1)",
    "ColorJitter((1.3, 1.3), (1.4, 1.4))", "ColorJitter(saturation=(0.4, 0.4))", "ColorJitter(hue=(0.2, 0.2))", "Grayscale()", "Grayscale(3)", "RGB()", "GaussianBlur(5, (1.5, 1.5))",
    "GaussianNoise(0.3, 0)", "JPEG((50, 50))", "RandomAdjustSharpness(0.5, 1)", "Normalize([0.4], [0.3])", "Normalize([0.4] * 3, [0.3] * 3)",
    "RandomResizedCrop((40, 50), (1, 1), (1.2625, 1.2625))", "Resize((40, 50))", "Resize(33)", "Resize(33, antialias=False)", "Resize(33, max_size=35)",
    "Resize((33, 47), I.NEAREST)", "Resize((33, 47), I.NEAREST_EXACT)", "Resize((30, 40), I.BICUBIC)", "Resize((30, 40), I.BOX)",
    "Resize((30, 40), I.LANCZOS)", "Resize((100, 99))", "Resize(size=None, max_size=50)", "CenterCrop(41)", "CenterCrop((90, 111))", "CenterCrop((39, 44))",
    "FiveCrop(30)", "TenCrop(30)", "RandomCrop((80, 101))", "RandomCrop((80, 101), pad_if_needed=True)", "RandomCrop(90, pad_if_needed=True)",
    "RandomShortestSize([40])", "RandomShortestSize([60], max_size=50)", "Pad(7)", "Pad((1, 2, 3, 4), 5)", "Pad(7, 3, 'reflect')", "Pad(7, padding_mode='edge')",
    "Pad(7, padding_mode='symmetric')", "Pad(7, fill=(1, 2, 3))", "RandomRotation((20, 20))", "RandomRotation((20, 20), I.BILINEAR, fill=9)",
    "RandomRotation((20, 20), expand=True)", "RandomRotation((90, 90), expand=True)", "RandomAffine((10, 10), scale=(1.2, 1.2))",
    "RandomAffine((10, 10), shear=(5, 5), interpolation=I.BILINEAR)", "RandomAffine((0, 0), shear=(0, 0, 5, 5), fill=(3, 4, 5))", "RandomAffine((10, 10), center=(0, 0))",
    "Identity()", "ToPureTensor()", "RandomApply([v2.RandomInvert(1)], p=1)", "RandomApply([v2.Grayscale(1)], p=1)", "RandomChoice([v2.RandomInvert(1)])",
    "RandomOrder([v2.RandomInvert(1), v2.RandomHorizontalFlip(1)])", "FixedSizeCrop((80, 101))", "FixedSizeCrop((90, 111), fill=5)",
    "RandomErasing(1, (0, 0))", "UniformTemporalSubsample(1)", "RandomZoomOut(p=0)", "ScaleJitter((80, 101), (1, 1))", "RandomResize(40, 41)", "RandomPhotometricDistort((1, 1), (1, 1), (1, 1), (0, 0), 0)",
    "RandomPerspective(0, 1)", "ElasticTransform(0.0)", "LinearTransformation(torch.eye(3), torch.zeros(3))", "AugMix(severity=1, mixture_width=1, alpha=0.001, all_ops=False)",
    "SanitizeBoundingBoxes(labels_getter=None)", "ClampBoundingBoxes()", "ConvertBoundingBoxFormat('XYXY')",
]  # fmt: skip
ENDS = [
    "", "ToImage()", "PILToTensor()", "ToTensor()", "ToImage(), v2.ToPureTensor()", "ToImage(), v2.ToDtype(torch.float32, scale=True)", "ToImage(), v2.ToDtype(torch.float32)",
    "ToImage(), v2.ToDtype(torch.uint8, scale=True)", "ToImage(), v2.ToDtype(torch.uint8)", "ToImage(), v2.ToDtype(torch.float16, scale=True)",
    "ToImage(), v2.ToDtype(torch.bfloat16)", "ToImage(), v2.ToDtype(torch.float64, scale=True)", "ToImage(), v2.ToDtype(torch.int64)",
    "ToImage(), v2.ToDtype({tv_tensors.Image: torch.float32, 'others': None}, scale=True)", "ToImage(), v2.ToDtype({tv_tensors.Mask: torch.float32, 'others': None}, scale=True)",
    "ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ToDtype(torch.uint8)", "ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ToDtype(torch.uint8, scale=True)",
    "ToImage(), v2.ToDtype(torch.float32), v2.ToDtype(torch.float32, scale=True)", "ToImage(), v2.ToDtype(torch.float32, scale=True), v2.ToDtype(torch.float32)",
    "ToTensor(), v2.ToPILImage()", "ToTensor(), v2.ConvertImageDtype(torch.float16)", "ToTensor(), v2.ConvertImageDtype(torch.uint8)",
    "PILToTensor(), v2.ConvertImageDtype()", "ToTensor(), v2.Normalize([0.5], [0.5])", "ToTensor(), v2.Normalize([0.5], [0.5]), v2.ToDtype(torch.uint8)",
    "ToTensor(), v2.Normalize([0.5], [0.5]), v2.ToDtype(torch.float16)", "ToTensor(), v2.Normalize([0.5, 0.4, 0.3], [0.5, 0.2, 0.25])", "ToTensor(), v2.RGB()", "ToTensor(), v2.Grayscale(3)", "ToTensor(), v2.Grayscale()",
    "ToTensor(), v2.Lambda(lambda x: x * 2)", "ToTensor(), v2.GaussianBlur(3, (1.0, 1.0))",
]  # fmt: skip
DRAWS = {"TrivialAugmentWide", "RandAugment", "AutoAugment", "RandomIoUCrop", "RandomChannelPermutation"}


@pytest.fixture(scope="module")
def grey(drawn, tmp_path_factory):
    image, folder = drawn[0][..., :1], tmp_path_factory.mktemp("grey") / "data"
    with dlpipe.Writer(folder) as writer:
        writer.write(image=image, label=0)
    return image, folder


@pytest.mark.parametrize("is_grey", [False, True])
@pytest.mark.parametrize("is_first", [True, False])  # the transform of the image, or of what an end makes of it
@pytest.mark.parametrize("call", FIXED)
def test_what_a_loader_accepts_is_what_torchvision_makes(drawn, grey, call, is_first, is_grey):
    torch, v2 = pytest.importorskip("torch"), pytest.importorskip("torchvision.transforms.v2")
    image, folder = grey if is_grey else drawn
    names = {"v2": v2, "torch": torch, "I": v2.InterpolationMode, "tv_tensors": pytest.importorskip("torchvision.tv_tensors")}
    for end in ENDS:
        parts = [f"v2.{one}" for one in ((call, end) if is_first else (end, call)) if one]
        try:
            transform = eval(f"v2.Compose([{', '.join(parts)}])", names)
            expected = transform(pytest.importorskip("PIL.Image").fromarray(image[..., 0] if is_grey else image))
        except Exception:  # torchvision's own refusals
            continue
        try:
            (ours,) = images_of(Loader(folder, augment=transform, train=False, batch=1, as_="torch"))
        except dlpipe.Error:
            continue
        if not isinstance(expected, torch.Tensor):
            expected = torch.from_numpy(np.atleast_3d(np.asarray(expected)))
        assert (ours.dtype, tuple(ours.shape)) == (expected.dtype, tuple(expected.shape)), parts
        apart = (ours.double() - expected.double()).abs().mean()
        span = 255 if expected.dtype == torch.uint8 else max(1, float(expected.double().max() - expected.double().min()))
        assert apart <= 1.25 * span / 255, (parts, float(apart))


@pytest.mark.parametrize("call", ["ImageClassification(crop_size=24, resize_size=30)", "SemanticSegmentation(resize_size=30)",
                                  "SemanticSegmentation(resize_size=None, mean=(0.5,) * 3)", "ObjectDetection()"])  # fmt: skip
def test_transforms_of_torchvisions_weights(drawn, call):
    presets = pytest.importorskip("torchvision.transforms._presets")
    transform = eval(f"presets.{call}", {"presets": presets})
    expected = transform(pytest.importorskip("PIL.Image").fromarray(drawn[0]))
    (ours,) = images_of(Loader(drawn[1], augment=transform, train=False, batch=1, as_="torch"))
    assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
    assert float((ours - expected).abs().mean()) < 1.25 * 5 / 255


def test_what_timm_makes_without_normalising_is_a_tensor(drawn):
    data = pytest.importorskip("timm.data")
    for options in ({"normalize": False}, {"use_prefetcher": True}):
        (ours,) = images_of(Loader(drawn[1], augment=data.create_transform(32, **options), train=False, batch=1))
        assert ours.shape == (3, 32, 32) and ours.dtype == np.uint8


def test_each_rule_of_torchvisions_is_tried():
    from dlpipe.recipes.rules import TORCHVISION as rules

    tried = " ".join([*FIXED, *ENDS, *DRAWS, "ImageClassification SemanticSegmentation ObjectDetection Compose ClampBoundingBox"])
    assert [one for one in rules if not re.search(rf"\b{one}\b", tried)] == []


@pytest.mark.parametrize("kind, call", RANDOM)
def test_draws_change_images_as_much_as_the_librarys(drawn, kind, call, monkeypatch):
    image, folder = drawn
    transform, make = of_library(monkeypatch, kind, call, image)
    if kind == "A":
        transform.set_random_seed(3)
    else:
        sys.modules["torch"].manual_seed(3)
    options = {"augment": recipes._converted(transform).augment, "batch": 1, "seed": 3, "epochs": 300}
    theirs, ours = (np.array([np.abs(one.astype(float) - image).mean() for one in all_]) for all_ in (
        [make() for _ in range(300)], [batch.image[0] for batch in Loader(folder, **options)]))  # fmt: skip
    deviation = np.sqrt((theirs.var() + ours.var()) / 300)
    assert abs(theirs.mean() - ours.mean()) < 0.2 * theirs.mean() + 3 * deviation


# Their noise is of another kind; how much it changes depends on the image's contrast, which is a photo's here.
@pytest.mark.parametrize("call", ["ISONoise(p=1)", "ISONoise(intensity=(0.5, 0.5), p=1)", "FancyPCA(p=1)", "FancyPCA(0.5, p=1)"])
def test_scaled_draws_change_images_about_as_much(tmp_path, call, monkeypatch):
    random, folder = np.random.default_rng(5), tmp_path / "data"
    blocks = random.normal(115, 60, (10, 13, 1)) + random.normal(0, 15, (10, 13, 3))
    image = np.kron(blocks, np.ones((8, 8, 1))).clip(0, 255).astype(np.uint8)
    with dlpipe.Writer(folder) as writer:
        writer.write(image=image, label=0)
    transform, make = of_library(monkeypatch, "A", call, image)
    transform.set_random_seed(3)
    one = recipes._converted(transform)
    loader = Loader(folder, augment=one.augment, batch=1, seed=3, epochs=300)
    theirs, ours = (np.mean([np.abs(each.astype(float) - image).mean() for each in all_]) for all_ in (
        [make() for _ in range(300)], [batch.image[0] for batch in loader]))  # fmt: skip
    assert one.notes != [] and 0.4 < ours / theirs < 2.5


def test_erased_rectangles_are_as_wide_as_the_librarys(drawn, monkeypatch):
    image, folder = drawn
    transform, make = of_library(monkeypatch, "A", "Erasing((0.2, 0.2), (3, 3), p=1)", image)
    (ours,) = images_of(Loader(folder, augment=recipes._converted(transform).augment, train=False, batch=1))
    heights, widths = zip(*(np.ptp(np.nonzero((one == 0).all(-1)), axis=1) + 1 for one in (ours, make())))
    assert heights[0] == heights[1] and widths[0] == widths[1] > 2 * heights[1]


def test_an_empty_composition_is_the_empty_chain(drawn):
    image, folder = drawn
    for empty in (compose(), compose(compose()), [compose()]):
        (ours,) = images_of(Loader(folder, augment=empty, train=False, batch=1))
        np.testing.assert_array_equal(ours, image)
    with pytest.raises(dlpipe.MisuseError, match="give a string"):
        Loader(folder, augment=fake("torch.nn.modules.container", "Sequential", children=lambda: []), batch=1)
