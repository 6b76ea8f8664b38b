"""A graph of ATen's ops as a list of steps, each run by a kernel of dlpipe or, where there is none, by PyTorch.

Values die after the step that reads them last. The strides of an image are those that its kernel likes. Two look at strides and
get those of the trace: who gets the outputs, and ops of PyTorch that aren't known to take any (`torch_strides.py`).

Of the ops in `torch_kernels.MEASURED` the faster of both is taken: the first time that an op meets a shape, both run three times.
DLPIPE_KERNELS=rules takes dlpipe's everywhere, so that runs on different machines and days have the same kernels.
"""

import operator
import os
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg
from torch.multiprocessing.reductions import StorageWeakRef

from dlpipe import torch_kernels
from dlpipe._dlpipe import KernelTensor, use_kernel_threads
from dlpipe.errors import MisuseError, UnsupportedError
from dlpipe.torch_fusion import FUSED, fuse
from dlpipe.torch_kernels import KERNELS, MEASURED, as_torch
from dlpipe.torch_strides import CHANNELS_LAST, Order, in_order, order_of, takes_any_strides

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
        self._inputs = [(node, _traced(node)) for node in nodes if node.op == "placeholder"]
        self._output = nodes[-1].args[0]
        count = len(self._output) if public_outputs is None else public_outputs
        # Strides are part of what a user sees; the backward graph takes an image as it lies.
        self._public = [i < count for i in range(len(self._output))]
        self._orders = [order_of(_traced(each)) for each in self._output]
        self._seen = _seen_strides(nodes, [each for each, public in zip(self._output, self._public) if public])
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
            values[node] = self._as_seen(node, torch_kernels.restore(value, traced))
        inputs.clear()
        with torch.no_grad():
            for node, run in self._steps:
                args, kwargs = map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = self._as_seen(node, run(*args, **kwargs))
                del args, kwargs
                for dead in self._dead[node]:
                    del values[dead]
            return self._given(values)

    def _as_seen(self, node: FxNode, value: Any) -> Any:
        if node not in self._seen:
            return value
        order, of_kernels = self._seen[node]
        if isinstance(value, KernelTensor) and (not of_kernels or order == CHANNELS_LAST):  # as_torch makes it that
            return value
        return in_order(as_torch(value), order)

    def _given(self, values: Dict[FxNode, Any]) -> List[Any]:
        lent: Dict[int, List[_Output]] = {}  # by their memory
        outputs = []
        for node, public, order in zip(self._output, self._public, self._orders):
            if not isinstance(node, Node):
                outputs.append(node)
                continue
            output = _Output(node, values[node], public, _give(values[node], public, order))
            memory = _memory(output.given)
            outputs.append(output.given if memory is None else _beside(output, lent.setdefault(memory, [])))
        return outputs


class _Output(NamedTuple):
    node: FxNode
    value: Any
    public: bool
    given: Any  # the tensor


def _beside(one: _Output, others: List[_Output]) -> Any:
    """The tensor of an output whose memory `others` have, too; is kept there if it has it.

    Who gets outputs may write to one and keep another, as AccumulateGrad does with gradients. So outputs of one node are one
    tensor, and a kernel's answer that is its argument, as clone's, is copied. What the backward graph will read is the very
    tensor that is given to the user, as autograd sees writes by that, or else a copy."""
    for other in others:
        is_seen = other.public and not one.public and one.value is other.value and _are_traced_as_one(one.node, other.node)
        if one.node is other.node or is_seen:
            return other.given
    if not all(_may_share(one, other) for other in others):
        return one.given.clone()
    others.append(one)
    return one.given


def _may_share(a: _Output, b: _Output) -> bool:
    """Of public ones that are views of each other, AOTAutograd knows; of PyTorch's own views, autograd."""
    if not a.public and not b.public:
        return True
    are_pytorchs = isinstance(a.value, torch.Tensor) and isinstance(b.value, torch.Tensor)
    return _are_traced_as_one(a.node, b.node) and (are_pytorchs or a.public == b.public)


def _give(value: Any, public: bool, order: Optional[Order]) -> Any:
    if not isinstance(value, KernelTensor):
        return value
    if not public:
        return torch_kernels.save(value)
    return as_torch(value) if order is None else in_order(as_torch(value), order)


def _memory(value: Any) -> Optional[int]:
    """Where it begins; None of what has none."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return value.untyped_storage().data_ptr() or None


def _are_traced_as_one(a: FxNode, b: FxNode) -> bool:
    """Whether both have the same memory in PyTorch, one as a view of the other: then AOTAutograd knows."""
    storage = _storage(a)
    return storage is not None and storage == _storage(b)


def _traced(node: Any) -> Any:
    """What the graph was traced with there."""
    return node.meta.get("val") if isinstance(node, Node) else None


def _storage(node: Any) -> Any:
    traced = _traced(node)
    is_strided = isinstance(traced, torch.Tensor) and traced.layout is torch.strided
    return StorageWeakRef(traced.untyped_storage()) if is_strided else None


def _seen_strides(nodes: List[FxNode], public: List[Any]) -> Dict[FxNode, Tuple[Order, bool]]:
    """The nodes whose values have to lie as traced as soon as they are made, so that their views do, too: the order of their
    axes, and whether a kernel's answer has to as well. One that leaves without being looked at before gets its order then."""
    makers: Dict[Any, FxNode] = {}  # of each memory
    for node in nodes:
        makers.setdefault(_storage(node), node)
    seen = {_storage(each) for node in nodes if not takes_any_strides(node) for each in node.all_input_nodes}
    seen |= {_storage(each) for each in public if makers.get(_storage(each)) is not each}
    orders = {storage: order_of(_traced(makers[storage])) for storage in seen.union(map(_storage, public)) - {None}}
    return {makers[storage]: (order, storage in seen) for storage, order in orders.items() if order is not None}


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


def _answer(kernel: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
    try:
        return kernel(*args, **kwargs)
    except (MisuseError, UnsupportedError):  # shapes that the kernel doesn't take
        return NotImplemented


def _by_kernel(target: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    by_torch = _by_torch(target)

    def run(*args: Any, **kwargs: Any) -> Any:
        answer = _answer(kernel, args, kwargs)
        return by_torch(*args, **kwargs) if answer is NotImplemented else answer

    return run


def _by_the_faster(target: Any, kernel: Callable[..., Any]) -> Callable[..., Any]:
    by_torch = _by_torch(target)
    by_kernel = _by_kernel(target, kernel)

    def run(*args: Any, **kwargs: Any) -> Any:
        key = (target, _form(args), _form(tuple(kwargs.items())), torch.get_num_threads())
        chosen = _choices.get(key)
        if chosen is None:
            if _answer(kernel, args, kwargs) is NotImplemented:
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
