"""Which of several processes this is."""

import os
import sys

from dlpipe.errors import MisuseError


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
        raise MisuseError(f"[loader] the environment's {name} is {os.environ[name]!r}, no number; "
                          "give rank and world") from None


def _from_environment():
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return _number("RANK"), _number("WORLD_SIZE")
    return None


def rank_of_group():
    """(rank, world) that torch.distributed or JAX says; None where there is no group of processes, or not yet."""
    return _from_torch() or _from_jax()


def find_rank(rank, world):
    """(rank, world): what is given, or else what torch.distributed, JAX or torchrun's environment says, or (0, 1)."""
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
        raise MisuseError(f"[loader] batch {batch} and global_batch {global_batch} say the same thing: give one of them")
    if world > 0 and global_batch % world != 0:
        raise MisuseError(f"[loader] global_batch {global_batch} can't be shared out among {world} ranks evenly; give a "
                          f"multiple of {world}")  # fmt: skip
    return global_batch // world if world > 0 else global_batch
