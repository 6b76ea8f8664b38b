"""Boxes, key points and masks among values whose kinds nobody has said. Stored as plain numbers they would stay where they are
when an augmentation moves the picture, so what is certainly one of them is refused, with the `fields` that are meant."""

from __future__ import annotations

import collections.abc
from typing import Any

from dlpipe.errors import MisuseError
from dlpipe.fields import is_of_torchvision

BOX_NAMES = ("bbox", "bboxes", "box", "boxes", "bounding_box", "bounding_boxes")
_POINT_NAMES = ("keypoint", "keypoints", "key_points", "kpts", "landmarks")
_MASK_NAMES = ("mask", "masks", "seg", "segm", "seg_mask", "seg_map", "segmentation", "segmentations", "segmentation_mask",
               "segmentation_map", "semantic_mask", "semantic_segmentation", "instance_mask", "instance_masks", "label_map",
               "trimap")  # fmt: skip
#: Of masks of single objects, one [height, width] each, also where an image shows one object alone.
_INSTANCE_NAMES = ("masks", "instance_mask", "instance_masks", "segmentations")
#: Of what each box has one, whatever their number in one sample.
_CLASS_NAMES = ("label", "labels", "class", "classes", "category", "categories", "category_id", "category_ids", "class_labels")
_NUMBER_NAMES = ("area", "areas", "iscrowd", "is_crowd", "crowd", "difficult", "score", "scores")
#: torchvision's tensors that say what they are.
_TENSORS = {"BoundingBoxes": "boxes", "KeyPoints": "points", "Mask": "mask"}
_WORDS = {"boxes": "boxes", "points": "key points", "mask": "a mask", "instances": "a mask of each object"}
_DTYPES = ("float16", "float32", "float64", "uint8", "int32", "int64", "f32", "f64", "i64")
_FILE_ENDINGS = ("npy", "npz", "pth", "pt", "pyd", "png", "json")


def _word(name):
    """What a name calls the value: "mask" of "objects.mask", and of WebDataset's "mask.npy"."""
    words = [word for word in name.lower().split(".") if word not in _FILE_ENDINGS]
    return words[-1] if words else ""


def is_called_mask(name):
    """Whether masks are called so."""
    return _word(name) in _MASK_NAMES


def kind_of_numbers(name, shape, dtype, size=None):
    """Which of "boxes", "points" and "mask" numbers are for certain, by their name or as whole numbers of the picture's `size`,
    (height, width), or None."""
    word = _word(name)
    if word in BOX_NAMES and (shape == (0,) or (len(shape) in (1, 2) and shape[-1] == 4)):
        return "boxes"
    if word in _POINT_NAMES and len(shape) in (2, 3) and shape[-1] in (2, 3):
        return "points"
    is_mask = (word in _MASK_NAMES and len(shape) >= 2) or (_is_whole(dtype) and is_of_size(shape, size))
    return "mask" if is_mask else None


def is_of_several(shape):
    """Whether an array of masks has more than one, each [height, width]."""
    return len(shape) > 3 or (len(shape) == 3 and shape[0] != 1 and shape[2] != 1)


def is_of_size(shape, size):
    """Whether an array has one value for each pixel of a picture of this (height, width)."""
    if len(shape) == 3 and not is_of_several(shape):
        shape = shape[1:] if shape[0] == 1 else shape[:2]
    return size is not None and tuple(shape) == tuple(size)


def _numbers(value):
    """Shape and dtype's name of an array, a tensor, or a list of numbers; else None."""
    if isinstance(value, (list, tuple)):
        import numpy as np

        try:
            value = np.asarray(value)
        except ValueError:  # of several lengths
            return None
        if value.dtype.kind not in "biuf":
            return None
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return None
    return tuple(value.shape), str(value.dtype).removeprefix("torch.")


def is_one_box(value):
    """Whether it is a box without a list around it, as datasets of one object per picture have it."""
    numbers = _numbers(value)
    return numbers is not None and numbers[0] == (4,)


def _is_whole(dtype):
    return dtype.startswith(("int", "uint", "bool"))


def kind_of(name, value, size=None):
    """As kind_of_numbers, of a value; `size`: (height, width) of the picture beside it, where that is known."""
    if is_of_torchvision(value):
        return _TENSORS.get(type(value).__name__)
    if isinstance(value, bytes) or type(value).__module__.split(".")[0] == "PIL":
        return "mask" if is_called_mask(name) else None
    numbers = _numbers(value)
    if numbers is None:
        return None
    shape, dtype = numbers
    return kind_of_numbers(name, shape, dtype, size)


def are_in(value):
    """Whether it is a dict with some of them, such as the targets of torchvision's detection."""
    return isinstance(value, collections.abc.Mapping) and any(kind_of(str(name), part) for name, part in value.items())


def key_within(value):
    """The key of some of them anywhere in dicts and lists, such as VOC's "bndbox" in an annotation; None where there is none."""
    if isinstance(value, collections.abc.Mapping):
        for key, part in value.items():
            is_called_so = _word(str(key)) in (*BOX_NAMES, *_POINT_NAMES, *_MASK_NAMES, "bndbox")
            if is_called_so and isinstance(part, (collections.abc.Mapping, list, tuple)) and len(part) > 0:
                return str(key)
    parts = value.values() if isinstance(value, collections.abc.Mapping) else value if isinstance(value, (list, tuple)) else ()
    return next((key for key in map(key_within, parts) if key is not None), None)


def _group(name):
    return name.rpartition(".")[0]


def _kind_of_each(boxes, name, value, count):
    """The kind of what each of `count` boxes has one of; None: it is no such thing."""
    numbers = _numbers(value)
    length = numbers[0][0] if numbers is not None and numbers[0] else len(value) if isinstance(value, (list, tuple)) else None
    if length != count or _group(name) != _group(boxes):
        return None
    if _word(name) in _CLASS_NAMES:
        return f"labels:{boxes}"
    if numbers is None or (count == 1 and _word(name) not in _NUMBER_NAMES) or len(numbers[0]) != 1:
        return None
    return f"{'i64' if _is_whole(numbers[1]) else 'f64' if numbers[1] == 'float64' else 'f32'}:{boxes}"


def _field(name, kind, value, boxes):
    """The field that is meant by a value of this kind; `boxes`: the name of the boxes beside it, or None."""
    numbers = _numbers(value)
    if kind == "boxes" and str(getattr(value, "format", "")).endswith("XYWH"):  # torchvision's
        return "boxes-xywh"
    if kind == "points" and numbers is not None and len(numbers[0]) == 3:
        return (f"points:{boxes}" if boxes is not None and _group(name) == _group(boxes) else "points", numbers[0][1])
    return kind


def _are_instances(name, value, boxes, count):
    """Whether masks are those of single objects, [objects, height, width]; `boxes`, `count`: of the boxes in the sample."""
    numbers = _numbers(value)
    shape: tuple[int, ...] = () if numbers is None else numbers[0]
    if len(shape) != 3 or (shape[2] in (3, 4) and shape[0] > 4):  # colours
        return False
    of_boxes = boxes is not None and _group(name) == _group(boxes) and shape[0] == count
    return is_of_several(shape) or of_boxes or _word(name) in _INSTANCE_NAMES


def refuse(fields, meant, values=None):
    """Raises MisuseError. `fields`: all that are told; `meant`: {name: "boxes", "points" or "mask"} of those that aren't what they
    are told to be; `values`: a sample, where there is one."""
    values = {} if values is None else values
    boxes = [name for name, kind in {**fields, **meant}.items() if kind in ("boxes", "boxes-xywh")]
    the_boxes = boxes[0] if len(boxes) == 1 else None
    shape = _numbers(values[the_boxes]) if the_boxes in values else None
    count = shape[0][0] if shape is not None and len(shape[0]) == 2 else None
    instances = [name for name, kind in meant.items() if kind == "mask" and _are_instances(name, values.get(name), the_boxes, count)]
    meant = {**meant, **dict.fromkeys(instances, "instances")}
    wanted: dict[str, Any] = {}
    for name, kind in fields.items():
        if name in instances:  # no field holds them
            continue
        if name in meant:
            wanted[name] = _field(name, meant[name], values.get(name), the_boxes)
        else:
            is_linked = isinstance(kind, str) and ":" in kind
            each = _kind_of_each(the_boxes, name, values.get(name), count) if count is not None and not is_linked else None
            kind = kind if each is None else each
            wanted |= {} if kind is None else {name: kind}
    said = ", ".join(f"{name!r} holds {_WORDS[kind]}" for name, kind in meant.items())
    raise MisuseError(f"[from_dataset] {said}, which no augmentation moves with the picture unless fields says so; give "
                      f"dlpipe.from_dataset fields={wanted}{''.join(_hints(fields, meant, wanted, values))}")  # fmt: skip


def _hints(fields, meant, wanted, values):
    """What else there is to know about the fields that are given."""
    numbers = {name: found for name in meant if name in values and (found := _numbers(values[name])) is not None}
    sample = "sample=, a function from the dataset's item to a dict of values"
    if "boxes" in wanted.values():
        yield "; 'boxes' are x_min, y_min, x_max, y_max in pixels, 'boxes-xywh' x_min, y_min, width, height"
    if "points" in meant.values():
        is_short = any(meant[name] == "points" and shape[-1] == 2 for name, (shape, _) in numbers.items())
        yield "; points are x, y, visible (1 or 0)" + (f": add the third number in {sample}" if is_short else "")
    for name, (shape, dtype) in numbers.items():
        if meant[name] == "mask" and not _is_whole(dtype):
            yield f"; a mask is a class number for each pixel, and {name!r} is {dtype} {list(shape)}: make it uint8 in {sample}"
        elif meant[name] == "instances":
            yield (f"; no field holds a mask for each object, and {name!r} is {list(shape)}: make one in {sample}, [height, width] "
                   "with the class number of each pixel, or leave them out")
        elif meant[name] == "mask" and is_of_several(shape):
            yield f"; a mask is a class number for each pixel, [height, width], and {name!r} is {list(shape)}: make one in {sample}"
    plain = next((name for name in meant if meant[name] != "instances" and isinstance(fields.get(name), tuple)
                  and fields[name][0] in _DTYPES and 0 not in (fields[name][1] or ())), None)
    if plain is not None:
        yield f"; {plain!r}: {fields[plain]!r} there keeps plain numbers, which stay as they are"
