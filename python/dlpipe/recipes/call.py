"""Records of single transforms, from live objects, saved files or programs, and their arguments as parts of an expression."""

from __future__ import annotations

import functools
import inspect
import math


LIBRARIES = ("torchvision", "albumentations", "timm", "torch", "kornia")
#: Transforms that contain others.
CONTAINERS = {"Compose", "ReplayCompose", "Sequential", "ModuleList", "RandomApply", "OneOf", "OneOrOther", "RandomChoice", "SomeOf",
              "RandomOrder", "AugmentationSequential", "ImageSequential"}  # fmt: skip


def library_of(kind):
    """The library of a class, such as "torchvision"; "" if it is none that dlpipe knows."""
    root, _, rest = kind.__module__.partition(".")
    return root if root in LIBRARIES and (root != "torch" or rest.startswith("nn")) else ""


class NoEqual(Exception):
    """dlpipe has no counterpart of a transform or of one of its arguments."""


class Unread:
    """Takes the place of a value that is only known at run time: its source text, a string or a function that returns it."""

    def __init__(self, text, line=None, inner=(), path=""):
        self._text, self.line, self.inner, self.path = text, line, inner, path

    def __str__(self):
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text


class Call:
    """The record of one transform, independent of its library. For a class of no known library, `library` is "" and `origin` names
    where it comes from."""

    def __init__(self, library, name, args=(), kwargs=None, line=None, origin="", text=""):
        self.library, self.name, self.line, self.origin, self.text = library, name, line, origin, text
        self.args, self.kwargs = list(args), kwargs or {}

    def __str__(self):
        return str(self.text) or f"{self.name}(...)"


def last_word(value):
    """"bilinear" for InterpolationMode.BILINEAR."""
    return str(value).rpartition(".")[2].lower()


def number_text(value):
    if isinstance(value, str):
        return value  # a fraction that a rule has written: 3/4
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))


def range_text(low, high):
    return f"{number_text(low)}..{number_text(high)}"


def shown(value):
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {shown(one)}' for key, one in value.items())}}}"
    return str(value) if isinstance(value, (str, Unread, Call)) else repr(value)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def is_nothing(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return all(map(is_nothing, value))
    return value in (None, 0, "")


def same(value, usual):
    """Whether an argument equals the default `usual`. 0 equals (0, 0), and names are compared by their last word."""
    if isinstance(value, (list, tuple)):
        usual = usual if isinstance(usual, (list, tuple)) else [usual] * len(value)
        return len(value) == len(usual) and all(map(same, value, usual))
    if isinstance(value, dict):
        return all(same(one, usual.get(key) if isinstance(usual, dict) else usual) for key, one in value.items())
    if is_number(value) and is_number(usual):
        return value == usual
    return type(value) is type(usual) and value == usual or last_word(value) == last_word(usual)


#: Meanings of integers as interpolation=, and synonyms of the libraries.
_PILLOWS = {0: "nearest", 1: "lanczos", 2: "bilinear", 3: "bicubic", 4: "area"}
_OPENCVS = {0: "nearest", 1: "bilinear", 2: "bicubic", 3: "area", 4: "lanczos", 5: "bilinear", 6: "nearest"}
_FILTERS = {"nearest-exact": "nearest", "nearest_exact": "nearest", "linear": "bilinear", "linear_exact": "bilinear", "cubic": "bicubic",
            "lanczos4": "lanczos", "antialias": "lanczos", "box": "area"}  # fmt: skip


# Differences between images: means over eight photos of ImageNet, resized to half the size.
_OTHER_PIXELS = "{} picks other pixels than Pillow's, which dlpipe uses: images differ by 12 of 255 on average at half the size"
_SMOOTHED = "dlpipe smooths images when it shrinks them, as Pillow does; Albumentations does not: images differ by {} of 255 on average at half the size"
_OPENCVS_RESIZE = {
    "nearest": _OTHER_PIXELS.format("OpenCV's nearest"), "bilinear": _SMOOTHED.format(3), "bicubic": _SMOOTHED.format(4),
    "lanczos": _SMOOTHED.format(5),
    "area": "OpenCV's area counts parts of pixels; Pillow's, which dlpipe uses, does not: images differ by 2 of 255 on average at 3/7 of the size",
}  # fmt: skip


class Argument:
    """A transform's argument, by its parameter's name. It counts as used once a rule reads it; a value other than the default that no
    rule reads is noted as left out. In an f-string, {argument} is a number or a range, and {argument:size} calls size()."""

    def __init__(self, name, raw, default, bound):
        self.name, self.default, self.bound = name, default, bound
        self.given = raw is not None
        self._raw = raw if self.given else default
        self.is_used = False

    @property
    def raw(self):
        self.is_used = True
        return self._raw

    def __format__(self, kind):
        return getattr(self, kind or "range")()

    def cannot(self, expected="a number", value=None):
        value = self.raw if value is None else value
        is_word = expected == "a number" and isinstance(value, (str, Unread, Call))
        raise NoEqual(f"{self.name} is {shown(value)}, not {expected}{'; write its value' if is_word else ''}")

    def number(self, value=None):
        value = self.raw if value is None else value
        if isinstance(value, str) and not self.given:
            return value
        return value if is_number(value) else self.cannot(value=value)

    def numbers(self):
        return [self.number(one) for one in self.raw] if isinstance(self.raw, (list, tuple)) else [self.number()]

    def single(self):
        """One number, or two equal ones."""
        values = self.numbers()
        return values[0] if values and len(set(values)) == 1 else self.cannot("one number")

    def ends(self):
        """The two ends of a range; one number is both."""
        values = self.numbers()
        return (values * 2)[:2] if 1 <= len(values) <= 2 else self.cannot("one number or two")

    def range(self, scale=1, add=0):
        """A range such as "0.5..1.5", or one number. With `add`, one number x means add - x..add + x."""
        values = [one if scale == 1 and isinstance(one, str) else one * scale for one in self.numbers()]
        if not 1 <= len(values) <= 2:
            self.cannot("one number or two")
        if len(values) == 1:
            return number_text(values[0]) if add == 0 else range_text(add - values[0], add + values[0])
        return range_text(values[0] + add, values[1] + add) if add else range_text(*values)

    def one(self):
        return number_text(self.number())

    def size(self):
        values = self.numbers()
        if not self.given:
            raise NoEqual("its size is not given")
        return "x".join(map(number_text, values)) if 1 <= len(values) <= 2 else self.cannot("one number or two")

    def list(self):
        return ":".join(map(number_text, self.numbers()))

    def p(self):
        return "" if self.number() == 1 else f",p={number_text(self.number())}"

    def word(self):
        return last_word(self.raw)

    def filter_name(self):
        value = self.raw
        if isinstance(value, int):
            found = (_OPENCVS if self.bound.library == "albumentations" else _PILLOWS).get(value)
        else:
            word = last_word(value).removeprefix("inter_")
            found = _FILTERS.get(word, word)
        if found not in ("nearest", "bilinear", "bicubic", "area", "lanczos"):
            self.cannot("a filter of dlpipe's (nearest, bilinear, bicubic, area, lanczos)")
        return found

    def filter(self):
        """A resize's filter. dlpipe's filters are Pillow's."""
        name = self.filter_name()
        if self.bound.library == "albumentations" and not self._is_exact():
            self.bound.note(_OPENCVS_RESIZE[name])
        elif self.bound.library == "torchvision" and name == "nearest" and self.bound.conversion.is_tensor and not self._is_exact():
            self.bound.note(_OTHER_PIXELS.format("nearest of tensors"))
        return "" if name == "bilinear" else f",interpolation={name}"

    def _is_exact(self):
        """Whether the filter is "nearest-exact", which equals Pillow's nearest."""
        return self.raw == 6 or last_word(self.raw).endswith("exact")

    def warp(self):
        """A warp's filter: nearest or bilinear."""
        name = self.filter_name()
        if name not in ("nearest", "bilinear"):
            self.bound.note(f"{self.name}={name} is left out; dlpipe uses bilinear")
        return f",interpolation={'nearest' if name == 'nearest' else 'bilinear'}"

    def fill(self):
        value = self.raw
        if isinstance(value, dict):  # v2: a colour per kind of input
            value = value.get("Image", value.get("others", next(iter(value.values()), 0)))
        values = [self.number(one) for one in value] if isinstance(value, (list, tuple)) else [self.number(value or 0)]
        conversion = self.bound.conversion
        if not values or (not conversion.mean and values == [0] and not isinstance(value, (list, tuple))):
            return ""
        return ",fill=" + ":".join(map(number_text, conversion.pixels(values)))

    def border(self):
        """OpenCV's border mode."""
        word = {0: "constant", 4: "reflect_101"}.get(self.raw) if isinstance(self.raw, int) else last_word(self.raw)
        word = str(word).removeprefix("border_").replace("default", "reflect_101")
        if word not in ("constant", "reflect_101"):
            self.cannot("one of dlpipe's (constant, reflect_101)")
        return "" if word == "constant" else ",reflect"

    def outside(self):
        """A warp's border_mode. dlpipe fills with one colour."""
        if self.border():
            self.bound.note("dlpipe fills the outside with one colour; the library mirrors the image")
        return ""

    def widths(self):
        """A blur's range of widths. In Albumentations a single number is the largest."""
        values = self.numbers()
        return range_text(3, values[0]) if len(values) == 1 and values[0] > 3 else self.range()


@functools.lru_cache(maxsize=None)
def parameters_of(rule):
    """The parameters of a rule, except the call itself: names with defaults, and how many are positional."""
    all_ = [one for one in inspect.signature(rule).parameters.values() if one.name != "t" and one.kind is not one.VAR_KEYWORD]
    return {one.name: one.default for one in all_}, sum(one.kind is one.POSITIONAL_OR_KEYWORD for one in all_)


#: Arguments without effect on pixels, or about how the library works.
IDLE = {"inplace", "always_apply", "mask_interpolation", "fill_mask", "mask_fill", "mask_value", "mask_fill_value", "mask_fill_values",
        "cval_mask", "rotate_method", "keypoint_remapping_method", "transpose_mask", "seed", "strict", "is_check_shapes", "is_check_args",
        "additional_targets", "keypoint_params", "save_key", "save_applied_params", "labels_getter", "device", "num_splits",
        "metadata_key"}  # fmt: skip
#: Arguments' names in older releases.
OLDER = {"albumentations": {"fill_value": "fill", "value": "fill", "cval": "fill"},
         "torchvision": {"resample": "interpolation", "fillcolor": "fill"}}  # fmt: skip


def fits(call, rule):
    """Whether a rule accepts these arguments. Decides which library a transform belongs to if only its name is known."""
    names, places = parameters_of(rule)
    return len(call.args) <= places and all(key in names or key in IDLE for key in call.kwargs)


class Bound:
    """Binds a call's arguments to its rule, which sees each as an Argument."""

    def __init__(self, call, rule, conversion):
        self.call, self.rule, self.conversion = call, rule, conversion
        self.name, self.library = call.name, call.library
        names, places = parameters_of(rule)
        older = OLDER.get(call.library, {})
        given = dict(zip(names, call.args[:places]))
        given |= {key if key in names else older.get(key, key): value for key, value in call.kwargs.items()}
        if call.library == "albumentations" and call.kwargs.get("always_apply") is True and "p" in names:
            given["p"] = 1
        self.arguments = {name: Argument(name, given.pop(name, None), default, self) for name, default in names.items()}
        self.unknown = given
        self.too_many = list(enumerate(call.args))[places:]

    def note(self, text):
        self.conversion.notes.append(f"{self.name}: {text}")

    def apply(self):
        """The expression. Arguments that it can't express are noted."""
        for name, argument in self.arguments.items():
            if argument.default is inspect.Parameter.empty and not argument.given:
                raise NoEqual("its size is not given" if name in ("size", "height", "width", "max_size") else f"{name} is not given")
        takes_call = "t" in inspect.signature(self.rule).parameters
        made = self.rule(*([self] if takes_call else []), **self.arguments)
        for name, one in self.arguments.items():
            if one.given and not one.is_used and one.default is not ... and not same(one.raw, one.default):
                self.note(f"{name}={shown(one.raw)} is left out")
        for name, value in self.unknown.items():
            if name not in IDLE and not is_nothing(value):
                self.note(f"{name}={shown(value)} is left out")
        for place, value in self.too_many:
            if not is_nothing(value):
                self.note(f"its argument {place + 1}, {shown(value)}, is left out")
        return made

