"""What dlpipe.Writer takes, and what is read of it."""

import io
import re

import dlpipe
import numpy as np
import pytest
from conftest import run_program
from test_dataset import tree


def pixels_of(seed, height=20, width=30, channels=3):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), np.uint8)


def test_files_in_memory_make_what_ingest_makes(images, tmp_path):
    report = dlpipe.ingest(images, tmp_path / "files")
    with dlpipe.Writer(tmp_path / "memory", classes=report["classes"]) as writer:
        for name, data in sorted(tree(images).items()):
            writer.write(image=data, label=name.split("/")[0], path=name)
    assert writer.report["datasets"][0]["id"] == report["datasets"][0]["id"]
    assert writer.report.keys() == report.keys()
    samples = dlpipe.Dataset(tmp_path / "memory")
    assert samples.file(123) == tree(images)[samples[123].path]
    run_program("verify", tmp_path / "memory", "--decode")
    assert len(dlpipe.Loader(tmp_path / "memory", augment="rrc(16)", batch=40)) == 10


def test_pixels_stay_as_they_are(tmp_path):
    image = pytest.importorskip("PIL.Image")
    grey = pixels_of(2)[:, :, 0]
    with dlpipe.Writer(tmp_path / "d") as writer:
        writer.write(image=pixels_of(1), label=0)
        writer.write(image=grey, label=3)
        writer.write(image=pixels_of(3)[::-1, ::2], label=0)  # strided
        writer.write(image=image.fromarray(pixels_of(4)), label=0)
        writer.write(image=image.fromarray(grey), label=0)
        writer.write(image=image.fromarray(pixels_of(5, channels=4)), label=None)
        file = io.BytesIO()
        image.fromarray(pixels_of(6)).save(file, "png")
        writer.write(image=memoryview(file.getvalue()), label=0)
    samples = dlpipe.Dataset(tmp_path / "d")
    assert samples.classes == ["0", "1", "2", "3"] and list(samples.labels) == [0, 3, 0, 0, 0, -1, 0]
    for number, expected in enumerate(
        [pixels_of(1), grey[:, :, None], pixels_of(3)[::-1, ::2], pixels_of(4), grey[:, :, None],
         pixels_of(5, channels=4)[:, :, :3], pixels_of(6)]
    ):
        assert np.array_equal(samples[number].image, expected)
    assert samples.file(6) == file.getvalue()


def turned_file(image, orientation, mode="RGB"):
    """A PNG whose EXIF orientation says how its pixels are turned."""
    exif = image.Exif()
    exif[0x0112] = orientation
    file = io.BytesIO()
    image.fromarray(pixels_of(orientation, channels=len(mode))).save(file, "png", exif=exif.tobytes())
    return file.getvalue()


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_pillow_images_are_turned_as_their_files_are(tmp_path, mode):
    image = pytest.importorskip("PIL.Image")
    files = [turned_file(image, orientation, mode) for orientation in range(1, 9)]
    with dlpipe.Writer(tmp_path / "d") as writer:
        for file in files:
            writer.write(image=file, label=0)
            writer.write(image=image.open(io.BytesIO(file)), label=0)
    samples = dlpipe.Dataset(tmp_path / "d")
    for orientation in range(1, 9):
        of_file, of_pillow = samples[2 * orientation - 2].image, samples[2 * orientation - 1].image
        assert of_file.shape == ((20, 30, 3) if orientation < 5 else (30, 20, 3))
        assert np.array_equal(of_pillow, of_file), orientation
    dlpipe.from_dataset([(image.open(io.BytesIO(file)), 0) for file in files], tmp_path / "from")
    for number, sample in enumerate(dlpipe.Dataset(tmp_path / "from")):
        assert np.array_equal(sample.image, samples[2 * number].image), number + 1


def test_torch_tensors_are_channels_first(tmp_path):
    torch = pytest.importorskip("torch")
    with dlpipe.Writer(tmp_path / "d") as writer:
        writer.write(image=torch.from_numpy(pixels_of(1).transpose(2, 0, 1).copy()), label=torch.tensor(2))
        with pytest.raises(dlpipe.MisuseError, match=r"a tensor of shape \(20, 30, 3\); .*image.permute\(2, 0, 1\)"):
            writer.write(image=torch.zeros(20, 30, 3, dtype=torch.uint8), label=2)
    sample = dlpipe.Dataset(tmp_path / "d")[0]
    assert np.array_equal(sample.image, pixels_of(1)) and sample.label == 2


def test_fields_of_all_kinds(tmp_path):
    fields = {"image": "image", "caption": "text", "blob": "bytes", "price": "f32", "box": ("i32", (2, 2)),
              "tokens": (np.int64, 5), "kind": "label"}  # fmt: skip
    with dlpipe.Writer(tmp_path / "d", fields=fields) as writer:
        for i in range(30):
            writer.write({"image": pixels_of(i, 8, 8), "caption": f"größe {i}", "blob": bytes([i]), "price": i / 2,
                          "box": [[i, 1], [2, 3]], "tokens": range(i, i + 5), "kind": "ab"[i % 2]})  # fmt: skip
    samples = dlpipe.Dataset(tmp_path / "d")
    assert samples.fields == ("image", "kind", *(name for name in fields if name not in ("image", "kind")))
    one = samples[7]
    assert one.caption == "größe 7" and one.blob == "\x07" and one.price == 3.5
    assert one.box.tolist() == [[7, 1], [2, 3]] and one.tokens.dtype == np.int64 and one.tokens.tolist() == [7, 8, 9, 10, 11]
    assert samples.class_name(one.kind) == "b"
    batch = next(iter(dlpipe.Loader(tmp_path / "d", batch=10, train=False, as_="numpy")))
    assert batch.tokens[3].tolist() == [3, 4, 5, 6, 7] and batch.price.shape == (10,)


def test_a_class_may_be_called_as_a_folder_that_is_no_text(tmp_path):
    with dlpipe.Writer(tmp_path / "d", fields={"label": "label", "tags": "labels"}) as writer:
        writer.write(label="gr\udcfc", tags=["blå", "gr\udcfc"])
        with pytest.raises(dlpipe.MisuseError, match="field 'tags' holds the label -9223372036854775809; give a 64-bit number"):
            writer.write(label="blå", tags=[-(2**63) - 1])
    samples = dlpipe.Dataset(tmp_path / "d")
    assert samples.classes == ["gr\ufffd", "blå"] and samples[0].tags.tolist() == [1, 0]


OBJECTS = {"image": "image", "tags": "labels", "bbox": "boxes-xywh", "corners": "boxes", "class": "labels:bbox",
           "area": "number:bbox", "id": "i64:bbox", "joints": ("points:bbox", 2), "eyes": "points", "lengths": "numbers",
           "ids": ("i64", None)}  # fmt: skip


def two_objects(**changes):
    return {"image": pixels_of(1), "tags": ["new", "cat"], "bbox": np.array([[1, 2, 3, 4], [5, 6, 7, 8]]),
            "corners": [[0, 0, 1.5, 2]], "class": ["cat", "dog"], "area": [12, 56.5], "id": [7, 1 << 60],
            "joints": [[[1, 2, 1], [3, 4, 0]], [[5, 6, 1], [7, 8, 0]]], "eyes": [(1, 1, 1)], "lengths": [1, 2, 3],
            "ids": range(4), **changes}  # fmt: skip


def test_objects_and_what_is_said_of_them(tmp_path):
    with dlpipe.Writer(tmp_path / "d", fields=OBJECTS) as writer:
        writer.write(two_objects())
        writer.write({"image": pixels_of(2), "tags": [], "bbox": np.zeros((0, 4))})
        writer.write({"image": pixels_of(3), "tags": ["dog"]})
    samples = dlpipe.Dataset(tmp_path / "d")
    assert samples.classes == ["new", "cat", "dog"]
    one = samples[0]
    assert one.tags.tolist() == [0, 1] and one["class"].tolist() == [1, 2]
    assert one.bbox.tolist() == [[1, 2, 4, 6], [5, 6, 12, 14]] and one.corners.tolist() == [[0, 0, 1.5, 2]]
    assert one.area.tolist() == [12, 56.5] and one.id.tolist() == [7, 1 << 60] and one.id.dtype == np.int64
    assert one.joints.tolist() == two_objects()["joints"] and one.eyes.tolist() == [[1, 1, 1]]
    assert one.lengths.tolist() == [1, 2, 3] and one.ids.tolist() == [0, 1, 2, 3]
    none = samples[1]
    assert [len(none[name]) for name in list(OBJECTS)[1:]] == [0] * 10
    assert (none.bbox.shape, none.joints.shape, none.area.shape) == ((0, 4), (0, 2, 3), (0,))
    assert samples[2].tags.tolist() == [2]
    run_program("verify", tmp_path / "d", "--decode")


def test_objects_that_make_no_sense(tmp_path):
    with dlpipe.Writer(tmp_path / "d", fields=OBJECTS) as writer:
        for change, words in [
            ({"class": ["horse"]}, "sample 0: field 'class' has 1 row for 2 boxes of field 'bbox'"),
            ({"class": None}, "'class' has 0 rows for 2 boxes"),
            ({"bbox": [[1, 2, 3, -4], [5, 6, 7, 8]]}, "field 'bbox': box 1 ends before it begins; boxes-xywh expects x_min"),
            ({"corners": [[0, 0, 1, 1], [5, 0, 4, 1]]}, "'corners' holds box 2, which ends before it begins"),
            ({"corners": [0, 0, 1, 1]}, r"'corners' has the shape \(4,\), the dataset's is \(any, 4\)"),
            ({"corners": [[0, 0, 1, float("nan")]]}, "'corners' holds NaN or infinity"),
            ({"joints": [[1, 2, 1], [3, 4, 0]]}, r"'joints' has the shape \(2, 3\), the dataset's is \(any, 2, 3\)"),
            ({"id": [7, 0.5]}, "'id' is .*, which is not a valid i64"),
            ({"lengths": 3}, r"'lengths' has the shape \(\)"),
            ({"tags": "cat"}, "'tags' is 'cat'; give a list of classes"),
            ({"tags": ["cat", None]}, "'tags' holds a label that is not a class"),
            ({"tags": ["cat", 1.5]}, "'tags' holds the label 1.5"),
            ({"tags": ["cat", 1]}, "label 1, but earlier labels were names"),
        ]:
            with pytest.raises(dlpipe.MisuseError, match=words):
                writer.write(two_objects(**change))
        writer.write(two_objects())
    assert dlpipe.Dataset(tmp_path / "d").classes == ["new", "cat", "dog"]  # none of a refused sample's


def test_splits(tmp_path):
    with dlpipe.Writer(tmp_path / "d") as writer:
        for i in range(40):
            writer.write(image=pixels_of(i), label=i % 4, split="val" if i % 10 == 0 else "train")
    assert {d["split"]: d["samples"] for d in writer.report["datasets"]} == {"train": 36, "val": 4}
    assert np.array_equal(dlpipe.Dataset(tmp_path / "d", split="val")[1].image, pixels_of(10))


@pytest.mark.parametrize(
    "options, words",
    [
        ({"fields": {"image": "photo"}}, "'image' is 'photo'; give 'image', 'label'"),
        ({"fields": {"image": "image", "x": np.int16}}, "'x' has the dtype int16, .*; give 'i64', or another of f32, f64,"),
        ({"fields": {"image": "image", "x": ("f32", 0)}}, "'x' has the shape"),
        ({"fields": {"image": "image", "x": ("f32", "a")}}, "'x' has the shape 'a'"),
        ({"fields": {1: "image"}}, "a field is called 1"),
        ({"fields": ["image"]}, r"fields is \['image'\]; give a dict"),
        ({"classes": [1, 2, 3]}, r"classes\[0\] is 1; give a string"),
        ({"classes": 3}, "classes is 3; give a list of strings"),
        ({"fields": {"image": "image", "x": ("boxes", 4)}}, "boxes has no shape"),
        ({"fields": {"image": "image", "x": "labels:bbox"}}, "field 'x' belongs to 'bbox'; labels, points and"),
        ({"fields": {"image": "image", "b": "boxes", "x": "text:b"}}, "field 'x' belongs to 'b'; labels, points and"),
        ({"fields": {"a": "image", "b": "image"}}, "'a' and 'b' are both images"),
        ({"fields": {"image": "image", "a": "label", "b": "label"}}, "'a' and 'b' are both labels"),
        ({"fields": {}}, "no fields"),
        ({"interrupted": "resum"}, "interrupted resum.*resume"),
        ({"store": "png"}, "store png"),
        ({"quality": 101}, "quality 101"),
    ],
)
def test_options_that_make_no_sense(tmp_path, options, words):
    with pytest.raises(dlpipe.MisuseError, match=words):
        dlpipe.Writer(tmp_path / "d", **options)
    assert list(tmp_path.iterdir()) == []


def test_samples_that_make_no_sense_are_refused_and_others_taken(tmp_path):
    fields = {"image": "image", "label": "label", "n": "u8", "text": "text"}
    good = {"image": pixels_of(1), "label": "cat", "n": 1, "text": "a"}
    with dlpipe.Writer(tmp_path / "d", fields=fields, classes=["cat", "dog"]) as writer:
        for change, words in [
            ({"image": pixels_of(1).astype(np.float32) / 255}, "an array of float32; give uint8"),
            ({"image": pixels_of(1, channels=4)}, r"shape \(20, 30, 4\)"),
            ({"image": np.zeros((0, 4, 3), np.uint8)}, "shape"),
            ({"image": "a.jpg"}, "the image is str"),
            ({"image": None}, "has no 'image'"),
            ({"label": "cats"}, "label 'cats'.*did you mean.*cat"),
            ({"label": 2}, "label 2 of 2 classes"),
            ({"label": 1.5}, "the label is 1.5"),
            ({"label": 2**64}, "the label is 18446744073709551616; give a 64-bit number"),
            ({"label": "\ud800"}, "the label is '.*'; it has a lone surrogate"),
            ({"n": 300}, "'n' is 300"),
            ({"n": -1}, "'n' is -1"),
            ({"n": 0.5}, "'n' is 0.5"),
            ({"n": "x"}, "'n' is 'x'"),
            ({"n": [1, 2]}, r"shape \(2,\)"),
            ({"n": None}, "'n' is None, which isn't a number"),
            ({"text": 3}, "'text' is int"),
            ({"other": 3}, "no field 'other'; the dataset has image, label, n, text"),
        ]:
            with pytest.raises(dlpipe.MisuseError, match=words):
                writer.write({**good, **change})
        writer.write(good)
        assert writer.position == 1
    assert len(dlpipe.Dataset(tmp_path / "d")) == 1


@pytest.mark.parametrize("kind, value, words", [
    ("number", 123456789, "'x' is 123456789, which is not a valid f32; give 'i64'"),
    ("numbers", [1, 2**24 + 1], "not a valid f32; give 'i64'"),
    ("f16", 1e9, "'x' is 1000000000.0, which is not a valid f16$"),
    ("f16", 10**9, "not a valid f16; give 'i64'"),
    ("f32", 1e300, "not a valid f32"),
    ("f64", 2**53 + 1, "not a valid f64; give 'i64'"),
    ("f64", np.int64(2**63 - 1), "not a valid f64"),
    ("f32", np.array(-(2**63) + 1), "not a valid f32"),
])
@pytest.mark.filterwarnings("error")
def test_numbers_that_a_field_of_floats_does_not_hold(tmp_path, kind, value, words):
    writer = dlpipe.Writer(tmp_path / "d", fields={"x": kind})
    with pytest.raises(dlpipe.MisuseError, match=f"{words}.*sample 0".replace("$.*", r" \(")):
        writer.write(x=value)
    writer.abandon()


@pytest.mark.parametrize("kind, value", [
    ("number", 2**24), ("number", 2**30), ("f16", 2048), ("f64", 2**53), ("f64", -(2**63)), ("f32", 0.1), ("f32", 1e-300),
    ("f32", float("inf")), ("f32", float("nan")), ("f32", True), ("numbers", np.array([3, 2**40])),
])  # fmt: skip
def test_numbers_that_a_field_of_floats_holds(tmp_path, kind, value):
    with dlpipe.Writer(tmp_path / "d", fields={"x": kind}) as writer:
        writer.write(x=value)
    held = dlpipe.Dataset(tmp_path / "d")[0].x
    assert held.shape == np.shape(value)
    np.testing.assert_array_equal(held, np.asarray(value).astype(held.dtype))


@pytest.mark.parametrize("kind, value, keep", [
    ("number", float("nan"), "'f32'"), ("number", -np.inf, "'f32'"), ("numbers", [1, np.nan], None),
    (("number", (2, 2)), [[1, 2], [np.inf, 0]], r"\('f32', \(2, 2\)\)")])  # fmt: skip
def test_numbers_are_finite_unless_their_dtype_is_given(tmp_path, kind, value, keep):
    writer = dlpipe.Writer(tmp_path / "d", fields={"x": kind})
    kept = f", or give {keep} in fields= to keep them" * (keep is not None)
    with pytest.raises(dlpipe.MisuseError, match=fr"'x' is .*NaN or infinity; leave the sample out{kept} \(sample 0"):
        writer.write(x=value)
    writer.abandon()


@pytest.mark.parametrize("fields, values", [
    ({"t": "text"}, {"t": "a\ud800"}), ({"l": "label"}, {"l": "\udfff"}), ({"l": "labels"}, {"l": ["a", "\ud800"]}),
    ({"t": "text"}, {"t": "", "split": "\ud800"}), ({"\ud800": "text"}, None), ({"t": "\ud800"}, None), ({"t": "labels:\ud800"}, None)])  # fmt: skip
def test_a_text_that_has_no_bytes_is_refused(tmp_path, fields, values):
    with pytest.raises(dlpipe.MisuseError, match=r"\[writer\] .* it has a lone surrogate at [0-9]+, which UTF-8 can't encode: remove it"):
        writer = dlpipe.Writer(tmp_path / "d", fields=fields)
        try:
            writer.write(**values)
        finally:
            writer.abandon()
    with dlpipe.Writer(tmp_path / "e", fields={"t": "text"}) as writer:
        writer.write(t="a\udcff")  # as os.fsdecode makes it of a byte
    assert dlpipe.Dataset(tmp_path / "e")[0].t == "a\udcff"


def test_masks_move_with_their_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    numbers = [np.random.default_rng(i).integers(0, 9, (20, 30), np.uint8) for i in range(5)]
    palette = image.fromarray(numbers[2], "L").convert("P")
    palette.putdata(numbers[2].ravel().tolist())
    file = io.BytesIO()
    image.fromarray(numbers[3], "L").save(file, "PNG")
    forms = [numbers[0], numbers[1].astype(np.int64)[:, :, None], palette, file.getvalue(), None]
    with dlpipe.Writer(tmp_path / "d", fields={"image": "image", "mask": "mask"}) as writer:
        for i, mask in enumerate(forms):
            writer.write(image=pixels_of(i), mask=mask)
    samples = dlpipe.Dataset(tmp_path / "d")
    for i in range(4):
        np.testing.assert_array_equal(samples[i].mask, numbers[i])
    batch = next(iter(dlpipe.Loader(tmp_path / "d", augment="hflip(1)", batch=5, train=False, mask_fill=255, as_="numpy")))
    for i in range(4):
        np.testing.assert_array_equal(batch.mask[i], numbers[i][:, ::-1])
        np.testing.assert_array_equal(batch.image[i], pixels_of(i)[:, ::-1])
    assert (batch.mask[4] == 255).all()


@pytest.mark.parametrize("mask, words", [
    (np.zeros((20, 30, 3), np.uint8), r"field 'mask' is a mask of shape \(20, 30, 3\); give \[height, width\]"),
    (np.full((20, 30), 256), "holds int64 numbers that can't be classes; give uint8, 0 to 255"),
    (np.zeros((20, 30), np.float32), "holds float32 numbers that can't be classes"),
    (np.zeros((19, 30), np.uint8), "field 'mask'.*30x19"),
    (b"no image", "field 'mask'"),
    (b"", "a mask of no bytes; give None if the sample has no mask"),
])  # fmt: skip
def test_what_is_no_mask_is_named(tmp_path, mask, words):
    with pytest.raises(dlpipe.Error, match=words):
        with dlpipe.Writer(tmp_path / "d", fields={"image": "image", "mask": "mask"}) as writer:
            writer.write(image=pixels_of(1), mask=mask)


@pytest.mark.parametrize("classes, count", [("abc", 16), ("abc", 2), ("", 5)])
def test_a_zero_or_one_for_each_class_is_no_list_of_labels(tmp_path, classes, count):
    with pytest.raises(dlpipe.MisuseError, match="a 0 or 1 for each of 3 labels .* give fields= with 'tags': 'multi-hot', and classes="):
        with dlpipe.Writer(tmp_path / "d", fields={"image": "image", "tags": "labels"}, classes=list(classes)) as writer:
            for i in range(count):
                writer.write(image=pixels_of(i), tags=np.array([i % 2, 1, 0]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tags", [[[0, 1, 1], [1, 0]], [[0, 1, 1], [2, 0, 1]], [[0, 1], [1, 0]], [[0, 1, 1]]])
def test_lists_that_look_like_it_are_labels(tmp_path, tags):
    with dlpipe.Writer(tmp_path / "d", fields={"image": "image", "tags": "labels"}, classes=["a", "b", "c"][: len(tags[0]) + 1]) as writer:
        for one in tags:
            writer.write(image=pixels_of(1), tags=one)
    assert [list(sample.tags) for sample in dlpipe.Dataset(tmp_path / "d")] == tags


def test_a_mask_is_of_an_image(tmp_path):
    with pytest.raises(dlpipe.MisuseError, match="no field is an image"):
        dlpipe.Writer(tmp_path / "d", fields={"mask": "mask", "label": "label"})


@pytest.mark.parametrize("classes, words", [
    ("cat", r"classes is 'cat'; give a list of names, such as \['cat'\]"),
    (["a", "b", "a"], "two classes are called 'a'"),
    (["a", ""], "a class has an empty name"),
])  # fmt: skip
def test_classes_are_names_of_their_own(tmp_path, classes, words):
    with pytest.raises(dlpipe.MisuseError, match=words):
        dlpipe.Writer(tmp_path / "d", classes=classes)
    assert list(tmp_path.iterdir()) == []


def test_images_with_alpha_lie_over_the_background(tmp_path):
    pil = pytest.importorskip("PIL.Image")
    image = pil.fromarray(pixels_of(3, channels=4), "RGBA")
    for background, expected in ((None, pixels_of(3, channels=4)[:, :, :3]), ("white", None)):
        with dlpipe.Writer(tmp_path / f"{background}", **({"background": background} if background else {})) as writer:
            writer.write(image=image, label="a")
        got = np.asarray(dlpipe.Dataset(tmp_path / f"{background}")[0].image)
        if expected is None:
            white = pil.new("RGBA", image.size, "white")
            white.alpha_composite(image)
            assert np.abs(np.asarray(white.convert("RGB")).astype(int) - got).max() <= 1
        else:
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("make", [
    lambda d, options: dlpipe.Writer(d, **options),
    lambda d, options: dlpipe.ingest(d.parent / "none", d, **options),
    lambda d, options: dlpipe.from_dataset([{"image": pixels_of(1)}], d, **options),
])  # fmt: skip
def test_the_options_of_storing_are_the_same_everywhere(tmp_path, make):
    for options, kind, words in [
        ({"qualty": 3}, TypeError, "no option 'qualty'; did you mean 'quality'"),
        ({"zzz": 3}, TypeError, "no option 'zzz'; known: .*on_error, store"),
        ({"quality": "3"}, TypeError, "quality='3'; give an int"),
        ({"quality": 0}, dlpipe.MisuseError, "quality 0"),
        ({"trust": 1}, TypeError, "trust=1; give True or False"),
        ({"on_error": "stopp"}, dlpipe.MisuseError, "on_error stopp"),
        ({"map_size": "1 parsec"}, dlpipe.MisuseError, "map_size '1 parsec'; give bytes"),
    ]:
        with pytest.raises(kind, match=words):
            make(tmp_path / "d", options)
    assert list(tmp_path.iterdir()) == []
    for function in (dlpipe.Writer, dlpipe.ingest, dlpipe.from_dataset):
        for option in dlpipe.StoringOptions.__annotations__:
            assert re.search(rf"^ +(\w+, )*{option}[:,]", function.__doc__, re.M), option
