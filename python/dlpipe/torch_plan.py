"""A graph of ATen's ops as a list of steps, each run by a kernel of dlpipe or, where there is none, by PyTorch.

Values die after the step that reads them last. Of the ops in `torch_kernels.MEASURED` the faster of both is taken: the first
time that an op meets a shape, both run three times. DLPIPE_KERNELS=rules takes dlpipe's everywhere, so that runs on different
machines and days have the same kernels.
"""

import operator
import os
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from dlpipe import torch_kernels
from dlpipe._dlpipe import KernelTensor, use_kernel_threads
from dlpipe.torch_fusion import FUSED, fuse
from dlpipe.torch_kernels import KERNELS, MEASURED, as_torch

aten = torch.ops.aten
FxNode = Any  # a Node: what its arguments are, types don't know
# (op, arguments' forms, threads): whether dlpipe's kernel is the faster one. Of the process.
_choices: Dict[Any, bool] = {}


class Plan:
    """Callable with the graph's inputs as a list, which it empties. `public_outputs`: how many of the outputs, from the first
    on, others than the backward graph see; None: all."""

    def __init__(self, module: GraphModule, public_outputs: Optional[int]) -> None:
        self._module = module
        fuse(module.graph)
        self._left_to_torch = _pools_of_public_indices(module, public_outputs)
        nodes = list(module.graph.nodes)
        self._inputs = [(node, node.meta.get("val")) for node in nodes if node.op == "placeholder"]
        self._output = nodes[-1].args[0]
        count = len(self._output) if public_outputs is None else public_outputs
        # Strides are part of what a user sees; the backward graph takes an image as it lies.
        self._public = [i < count for i in range(len(self._output))]
        self._contiguous = [_is_contiguous(each) for each in self._output]
        self._steps = [(node, self._run_of(node)) for node in nodes[:-1] if node.op != "placeholder"]
        self._dead = _dead_after(nodes)

    def _run_of(self, node: FxNode) -> Callable[..., Any]:
        if node.op == "get_attr":
            return lambda: operator.attrgetter(str(node.target))(self._module)
        if node.target is operator.getitem or node.meta.get(FUSED):
            return node.target  # type: ignore[return-value]
        kernel = KERNELS.get(node.target) if node not in self._left_to_torch else None
        if kernel is None:
            return _by_torch(node.target)
        if node.target in MEASURED and os.environ.get("DLPIPE_KERNELS") != "rules":
            return _by_the_faster(node.target, kernel)
        return _by_kernel(node.target, kernel)

    def __call__(self, inputs: List[Any]) -> List[Any]:
        use_kernel_threads(torch.get_num_threads())
        values: Dict[FxNode, Any] = {}
        for (node, traced), value in zip(self._inputs, inputs):
            values[node] = torch_kernels.restore(value, traced)
        inputs.clear()
        with torch.no_grad():
            for node, run in self._steps:
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = run(*args, **kwargs)
                del args, kwargs
                for dead in self._dead[node]:
                    del values[dead]
            return [
                _give(values[each], public, contiguous) if isinstance(each, Node) else each
                for each, public, contiguous in zip(self._output, self._public, self._contiguous)
            ]


def _give(value: Any, public: bool, contiguous: bool) -> Any:
    if not isinstance(value, KernelTensor):
        return value
    if not public:
        return torch_kernels.save(value)
    given = as_torch(value)
    return given.contiguous() if contiguous else given


def _is_contiguous(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.is_contiguous()


def _dead_after(nodes: List[FxNode]) -> Dict[FxNode, List[FxNode]]:
    last: Dict[FxNode, FxNode] = {}
    for node in nodes:
        last[node] = node
        for argument in node.all_input_nodes:
            last[argument] = node
    dead: Dict[FxNode, List[FxNode]] = {node: [] for node in nodes}
    for node, reader in last.items():
        dead[reader].append(node)
    return dead


def _pools_of_public_indices(module: GraphModule, public_outputs: Optional[int]) -> Any:
    """Max pools whose indices somebody else than the pool's gradient reads: the kernel's mean something else."""
    output = next(iter(reversed(module.graph.nodes))).args[0]
    public = set(output if public_outputs is None else output[:public_outputs])
    left = set()
    for node in module.graph.nodes:
        if node.target is not aten.max_pool2d_with_indices.default:
            continue
        for part in node.users:
            if part.args[1] == 1 and (part in public or any(user.op != "output" for user in part.users)):
                left.add(node)
    return left


def _by_torch(target: Any) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = _all_as_torch(args), {name: _all_as_torch(value) for name, value in kwargs.items()}
        return target(*args, **kwargs)

    return run


def _all_as_torch(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_all_as_torch(each) for each in value)
    return as_torch(value)


def _by_kernel(target: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    by_torch = _by_torch(target)

    def run(*args: Any, **kwargs: Any) -> Any:
        answer = kernel(*args, **kwargs)
        return by_torch(*args, **kwargs) if answer is NotImplemented else answer

    return run


def _by_the_faster(target: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    by_torch = _by_torch(target)
    by_kernel = _by_kernel(target, kernel)

    def run(*args: Any, **kwargs: Any) -> Any:
        key = (target, _form(args), _form(tuple(kwargs.items())), torch.get_num_threads())
        chosen = _choices.get(key)
        if chosen is None:
            if kernel(*args, **kwargs) is NotImplemented:
                chosen = False
            else:
                chosen = _seconds(by_kernel, args, kwargs) <= _seconds(by_torch, args, kwargs)
            _choices[key] = chosen
        return (by_kernel if chosen else by_torch)(*args, **kwargs)

    return run


def _form(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.stride())
    if isinstance(value, KernelTensor):
        return (tuple(value.shape), value.block)
    if isinstance(value, (list, tuple)):
        return tuple(_form(each) for each in value)
    return value


def _seconds(run: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> float:
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        run(*args, **kwargs)
        best = min(best, time.perf_counter() - begin)
    return best
