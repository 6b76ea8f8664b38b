"""The options of a loader: what they may be, and what to do in place of those that there aren't."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import inspect
import os
import re
import sys
import types
from collections.abc import Callable
from typing import TypeVar

from dlpipe import _dlpipe, recipes
from dlpipe.errors import MisuseError

#: Options of torch.utils.data.DataLoader and its samplers, and what to do in their place.
_PYTORCHS = {
    "batch_size": "it is called batch",
    "num_workers": "it is called threads",
    "sampler": "subset, shuffle, seed, rank and world choose the samples",
    "batch_sampler": "batch, subset, shuffle, seed, rank and world choose the samples",
    "collate_fn": "batches come as arrays; a function over each batch is transform",
    "prefetch_factor": "it is called slots",
    "persistent_workers": "threads live as long as the loader",
    "multiprocessing_context": "there are threads, no processes",
    "worker_init_fn": "there are threads, no processes, and seed draws everything",
    "generator": "seed draws everything",
    "pin_memory_device": "it is called device",
    "num_replicas": "it is called world",
    "dataset": "it is called data, and is the directory of a dataset: dlpipe.from_dataset(...) makes one",
    **dict.fromkeys(("path", "root", "directory", "folder"), "it is called data"),
    "split": "data is the directory of the split, such as 'data/train'; train=False takes 'val' of a folder of splits",
    **dict.fromkeys(("indices", "samples", "mask", "classes"), "it is called subset"),
    "transforms": "image augmentations are augment; a function over each batch is transform",
}

#: Packages by whose modules, functions and classes code is known to use one.
_PACKAGES = {"torch": "torch", "torchvision": "torch", "lightning": "torch", "pytorch_lightning": "torch",
             "jax": "jax", "flax": "jax", "optax": "jax", "numpy": "numpy"}  # fmt: skip


def _used_in(names):
    """Whose arrays the code uses that has these names."""
    found = set()
    for value in list(names.values()):
        kind = type(value)  # no attribute of a value that may be anything
        if issubclass(kind, types.ModuleType):
            found.add(value.__name__.split(".")[0])
        elif issubclass(kind, (type, types.FunctionType)):
            found.add(str(value.__module__).split(".")[0])
    return {_PACKAGES[name] for name in found & _PACKAGES.keys()}


def framework_of_caller():
    """Whose arrays the code uses that opens a loader: the nearest function on the stack, or its module, that has imported torch, jax
    or numpy. What other modules import counts only where there is none."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").split(".")[0] != __package__:
            in_function, in_module = _used_in(frame.f_locals), _used_in(frame.f_globals)
            used = in_function - {"numpy"} or in_module - {"numpy"} or in_function | in_module
            if used:
                return _the_one(used, "the code that opens the loader has imported")
        frame = frame.f_back
    return _the_one({"torch", "jax"} & sys.modules.keys() or {"numpy"}, "imported are")


def _the_one(used, said):
    if len(used) > 1:
        raise MisuseError(f"[loader] {said} torch and jax: say as_='torch' or as_='jax' for whose arrays batches are")
    return used.pop()


_Init = TypeVar("_Init", bound=Callable[..., None])


def advise_on_options(init: _Init) -> _Init:
    """For an option that there isn't, Python's own error says what to do, where the name is PyTorch's or nearly one of ours."""
    options = list(inspect.signature(init).parameters)[2:]

    @functools.wraps(init)
    def advised(self, *args, **given):
        for name in given:
            if name not in options and name != "data":
                similar = difflib.get_close_matches(name, options, 1, 0.75)
                advice = _PYTORCHS.get(name, f"did you mean {similar[0]}?" if similar else "help(dlpipe.Loader) lists all")
                raise TypeError(f"dlpipe.Loader has no option {name!r}: {advice}")
        init(self, *args, **given)

    return advised  # type: ignore[return-value]


def check_fields(fields):
    """Refuses what is no list of names."""
    if isinstance(fields, (str, bytes)) or (fields is not None and not fields):
        raise MisuseError(f"[loader] fields is {fields!r}; give a list of names, such as {[fields or 'image']!r}, or leave it out")
    names = [] if fields is None else list(fields)
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise MisuseError(f"[loader] fields names {twice[0]!r} twice")


def check_framework(as_):
    """Not first when a batch is taken."""
    if as_ in ("torch", "jax") and as_ not in sys.modules and importlib.util.find_spec(as_) is None:
        raise MisuseError(f"[loader] as_ is {as_!r}, and this Python has no {as_}; install it, or use 'numpy' or 'dlpack'")


def directory_bytes(data):
    try:
        return os.fsencode(data)
    except TypeError:
        raise MisuseError(f"[loader] data is {type(data).__name__}; give the directory of a dataset: dlpipe.ingest(...) makes "
                          "one of files, dlpipe.from_dataset(...) of PyTorch's, Hugging Face's and others' datasets") from None


def dtype_name(dtype):
    """"f32" of "float32", torch.float32 and NumPy's, too; what is none of these as it is."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    return {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint8": "u8"}.get(name, name)


def device_name(device):
    """"cuda:1" of that, and of torch.device("cuda:1")."""
    if isinstance(device, str):
        return device
    if (type(device).__module__, type(device).__name__) == ("torch", "device"):
        return str(device)
    raise MisuseError(f'[loader] device is {device!r}; give a text, such as "cpu"')


def check_transform(transform, layout):
    recipes.refuse_as_batch_function(transform, layout)
    if transform is not None and not callable(transform):
        raise MisuseError(f"[loader] transform is {transform!r}; give a function from a batch to what `for` gives")


def chosen_dtype(dtype, mean):
    """dtype_name of what is given; else what mean and std say, or "" for what the expression says."""
    if dtype is not None:
        return dtype_name(dtype)
    return "" if mean is None else "f32"


def check_on_bad(on_bad):
    if on_bad == "skip":  # as of ingest's on_error
        raise MisuseError("[loader] on_bad 'skip'; a batch keeps its size: use 'drop' (zeros, and weight 0), 'substitute' or 'stop'")


def _of_torchs_subset(data):
    """torch's Subset of a dlpipe.Dataset, as random_split makes it, as a part of that; anything else unchanged."""
    from dlpipe.dataset import Dataset

    if (type(data).__module__, type(data).__name__) != ("torch.utils.data.dataset", "Subset"):
        return data
    whole = _of_torchs_subset(data.dataset)
    return whole[[*map(int, data.indices)]] if isinstance(whole, Dataset) else data


def chosen_samples(data, subset, train):
    """The dataset's directory, and the numbers of the samples that `data` (a path, a Dataset or torch's Subset of one) and `subset`
    leave, as int64; None: all."""
    from dlpipe.dataset import Dataset

    data = _of_torchs_subset(data)
    if subset is not None and not isinstance(data, Dataset):
        data = Dataset(_dlpipe.loader_data(directory_bytes(data), train))
    if not isinstance(data, Dataset):
        return directory_bytes(data), None
    part = data if subset is None else data.choose(subset)
    if part._numbers == range(part._opened.size):
        return part.directory, None
    import numpy as np

    return part.directory, np.asarray(part._numbers, np.int64).tobytes()


def normalize_op(mean, std, dtype, augment):
    """The op that says so, for the end of the expression `augment`."""
    if mean is None and std is None:
        return ""
    if mean is None or std is None:
        raise MisuseError("[loader] mean and std belong together: give both or neither")
    if re.search(r"\bnormalize\b", augment):
        raise MisuseError("[loader] augment ends in normalize, and mean and std are given, too: leave one of them out")
    if dtype == "u8":
        raise MisuseError("[loader] mean and std normalise, and dtype 'u8' leaves pixels as they are; give dtype='f32', 'f16' or "
                          "'bf16'")  # fmt: skip
    for name, values in (("mean", mean), ("std", std)):
        if not hasattr(values, "__iter__"):
            raise MisuseError(f"[loader] {name} is {values!r}; give a number for each channel, such as [0.5, 0.5, 0.5]")
    texts = [":".join(map(repr, map(float, values))) for values in (mean, std)]
    return f" normalize(mean={texts[0]},std={texts[1]})"
