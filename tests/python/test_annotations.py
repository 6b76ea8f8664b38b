"""dlpipe.from_dataset: boxes, points and masks beside images, which augmentations move."""

import ast
import json
import re
import shutil

import dlpipe
import numpy as np
import pytest
from conftest import run_program

WIDE = np.random.default_rng(1).integers(0, 256, (6, 10, 3), np.uint8)
CLASSES = np.arange(60).reshape(6, 10) % 3
TWO_BOXES = np.array([[1, 2, 3, 4], [0, 0, 9, 5]], np.float32)
TARGET = {"boxes": TWO_BOXES, "labels": np.array([1, 0]), "image_id": 5, "area": np.float32([4, 45]), "iscrowd": np.array([False, True])}
POINTS = np.float32([[1, 2, 1], [3, 4, 0], [5, 5, 1]])


def refused(tmp_path, samples):
    """The fields that the refusal of these samples says to give."""
    with pytest.raises(dlpipe.MisuseError, match="which augmentations only transform with the image") as caught:
        dlpipe.from_dataset(samples, tmp_path / "refused")
    assert list(tmp_path.iterdir()) == []
    return ast.literal_eval(re.search(r"give dlpipe.from_dataset fields=(\{.*?\})", str(caught.value))[1])


@pytest.mark.parametrize("sample, fields", [
    ((WIDE, CLASSES), {"image": "image", "label": "mask"}),
    ((WIDE, CLASSES[None].astype(bool)), {"image": "image", "label": "mask"}),
    ({"image": WIDE, "y": CLASSES[:, :, None].astype(np.int32)}, {"image": "image", "y": "mask"}),
    ({"mask": CLASSES.astype(np.uint8), "image": WIDE}, {"mask": "mask", "image": "image"}),
    ({"image": WIDE, "segmentation": CLASSES.tolist(), "label": 1}, {"image": "image", "segmentation": "mask", "label": "label"}),
    ({"image": WIDE, "boxes": TWO_BOXES, "labels": [2, 1]}, {"image": "image", "boxes": "boxes", "labels": "labels:boxes"}),
    ({"image": WIDE, "boxes": TWO_BOXES[:0]}, {"image": "image", "boxes": "boxes"}),
    ({"image": WIDE, "BBox": TWO_BOXES[0].astype(int), "label": 1}, {"image": "image", "BBox": "boxes", "label": "label"}),
    ({"image": WIDE, "keypoints": POINTS}, {"image": "image", "keypoints": "points"}),
    ({"image": WIDE, "bboxes": TWO_BOXES, "keypoints": np.stack([POINTS] * 2)},
     {"image": "image", "bboxes": "boxes", "keypoints": ("points:bboxes", 3)}),
    ((WIDE, TARGET), {"image": "image", "boxes": "boxes", "labels": "labels:boxes", "image_id": "i64", "area": "f32:boxes",
                      "iscrowd": "i64:boxes"}),
    ((WIDE, {"boxes": TWO_BOXES.tolist(), "labels": [1, 0]}), {"image": "image", "boxes": "boxes", "labels": "labels:boxes"}),
    ({"image": WIDE, "target": {"boxes": TWO_BOXES, "labels": [1, 0]}},
     {"image": "image", "target.boxes": "boxes", "target.labels": "labels:target.boxes"}),
])  # fmt: skip
def test_boxes_points_and_masks_are_refused_with_the_fields_that_move_them(tmp_path, sample, fields):
    assert refused(tmp_path, [sample]) == fields
    dlpipe.from_dataset([sample], tmp_path / "d", fields=fields)
    stored = dlpipe.Dataset(tmp_path / "d")[0]
    values = sample if isinstance(sample, dict) else {"image": WIDE, **(TARGET if isinstance(sample[1], dict) else {"label": sample[1]})}
    for name, kind in fields.items():
        value = values[name] if name in values else values["target"][name.removeprefix("target.")]
        assert stored[name].reshape(-1).tolist() == np.reshape(value, -1).tolist() if kind != "label" else stored[name] == value
    links = {f["name"]: f["kind"] for f in json.loads(run_program("inspect", tmp_path / "d", "--json"))["fields"]}
    moving = {"mask": "mask", "boxes": "boxes", "points": "points"}
    assert {n: k for n, k in links.items() if k in moving} == {
        n: moving[word] for n, k in fields.items() if (word := str(k[0] if isinstance(k, tuple) else k).split(":")[0]) in moving}  # fmt: skip


def test_key_points_without_visibility_and_masks_of_several_objects_want_a_function(tmp_path):
    with pytest.raises(dlpipe.MisuseError, match="visible .0 if unknown.: add the third number in sample="):
        dlpipe.from_dataset([{"image": WIDE, "keypoints": POINTS[:, :2]}], tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match=r"'masks' is \[2, 6, 10\]: combine them in sample="):
        dlpipe.from_dataset([{"image": WIDE, "masks": np.zeros((2, 6, 10), bool)}], tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match=r"'mask' is float32 \[6, 10\]: make it uint8 in sample="):
        dlpipe.from_dataset([{"image": WIDE, "mask": CLASSES.astype(np.float32)}], tmp_path / "d")
    with pytest.raises(dlpipe.MisuseError, match="'right' is a second image; .*'right': 'mask'"):
        dlpipe.from_dataset([{"left": WIDE, "right": WIDE}], tmp_path / "d")


@pytest.mark.parametrize("target, key", [
    ({"annotation": {"size": {"width": "10"}, "object": [{"name": "cat", "bndbox": {"xmin": "1", "ymin": "2"}}]}}, "bndbox"),
    ([{"bbox": [1, 2, 3, 4], "category_id": 1}], "bbox"),
])  # fmt: skip
def test_boxes_deep_in_an_annotation_want_a_function(tmp_path, target, key):
    with pytest.raises(dlpipe.MisuseError, match=f"'label' contains '{key}', .* give sample=.* dlpipe.ingest reads"):
        dlpipe.from_dataset([(WIDE, target)], tmp_path / "d")
    dlpipe.from_dataset([(WIDE, target)], tmp_path / "d", fields={"image": "image", "label": "text"})
    assert json.loads(dlpipe.Dataset(tmp_path / "d")[0].label) == target


@pytest.mark.parametrize("sample", [
    {"boxes": TWO_BOXES, "mask": CLASSES},  # no image that could be moved
    {"image": WIDE, "matrix": TWO_BOXES, "attention_mask": np.ones(7, int), "mask_ratio": 0.5, "depth": CLASSES.astype(np.float32)},
    {"image": WIDE, "meta": {"box": 3, "text": "x"}},
])  # fmt: skip
def test_what_may_be_something_else_is_stored(tmp_path, sample):
    dlpipe.from_dataset([sample], tmp_path / "d")
    assert dlpipe.Dataset(tmp_path / "d").fields == tuple(sample)


def test_boxes_can_stay_plain_numbers_where_fields_says_so(tmp_path):
    with pytest.raises(dlpipe.MisuseError, match=r"to keep plain numbers, .* use 'boxes': \('float32', \(2, 4\)\) if all samples "
                       r"have this shape, else \('float32', None\) and one list of numbers per sample, made in sample="):  # fmt: skip
        dlpipe.from_dataset([{"image": WIDE, "boxes": TWO_BOXES}], tmp_path / "d")
    dlpipe.from_dataset([{"image": WIDE, "boxes": TWO_BOXES}], tmp_path / "d", fields={"image": "image", "boxes": ("float32", (2, 4))})
    assert dlpipe.Dataset(tmp_path / "d")[0].boxes.tolist() == TWO_BOXES.tolist()
    dlpipe.from_dataset([{"image": WIDE, "boxes": TWO_BOXES[:n]} for n in (2, 0, 1)], tmp_path / "any", fields={"image": "image", "boxes": ("float32", None)},
                        sample=lambda one: {**one, "boxes": one["boxes"].ravel()})  # fmt: skip
    assert [one.boxes.tolist() for one in dlpipe.Dataset(tmp_path / "any")] == [TWO_BOXES[:n].ravel().tolist() for n in (2, 0, 1)]
    with pytest.raises(dlpipe.MisuseError, match=r"keep plain numbers, .* use 'box': \('float32', \(4,\)\)$"):
        dlpipe.from_dataset([{"image": WIDE, "box": TWO_BOXES[0]}], tmp_path / "e")
    with pytest.raises(dlpipe.MisuseError, match=r"'parts' has the shape \(1, 4\), the dataset's is \(2, 4\); give 'boxes' or"):
        dlpipe.from_dataset([{"parts": TWO_BOXES}, {"parts": TWO_BOXES[:1]}], tmp_path / "e")


def test_a_dict_that_is_no_json_is_told_by_name(tmp_path):
    with pytest.raises(dlpipe.MisuseError, match="'meta' is dict, which can't be stored as JSON: .* 'meta.part'"):
        dlpipe.from_dataset([{"image": WIDE, "meta": {"x": np.float32([1, 2])}}], tmp_path / "d")
    dlpipe.from_dataset([{"image": WIDE, "meta": {"x": np.float32([1, 2])}}], tmp_path / "d", fields={"image": "image", "meta.x": ("f32", 2)})
    assert dlpipe.Dataset(tmp_path / "d")[0].meta_x.tolist() == [1, 2]


def test_torchs_tensors_of_boxes_and_masks(tmp_path):
    torch = pytest.importorskip("torch")
    image = torch.from_numpy(WIDE).permute(2, 0, 1)
    assert refused(tmp_path, [(image, torch.from_numpy(CLASSES))]) == {"image": "image", "label": "mask"}
    target = {name: torch.as_tensor(value) for name, value in TARGET.items()}
    fields = refused(tmp_path, [(image, target)])
    assert fields == {"image": "image", "boxes": "boxes", "labels": "labels:boxes", "image_id": ("int64", (1,)), "area": "f32:boxes",
                      "iscrowd": "i64:boxes"}  # fmt: skip
    fewer = {name: value[:1] if value.ndim else value for name, value in target.items()}
    dlpipe.from_dataset([(image, target), (image, fewer)], tmp_path / "d", fields=fields)
    assert [s.boxes.tolist() for s in dlpipe.Dataset(tmp_path / "d")] == [TWO_BOXES.tolist(), TWO_BOXES[:1].tolist()]


def test_torchvisions_tensors_say_what_they_are(tmp_path):
    tensors = pytest.importorskip("torchvision.tv_tensors")
    sample = {"image": WIDE, "where": tensors.BoundingBoxes(TWO_BOXES, format="XYWH", canvas_size=(6, 10)), "what": tensors.Mask(CLASSES)}
    assert refused(tmp_path, [sample]) == {"image": "image", "where": "boxes-xywh", "what": "mask"}


@pytest.mark.parametrize("form, rows", [
    ("XYXY", [[1, 2, 4, 6], [0, 0, 2, 4]]),
    ("XYWH", [[1, 2, 3, 4], [0, 0, 2, 4]]),
    ("CXCYWH", [[2.5, 4, 3, 4], [1, 2, 2, 4]]),
])  # fmt: skip
def test_torchvisions_boxes_are_of_their_own_format(tmp_path, form, rows):
    tensors = pytest.importorskip("torchvision.tv_tensors")
    boxes = tensors.BoundingBoxes(rows, format=form, canvas_size=(6, 10))
    sample = {"image": WIDE, "boxes": boxes}
    for i, fields in enumerate([refused(tmp_path, [sample]), {"image": "image", "boxes": "boxes"}, {"image": "image", "boxes": "boxes-xywh"}]):
        (tmp_path / "made").mkdir(exist_ok=True)
        for workers in (0, 1):
            dlpipe.from_dataset([sample, {"image": WIDE, "boxes": boxes[:0]}], tmp_path / f"made/{i}{workers}", fields=fields, workers=workers)
            stored = dlpipe.Dataset(tmp_path / f"made/{i}{workers}")
            assert stored[0].boxes.tolist() == [[1, 2, 4, 6], [0, 0, 2, 4]] and stored[1].boxes.shape == (0, 4)
        shutil.rmtree(tmp_path / "made")


def test_torchvisions_boxes_of_another_image_are_refused(tmp_path):
    tensors = pytest.importorskip("torchvision.tv_tensors")
    fields = {"image": "image", "boxes": "boxes"}
    halved = tensors.BoundingBoxes([[1, 2, 3, 4]], format="XYXY", canvas_size=(3, 5))
    with pytest.raises(dlpipe.MisuseError, match=r"'boxes' has coordinates for an image of 3 x 5 \(canvas_size\), but 'image' is 6 x 10"):
        dlpipe.from_dataset([{"image": WIDE, "boxes": halved}], tmp_path / "d", fields=fields)
    turned = tensors.BoundingBoxes([[1.0, 2, 3, 4, 30]], format="XYWHR", canvas_size=(6, 10))
    with pytest.raises(dlpipe.MisuseError, match="'boxes' holds BoundingBoxes of the format XYWHR"):
        dlpipe.from_dataset([{"image": WIDE, "boxes": turned}], tmp_path / "d", fields=fields)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_masks_of_single_objects_are_named_at_the_first_sample_whatever_their_number(tmp_path, count):
    masks = np.zeros((count, 6, 10), np.uint8)
    target = {"boxes": np.float32([[1, 2, 3, 4]] * count).reshape(count, 4), "labels": [1] * count}
    for name in ("masks", "mask"):
        sample = (WIDE, {**target, name: masks})
        with pytest.raises(dlpipe.MisuseError, match=f"'{name}' holds a mask of each object") as caught:
            dlpipe.from_dataset([sample], tmp_path / "d")
        assert f"'{name}' is [{count}, 6, 10]: combine them in sample=" in str(caught.value)
        assert refused(tmp_path, [sample]) == {"image": "image", "boxes": "boxes", "labels": "labels:boxes"}
    with pytest.raises(dlpipe.MisuseError, match="'masks' holds a mask of each object"):
        dlpipe.from_dataset([{"image": WIDE, "masks": masks}], tmp_path / "d")
