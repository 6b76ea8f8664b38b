"""Records of transforms (call.py) from live objects and from what Albumentations saves."""

from __future__ import annotations

import enum
import json
import math
import sys

from dlpipe.errors import CorruptError
from dlpipe.recipes.call import CONTAINERS, Call, library_of, parameters_of
from dlpipe.recipes.rules import RULES


def _plain(value):
    """An attribute as a value of a record."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dict):
        return {key.__name__ if isinstance(key, type) else key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "tolist"):  # NumPy's and torch's; of float32 the digits that it has
        listed = value.tolist()
        listed = listed if isinstance(listed, list) else [listed]
        listed = [float(f"{one:.7g}") if isinstance(one, float) and str(value.dtype).endswith("32") else one for one in listed]
        return listed if value.ndim else listed[0]
    if isinstance(value, (bool, int, float, str, type(None))):
        return value
    return record(value) if library_of(type(value)) else str(value)


def _attributes(one, names, others=()):
    others = dict(others)
    return {name: _plain(getattr(one, others.get(name, name))) for name in names if hasattr(one, others.get(name, name))}


def _of_albumentations(one):
    name = type(one).__name__
    if name in CONTAINERS:
        boxes = one.processors.get("bboxes") if name.endswith("Compose") and one.main_compose else None  # the outermost's
        kwargs = _attributes(one, ("p", "n", "replace"))
        if boxes is not None:
            kwargs["bbox_params"] = _attributes(boxes.params, ("min_visibility", "min_width", "min_height", "min_area",
                                                              "max_accept_ratio", "check_each_transform"))  # fmt: skip
        return Call("albumentations", name, kwargs={**kwargs, "transforms": records(one.transforms)})
    try:
        return saved(one.to_dict()["transform"])
    except Exception:  # it can't be saved, as Lambda
        return Call("albumentations", name)


def _of_timm(one):
    """What its functions make of a text has the text's numbers in every op."""
    name = type(one).__name__
    if name == "RandomErasing":
        kwargs = _attributes(one, ("probability", "min_area", "max_area", "mode", "max_count"))
        return Call("timm", name, kwargs={**kwargs, "min_aspect": math.exp(one.log_aspect_ratio[0]),
                                          "max_aspect": math.exp(one.log_aspect_ratio[1])})  # fmt: skip
    if name not in ("RandAugment", "AutoAugment", "AugMixAugment"):
        return Call("timm", name, kwargs=_attributes(one, parameters_of(RULES["timm"][name])[0]) if name in RULES["timm"] else {})
    op = one.policy[0][0] if name == "AutoAugment" else one.ops[0]
    if name == "RandAugment":
        config = f"rand-m{op.magnitude}-n{one.num_layers}-p{op.prob}"
    elif name == "AutoAugment":
        config = "3a" if len(one.policy) == 3 else "original"
    else:
        config = f"augmix-m{op.magnitude}-w{one.width}{f'-d{one.depth}' if one.depth > 0 else ''}-a{one.alpha}"
    return Call("timm", "rand_augment_transform", args=[config, {"img_mean": _plain(op.kwargs["fillcolor"])}])


def record(one):
    """Of a live object; of others a record with the name of whose it is."""
    kind = type(one)
    library, name = library_of(kind), kind.__name__
    if isinstance(one, (list, tuple)):
        return Call("torch", "Sequential", args=[records(one)])
    if library == "albumentations":
        return _of_albumentations(one)
    if library == "timm":
        return _of_timm(one)
    if library == "kornia" and (getattr(one, "random_apply", False) or (name != "Normalize" and getattr(one, "same_on_batch", False))):
        return Call(library, f"{name} with random_apply or same_on_batch")
    if library == "kornia" and name == "Normalize":
        return Call(library, name, kwargs={**_attributes(one, ("p",)), "mean": _plain(one.flags["mean"]), "std": _plain(one.flags["std"])})
    if name in RULES.get(library, {}):
        names = parameters_of(RULES[library][name])[0]
        kwargs = _attributes(one, names, {"sampler_options": "options"})
        if name in CONTAINERS:
            kwargs["transforms"] = records(one.transforms if hasattr(one, "transforms") else one.children())
        if name == "RandomErasing" and one.value is None:
            kwargs["value"] = "random"
        return Call(library, name, kwargs=kwargs)
    if library:
        return Call(library, name)
    whose = one if hasattr(one, "__qualname__") else kind
    shown = f"Function {one.__name__}" if whose is one else name if name[:1].isupper() else f"Object {name}"
    return Call("", shown, origin=f"{whose.__module__}.{whose.__qualname__}")


def records(all_):
    return [record(one) for one in all_]


def version_of(text):
    """(2, 0, 8) of "2.0.8"."""
    return tuple(int(part) for part in str(text).split(".")[:3] if part.isdigit())


def albumentations_version():
    """Of the library that live objects come from."""
    module = sys.modules.get("albumentations")
    return version_of(module.__version__) if module else None


def saved(tree):
    """Albumentations' tree of one transform."""
    path = tree.get("__class_fullname__") if isinstance(tree, dict) else None
    if not isinstance(path, str):
        raise CorruptError("a transform without its __class_fullname__")
    root, _, name = path.rpartition(".")
    kwargs = {key: value for key, value in tree.items() if key != "__class_fullname__"}
    if isinstance(kwargs.get("transforms"), list):
        kwargs["transforms"] = [saved(one) for one in kwargs["transforms"]]
    is_theirs = not root or root.split(".")[0] == "albumentations"
    return Call("albumentations" if is_theirs else "", name, kwargs=kwargs, origin=path)


def saved_recipe(text):
    """The record and the version of what albumentations.save wrote as JSON or YAML; None where the text is neither."""
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError) as error:
        tree = None
        if '"__class_fullname__"' in text:  # it was cut off, perhaps
            raise CorruptError(f"no JSON: {error}") from None
    if not isinstance(tree, dict):
        if "__class_fullname__: " not in text:
            return None
        tree = _yaml(text)
    if isinstance(tree.get("cells"), list):
        raise CorruptError("a notebook; make its program with `jupyter nbconvert --to script` and give that")
    if not isinstance(tree.get("transform"), dict):
        raise CorruptError("no 'transform' in it; save it with albumentations.save")
    return saved(tree["transform"]), version_of(tree.get("__version__", "2"))


def _yaml(text):
    try:
        import yaml
    except ImportError:
        raise CorruptError("YAML, which is read with PyYAML: python -m pip install pyyaml; or save it with "
                           "albumentations.save(..., data_format='json')") from None  # fmt: skip
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise CorruptError(f"no YAML: {' '.join(str(error).split())}") from None
    return tree if isinstance(tree, dict) else {}


