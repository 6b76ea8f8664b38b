"""Chains of ATen's ops that dlpipe has one kernel for, replaced in the graphs of torch.compile.

Forward: convolution and relu; batch norm, with or without an addition behind it, and relu. Backward: relu's gradient and
batch norm's. Forward and backward graphs are changed apart: what the fused kernels save is what ATen's ops do.
"""

import operator
from typing import Any, Callable, List, Optional, Tuple

import torch
from torch.fx import Graph, Node

from dlpipe import torch_kernels

aten = torch.ops.aten
FxNode = Any  # a Node: what its arguments are, types don't know
FUSED = "dlpipe"  # in a node's meta: its target is a kernel's function
_BATCH_NORM = aten._native_batch_norm_legit_functional.default


def fuse(graph: Graph) -> None:
    for node in list(graph.nodes):
        if node.target is aten.relu.default:
            _fuse_relu(graph, node)
        elif node.target is aten.threshold_backward.default and node.args[2] == 0:
            _fuse_relu_backward(graph, node)
    graph.lint()


def is_image(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return (
        isinstance(value, torch.Tensor)
        and value.dim() == 4
        and value.dtype is torch.float32
        and value.device.type == "cpu"
    )


def _shape(node: FxNode) -> Tuple[Any, ...]:
    return tuple(node.meta["val"].shape)


def _has_one_user(node: FxNode) -> bool:
    return len(node.users) == 1


def _is_part(node: Any, target: Any, index: int) -> bool:
    """Whether it is output `index` of a call of `target`."""
    return bool(
        isinstance(node, Node)
        and node.target is operator.getitem
        and node.args[1] == index
        and isinstance(node.args[0], Node)
        and node.args[0].target is target
    )


def _call(
    graph: Graph, before: FxNode, function: Callable[..., Any], args: Tuple[Any, ...], parts: List[Optional[FxNode]]
) -> None:
    """Calls `function` before `before`; users of parts[i] get its output i."""
    with graph.inserting_before(before):
        call = graph.call_function(function, args)
        call.meta[FUSED] = True
        for i, part in enumerate(parts):
            if part is None:
                continue
            output = graph.call_function(operator.getitem, (call, i))
            output.meta = dict(part.meta)
            part.replace_all_uses_with(output)


def _parts(call: FxNode, count: int) -> Optional[List[Optional[FxNode]]]:
    """The outputs of a call by number; None where it is read in another way, or one of them twice."""
    parts: List[Optional[FxNode]] = [None] * count
    for user in call.users:
        if user.target is not operator.getitem or parts[user.args[1]] is not None:
            return None
        parts[user.args[1]] = user
    return parts


def _fuse_relu(graph: Graph, relu: FxNode) -> None:
    source = relu.args[0]
    if not is_image(source) or not _has_one_user(source):
        return
    if source.target is aten.convolution.default:
        _fuse_convolution(graph, source, relu)
    elif _is_part(source, _BATCH_NORM, 0):
        _fuse_batch_norm(graph, source, None, relu)
    elif source.target is aten.add.Tensor and len(source.args) == 2 and not source.kwargs:
        for norm, residual in (source.args, reversed(source.args)):
            if norm is residual:  # the sum is its one user, and reads it twice
                return
            if _is_part(norm, _BATCH_NORM, 0) and _has_one_user(norm) and is_image(residual):
                if _shape(norm) == _shape(residual) and _fuse_batch_norm(graph, norm, residual, relu):
                    return


def _fuse_convolution(graph: Graph, convolution: FxNode, relu: FxNode) -> None:
    transposed = convolution.args[6]
    if transposed or not is_image(convolution.args[0]):
        return
    with graph.inserting_before(relu):
        call = graph.call_function(torch_kernels.convolution_relu, convolution.args)
    call.meta = {**relu.meta, FUSED: True}
    relu.replace_all_uses_with(call)
    graph.erase_node(relu)
    graph.erase_node(convolution)


def _fuse_batch_norm(graph: Graph, norm: FxNode, residual: Optional[FxNode], relu: FxNode) -> bool:
    call = norm.args[0]
    x, weight, bias, mean, variance, training, momentum, eps = call.args
    parts = _parts(call, 5)
    if not training or weight is None or bias is None or not is_image(x) or parts is None:
        return False
    statistics = parts[1:]
    if any(user < relu for part in statistics if part is not None for user in part.users):
        return False
    _call(
        graph,
        relu,
        torch_kernels.batch_norm_then,
        (x, weight, bias, mean, variance, momentum, eps, residual, True),
        [relu, *statistics],
    )
    graph.erase_node(relu)
    if residual is not None:
        graph.erase_node(next(iter(norm.users)))
    for part in parts:
        if part is not None:
            graph.erase_node(part)
    graph.erase_node(call)
    return True


def _fuse_relu_backward(graph: Graph, masked: FxNode) -> None:
    grad, output = masked.args[0], masked.args[1]
    if not is_image(grad) or not is_image(output):
        return
    for user in masked.users:
        if user.target is aten.native_batch_norm_backward.default and user.args[0] is masked:
            if _fuse_batch_norm_backward(graph, masked, user):
                return


def _fuse_batch_norm_backward(graph: Graph, masked: FxNode, backward: FxNode) -> bool:
    _, x, weight, _, _, mean, invstd, training, eps, mask = backward.args
    parts = _parts(backward, 3)
    operands = (x, weight, mean, invstd)
    if not training or weight is None or parts is None or not is_image(x):
        return False
    if any(isinstance(each, Node) and not each < masked for each in operands):
        return False
    others = [user for user in masked.users if user is not backward]
    args = (masked.args[0], masked.args[1], x, weight, mean, invstd, eps, [*mask, bool(others)])
    backward.args = (masked.args[0], *backward.args[1:])  # no longer a user of what is replaced
    _call(
        graph,
        masked,
        torch_kernels.batch_norm_relu_backward,
        args,
        [*parts, masked if others else None],
    )
    for part in parts:
        if part is not None:
            graph.erase_node(part)
    graph.erase_node(backward)
    graph.erase_node(masked)
    return True
