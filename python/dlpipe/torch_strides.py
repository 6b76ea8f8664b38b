"""Where strides matter in a graph of ATen's ops: which ops take any, and how a tensor is brought to those that were traced."""

from typing import Any, List, Optional, Tuple

import torch

from dlpipe.torch_fusion import FUSED
from dlpipe.torch_kernels import KERNELS

aten = torch.ops.aten
FxNode = Any  # a Node: what its arguments are, types don't know
Order = Tuple[int, ...]  # axes, from the one with the largest stride on
CHANNELS_LAST: Order = (0, 2, 3, 1)

# Views that take strides, or ask for some.
_STRIDED_VIEWS = {aten.as_strided.default, aten._reshape_alias.default, aten.view_as_complex.default, aten.view.dtype}
# Ops that answer the same whatever the strides of their arguments are, beside views, those of single elements and those
# that have a kernel of dlpipe. All others may read by the strides that the graph was traced with: attention reads its last
# axis as if it were contiguous, a custom op takes what it was compiled for, and what draws random numbers draws them in
# the memory's order.
_OF_ANY_STRIDES = {
    aten._log_softmax, aten._log_softmax_backward_data, aten._native_batch_norm_legit_no_training, aten._softmax,
    aten._softmax_backward_data, aten._to_copy, aten.all, aten.amax, aten.amin, aten.any, aten.argmax, aten.argmin,
    aten.avg_pool2d, aten.avg_pool2d_backward, aten.bmm, aten.cat, aten.constant_pad_nd, aten.copy, aten.copy_, aten.cumsum,
    aten.elu_backward, aten.embedding, aten.flip, aten.gather, aten.hardsigmoid, aten.hardsigmoid_backward, aten.hardswish,
    aten.hardswish_backward, aten.index, aten.index_select, aten.leaky_relu_backward, aten.linalg_vector_norm,
    aten.masked_fill, aten.max, aten.mean, aten.min, aten.mish_backward, aten.mse_loss, aten.mse_loss_backward,
    aten.native_group_norm, aten.native_group_norm_backward, aten.prod, aten.repeat, aten.roll, aten.select_backward,
    aten.select_scatter, aten.slice_backward, aten.slice_scatter, aten.softplus, aten.softplus_backward, aten.sort,
    aten.stack, aten.sum, aten.topk, aten.upsample_bilinear2d, aten.upsample_bilinear2d_backward, aten.upsample_nearest2d,
    aten.upsample_nearest2d_backward, aten.var, aten.var_mean,
}  # fmt: skip


def takes_any_strides(node: FxNode) -> bool:
    """Whether what a node computes is the same whatever the strides of its arguments are."""
    op = node.target
    if node.op != "call_function" or node.meta.get(FUSED) or op in KERNELS:
        return True
    if not isinstance(op, torch._ops.OpOverload):
        return not isinstance(op, torch._ops.HigherOrderOperator)  # Python's own: of tuples and sizes
    if op.namespace not in ("aten", "prims"):
        return False
    return op not in _STRIDED_VIEWS and (_is_view(op) or torch.Tag.pointwise in op.tags or op.overloadpacket in _OF_ANY_STRIDES)


def _is_view(op: Any) -> bool:
    return any(argument.alias_info is not None and not argument.alias_info.is_write for argument in op._schema.arguments)


def _numbers(sizes: Any) -> List[Any]:
    """Of sizes that are symbols, what they were in the trace."""
    return [size.node.hint if isinstance(size, torch.SymInt) else size for size in sizes]


def order_of(traced: Any) -> Optional[Order]:
    """The axes of a tensor in the order of its strides; None where there are gaps between its elements."""
    if not isinstance(traced, torch.Tensor) or traced.layout is not torch.strided:
        return None
    sizes, strides = _numbers(traced.shape), _numbers(traced.stride())
    if None in sizes or None in strides:
        return None
    order = sorted(range(len(sizes)), key=lambda axis: -strides[axis])
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    return tuple(order)


def in_order(tensor: torch.Tensor, order: Order) -> torch.Tensor:
    """The tensor where its axes lie in this order, else a copy with axes that do."""
    turned = tensor.permute(order)
    if turned.is_contiguous():
        return tensor
    back = sorted(range(len(order)), key=order.__getitem__)
    return turned.contiguous().permute(back).data  # `.data`: a tensor of its own, see torch_kernels.as_torch
