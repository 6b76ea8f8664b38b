"""Checks of the loader's options, and the rank of this process."""

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
from dlpipe.arguments import encoded
from dlpipe.errors import MisuseError


# ---- options


#: Options of torch.utils.data.DataLoader and its samplers, and what to use instead.
_PYTORCHS = {
    "batch_size": "it is called batch",
    "num_workers": "it is called threads",
    "batch_sampler": "batch, subset, shuffle, seed, rank and world choose the samples",
    "collate_fn": "batches are arrays already; for a function over each batch use transform",
    "prefetch_factor": "it is called slots",
    "persistent_workers": "threads live as long as the loader",
    "multiprocessing_context": "the loader uses threads, not processes",
    "worker_init_fn": "the loader uses threads, not processes; all random numbers come from seed",
    "generator": "all random numbers come from seed",
    "pin_memory_device": "it is called device",
    "num_replicas": "it is called world",
    "dataset": "it is called data, the directory of a dataset; dlpipe.from_dataset(...) creates one",
    **dict.fromkeys(("path", "root", "directory", "folder"), "it is called data"),
    "split": "data is the directory of the split, such as 'data/train'; train=False uses 'val' of a folder of splits",
    **dict.fromkeys(("indices", "samples", "mask", "classes"), "it is called subset"),
    "transforms": "for image augmentations use augment; for a function over each batch use transform",
}

#: Code that imports modules, functions or classes of these packages uses the framework on the right.
_PACKAGES = {"torch": "torch", "torchvision": "torch", "lightning": "torch", "pytorch_lightning": "torch",
             "jax": "jax", "flax": "jax", "optax": "jax", "numpy": "numpy"}  # fmt: skip


def _used_in(names):
    """The frameworks that code with these names in scope uses."""
    found = set()
    for value in list(names.values()):
        kind = type(value)  # don't touch attributes: the value may be anything
        if issubclass(kind, types.ModuleType):
            found.add(value.__name__.split(".")[0])
        elif issubclass(kind, (type, types.FunctionType)):
            found.add(str(value.__module__).split(".")[0])
    return {_PACKAGES[name] for name in found & _PACKAGES.keys()}


def framework_of_caller():
    """The framework that the code opening a loader uses: what the nearest function on the stack, or its module, has imported of
    torch, jax and numpy. If none has, all imported modules count."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").split(".")[0] != __package__:
            in_function, in_module = _used_in(frame.f_locals), _used_in(frame.f_globals)
            used = in_function - {"numpy"} or in_module - {"numpy"} or in_function | in_module
            if used:
                return _the_one(used, "the code that opens the loader has imported")
        frame = frame.f_back
    return _the_one({"torch", "jax"} & sys.modules.keys() or {"numpy"}, "the program has imported")


def _the_one(used, said):
    if len(used) > 1:
        raise MisuseError(f"[loader] {said} both torch and jax; choose the type of the arrays with as_='torch' or as_='jax'")
    return used.pop()


_Init = TypeVar("_Init", bound=Callable[..., None])


def advise_on_options(init: _Init) -> _Init:
    """A decorator that adds advice to Python's error about an unknown option: the name of PyTorch's option here, or the nearest."""
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
    """Refuses anything but a list of names."""
    if isinstance(fields, (str, bytes)) or (fields is not None and not fields):
        raise MisuseError(f"[loader] fields is {fields!r}; give a list of names, such as {[fields or 'image']!r}, or leave it out")
    names = [] if fields is None else list(fields)
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise MisuseError(f"[loader] fields names {twice[0]!r} twice")


def check_framework(as_):
    """Refuses a missing framework now, not at the first batch."""
    if as_ in ("torch", "jax") and as_ not in sys.modules and importlib.util.find_spec(as_) is None:
        raise MisuseError(f"[loader] as_ is {as_!r}, but {as_} is not installed; install it, or use 'numpy' or 'dlpack'")


def directory_bytes(data):
    try:
        if isinstance(path := os.fspath(data), str):
            encoded("[loader] data", path)
        return os.fsencode(path)
    except TypeError:
        raise MisuseError(f"[loader] data is {type(data).__name__}; give the directory of a dataset. dlpipe.ingest(...) creates one "
                          "from files, dlpipe.from_dataset(...) from datasets of PyTorch, Hugging Face and others") from None


def dtype_name(dtype):
    """"f32" for "float32", torch.float32 and NumPy's dtype; anything else unchanged."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", str(dtype))
    name = name.removeprefix("torch.")
    encoded("[loader] dtype", name)
    return {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "uint8": "u8"}.get(name, name)


def device_name(device):
    """"cuda:1" for "cuda:1" and for torch.device("cuda:1")."""
    if isinstance(device, str):
        encoded("[loader] device", device)
        return device
    if (type(device).__module__, type(device).__name__) == ("torch", "device"):
        return str(device)
    raise MisuseError(f'[loader] device is {device!r}; give a string, such as "cpu"')


def check_transform(transform, layout):
    recipes.refuse_as_batch_function(transform, layout)
    if transform is not None and not callable(transform):
        raise MisuseError(f"[loader] transform is {transform!r}; give a function that takes a batch and returns what `for` yields")


def chosen_dtype(dtype, mean):
    """dtype_name(dtype) if it is given; else "f32" if there is a mean, or "" to let the expression decide."""
    if dtype is not None:
        return dtype_name(dtype)
    return "" if mean is None else "f32"


def check_on_bad(on_bad):
    if on_bad == "skip":  # a value of ingest's on_error
        raise MisuseError("[loader] on_bad is 'skip', but batches have a fixed size; use 'drop' (zeros, and weight 0), 'substitute' or 'stop'")


def _of_torchs_subset(data):
    """torch's Subset of a dlpipe.Dataset (as random_split returns it) as a part of that Dataset; anything else unchanged."""
    from dlpipe.dataset import Dataset

    if (type(data).__module__, type(data).__name__) != ("torch.utils.data.dataset", "Subset"):
        return data
    whole = _of_torchs_subset(data.dataset)
    return whole[[*map(int, data.indices)]] if isinstance(whole, Dataset) else data


def chosen_samples(data, subset, train):
    """The dataset's directory, and the numbers of the samples that `data` (a path, a Dataset or torch's Subset of one) and `subset`
    select, as bytes of int64; None: all."""
    from dlpipe.dataset import Dataset, check_unchanged

    data = _of_torchs_subset(data)
    if subset is not None and not isinstance(data, Dataset):
        data = Dataset(_dlpipe.loader_data(directory_bytes(data), train))
    if not isinstance(data, Dataset):
        return directory_bytes(data), None
    part = data if subset is None else data.choose(subset)
    check_unchanged("loader", part.directory, Dataset(part.directory).id, part.id)
    if part._numbers == range(part._opened.size):
        return part.directory, None
    import numpy as np

    return part.directory, np.asarray(part._numbers, np.int64).tobytes()


def normalize_op(mean, std, dtype, augment):
    """The normalize op for `mean` and `std`, to append to the expression `augment`; "" if they are not given."""
    if mean is None and std is None:
        return ""
    if mean is None or std is None:
        raise MisuseError("[loader] mean and std belong together: give both or neither")
    if re.search(r"\bnormalize\b", augment):
        raise MisuseError("[loader] augment ends in normalize, but mean and std are given, too; leave one of them out")
    if dtype == "u8":
        raise MisuseError("[loader] mean and std normalise, but dtype 'u8' leaves pixels unchanged; give dtype='f32', 'f16' or "
                          "'bf16'")  # fmt: skip
    for name, values in (("mean", mean), ("std", std)):
        if not hasattr(values, "__iter__"):
            raise MisuseError(f"[loader] {name} is {values!r}; give a number for each channel, such as [0.5, 0.5, 0.5]")
    texts = [":".join(map(repr, map(float, values))) for values in (mean, std)]
    return f" normalize(mean={texts[0]},std={texts[1]})"


# ---- the rank of this process


def _from_torch():
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return None


def _from_jax():
    state = getattr(getattr(sys.modules.get("jax"), "distributed", None), "is_initialized", None)
    if state is not None and state():
        jax = sys.modules["jax"]
        return jax.process_index(), jax.process_count()
    return None


def _number(name):
    try:
        return int(os.environ[name])
    except ValueError:
        raise MisuseError(f"[loader] the environment's {name} is {os.environ[name]!r}, not a number; "
                          "give rank and world") from None


def _from_environment():
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return _number("RANK"), _number("WORLD_SIZE")
    return None


def rank_of_group():
    """(rank, world) of torch.distributed or JAX; None if there is no group of processes, or not yet."""
    return _from_torch() or _from_jax()


def find_rank(rank, world):
    """(rank, world): as given, or else those of torch.distributed, JAX or torchrun's environment, or (0, 1)."""
    if rank is None and world is None:
        return rank_of_group() or _from_environment() or (0, 1)
    if rank is None or world is None:
        raise MisuseError("[loader] rank and world belong together: give both or neither")
    return rank, world


def batch_of_rank(batch, global_batch, world):
    """Samples of a batch on one rank."""
    if global_batch is None:
        return 64 if batch is None else batch
    if batch is not None:
        raise MisuseError(f"[loader] batch {batch} and global_batch {global_batch} are both given; give one of them")
    if world > 0 and global_batch % world != 0:
        raise MisuseError(f"[loader] global_batch {global_batch} can't be divided evenly among {world} ranks; give a "
                          f"multiple of {world}")  # fmt: skip
    return global_batch // world if world > 0 else global_batch
