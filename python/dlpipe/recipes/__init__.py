"""Converts transforms of torchvision, Albumentations and timm to expressions of dlpipe's ops: from live objects, from files that
Albumentations saved, and from Python programs, which are parsed but never run."""

from __future__ import annotations

import functools
import inspect
import logging
import types
from typing import TYPE_CHECKING, Any

from dlpipe import _dlpipe
from dlpipe.errors import CorruptError, MisuseError, UnsupportedError
from dlpipe.recipes.call import CONTAINERS, library_of

if TYPE_CHECKING:
    from dlpipe.recipes.convert import Conversion


def converted_text(text: str, recipe: str = "") -> list[Conversion]:
    """All recipes in a file's text, or only the one called `recipe`."""
    try:
        return _converted_text(text, recipe)
    except RecursionError:
        raise CorruptError("transforms are nested too deeply, or contain themselves") from None


def _converted_text(text, recipe):
    from dlpipe.recipes.convert import Conversion
    from dlpipe.recipes.sources import script_recipes
    from dlpipe.recipes.sources import saved_recipe

    saved = saved_recipe(text)
    if saved is not None:
        if recipe:
            raise MisuseError("the file holds one recipe, without a name; leave --recipe out")
        return [Conversion(_dlpipe.augment_size, saved[1]).run([saved[0]])]
    all_ = []
    for found in script_recipes(text, recipe):
        one = Conversion(_dlpipe.augment_size)
        one.name, one.line, one.notes = found.name, found.line, found.notes
        all_.append(one.run(found.value if isinstance(found.value, list) else [found.value]))
    return all_


def _converted(transform):
    from dlpipe.recipes.convert import Conversion
    from dlpipe.recipes.sources import albumentations_version, record

    return Conversion(_dlpipe.augment_size, albumentations_version()).run([record(transform)])


def convert_augment(transform: Any) -> str:
    """The expression for `augment=` that does the same as transforms of torchvision (v1 and v2), Albumentations or timm.

        dlpipe.convert_augment(T.Compose([T.Resize(256), T.CenterCrop(224)]))  # 'resize(256) center_crop(224x224)'

    Differences in behaviour are logged as warnings. ToTensor's values in [0, 1] become normalize(0,1), unless Normalize follows. The
    order of the axes is left out: with a string the loader's `layout` determines it.

    Args:
        transform: an object of one of these libraries, a list of such objects, or torch.nn.Sequential.

    Raises:
        dlpipe.UnsupportedError: dlpipe has no counterpart of some transforms. The message names them, and the expression
            without them.
    """
    one = _converted(transform)
    if one.no_equal:
        raise UnsupportedError(f"[convert-augment] can't convert {'; '.join(one.no_equal)}. The rest converts to {one.augment!r}")
    for note in one.notes_of_text():
        logging.getLogger("dlpipe").warning("[convert-augment] %s", note)
    return one.augment


def is_transform(value: Any) -> bool:
    """Whether the value is a transform of one of the libraries, or contains one. A composition of the caller's functions is not."""
    if isinstance(value, (list, tuple)):
        return any(map(is_transform, value))
    libraries = {library_of(kind) for kind in type(value).__mro__} - {""}
    if not libraries or type(value).__name__ == "Lambda":
        return False
    if library_of(type(value)) and type(value).__name__ in CONTAINERS - {"AugmentationSequential", "ImageSequential"}:
        parts = list(value.transforms if hasattr(value, "transforms") else value.children())
        return any(map(is_transform, parts)) or (not parts and libraries != {"torch"})  # Compose([]) is the empty chain
    return libraries != {"torch"}


class Chain(str):
    """An expression that was converted from transforms. `is_tensor`: they end with a tensor [C,H,W]. `channels`: the number of
    channels that they set, or 0. `scale`: the end of the expression that only sets the range of the values."""

    is_tensor = False
    channels = 0
    scale = ""

    def without_scale(self) -> str:
        return self.removesuffix(self.scale).rstrip()


def chain_of(option: str, value: Any) -> Any:
    """The expression of an option: a string, or a transform of another library that an expression reproduces exactly."""
    if isinstance(value, str):
        return value
    if not is_transform(value):
        raise MisuseError(f"{option} is {value!r}; give a string")
    one = _converted(value)
    if one.no_equal or one.notes:
        raise UnsupportedError(f"[augment] {option} is {_name(value)}, but no expression does exactly the same: "
                               f"{'; '.join(one.no_equal + one.notes)}. The nearest expression is {option}={one.augment!r}")  # fmt: skip
    chain = Chain(one.augment)
    chain.is_tensor, chain.channels, chain.scale = one.is_tensor, one.channels, one.scale
    return chain


def channels_of(context: str, channels: int, **chains: Any) -> int:
    """The option `channels`, or what converted transforms among the chains need if it is 0."""
    for name, chain in chains.items():
        needed = getattr(chain, "channels", 0)
        if needed and channels not in (0, needed):
            raise MisuseError(f"[{context}] the images of {name} have {needed} channel{'s' * (needed > 1)}, but channels is {channels}; "
                              "leave channels out")  # fmt: skip
        channels = needed or channels
    return channels


def _name(transform):
    if isinstance(transform, types.ModuleType):
        return transform.__name__
    if isinstance(transform, types.FunctionType):
        return f"{transform.__module__}.{transform.__name__}"
    if isinstance(transform, (list, tuple)):
        return "a list of transforms"
    return f"{library_of(type(transform)) or type(transform).__module__}'s {type(transform).__name__}"


def _is_functional(value):
    """Whether the value is a function of torchvision or Kornia for images [C,H,W], or a module of such functions."""
    name = {types.ModuleType: "__name__", types.FunctionType: "__module__"}.get(type(value))
    return name is not None and str(getattr(value, name)).startswith(("torchvision.transforms", "kornia"))


def _found(values):
    """The transforms and functions of these libraries among the values, also inside dicts."""
    parts = [part for one in values for part in (one.values() if isinstance(one, dict) and len(one) < 100 else [one])]
    return [one for one in parts if is_transform(one) or _is_functional(one)]


def _variables(function):
    """The values that a function's code refers to."""
    try:
        variables = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return []
    names = function.__code__.co_names
    values = [*variables.nonlocals.values(), *variables.globals.values()]
    of_owner = getattr(getattr(function, "__self__", None), "__dict__", {})
    values += [of_owner[name] for name in names if name in of_owner]
    # torchvision.transforms.functional.hflip refers to torchvision
    return [getattr(one, "transforms", one) if isinstance(one, types.ModuleType) and "transforms" in names else one for one in values]


def _within(function):
    """The transforms that a function or a callable object refers to."""
    if isinstance(function, functools.partial):
        return _found([*function.args, *function.keywords.values()]) + _within(function.func)
    if inspect.isroutine(function):
        return _found(_variables(function))
    kind = type(function)
    own = [value for name, value in getattr(function, "__dict__", {}).items() if name != "_modules"]
    inner = _found(function.modules())[:1] if hasattr(function, "modules") else []  # of torch.nn
    return inner + _found([*own, *_variables(kind.__call__), *_variables(getattr(kind, "forward", None))])


def refuse_as_batch_function(transform: Any, layout: str) -> None:
    """Refuses transforms of single images as dlpipe.Loader's `transform`, which gets batches: they would act on the wrong axes."""
    if is_transform(transform):
        one = _converted(transform)
        other = one.no_equal + one.notes
        channels = f", channels={one.channels}" if one.channels else ""
        advice = f"give augment={one.augment!r}{channels} instead, which draws for each image"
        if not one.augment:
            advice = "call it in your own function, on the axes that it expects" if other else "leave it out"
        raise MisuseError(f"[loader] transform is {_name(transform)}, which is for single images [C,H,W], but it would get whole batches: {advice}"
                          + (f". Differences: {'; '.join(other)}" if other else ""))  # fmt: skip
    for one in _within(transform) if transform is not None and layout == "NHWC" else []:
        chain = "" if _is_functional(one) else f"={_converted(one).augment!r}"
        logging.getLogger("dlpipe").warning(
            "[loader] transform refers to %s, which is for images [C,H,W] and draws once for the whole batch; batches are [N,H,W,C]. "
            "Give augment%s to draw for each image, or layout='NCHW' to change the axes", _name(one), chain)  # fmt: skip
