"""Converts images, boxes, key points and masks from Python code to the forms that the library reads."""

from __future__ import annotations

import collections.abc
import io
import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, Union

from dlpipe.arguments import regular_bytes
from dlpipe.errors import MisuseError

if TYPE_CHECKING:
    import numpy.typing as npt

    #: Bytes of a JPEG or PNG, or pixels: a uint8 array, a PIL.Image, a torch.Tensor. The EXIF orientation of files and
    #: PIL.Images is applied.
    ImageLike: TypeAlias = Union[bytes, bytearray, memoryview, npt.NDArray[Any], Any]


# ---- images and masks


def _refuse(*words):
    raise MisuseError("[image] " + "".join(words))


class Unreadable(str):
    """Takes the place of an image that can't be used: the reason. `on_error` decides what happens to the sample."""

    def __new__(cls, path, error, where="", advice=""):
        """`error`: the OSError; `where`: what named the path."""
        reason = error.strerror or error
        said = f"{where}{os.fsdecode(path)}: {reason}{advice}"
        return super().__new__(cls, said.encode(errors="backslashreplace").decode())

    @classmethod
    def because(cls, reason):
        """For another reason than an OSError."""
        return str.__new__(cls, reason)

    def __reduce__(self):
        return str.__new__, (Unreadable, str(self))


class Oversized(NamedTuple):
    """Takes the place of an image or a mask with more pixels than `max_pixels`. `on_error` decides what happens to the sample."""

    width: int
    height: int


def oversized(value, max_pixels):
    """An Oversized if an array, a tensor or a PIL.Image has more pixels, before anything reads or copies them; else None. The
    library looks at the sizes of files."""
    if isinstance(value, Oversized) or value is None:
        return value
    if hasattr(value, "getexif"):  # a PIL.Image, which has to read its file for the orientation
        size = value.size[::-1]
    else:
        size = None if isinstance(value, (bytes, bytearray, memoryview, str)) else size_of(value)
    return Oversized(size[1], size[0]) if size is not None and size[0] * size[1] > max_pixels else None


def read_image(path, where="", advice=""):
    """The bytes of a file, or an Unreadable."""
    try:
        return regular_bytes(path)
    except OSError as error:
        return Unreadable(path, error, where, advice)


def _pixels(array, what):
    """uint8 [height, width, 1 or 3]. If `what` is "a tensor", `array` is [channels, height, width]."""
    import numpy as np

    given = array.shape
    if what == "a tensor" and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.dtype != np.uint8:
        _refuse(f"the image is {what} of {array.dtype}; give uint8, 0 to 255, from before normalisation")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3) or 0 in array.shape:
        forms = "[1 or 3, height, width]" if what == "a tensor" else "[height, width, 1 or 3]"
        is_turned = what == "a tensor" and len(given) == 3 and given[2] in (1, 3)
        advice = "; image.permute(2, 0, 1) puts the channels first" if is_turned else ""
        _refuse(f"the image is {what} of shape {tuple(given)}; give [height, width] or {forms}{advice}")
    return np.ascontiguousarray(array)


_ORIENTATION = 0x0112  # EXIF's tag


def _upright(image):
    """The image as displayed, with its EXIF orientation applied."""
    if image.getexif().get(_ORIENTATION, 1) == 1:
        return image
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _of_pillow(image):
    import numpy as np

    image = _upright(image)
    if image.mode not in ("L", "RGB"):
        if image.mode[0] in "IF":
            _refuse(f"the image is a PIL.Image of mode {image.mode}, more than 8 bits; convert it to 'L' or 'RGB'")
        if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
            file = io.BytesIO()  # `background` applies to the alpha of files only
            image.save(file, "PNG", compress_level=1)
            return file.getvalue()
        image = image.convert("L" if image.mode == "1" else "RGB")
    return _pixels(np.asarray(image), "a PIL.Image")


def as_image(value):
    """Any ImageLike as a file's bytes, or as uint8 pixels [height, width, channels] as displayed."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, io.BytesIO):
        return value.getvalue()
    if isinstance(value, Unreadable):
        return value
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(value, pillow.Image):
        return _of_pillow(value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return _pixels(value.detach().cpu().numpy(), "a tensor")
    if hasattr(value, "__array__"):
        import numpy as np

        return _pixels(np.asarray(value), "an array")
    _refuse(f"the image is {type(value).__name__}; give bytes of a JPEG or PNG, a uint8 array [height, width, channels], a "
            "PIL.Image, or a torch.Tensor [channels, height, width]")


def size_of(value):
    """(height, width) of any ImageLike as displayed; None if unknown."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        try:
            from PIL import Image

            value = Image.open(io.BytesIO(value))
        except (ImportError, OSError):
            return None
    if hasattr(value, "getexif"):  # a PIL.Image; orientations from 5 on have width and height exchanged
        return value.size if value.getexif().get(_ORIENTATION, 1) >= 5 else value.size[::-1]
    shape = tuple(getattr(value, "shape", ()))
    of_torch = type(value).__module__.split(".")[0] in ("torch", "torchvision")
    return shape[-2:] if len(shape) == 2 or (of_torch and len(shape) == 3) else shape[:2] if len(shape) == 3 else None


def in_mode(data, mode):
    """A file's bytes if it has Pillow's `mode`, or if it can't be read (reported later); else its image in that mode."""
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data))
        return data if image.mode == mode else _upright(image).convert(mode)
    except OSError:
        return data


def mask(name, value):
    """A mask of class numbers, in any accepted form, as a PNG's bytes or as uint8 [height, width, 1]."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        if not len(value):
            _refuse(f"field {name!r} is a mask of no bytes; give None if the sample has no mask")
        return bytes(value)
    import numpy as np

    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(value, pillow.Image) and value.mode not in ("L", "P", "1"):
        _refuse(f"field {name!r} is a PIL.Image of mode {value.mode}; a mask has mode 'L', 'P' or '1'")
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
        value = value[0] if value.ndim == 3 and value.shape[0] == 1 else value
    array = np.asarray(value)
    numbers = array.astype(np.uint8) if array.dtype.kind in "bui" else array
    if array.dtype.kind not in "bui" or not np.array_equal(numbers, array):
        _refuse(f"field {name!r} holds {array.dtype} numbers that can't be classes; give uint8, 0 to 255")
    if array.ndim == 3 and 1 in (array.shape[0], array.shape[2]):
        numbers = numbers[:, :, 0] if array.shape[2] == 1 else numbers[0]
    if numbers.ndim != 2 or 0 in numbers.shape:
        _refuse(f"field {name!r} is a mask of shape {array.shape}; give [height, width]")
    return np.ascontiguousarray(numbers[:, :, None])


def is_of_torchvision(value):
    """Whether the value is one of torchvision's typed tensors: BoundingBoxes, KeyPoints, Mask."""
    return type(value).__module__.startswith("torchvision.tv_tensors")


# ---- boxes, key points and masks among values with no declared kind. Stored as plain numbers they would stay in place
# when an augmentation moves the image. So a value that is certainly one of them is refused, and the error suggests `fields`.


BOX_NAMES = ("bbox", "bboxes", "box", "boxes", "bounding_box", "bounding_boxes")
_POINT_NAMES = ("keypoint", "keypoints", "key_points", "kpts", "landmarks")
_MASK_NAMES = ("mask", "masks", "seg", "segm", "seg_mask", "seg_map", "segmentation", "segmentations", "segmentation_mask",
               "segmentation_map", "semantic_mask", "semantic_segmentation", "instance_mask", "instance_masks", "label_map",
               "trimap")  # fmt: skip
#: Names of masks per object, each [height, width]; also used for images with only one object.
_INSTANCE_NAMES = ("masks", "instance_mask", "instance_masks", "segmentations")
#: Names of values that each box has one of, whatever the number of boxes in a sample.
_CLASS_NAMES = ("label", "labels", "class", "classes", "category", "categories", "category_id", "category_ids", "class_labels")
_NUMBER_NAMES = ("area", "areas", "iscrowd", "is_crowd", "crowd", "difficult", "score", "scores")
#: torchvision's typed tensors.
_TENSORS = {"BoundingBoxes": "boxes", "KeyPoints": "points", "Mask": "mask"}
_WORDS = {"boxes": "boxes", "points": "key points", "mask": "a mask", "instances": "a mask of each object"}
_DTYPES = ("float16", "float32", "float64", "uint8", "int32", "int64", "f32", "f64", "i64")
_FILE_ENDINGS = ("npy", "npz", "pth", "pt", "pyd", "png", "json")


def _word(name):
    """The word in a name that describes the value: "mask" in "objects.mask" and in WebDataset's "mask.npy"."""
    words = [word for word in name.lower().split(".") if word not in _FILE_ENDINGS]
    return words[-1] if words else ""


def is_called_mask(name):
    """Whether the name is a usual name of masks."""
    return _word(name) in _MASK_NAMES


def kind_of_numbers(name, shape, dtype, size=None):
    """"boxes", "points" or "mask" if the numbers certainly are that, judged by their name, or for masks also by being whole
    numbers of the image's `size`, (height, width); else None."""
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
    """Whether an array has one value for each pixel of an image of this (height, width)."""
    if len(shape) == 3 and not is_of_several(shape):
        shape = shape[1:] if shape[0] == 1 else shape[:2]
    return size is not None and tuple(shape) == tuple(size)


def _numbers(value):
    """(shape, name of the dtype) of an array, a tensor, or a list of numbers; else None."""
    if isinstance(value, (list, tuple)):
        import numpy as np

        try:
            value = np.asarray(value)
        except ValueError:  # rows of different lengths
            return None
        if value.dtype.kind not in "biuf":
            return None
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        return None
    return tuple(value.shape), str(value.dtype).removeprefix("torch.")


def is_one_box(value):
    """Whether the value is a single box outside a list, as in datasets with one object per image."""
    numbers = _numbers(value)
    return numbers is not None and numbers[0] == (4,)


def _is_whole(dtype):
    return dtype.startswith(("int", "uint", "bool"))


def kind_of(name, value, size=None):
    """Like kind_of_numbers, for a value. `size`: (height, width) of the sample's image, if known."""
    if is_of_torchvision(value):
        return _TENSORS.get(type(value).__name__)
    if isinstance(value, bytes) or type(value).__module__.split(".")[0] == "PIL":
        return "mask" if is_called_mask(name) else None
    numbers = _numbers(value)
    if numbers is None:
        return None
    shape, dtype = numbers
    return kind_of_numbers(name, shape, dtype, size)


def holds_annotations(value):
    """Whether the value is a dict with boxes, points or masks, such as torchvision's detection targets."""
    return isinstance(value, collections.abc.Mapping) and any(kind_of(str(name), part) for name, part in value.items())


def annotation_within(value):
    """The key of boxes, points or masks anywhere in nested dicts and lists, such as VOC's "bndbox"; None if there are none."""
    if isinstance(value, collections.abc.Mapping):
        for key, part in value.items():
            is_called_so = _word(str(key)) in (*BOX_NAMES, *_POINT_NAMES, *_MASK_NAMES, "bndbox")
            if is_called_so and isinstance(part, (collections.abc.Mapping, list, tuple)) and len(part) > 0:
                return str(key)
    parts = value.values() if isinstance(value, collections.abc.Mapping) else value if isinstance(value, (list, tuple)) else ()
    return next((key for key in map(annotation_within, parts) if key is not None), None)


def _group(name):
    return name.rpartition(".")[0]


def _kind_of_each(boxes, name, value, count):
    """The kind of a field with one value for each of `count` boxes; None if the value is something else."""
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
    """The declaration of a field for this value. `boxes`: the name of the sample's boxes, or None."""
    numbers = _numbers(value)
    if kind == "boxes" and str(getattr(value, "format", "")).endswith("XYWH"):  # torchvision's
        return "boxes-xywh"
    if kind == "points" and numbers is not None and len(numbers[0]) == 3:
        return (f"points:{boxes}" if boxes is not None and _group(name) == _group(boxes) else "points", numbers[0][1])
    return kind


def _are_instances(name, value, boxes, count):
    """Whether masks are per object, [objects, height, width]. `boxes`, `count`: name and number of the sample's boxes."""
    numbers = _numbers(value)
    shape: tuple[int, ...] = () if numbers is None else numbers[0]
    if len(shape) != 3 or (shape[2] in (3, 4) and shape[0] > 4):  # colours
        return False
    of_boxes = boxes is not None and _group(name) == _group(boxes) and shape[0] == count
    return is_of_several(shape) or of_boxes or _word(name) in _INSTANCE_NAMES


def refuse_annotations(fields, meant, values=None):
    """Raises MisuseError. `fields`: all inferred fields. `meant`: {name: "boxes", "points" or "mask"} for those that were
    inferred as something else. `values`: a sample, if there is one."""
    values = {} if values is None else values
    boxes = [name for name, kind in {**fields, **meant}.items() if kind in ("boxes", "boxes-xywh")]
    the_boxes = boxes[0] if len(boxes) == 1 else None
    shape = _numbers(values[the_boxes]) if the_boxes in values else None
    count = shape[0][0] if shape is not None and len(shape[0]) == 2 else None
    instances = [name for name, kind in meant.items() if kind == "mask" and _are_instances(name, values.get(name), the_boxes, count)]
    meant = {**meant, **dict.fromkeys(instances, "instances")}
    wanted: dict[str, Any] = {}
    for name, kind in fields.items():
        if name in instances:  # no kind of field can hold them
            continue
        if name in meant:
            wanted[name] = _field(name, meant[name], values.get(name), the_boxes)
        else:
            is_linked = isinstance(kind, str) and ":" in kind
            each = _kind_of_each(the_boxes, name, values.get(name), count) if count is not None and not is_linked else None
            kind = kind if each is None else each
            wanted |= {} if kind is None else {name: kind}
    said = ", ".join(f"{name!r} holds {_WORDS[kind]}" for name, kind in meant.items())
    raise MisuseError(f"[from_dataset] {said}, which augmentations only transform with the image if fields= declares them; give "
                      f"dlpipe.from_dataset fields={wanted}{''.join(_hints(fields, meant, wanted, values))}")  # fmt: skip


def _hints(fields, meant, wanted, values):
    """Hints on the suggested fields, for the error message."""
    numbers = {name: found for name in meant if name in values and (found := _numbers(values[name])) is not None}
    sample = "sample=, a function from the dataset's item to a dict of values"
    if "boxes" in wanted.values():
        yield "; 'boxes' are x_min, y_min, x_max, y_max in pixels, 'boxes-xywh' x_min, y_min, width, height"
    if "points" in meant.values():
        is_short = any(meant[name] == "points" and shape[-1] == 2 for name, (shape, _) in numbers.items())
        yield "; points are x, y, visible (0 if unknown)" + (f": add the third number in {sample}" if is_short else "")
    for name, (shape, dtype) in numbers.items():
        if meant[name] == "mask" and not _is_whole(dtype):
            yield f"; a mask is a class number for each pixel, and {name!r} is {dtype} {list(shape)}: make it uint8 in {sample}"
        elif meant[name] == "instances":
            yield (f"; a field can't hold a mask for each object, and {name!r} is {list(shape)}: combine them in {sample}, "
                   "into one mask [height, width] with the class number of each pixel, or leave them out")
        elif meant[name] == "mask" and is_of_several(shape):
            yield f"; a mask is a class number for each pixel, [height, width], and {name!r} is {list(shape)}: make one in {sample}"
    plain = next((name for name in meant if meant[name] != "instances" and isinstance(fields.get(name), tuple)
                  and fields[name][0] in _DTYPES and 0 not in (fields[name][1] or ())), None)
    if plain is not None:
        dtype, shape = fields[plain]
        yield f"; to keep plain numbers, which augmentations don't change, use {plain!r}: {fields[plain]!r}"
        if shape is not None and len(shape) > 1:
            yield f" if all samples have this shape, else ({dtype!r}, None) and one list of numbers per sample, made in {sample}"
