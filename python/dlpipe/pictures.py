"""Pictures that Python code has, as the library takes them."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from dlpipe.errors import MisuseError
from dlpipe.paths import regular_bytes

if TYPE_CHECKING:
    import numpy.typing as npt

    #: Bytes of a JPEG or PNG, or pixels: a uint8 array, a PIL.Image, a torch.Tensor. Files and PIL.Images are turned as their
    #: EXIF orientation says.
    Picture: TypeAlias = Union[bytes, bytearray, memoryview, npt.NDArray[Any], Any]


def _refuse(*words):
    raise MisuseError("[picture] " + "".join(words))


class Unreadable(str):
    """In the place of an image: why its file can't be read. `on_error` says what is done about the sample."""

    def __new__(cls, path, error, where="", advice=""):
        """`error`: the OSError; `where`: what named the path."""
        reason = error.strerror or error
        said = f"{where}{os.fsdecode(path)}: {reason}{advice}"
        return super().__new__(cls, said.encode(errors="backslashreplace").decode())

    def __reduce__(self):
        return str.__new__, (Unreadable, str(self))


def read_image(path, where="", advice=""):
    """The bytes of a file, or an Unreadable."""
    try:
        return regular_bytes(path)
    except OSError as error:
        return Unreadable(path, error, where, advice)


def _pixels(array, what):
    """uint8 [height, width, 1 or 3]; of "a tensor" [channels, height, width]."""
    import numpy as np

    given = array.shape
    if what == "a tensor" and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.dtype != np.uint8:
        _refuse(f"the image is {what} of {array.dtype}; give uint8, 0 to 255, as it was before it was normalised")
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3) or 0 in array.shape:
        forms = "[1 or 3, height, width]" if what == "a tensor" else "[height, width, 1 or 3]"
        is_turned = what == "a tensor" and len(given) == 3 and given[2] in (1, 3)
        advice = "; image.permute(2, 0, 1) has the channels first" if is_turned else ""
        _refuse(f"the image is {what} of shape {tuple(given)}; give [height, width] or {forms}{advice}")
    return np.ascontiguousarray(array)


def _upright(image):
    """As it is seen: a file's pixels are turned as its EXIF orientation says, and so are those of an opened picture."""
    orientation = 0x0112
    if image.getexif().get(orientation, 1) == 1:
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
            file = io.BytesIO()  # what `background` says about alpha is said of files
            image.save(file, "PNG", compress_level=1)
            return file.getvalue()
        image = image.convert("L" if image.mode == "1" else "RGB")
    return _pixels(np.asarray(image), "a PIL.Image")


def picture(value):
    """A picture in one of its forms as a file's bytes or as pixels uint8 [height, width, channels], turned as it is seen."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
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
    """(height, width) of a picture in one of its forms, as it is seen; None where that can't be told."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        try:
            from PIL import Image

            value = Image.open(io.BytesIO(value))
        except (ImportError, OSError):
            return None
    if hasattr(value, "getexif"):  # a PIL.Image
        return _upright(value).size[::-1]
    shape = tuple(getattr(value, "shape", ()))
    of_torch = type(value).__module__.split(".")[0] in ("torch", "torchvision")
    return shape[-2:] if len(shape) == 2 or (of_torch and len(shape) == 3) else shape[:2] if len(shape) == 3 else None


def in_mode(data, mode):
    """A file's bytes where it has Pillow's `mode`, or can't be read, which is said later; else its picture in that mode."""
    from PIL import Image

    try:
        image = Image.open(io.BytesIO(data))
        return data if image.mode == mode else _upright(image).convert(mode)
    except OSError:
        return data


def mask(name, value):
    """Class numbers in one of their forms as a PNG's bytes or as uint8 [height, width, 1]."""
    if isinstance(value, (bytes, bytearray, memoryview)):
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
        _refuse(f"field {name!r} holds {array.dtype} numbers that are no classes; give uint8, 0 to 255")
    if array.ndim == 3 and 1 in (array.shape[0], array.shape[2]):
        numbers = numbers[:, :, 0] if array.shape[2] == 1 else numbers[0]
    if numbers.ndim != 2 or 0 in numbers.shape:
        _refuse(f"field {name!r} is a mask of shape {array.shape}; give [height, width]")
    return np.ascontiguousarray(numbers[:, :, None])
