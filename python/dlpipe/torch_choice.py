"""Which way a compiled graph runs: on dlpipe's kernels or in eager, whichever is faster where it is called."""

import logging
import time
from typing import Any, Callable, List, Optional, Tuple

import torch
from torch.fx import GraphModule

_ROUNDS = 5
_SECONDS = 2.0  # no further round after so many
_LONG_SECONDS = 1.0
_is_said = False  # that choosing takes long


class Faster:
    """A graph. Its first call takes the time of both ways, each forward and, where gradients are wanted, backward, on copies of
    the inputs; the faster one is kept, so all numbers of a graph come from one of them."""

    def __init__(self, compiled: Callable[..., Any], module: GraphModule) -> None:
        self._compiled = compiled
        self._module = module
        self._chosen: Optional[Callable[..., Any]] = None

    def __call__(self, *inputs: Any) -> Any:
        if self._chosen is None:
            self._chosen = self._choose(inputs)
        return self._chosen(*inputs)

    def _choose(self, inputs: Tuple[Any, ...]) -> Callable[..., Any]:
        if not _can_be_copied(inputs) or _talks_to_ranks(self._module):
            return self._compiled
        eager_way = self._module.forward
        ways = (self._compiled, eager_way)
        begin = time.perf_counter()
        # What draws random numbers draws them as if nothing had been tried, and hooks of the user's (checkpoints outside of the graph
        # count what is saved) see nothing of it.
        with torch.random.fork_rng(devices=[]), torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
            for way in ways:  # which compiles, and measures single ops
                seconds(way, inputs)
                _say_if_long(time.perf_counter() - begin)
            best = [float("inf"), float("inf")]
            begin = time.perf_counter()
            for _ in range(_ROUNDS):
                best = [min(before, seconds(way, inputs)) for before, way in zip(best, ways)]
                if time.perf_counter() - begin > _SECONDS:
                    break
        ours, eager = best
        nodes = sum(node.op.startswith("call_") for node in self._module.graph.nodes)
        logging.getLogger("dlpipe").info(
            "[torch_compile] a graph of %d calls takes %.2f ms on dlpipe's kernels and %.2f ms in eager; it runs %s",
            nodes, ours * 1e3, eager * 1e3, "on dlpipe's" if ours <= eager else "in eager")  # fmt: skip
        return self._compiled if ours <= eager else eager_way


def _say_if_long(so_far: float) -> None:
    """Once in a process."""
    global _is_said
    if so_far < _LONG_SECONDS or _is_said:
        return
    _is_said = True
    logging.getLogger("dlpipe").warning(
        "[torch_compile] choosing dlpipe's kernels or eager, whichever is faster, at the first call of each compiled graph; "
        "options={'fallback': False} does without")  # fmt: skip


def _talks_to_ranks(module: GraphModule) -> bool:
    """Whether a call takes part in a collective: ranks choose each for themselves, and would exchange the copies that they try."""
    graphs = [part.graph for part in module.modules() if isinstance(part, GraphModule)]
    return any("c10d" in str(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function")


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _can_be_copied(inputs: Tuple[Any, ...]) -> bool:
    """Whether copies stand for the inputs: plain tensors of the CPU, none of which shares its memory with another."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    plain = all(type(each) in (torch.Tensor, torch.nn.Parameter) and each.layout is torch.strided for each in tensors)
    if not plain or any(each.device.type != "cpu" for each in tensors):
        return False
    memories = [each.untyped_storage().data_ptr() for each in tensors if each.numel() > 0]
    return len(set(memories)) == len(memories)


def _copy(value: Any, leaves: List[torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    if not value.requires_grad:
        return copy
    leaves.append(copy.requires_grad_())
    return copy if value.is_leaf else copy.clone()  # what is no leaf may be changed in place


def seconds(way: Callable[..., Any], inputs: Tuple[Any, ...]) -> float:
    """Of one call, with the gradients of all inputs that have some."""
    leaves: List[torch.Tensor] = []
    with torch.enable_grad():
        copies = [_copy(value, leaves) for value in inputs]
    begin = time.perf_counter()
    outputs = [each for each in way(*copies) if isinstance(each, torch.Tensor) and each.requires_grad]
    if outputs and leaves:
        torch.autograd.grad(outputs, leaves, [torch.ones_like(each) for each in outputs], allow_unused=True)
    return time.perf_counter() - begin
