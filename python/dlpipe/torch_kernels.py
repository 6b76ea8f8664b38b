"""ATen's ops on dlpipe's kernels: one function per op, called with ATen's arguments.

Images in the middle of a graph are `KernelTensor`s, logically [N,H,W,C], in the layout that the last kernel chose (blocks of
channels, or plain). Everything else is a torch tensor. A torch tensor is passed to a kernel without a copy if its memory
layout is one that the kernel accepts: contiguous, or channels_last for images. A function returns NotImplemented if it has no
kernel for its arguments; then PyTorch runs the op.
"""

import functools
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import torch

from dlpipe._dlpipe import KernelCall, KernelTensor

aten = torch.ops.aten
_DTYPE_NAMES = {torch.float32: "f32", torch.uint8: "u8", torch.int32: "i32"}

KERNELS: Dict[Any, Callable[..., Any]] = {}
# The ops of KERNELS for which PyTorch may be faster. A measurement decides between the two, once per shape.
MEASURED: Set[Any] = set()


def _kernel(op: Any, measured: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[op] = function
        if measured:
            MEASURED.add(op)
        return function

    return register


@functools.lru_cache(maxsize=None)
def _call(op: str, **attrs: Any) -> KernelCall:
    return KernelCall(op, {name: list(value) if isinstance(value, tuple) else value for name, value in attrs.items()})


def _pair(values: Sequence[int]) -> Tuple[int, int]:
    return (int(values[0]), int(values[-1]))


def _is_f32(*tensors: Any) -> bool:
    return all(
        t is None
        or isinstance(t, KernelTensor)
        or (t.dtype is torch.float32 and t.device.type == "cpu" and t.numel() > 0)
        for t in tensors
    )


def rank(value: Any) -> int:
    return len(value.shape)


def image_shape(value: Any) -> List[int]:
    """[N,H,W,C] of a KernelTensor or a torch tensor [N,C,H,W]."""
    if isinstance(value, KernelTensor):
        return list(value.shape)
    n, c, h, w = value.shape
    return [n, h, w, c]


def image(value: Any) -> KernelTensor:
    """A torch tensor [N,C,H,W] as [N,H,W,C], sharing its memory."""
    if isinstance(value, KernelTensor):
        return value
    n, c, h, w = value.stride()
    return KernelTensor.borrow(value, value.data_ptr(), image_shape(value), [n, h, w, c], _DTYPE_NAMES[value.dtype], 1)


def plain(value: Optional[torch.Tensor]) -> Optional[KernelTensor]:
    """A torch tensor with its axes unchanged, sharing its memory."""
    if value is None:
        return None
    strides = [] if value.is_contiguous() else list(value.stride())
    return KernelTensor.borrow(value, value.data_ptr(), list(value.shape), strides, _DTYPE_NAMES[value.dtype], 1)


def as_torch(value: Any) -> Any:
    """A KernelTensor as [N,C,H,W], sharing its memory if that is plain, else as a copy. Other values are unchanged."""
    return _no_view(value.plain().torch().permute(0, 3, 1, 2)) if isinstance(value, KernelTensor) else value


def _no_view(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as a non-view tensor: autograd forbids in-place changes of views that a compiled graph returns."""
    return tensor.data


def save(value: Any) -> Any:
    """The form in which the backward graph keeps a value, without a copy. Blocks of channels become a fifth axis:
    [N,C/block,H,W,block]."""
    if not isinstance(value, KernelTensor):
        return value
    return value.torch() if value.block > 1 else value.torch().permute(0, 3, 1, 2)


def restore(value: Any, expected: Any) -> Any:
    """Undoes `save`. `expected`: the value that the backward graph was traced with."""
    if not isinstance(value, torch.Tensor) or not isinstance(expected, torch.Tensor) or expected.dim() != 4:
        return value
    if value.dim() == 5:
        n, blocks, h, w, block = value.shape
        shape = [n, h, w, blocks * block]
        return KernelTensor.borrow(value, value.data_ptr(), shape, [], _DTYPE_NAMES[value.dtype], block)
    return image(value) if value.dtype is not expected.dtype else value


def _conv(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int, activation: str = "none"
) -> KernelCall:
    return _call(
        "conv2d",
        stride=_pair(stride),
        padding=_pair(padding),
        dilation=_pair(dilation),
        groups=int(groups),
        activation=activation,
    )


@_kernel(aten.convolution.default, measured=True)
def convolution(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, _: Any, groups: int
) -> Any:
    if transposed or rank(x) != 4 or not _is_f32(x, weight, bias):
        return NotImplemented
    return _conv(stride, padding, dilation, groups).forward([image(x), plain(weight), plain(bias)])[0]


def convolution_relu(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, _: Any, groups: int
) -> Any:
    call = _conv(stride, padding, dilation, groups, "relu")
    return call.forward([image(x), plain(weight), plain(bias)])[0]


def _wanted(mask: Sequence[bool]) -> int:
    return sum(1 << i for i, wants in enumerate(mask) if wants)


@_kernel(aten.convolution_backward.default, measured=True)
def convolution_backward(
    grad: Any,
    x: Any,
    weight: Any,
    _sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    _: Any,
    groups: int,
    mask: Sequence[bool],
) -> Any:
    if transposed or rank(x) != 4 or not _is_f32(grad, x, weight):
        return NotImplemented
    call = _conv(stride, padding, dilation, groups)
    shapes = [image_shape(x), list(weight.shape), [weight.shape[0]]]
    of_x, of_weight, of_bias = call.backward(
        [image(x), plain(weight), None], shapes, [None], [image(grad)], _wanted(mask)
    )
    return of_x, of_weight and of_weight.torch(), of_bias and of_bias.torch()


def _batch_norm(momentum: float, eps: float, relu: bool) -> KernelCall:
    return _call("batch_norm", epsilon=float(eps), momentum=float(momentum), training=True, relu=relu)


@_kernel(aten._native_batch_norm_legit_functional.default)
def batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> Any:
    if not training or weight is None or bias is None or rank(x) != 4 or not _is_f32(x, weight, bias, mean, variance):
        return NotImplemented
    return batch_norm_then(x, weight, bias, mean, variance, momentum, eps, None, False)


def batch_norm_then(
    x: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    momentum: float,
    eps: float,
    residual: Any,
    relu: bool,
) -> Any:
    """Batch norm in training, plus `residual` (or None), then relu if asked, in one pass."""
    mean, variance = mean.clone(), variance.clone()  # the graph is functional: the kernel writes to these
    inputs = [image(x), plain(weight), plain(bias), plain(mean), plain(variance)]
    inputs.append(None if residual is None else image(residual))
    y, batch_mean, batch_invstd = _batch_norm(momentum, eps, relu).forward(inputs)
    return y, batch_mean.torch(), batch_invstd.torch(), mean, variance


@_kernel(aten.native_batch_norm_backward.default)
def batch_norm_backward(
    grad: Any,
    x: Any,
    weight: Any,
    _mean: Any,
    _variance: Any,
    batch_mean: Any,
    batch_invstd: Any,
    training: bool,
    eps: float,
    mask: Sequence[bool],
) -> Any:
    if not training or weight is None or rank(x) != 4 or not _is_f32(grad, x, weight, batch_mean, batch_invstd):
        return NotImplemented
    return _batch_norm_backward(grad, x, weight, batch_mean, batch_invstd, eps, _wanted(mask), None)[:3]


def batch_norm_relu_backward(
    grad: Any, output: Any, x: Any, weight: Any, batch_mean: Any, batch_invstd: Any, eps: float, mask: Sequence[bool]
) -> Any:
    """The gradients of batch norm followed by relu, which returned `output`. mask[3]: return the masked gradient, too."""
    wanted = _wanted(mask[:3]) | (1 << 5 if mask[3] else 0)
    return _batch_norm_backward(grad, x, weight, batch_mean, batch_invstd, eps, wanted, output)


def _batch_norm_backward(
    grad: Any, x: Any, weight: Any, batch_mean: Any, batch_invstd: Any, eps: float, wanted: int, output: Any
) -> Any:
    channels = [weight.shape[0]]
    x = image(x)
    shapes = [list(x.shape), channels, channels, channels, channels, list(x.shape)]
    gradients = _batch_norm(0.1, eps, output is not None).backward(
        [x, plain(weight)],
        shapes,
        [None if output is None else image(output), plain(batch_mean), plain(batch_invstd)],
        [image(grad)],
        wanted,
    )
    of_x, of_weight, of_bias = gradients[:3]
    residual = gradients[5] if wanted >> 5 else None
    return of_x, of_weight and of_weight.torch(), of_bias and of_bias.torch(), residual


@_kernel(aten.relu.default)
def relu(x: Any) -> Any:
    return _call("relu").forward([x])[0] if isinstance(x, KernelTensor) else NotImplemented


@_kernel(aten.threshold_backward.default)
def threshold_backward(grad: Any, output: Any, threshold: float) -> Any:
    if threshold != 0 or not _one_is_an_image(grad, output):
        return NotImplemented
    return _elementwise_backward(_call("relu"), grad, None, output)


@_kernel(aten.hardtanh.default)
def hardtanh(x: Any, low: float = -1.0, high: float = 1.0) -> Any:
    if not isinstance(x, KernelTensor):
        return NotImplemented
    return _call("clip", low=float(low), high=float(high)).forward([x])[0]


@_kernel(aten.hardtanh_backward.default)
def hardtanh_backward(grad: Any, x: Any, low: float, high: float) -> Any:
    if not _one_is_an_image(grad, x):
        return NotImplemented
    return _elementwise_backward(_call("clip", low=float(low), high=float(high)), grad, x, None)


def _elementwise_backward(call: KernelCall, grad: Any, x: Any, output: Any) -> Any:
    shape = image_shape(grad)
    # The gradient is converted to the layout of the saved value.
    inputs = [image(x) if x is not None else None]
    outputs = [image(output) if output is not None else None]
    return call.backward(inputs, [shape], outputs, [image(grad)], 1)[0]


def _one_is_an_image(a: Any, b: Any) -> bool:
    return (
        (isinstance(a, KernelTensor) or isinstance(b, KernelTensor))
        and isinstance(a, (KernelTensor, torch.Tensor))
        and isinstance(b, (KernelTensor, torch.Tensor))
        and rank(a) == rank(b) == 4
        and _is_f32(a, b)
        and image_shape(a) == image_shape(b)
    )


@_kernel(aten.add.Tensor)
def add(a: Any, b: Any, alpha: float = 1) -> Any:
    if alpha != 1 or not _one_is_an_image(a, b):
        return NotImplemented
    return _call("add").forward([image(a), image(b)])[0]


def _pool(kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> KernelCall:
    return _call(
        "max_pool2d",
        kernel=_pair(kernel),
        stride=_pair(stride or kernel),
        padding=_pair(padding),
        count_include_pad=True,
        ceil_mode=bool(ceil_mode),
    )


@_kernel(aten.max_pool2d_with_indices.default)
def max_pool2d(
    x: Any, kernel: Any, stride: Any = (), padding: Any = (0,), dilation: Any = (1,), ceil_mode: bool = False
) -> Any:
    """The indices are the kernel's own: positions within windows, in the memory order of the output."""
    if _pair(dilation) != (1, 1) or rank(x) != 4 or not _is_f32(x):
        return NotImplemented
    return tuple(_pool(kernel, stride, padding, ceil_mode).forward([image(x)]))


@_kernel(aten.max_pool2d_with_indices_backward.default)
def max_pool2d_backward(
    grad: Any, x: Any, kernel: Any, stride: Any, padding: Any, _: Any, ceil_mode: bool, indices: Any
) -> Any:
    if not isinstance(indices, KernelTensor):
        return NotImplemented
    call = _pool(kernel, stride, padding, ceil_mode)
    return call.backward([None], [image_shape(x)], [None, indices], [image(grad)], 1)[0]


@_kernel(aten.mean.dim)
def mean(x: Any, axes: Any, keep: bool = False, dtype: Any = None) -> Any:
    if dtype is not None or not isinstance(x, KernelTensor) or sorted(a % 4 for a in axes or ()) != [2, 3]:
        return NotImplemented
    pooled = _call("global_avg_pool").forward([x])[0].torch()
    return _no_view(pooled.reshape(*pooled.shape, 1, 1)) if keep else pooled


@_kernel(aten._adaptive_avg_pool2d.default)
def adaptive_avg_pool2d(x: Any, size: Any) -> Any:
    if not isinstance(x, KernelTensor):
        return NotImplemented
    if list(size) == image_shape(x)[1:3]:
        return x
    return mean(x, [2, 3], True) if list(size) == [1, 1] else NotImplemented


@_kernel(aten._adaptive_avg_pool2d_backward.default)
def adaptive_avg_pool2d_backward(grad: Any, x: Any) -> Any:
    is_same = isinstance(grad, KernelTensor) and image_shape(grad) == image_shape(x)
    return grad if is_same else NotImplemented


@_kernel(aten.clone.default)
def clone(x: Any, memory_format: Any = None) -> Any:
    return x if isinstance(x, KernelTensor) else NotImplemented


@_kernel(aten.detach.default)
def detach(x: Any) -> Any:
    return x if isinstance(x, KernelTensor) else NotImplemented


# A view of a value in blocks or channels_last may need a copy.
@_kernel(aten.view.default)
def view(x: Any, shape: Any) -> Any:
    return as_torch(x).reshape(shape)


@_kernel(aten._unsafe_view.default)
def unsafe_view(x: Any, shape: Any) -> Any:
    return as_torch(x).reshape(shape)


def _is_transposed(x: torch.Tensor) -> bool:
    return not x.is_contiguous() and x.t().is_contiguous()


@_kernel(aten.mm.default, measured=True)
def mm(a: Any, b: Any) -> Any:
    if not _is_f32(a, b):
        return NotImplemented
    flips = _is_transposed(a), _is_transposed(b)
    call = _call("matmul", transpose_a=flips[0], transpose_b=flips[1])
    return call.forward([plain(x.t() if flip else x) for x, flip in zip((a, b), flips)])[0].torch()


@_kernel(aten.addmm.default, measured=True)
def addmm(bias: Any, x: Any, weight: Any, beta: float = 1, alpha: float = 1) -> Any:
    if beta != 1 or alpha != 1 or bias.dim() != 1 or not _is_transposed(weight) or not _is_f32(bias, x, weight):
        return NotImplemented
    return _call("linear", activation="none").forward([plain(x), plain(weight.t()), plain(bias)])[0].torch()


@_kernel(aten.gelu.default, measured=True)
def gelu(x: Any, approximate: str = "none") -> Any:
    if approximate != "none" or isinstance(x, KernelTensor) or not _is_f32(x) or not x.is_contiguous():
        return NotImplemented
    return _call("gelu").forward([plain(x)])[0].torch()


@_kernel(aten.gelu_backward.default, measured=True)
def gelu_backward(grad: Any, x: Any, approximate: str = "none") -> Any:
    if approximate != "none" or isinstance(x, KernelTensor) or isinstance(grad, KernelTensor):
        return NotImplemented
    if not _is_f32(grad, x) or not x.is_contiguous():
        return NotImplemented
    return _call("gelu").backward([plain(x)], [list(x.shape)], [None], [plain(grad)], 1)[0].torch()


@_kernel(aten.native_layer_norm.default, measured=True)
def layer_norm(x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Any:
    if len(shape) != 1 or weight is None or bias is None or isinstance(x, KernelTensor) or not _is_f32(x, weight, bias):
        return NotImplemented
    call = _call("layer_norm", epsilon=float(eps), output="f32")
    y, row_mean, row_invstd = (each.torch() for each in call.forward([plain(x), plain(weight), plain(bias)]))
    statistics = [*x.shape[:-1], 1]
    return y, _no_view(row_mean.reshape(statistics)), _no_view(row_invstd.reshape(statistics))


@_kernel(aten.native_layer_norm_backward.default, measured=True)
def layer_norm_backward(
    grad: Any,
    x: Any,
    shape: Sequence[int],
    row_mean: Any,
    row_invstd: Any,
    weight: Any,
    bias: Any,
    mask: Sequence[bool],
) -> Any:
    tensors = (grad, x, row_mean, row_invstd, weight)
    if len(shape) != 1 or weight is None or any(isinstance(t, KernelTensor) for t in tensors) or not _is_f32(*tensors):
        return NotImplemented
    call = _call("layer_norm", epsilon=1e-5, output="f32")
    shapes = [list(x.shape), list(shape), list(shape)]
    rows = [row_mean.reshape(x.shape[:-1]), row_invstd.reshape(x.shape[:-1])]
    outputs = [None, plain(rows[0]), plain(rows[1])]
    gradients = call.backward([plain(x), plain(weight), None], shapes, outputs, [plain(grad)], _wanted(mask))
    return tuple(None if each is None else each.torch() for each in gradients)
