"""`dlpipe.capture` and `python -m dlpipe capture` write a PyTorch model in training form, as a file that `dlpipe train` trains.

torch.export traces the model in train mode, with batch norm, dropout and stochastic depth as in training, for two batch sizes. A
size that differs between the two traces is a multiple of the batch; everything else is fixed, including image sizes. Calls that
depend neither on parameters nor on inputs (masks, index tables) are computed here. The other calls become ONNX-shaped nodes
(`torch_capture_ops.py`), which the library's ONNX importer turns into dlpipe's ops.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import operator
import os
import sysconfig
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._python_dispatch import TorchDispatchMode

from dlpipe import _dlpipe, onnx_bytes, torch_detection
from dlpipe.arguments import MAX_PIXELS
from dlpipe.capture import check_out, said
from dlpipe.errors import Error, MisuseError, UnsupportedError

#: The two batch sizes that a model is traced for. Neither is 1, because a broadcast along a batch of 1 changes nothing.
_BATCHES = (2, 3)
_OPSET = 21
_MOST_AXES = 6


class Batch(NamedTuple):
    """A size that is `times` the batch."""

    times: int


#: An int, or a Batch.
Size = Any


class Ref(str):
    """The name of a value that depends on the input, on parameters or on chance."""


class Named(NamedTuple):
    """A parameter or a buffer of the model."""

    name: str
    tensor: torch.Tensor
    is_parameter: bool


class Pair(NamedTuple):
    """A tensor that depends only on the batch's size: its values in the two traces."""

    first: torch.Tensor
    second: torch.Tensor

    @property
    def sizes(self) -> list[Size]:
        return _sizes(self.first, self.second)


class Drawn(NamedTuple):
    """1 with probability `keep`, else 0; divided by `keep` if `is_scaled`."""

    sizes: tuple[Size, ...]
    keep: float
    is_scaled: bool


class NotTranslatedError(UnsupportedError):
    """A call reads a value of a call that was refused."""


def refuse(text: str) -> UnsupportedError:
    return UnsupportedError(f"[capture] {text}")


def _merged(first: Any, second: Any, node_of: Callable[[Any, Any], Any]) -> Any:
    """Merges an argument of both traces to one: sizes that grow with the batch become `Batch`."""
    if isinstance(first, torch.fx.Node):
        return node_of(first, second)
    if isinstance(first, (list, tuple)):
        if len(first) != len(second):
            raise refuse(f"a list has {len(first)} items for a batch of {_BATCHES[0]} and {len(second)} for {_BATCHES[1]}")
        return [_merged(a, b, node_of) for a, b in zip(first, second)]
    if isinstance(first, int) and not isinstance(first, bool) and first != second:
        times = first // _BATCHES[0]
        if times * _BATCHES[0] != first or times * _BATCHES[1] != second:
            raise refuse(f"a size is {first} for a batch of {_BATCHES[0]} and {second} for {_BATCHES[1]}; it must be fixed or a multiple of the batch")
        return Batch(times)
    if first != second and not (isinstance(first, float) and first != first):
        raise refuse(f"an argument is {first!r} for a batch of {_BATCHES[0]} and {second!r} for {_BATCHES[1]}")
    return first


def _sizes(first: Any, second: Any) -> Any:
    """The shape of a value of both traces; a list of shapes for several values."""
    if isinstance(first, torch.Tensor):
        return _merged(list(first.shape), list(second.shape), lambda a, b: a)
    if isinstance(first, (list, tuple)):
        return [_sizes(a, b) for a, b in zip(first, second)]
    return None


def _row(pair: Pair) -> torch.Tensor:
    """The row of the pair that is the same for every sample. Refuses a pair whose rows differ."""
    row = pair.first
    for axis, size in enumerate(pair.sizes):
        if isinstance(size, Batch):
            row = row.narrow(axis, 0, 1)
    if not torch.equal(row.expand_as(pair.first), pair.first) or not torch.equal(row.expand_as(pair.second), pair.second):
        raise refuse("it uses numbers that differ between the samples of a batch")
    return row.contiguous()


def _joined(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor | Pair:
    return first if first.shape == second.shape and torch.equal(first, second) else Pair(first, second)


class Graph:
    """The ONNX model being written, and what its values are."""

    def __init__(self, input_sizes: list[Size]):
        self.input = Ref("x")
        self.nodes: list[bytes] = []
        self.read: dict[str, list[str]] = {}  # by a node's output: its inputs
        self.initializers: dict[str, bytes] = {}
        self.shapes: dict[str, list[Size]] = {self.input: input_sizes}
        self.dtypes: dict[str, torch.dtype] = {}
        self.base: dict[str, str] = {}  # the value that a view is of
        self.parts: dict[str, tuple[int, int, int]] = {}  # of a slice of its base: axis, begin, end
        self.sizes: Any = None  # of the output of the call that is being translated; a list for several outputs
        self.dtype: torch.dtype | None = None
        self.place = ""  # of that call, for errors
        self._count = 0
        self._literals: dict[Any, str] = {}
        self._kept: list[torch.Tensor] = []  # so that no other tensor gets its id

    def new_name(self) -> Ref:
        self._count += 1
        return Ref(f"_{self._count}")

    def shape(self, value: Any) -> list[Size]:
        if isinstance(value, Ref):
            return self.shapes[value]
        if isinstance(value, (Pair, Drawn)):
            return list(value.sizes)
        return list(value.tensor.shape if isinstance(value, Named) else value.shape)

    def dtype_of(self, value: Any) -> torch.dtype | None:
        if isinstance(value, Ref):
            return self.dtypes.get(value)
        tensor = value.first if isinstance(value, Pair) else value.tensor if isinstance(value, Named) else value
        return tensor.dtype if isinstance(tensor, torch.Tensor) else None

    def add_tensor(self, name: str, tensor: torch.Tensor) -> str:
        tensor = tensor.detach().cpu()
        if tensor.is_complex():
            raise refuse(f"'{name}' is complex")
        if tensor.dim() > _MOST_AXES:
            raise refuse(f"'{name}' has {tensor.dim()} axes; dlpipe's tensors have {_MOST_AXES} at most")
        kind = onnx_bytes.FLOAT if tensor.is_floating_point() else onnx_bytes.INT64
        data = tensor.to(torch.float32 if kind == onnx_bytes.FLOAT else torch.int64).contiguous().numpy().tobytes()
        self.initializers[name] = onnx_bytes.tensor(name, kind, tensor.shape, data)
        return name

    def name(self, value: Any) -> str:
        """The name by which nodes read the value; "" for None."""
        if value is None:
            return ""
        if isinstance(value, Ref):
            return value
        if isinstance(value, Named):
            return value.name if value.name in self.initializers else self.add_tensor(value.name, value.tensor)
        if isinstance(value, (int, float)):
            return self._literal((type(value), value), lambda: torch.tensor(value, dtype=torch.float32))
        if isinstance(value, torch.Tensor):
            self._kept.append(value)
            return self._literal(id(value), lambda: value)
        if isinstance(value, Pair):
            return self.emit("Expand", _row(value), self.ints(value.sizes))
        if isinstance(value, Batch):
            raise refuse("it computes with the number of images in the batch")
        raise refuse("it uses a random mask in a way that dlpipe doesn't support")

    def _literal(self, key: Any, make: Callable[[], torch.Tensor]) -> str:
        if key not in self._literals:
            self._literals[key] = self.add_tensor(self.new_name(), make())
        return self._literals[key]

    def ints(self, values: Sequence[Size]) -> str:
        """A list of integers, which may be multiples of the batch."""
        if not any(isinstance(one, Batch) for one in values):
            return self._literal(("ints", tuple(values)), lambda: torch.tensor(list(values), dtype=torch.int64))
        parts = []
        for one in values:
            if not isinstance(one, Batch):
                parts.append(self.ints([one]))
                continue
            batch = self.emit("Shape", self.input, start=0, end=1)
            parts.append(batch if one.times == 1 else self.emit("Mul", batch, self.ints([one.times])))
        return parts[0] if len(parts) == 1 else self.emit("Concat", *parts, axis=0)

    def emit(self, op: str, *inputs: Any, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Adds a node. Returns the name of its output, or a list of names for several outputs."""
        names = [self.name(one) for one in inputs]
        while names and not names[-1]:
            names.pop()
        made = [self.new_name() for _ in range(outputs)]
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(onnx_bytes.node(op, names, made, given, domain, self.place))
        self.read.update((one, names) for one in made)
        return made[0] if outputs == 1 else made

    def used_by(self, output: str) -> set[str]:
        """The names of all values that take part in the output."""
        used, left = set(), [output]
        while left:
            one = left.pop()
            if one not in used:
                used.add(one)
                left += self.read.get(one, [])
        return used

    def reshape(self, x: Any, sizes: Sequence[Size]) -> Ref:
        growing = [i for i, size in enumerate(sizes) if isinstance(size, Batch)]
        if len(growing) > 1:
            raise refuse(f"a view has {len(growing)} sizes that grow with the batch")
        made = self.emit("Reshape", x, self.ints([-1 if isinstance(size, Batch) else size for size in sizes]))
        self.shapes[made] = list(sizes)
        return made


class _Translation:
    """One walk through the calls of both traces."""

    def __init__(self, programs: Sequence[Any], model: torch.nn.Module):
        from dlpipe import torch_capture_ops

        self.ops = torch_capture_ops
        self.programs = programs
        self.lists = [list(program.graph_module.graph.nodes) for program in programs]
        first, second = ([str(node.target) for node in nodes] for nodes in self.lists)
        if first != second:
            raise refuse(f"the model calls different ops for batches of {_BATCHES[0]} and {_BATCHES[1]}")
        self.values: dict[torch.fx.Node, Any] = {}
        self.outside: dict[torch.fx.Node, torch.fx.Node] = {}  # by an input of a block that is inlined: what it is given
        self.orders = {one: i for i, one in enumerate(self.lists[0])}
        self.last_use = {node: max((self._order(user) for user in node.users), default=-1) for node in self.lists[0]}
        self.refused: dict[str, list[str]] = {}
        self.refused_at: dict[str, str] = {}  # the first call of each
        self.tensors = dict(model.named_parameters(remove_duplicate=False)) | dict(model.named_buffers(remove_duplicate=False))
        self.first_name: dict[int, str] = {}  # of each tensor; tied tensors have the same
        for name, tensor in self.tensors.items():
            self.first_name.setdefault(id(tensor), name)

    def _order(self, node: torch.fx.Node) -> int:
        return self.orders.get(node, -1)

    def run(self) -> Graph:
        graph = None
        for first, second in zip(*self.lists):
            if first.op == "placeholder":
                graph = self._placeholder(first, second, graph)
            elif first.op == "get_attr":
                self.values[first] = getattr(self.programs[0].graph_module, first.target)
            elif first.op == "call_function":
                assert graph is not None
                self._call(first, second, graph)
        if graph is None:
            raise MisuseError("[capture] the model has no input")
        if self.refused:
            listed = "; ".join(f"{self.refused_at[op]}: {', '.join(reasons[:3])}" for op, reasons in self.refused.items())
            raise refuse(f"dlpipe can't capture {listed}")
        return graph

    def output(self, graph: Graph) -> str:
        signature = self.programs[0].graph_signature
        by_name = {node.name: node for node in self.lists[0]}
        first = by_name.get(signature.user_outputs[0]) if signature.user_outputs else None
        if first is None:
            raise refuse("the model returns no tensor; capture one that returns logits [N,classes]")
        if len(signature.user_outputs) > 1:
            logging.getLogger("dlpipe").warning(
                "[capture] the model returns %d outputs in training; the first is captured, the others are ignored",
                len(signature.user_outputs))  # fmt: skip
        return graph.name(self.values[first])

    def _placeholder(self, first: Any, second: Any, graph: Graph | None) -> Graph | None:
        signature = self.programs[0].graph_signature
        name = signature.inputs_to_parameters.get(first.name) or signature.inputs_to_buffers.get(first.name)
        constants = getattr(signature, "inputs_to_lifted_tensor_constants", {})
        if name is not None:
            # A buffer that isn't part of the state (persistent=False) is a constant like any other.
            tensor = self.tensors.get(name)
            if tensor is None:
                tensor = self.programs[0].constants[name]
            state = self.first_name.get(id(tensor), name)
            self.values[first] = Named(state, tensor, first.name in signature.inputs_to_parameters)
        elif first.name in constants:
            self.values[first] = self.programs[0].constants[constants[first.name]]
        elif isinstance(first.meta.get("val"), torch.Tensor):
            if graph is not None:
                raise MisuseError("[capture] the model has more than one input; give one whose only input is images")
            graph = Graph(_sizes(first.meta["val"], second.meta["val"]))
            graph.dtypes[graph.input] = first.meta["val"].dtype
            self.values[first] = graph.input
        return graph

    def _value(self, first: Any, _second: Any) -> Any:
        if first not in self.values:
            raise NotTranslatedError(first.name)
        return self.values[first]

    def _call(self, first: Any, second: Any, graph: Graph) -> None:
        target = first.target
        name = str(target).removeprefix("aten.")
        try:
            args = _merged(first.args, second.args, self._value)
            kwargs = {key: _merged(value, second.kwargs[key], self._value) for key, value in first.kwargs.items()}
            if target is operator.getitem:
                if args[1] >= len(args[0]) and first.users:  # of a max over an axis, or a max pool
                    raise refuse("it reads the indices of a max, a min or a max pool")
                self.values[first] = args[0][args[1]] if args[1] < len(args[0]) else None
                return
            packet = name.split(".")[0]
            if packet.rstrip("_") == "detach" and self._is_learned(first.args[0]):
                raise refuse("it stops gradients, which dlpipe would pass on; leave .detach() out, or freeze what comes before it by "
                             "requires_grad_(False)")  # fmt: skip
            if packet in self.ops.IGNORED or (isinstance(target, torch._ops.OpOverload) and not target._schema.returns):
                return
            if isinstance(target, torch._ops.HigherOrderOperator):
                self.values[first] = self._inlined(first, second, args, graph)
                return
            if self._is_known(args, kwargs, packet):
                self.values[first] = self._computed(target, args, kwargs)
                return
            graph.sizes = _sizes(first.meta.get("val"), second.meta.get("val"))
            graph.dtype = _dtypes(first)[0]
            graph.place = _call_text(packet, first)
            is_in_place = packet.endswith("_") and not packet.endswith("__")
            if is_in_place and isinstance(args[0], Named):
                if not args[0].tensor.is_floating_point():  # num_batches_tracked
                    self.values[first] = args[0]
                    return
                raise refuse(f"it changes '{args[0].name}' in place")
            translate = self.ops.OPS.get(packet) or self.ops.OPS.get(packet.rstrip("_") if is_in_place else packet)
            if translate is None:
                raise refuse("dlpipe has no such op")
            self._check_dtype(graph, packet, args)
            required, optional = self._arguments(target, args, kwargs)
            missing = [one for one in optional if one not in inspect.signature(translate).parameters]
            if missing:
                raise refuse(f"dlpipe's op doesn't have the argument {', '.join(missing)}")
            result = translate(graph, *required, **optional)
            self._note(graph, packet, args, result, _dtypes(first))
            if is_in_place:
                self._rebind(graph, first, args[0], result)
            self.values[first] = result
        except Error as error:
            self._refuse(name, first, error, graph)
        except Exception as error:  # of any kind: arguments that the translation is not written for, such as a tensor in place of a number
            self._refuse(name, first, refuse(f"dlpipe's op doesn't support these arguments ({said(error)})"), graph)

    def _arguments(self, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments without defaults, and by name the others that differ from their defaults and have an effect."""
        if not isinstance(target, torch._ops.OpOverload):
            return list(args), kwargs
        required, optional = [], {}
        for i, one in enumerate(target._schema.arguments):
            if i >= len(args) and one.name not in kwargs:
                continue
            value = args[i] if i < len(args) else kwargs[one.name]
            if not one.has_default_value() and not one.kwarg_only:
                required.append(value)
            elif one.name not in self.ops.WITHOUT_EFFECT and not _is_default(one, value):
                optional[one.name] = value
        return required, optional

    def _check_dtype(self, graph: Graph, packet: str, args: Sequence[Any]) -> None:
        """Refuses a conversion that rounds, compares with 0 or reads bits."""
        given = graph.dtype_of(args[0]) if args and isinstance(args[0], Ref) else None
        if given is None or graph.dtype is None or packet.rstrip("_") in self.ops.OF_ANY_DTYPE:
            return
        if _exactness(graph.dtype) < _exactness(given):
            raise refuse(f"it converts {given} to {graph.dtype}")

    def _is_learned(self, node: Any) -> bool:
        """Whether the value depends on a parameter that is trained."""
        signature, seen, left = self.programs[0].graph_signature, set(), [node]
        while left:
            one = left.pop()
            if one in seen:
                continue
            seen.add(one)
            name = None if one in self.outside else signature.inputs_to_parameters.get(one.name)
            tensor = self.tensors.get(name) if name is not None else None
            if tensor is not None and tensor.requires_grad:
                return True
            left += [self.outside[one]] if one in self.outside else one.all_input_nodes
        return False

    def _refuse(self, name: str, node: Any, error: Error, graph: Graph) -> None:
        """Records the reason and continues, so that one error names everything that is missing."""
        if not isinstance(error, NotTranslatedError):
            reasons = self.refused.setdefault(name, [])
            self.refused_at.setdefault(name, _call_text(name, node))
            reason = str(error).removeprefix("[capture] ")
            if reason not in reasons:
                reasons.append(reason)
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            self.values[node] = graph.new_name()
            graph.shapes[self.values[node]] = list(value.shape)

    def _note(self, graph: Graph, packet: str, args: Any, result: Any, dtypes: Sequence[torch.dtype | None]) -> None:
        results = result if isinstance(result, list) else [result]
        sizes = graph.sizes if isinstance(result, list) else [graph.sizes]
        for one, shape, dtype in zip(results, sizes, dtypes):
            if not isinstance(one, Ref):
                continue
            graph.shapes.setdefault(one, shape)
            if dtype is not None:
                graph.dtypes.setdefault(one, dtype)
            if packet in self.ops.VIEWS and isinstance(args[0], Ref) and one != args[0]:
                graph.base.setdefault(one, args[0])

    def _rebind(self, graph: Graph, node: Any, old: Any, new: Any) -> None:
        """After an in-place change: later readers of `old` read `new`."""
        if isinstance(old, Ref) and old in graph.parts and self._is_read_later(graph, graph.base[old], node):
            self._write_back(graph, node, old, new)
            return
        root = self._root(graph, old)
        for other, value in self.values.items():
            if isinstance(old, Ref) and isinstance(value, Ref) and value == old:
                self.values[other] = new
            elif isinstance(old, (Pair, Drawn)) and value is old:
                self.values[other] = new
            elif (isinstance(value, Ref) and isinstance(old, Ref) and self._root(graph, value) == root
                  and self.last_use.get(other, -1) > self._order(node)):  # fmt: skip
                raise refuse("it changes a view in place, and the tensor of that view is read afterwards")

    def _is_read_later(self, graph: Graph, value: str, node: Any) -> bool:
        return any(isinstance(one, Ref) and one == value and self.last_use.get(other, -1) > self._order(node)
                   for other, one in self.values.items())  # fmt: skip

    def _write_back(self, graph: Graph, node: Any, old: Ref, new: Any) -> None:
        """After an in-place change of a slice: replaces its base by the base's other parts, joined with the new slice."""
        (axis, begin, end), base = graph.parts[old], Ref(graph.base[old])
        if self._is_read_later(graph, old, node):
            raise refuse("it changes a slice in place, and that slice is read afterwards")
        shape = graph.shapes[base]

        def part(first: int, last: int) -> Any:
            return graph.emit("Slice", base, graph.ints([first]), graph.ints([last]), graph.ints([axis]))

        pieces = [part(0, begin)] if begin else []
        pieces.append(new)
        if end < shape[axis]:
            pieces.append(part(end, shape[axis]))
        whole = graph.emit("Concat", *pieces, axis=axis) if len(pieces) > 1 else new
        graph.shapes.setdefault(whole, shape)
        graph.dtypes.setdefault(whole, graph.dtypes[base])
        self._rebind(graph, node, base, whole)

    def _root(self, graph: Graph, value: Any) -> Any:
        while isinstance(value, Ref) and value in graph.base:
            value = graph.base[value]
        return value

    def _is_known(self, args: Any, kwargs: Any, packet: str) -> bool:
        """Whether the call depends neither on the input nor on a parameter or chance. It may depend on the batch's size."""
        if packet in self.ops.RANDOM or packet in self.ops.NEVER_COMPUTED:
            return False

        def is_known(value: Any) -> bool:
            if isinstance(value, (list, tuple)) and not isinstance(value, (Named, Batch, Pair, Drawn)):
                return all(map(is_known, value))
            if isinstance(value, Named):
                return not value.is_parameter and not packet.endswith("_")
            return not isinstance(value, (Drawn, Ref))

        return is_known(args) and all(map(is_known, kwargs.values()))

    def _computed(self, target: Any, args: Any, kwargs: Any) -> Any:
        varies = False

        def plain(value: Any, trace: int) -> Any:
            nonlocal varies
            varies = varies or isinstance(value, (Batch, Pair))
            if isinstance(value, Named):
                return value.tensor.detach().clone()
            if isinstance(value, Batch):
                return value.times * _BATCHES[trace]
            if isinstance(value, Pair):
                return value[trace]
            return [plain(one, trace) for one in value] if isinstance(value, (list, tuple)) else value

        def computed(trace: int) -> Any:
            return target(*plain(args, trace), **{key: plain(value, trace) for key, value in kwargs.items()})

        with torch.no_grad():
            first = computed(0)
            if not varies:
                return list(first) if isinstance(first, (list, tuple)) else first
            second = computed(1)
        if isinstance(first, torch.Tensor):
            return _joined(first, second)
        if not isinstance(first, (list, tuple)):
            return _merged(first, second, lambda a, b: a)
        return [_joined(a, b) for a, b in zip(first, second)]

    def _inlined(self, first: Any, second: Any, args: Sequence[Any], graph: Graph) -> Any:
        """The result of a block under autocast(enabled=False), which has no effect here because floats have one precision, or under
        no_grad, which has none if nothing before it is trained."""
        name = str(first.target).rsplit(".", 1)[-1]
        if name == "wrap_with_autocast":
            if args[2]:  # device, dtype, enabled
                raise refuse("it computes under autocast; leave autocast out of forward, and choose the precision by train's --dtype")
        elif name != "wrap_with_set_grad_enabled":
            raise refuse("dlpipe has no such op")
        elif not args[0] and self._is_learned(first):
            raise refuse("no_grad stops gradients, which dlpipe would pass on; freeze the parameters that the block depends on by "
                         "requires_grad_(False)")  # fmt: skip
        place = next(i for i, one in enumerate(first.args) if isinstance(one, torch.fx.Node) and one.op == "get_attr")
        graphs = [getattr(program.graph_module, node.args[place].target).graph
                  for program, node in zip(self.programs, (first, second))]  # fmt: skip
        given = zip(args[place + 1 :], first.args[place + 1 :])
        for a, b in zip(*(graph_.nodes for graph_ in graphs)):
            if a.op == "placeholder":
                self.values[a], self.outside[a] = next(given)
            elif a.op == "call_function":
                self._call(a, b, graph)
            elif a.op == "output":
                return _merged(a.args[0], b.args[0], self._value)
        return None


def _dtypes(node: Any) -> list[torch.dtype | None]:
    """Those of the call's outputs."""
    value = node.meta.get("val")
    return [getattr(one, "dtype", None) for one in (value if isinstance(value, (list, tuple)) else [value])]


def _exactness(dtype: torch.dtype) -> int:
    return 0 if dtype is torch.bool else 2 if dtype.is_floating_point else 1


def _is_default(argument: Any, value: Any) -> bool:
    return argument.has_default_value() and isinstance(value, (int, float, str, list, type(None))) and value == argument.default_value


def _call_text(op: str, node: Any) -> str:
    """"max_pool2d of 'layer1.pool'": a call and the module that it is in."""
    modules = list(node.meta.get("nn_module_stack", {}).values())
    return f"{op} of '{modules[-1][0]}'" if modules and modules[-1][0] else op


def _programs(model: torch.nn.Module, example: torch.Tensor) -> list[Any]:
    traced = []
    for batch in _BATCHES:
        x = example[:1].expand(batch, *example.shape[1:]).contiguous()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                with _quiet():
                    traced.append(torch.export.export(model, (x,), strict=False))
            except GuardOnDataDependentSymNode as error:
                raise refuse("torch.export can't trace the model, because its Python code depends on values of a tensor"
                             f"{_place(error)}; use torch.where, or decide outside of forward") from error  # fmt: skip
            except Exception as error:  # of any kind: what the model's own code does under the tracer
                raise refuse(f"torch.export can't trace the model: {said(error)}{_place(error)}") from error
    return traced


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses what torch logs and prints about an error before it raises it: graphs and its own tracebacks."""
    loggers = [logging.getLogger(f"torch.{name}") for name in ("fx.experimental.symbolic_shapes", "_subclasses.fake_tensor")]
    before = [one.disabled for one in loggers]
    try:
        for one in loggers:
            one.disabled = True
        with contextlib.redirect_stderr(io.StringIO()):
            yield
    finally:
        for one, was in zip(loggers, before):
            one.disabled = was


def _place(error: Exception) -> str:
    """Where in the model's code the error came from: the innermost line that is neither torch's, Python's nor this file's."""
    return _innermost(traceback.extract_tb(error.__traceback__))


def _innermost(frames: Sequence[traceback.FrameSummary]) -> str:
    torchs, pythons = os.path.dirname(torch.__file__) + os.sep, sysconfig.get_path("stdlib") + os.sep
    for frame in reversed(frames):
        is_pythons = frame.filename.startswith(pythons) and "site-packages" not in frame.filename
        if not frame.filename.startswith((torchs, __file__)) and not is_pythons:
            return f", at {frame.filename}:{frame.lineno}: `{frame.line}`"
    return ""


class _TrainsInEval(TorchDispatchMode):
    """Finds what a model in eval mode does as in training, which a captured model does not do in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        given = {one.name: value for one, value in zip(func._schema.arguments, args)} | kwargs
        does = ""
        if "batch_norm" in name and given.get("training", name == "_batch_norm_with_update") and given.get("running_mean") is not None:
            does = "batch_norm uses the batch's statistics"
        elif name in ("native_dropout", "bernoulli_"):
            does = "dropout drops"
        if does and not self.reason:
            stack = traceback.extract_stack()[:-1]
            begin = max(i for i, frame in enumerate(stack) if frame.filename == __file__)
            self.reason = f"{does} in eval mode, too{_innermost(stack[begin + 1 :])}; give it training=self.training"
        return func(*args, **kwargs)


def onnx_model(model: torch.nn.Module, example: torch.Tensor) -> tuple[bytes, list[str], list[str], dict[str, str]]:
    """The model's training form: the bytes of the ONNX model, the names of parameters that are trained, those of the rest of the
    state, and the other names of tied tensors."""
    translation = _Translation(_programs(model, example), model)
    graph = translation.run()
    output = translation.output(graph)
    parameters: list[str] = []
    buffers: list[str] = []
    aliases: dict[str, str] = {}
    trained = {name for name, parameter in model.named_parameters(remove_duplicate=False) if parameter.requires_grad}
    used = graph.used_by(output)
    for name in model.state_dict():
        tensor = translation.tensors[name]
        first = translation.first_name[id(tensor)]
        if first != name:
            aliases[name] = first
            continue
        if name not in graph.initializers:
            graph.add_tensor(name, tensor)
        # Parameters of an output that is left out (an auxiliary head) stay in the file unchanged, like those of modules that don't run.
        (parameters if name in used and name in trained else buffers).append(name)
    sizes = ["N" if isinstance(size, Batch) else size for size in graph.shapes[graph.input]]
    data = onnx_bytes.model(
        type(model).__name__, graph.nodes, graph.initializers.values(),
        [onnx_bytes.value_info(graph.input, onnx_bytes.FLOAT, sizes)],
        [onnx_bytes.value_info(output, onnx_bytes.FLOAT, ["N"])],
        {"": _OPSET, "dlpipe": 1}, f"dlpipe.capture of torch {torch.__version__}")  # fmt: skip
    return data, parameters, buffers, aliases


def _images(example: torch.Tensor | Sequence[int]) -> torch.Tensor:
    """The example as float images [N,C,H,W]."""
    if not isinstance(example, torch.Tensor):
        try:
            sizes = [operator.index(size) for size in example]
        except TypeError:
            raise MisuseError(f"[capture] example is {type(example).__name__}; give the sizes of an image, such as (3, 224, 224), or a "
                              "tensor of images [N,C,H,W]") from None  # fmt: skip
        if len(sizes) != 3 or min(sizes) < 1:
            advice = f"({', '.join(map(str, sizes[-3:]))})" if len(sizes) == 4 else "such as (3, 224, 224)"
            raise MisuseError(f"[capture] example is {tuple(sizes)}; give the sizes C,H,W of one image, {advice}")
        if sizes[1] * sizes[2] > MAX_PIXELS:
            raise MisuseError(f"[capture] example is {tuple(sizes)}, which as C,H,W has more than {MAX_PIXELS:,} pixels; give the sizes that "
                              "the model is trained on, such as (3, 224, 224)")  # fmt: skip
        try:
            return torch.rand(1, *sizes, generator=torch.Generator().manual_seed(0))
        except (RuntimeError, TypeError, OverflowError) as error:  # too large for the memory or for PyTorch's numbers
            raise MisuseError(f"[capture] example is {tuple(sizes)}: {said(error)}") from error
    if example.dim() != 4 or not example.is_floating_point() or example.numel() == 0:
        advice = "example[None]" if example.dim() == 3 else "example / 255" if example.dtype == torch.uint8 else "the sizes C,H,W of one"
        raise MisuseError(f"[capture] expected images [N,C,H,W] of floats as example, got {list(example.shape)} of {example.dtype}; give "
                          f"{advice}")  # fmt: skip
    return example.detach().cpu().to(torch.float32)


def _warn_of_other_dtypes(model: torch.nn.Module) -> None:
    """dlpipe keeps the state as f32 and i64, and `dlpipe export-weights` writes it so."""
    others = [f"'{name}' ({str(tensor.dtype).removeprefix('torch.')})" for name, tensor in model.state_dict().items()
              if tensor.dtype not in (torch.float32, torch.int64)]  # fmt: skip
    if others:
        logging.getLogger("dlpipe").warning(
            "[capture] the file has %s%s as float32 or int64, and so do exported weights; load_state_dict converts them back",
            ", ".join(others[:3]), f" and {len(others) - 3} more" if len(others) > 3 else "")  # fmt: skip


def write(model: torch.nn.Module, example: torch.Tensor | Sequence[int], path: bytes, name: str, check: bool) -> None:
    """Implements `dlpipe.capture`."""
    if isinstance(model, type):
        raise MisuseError(f"[capture] model is the class {model.__name__}; give an instance, such as {model.__name__}()")
    if not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise MisuseError(f"[capture] model is {type(model).__name__}; give a torch.nn.Module that is written in Python")
    example = _images(example)
    check_out(path)
    if {tensor.device.type for tensor in model.state_dict().values()} - {"cpu"}:
        raise MisuseError("[capture] the model is on a device; call model.cpu() first")
    for place, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.momentum is None and module.track_running_stats:
            raise refuse(f"the batch norm '{place}' has momentum=None, which averages over all steps; dlpipe needs a number, such as 0.1")
    modes = [(module, module.training) for module in model.modules()]
    detector = model if torch_detection.is_detector(model) else None
    kind, metadata = type(model).__name__, {}
    rows = None if detector is None else torch_detection.Rows(detector)
    model = rows or model
    try:
        model.eval()
        if rows is not None:
            metadata = torch_detection.description(detector, rows, example)
        with torch.no_grad(), _TrainsInEval() as found:
            try:
                expected = model(example[:1])
            except Exception as error:  # of any kind: the model's own code
                raise MisuseError(f"[capture] the model raised an error for images {list(example[:1].shape)}: {said(error)}; give an "
                                  "example or image sizes that it accepts, and a model whose only input is images") from error  # fmt: skip
        if found.reason:
            raise refuse(found.reason)
        model.train()
        data, parameters, buffers, aliases = onnx_model(model, example)
    finally:
        for module, training in modes:
            module.training = training
    _warn_of_other_dtypes(model)
    expected = _first(expected)
    unchecked = path + b".%d.unchecked" % os.getpid()
    try:
        _dlpipe.write_captured(data, parameters, buffers, aliases, metadata, name or kind, unchecked)
        if check and isinstance(expected, torch.Tensor):
            _compare(unchecked, example[:1], expected)
        os.replace(unchecked, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unchecked)


def _first(outputs: Any) -> Any:
    """The first of several outputs, which is the one that is captured."""
    if isinstance(outputs, dict):
        outputs = tuple(outputs.values())
    return outputs[0] if isinstance(outputs, (tuple, list)) and outputs else outputs


def _compare(path: bytes, example: torch.Tensor, expected: torch.Tensor) -> None:
    if expected.dim() == 4:  # of pixels; models here have their classes last
        expected = expected.permute(0, 2, 3, 1)
    got = torch.from_numpy(_dlpipe.CapturedModel(path).forward(example.numpy(), False))
    largest = max(1e-3, expected.abs().max().item())
    difference = (got - expected).abs().max().item() if got.shape == expected.shape else float("inf")
    if not difference <= 1e-3 * largest:
        raise refuse(f"in eval mode the captured model's output differs from PyTorch's by {difference:.3g} (largest value: {largest:.3g}); "
                     "eval mode may change more in this model than dropout and batch norms")  # fmt: skip
