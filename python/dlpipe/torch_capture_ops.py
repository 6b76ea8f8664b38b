"""ATen's ops as ONNX-shaped nodes: what `torch_capture.py` calls for each call of a traced model.

A row of `OPS` is an op's name without its overload. Its function gets the graph, where `graph.sizes` is the output's shape; the
arguments without defaults by position; and by ATen's names those of the others that differ from their defaults and are not in
`WITHOUT_EFFECT`. A call with an argument that the function lacks is refused, so a function has no `**kwargs`. It returns the output,
or a list of several. Nodes of the domain "dlpipe" are those that ONNX lacks; engine/onnx/import_training.cpp has their code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dlpipe import onnx_bytes
from dlpipe.torch_capture import _BATCHES, Batch, Drawn, Graph, Named, Pair, Ref, refuse

Op = Callable[..., Any]
_END = 2**63 - 1


def _rank(g: Graph, x: Any) -> int:
    return len(g.shape(x))


def _axis(g: Graph, x: Any, axis: int) -> int:
    return axis % max(1, _rank(g, x))


def _axes(g: Graph, x: Any, axes: int | Sequence[int] | None) -> list[int]:
    if axes is None or axes == []:
        return list(range(_rank(g, x)))
    return [_axis(g, x, one) for one in ([axes] if isinstance(axes, int) else axes)]


def _pair(value: int | Sequence[int], count: int = 2) -> list[int]:
    values = [value] if isinstance(value, int) else list(value)
    return values * count if len(values) == 1 else values


# ---- elementwise


def _plain(name: str, **attributes: Any) -> Op:
    """An op of one tensor."""
    return lambda g, x: g.emit(name, x, **attributes)


def _same(g: Graph, x: Any, *_: Any) -> Any:
    """The other arguments are a dtype or a device, or a tensor that has them."""
    return x if not isinstance(x, Ref) or g.dtype_of(x) == g.dtype else g.emit("Identity", x)


def _binary(name: str) -> Op:
    def op(g: Graph, a: Any, b: Any, alpha: float = 1, rounding_mode: str | None = None) -> Any:
        if rounding_mode is not None:
            raise refuse("a division that rounds")
        if name == "Add" and g.dtype is torch.bool:
            raise refuse("a sum of booleans")
        if name == "Mul":
            for x, drawn in ((a, b), (b, a)):
                if isinstance(drawn, Drawn):
                    return _dropped(g, x, drawn)
        if isinstance(a, Drawn) and name == "Div" and isinstance(b, float) and math.isclose(b, a.keep, rel_tol=1e-6):
            return Drawn(a.sizes, a.keep, True)
        if alpha != 1:
            b = b * alpha if isinstance(b, (int, float)) else g.emit("Mul", b, float(alpha))
        return g.emit(name, a, b)

    return op


def _dropped(g: Graph, x: Any, drawn: Drawn) -> Ref:
    if not drawn.is_scaled:
        raise refuse("stochastic depth that doesn't divide by the keep probability")
    if drawn.keep >= 1:
        return x
    sizes = [0 if isinstance(size, Batch) else size for size in drawn.sizes]
    if any(isinstance(size, Batch) and (i > 0 or size.times != 1) for i, size in enumerate(drawn.sizes)):
        raise refuse("stochastic depth whose mask doesn't have the batch as its first axis only")
    return g.emit("DropPath", x, domain="dlpipe", ratio=1.0 - drawn.keep, sizes=sizes)


def _rsub(g: Graph, a: Any, b: Any, alpha: float = 1) -> Ref:
    return g.emit("Sub", b, a if alpha == 1 else g.emit("Mul", a, float(alpha)))


def _addcmul(g: Graph, x: Any, a: Any, b: Any, value: float = 1) -> Ref:
    product = g.emit("Mul", a, b)
    return g.emit("Add", x, product if value == 1 else g.emit("Mul", product, float(value)))


def _lerp(g: Graph, x: Any, end: Any, weight: Any) -> Ref:
    return g.emit("Add", x, g.emit("Mul", g.emit("Sub", end, x), float(weight) if isinstance(weight, (int, float)) else weight))


def _pow(g: Graph, x: Any, exponent: Any) -> Any:
    exponent = _number(exponent)
    if not isinstance(exponent, float):
        raise refuse("a power whose exponent is a tensor")
    if isinstance(x, (int, float)):
        raise refuse("a power whose base is a number")
    return x if exponent == 1 else g.emit("Pow", x, exponent)


def _clamp(g: Graph, x: Any, min: Any = None, max: Any = None) -> Any:
    if all(one is None or isinstance(one, (int, float)) for one in (min, max)):
        return g.emit("Clip", x, *[None if one is None else float(one) for one in (min, max)])
    # PyTorch halves the gradient where x equals one bound, as maximum and minimum do. Where x equals both, x has all of it.
    y = x if min is None else g.emit("Max", x, min)
    y = y if max is None else g.emit("Min", y, max)
    if min is None or max is None:
        return y
    low = g.emit("Where", g.emit("Less", x, min), min, x)
    return g.emit("Where", g.emit("Equal", min, max), g.emit("Where", g.emit("Greater", x, max), max, low), y)


def _number(value: Any) -> Any:
    """A number, or a tensor of one that is known now, as a float. Other values are unchanged."""
    is_one = isinstance(value, (int, float)) or isinstance(value, torch.Tensor) and value.dim() == 0
    return float(value) if is_one else value


def _root(g: Graph, squares: Any) -> Ref:
    """The root of a sum of squares, whose gradient is 0 where the sum is 0, as that of PyTorch's norm and std. A root alone would have
    0 times infinity there."""
    is_zero = g.emit("Cast", g.emit("Equal", squares, 0.0), to=onnx_bytes.FLOAT)
    return g.emit("Sub", g.emit("Sqrt", g.emit("Add", squares, is_zero)), is_zero)


def _rsqrt(g: Graph, x: Any) -> Ref:
    return g.emit("Reciprocal", g.emit("Sqrt", x))


def _leaky_relu(g: Graph, x: Any, negative_slope: float = 0.01) -> Ref:
    return g.emit("LeakyRelu", x, alpha=float(negative_slope))


def _elu(g: Graph, x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Ref:
    if scale != 1 or input_scale != 1:
        raise refuse("elu with scales")
    return g.emit("Elu", x, alpha=float(alpha))


def _softplus(g: Graph, x: Any, beta: float = 1, threshold: float = 20) -> Ref:
    if beta == 0:
        raise refuse("a softplus with beta=0")
    scaled = x if beta == 1 else g.emit("Mul", x, float(beta))
    y = g.emit("Softplus", scaled)
    y = y if beta == 1 else g.emit("Mul", y, 1.0 / beta)
    # Above 20 the two are the same f32 number, and so are their gradients.
    return y if threshold >= 20 else g.emit("Where", g.emit("Greater", scaled, float(threshold)), x, y)


def _prelu(g: Graph, x: Any, weight: Any) -> Ref:
    count, rank = g.shape(weight)[0], _rank(g, x)
    return g.emit("PRelu", x, weight if count == 1 else g.reshape(weight, [count] + [1] * (rank - 2)))


def _gelu(g: Graph, x: Any, approximate: str = "none") -> Ref:
    return g.emit("Gelu", x, approximate=approximate)


def _where(g: Graph, which: Any, yes: Any, no: Any) -> Ref:
    return g.emit("Where", which, yes, no)


def _masked_fill(g: Graph, x: Any, mask: Any, value: Any) -> Ref:
    return g.emit("Where", mask, float(value) if isinstance(value, (int, float)) else value, x)


# ---- products


def _linear(g: Graph, x: Any, weight: Any, bias: Any = None) -> Ref:
    return g.emit("Linear", x, weight, bias, domain="dlpipe")


def _addmm(g: Graph, bias: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Ref:
    return g.emit("Gemm", a, b, bias, alpha=float(alpha), beta=float(beta))


def _baddbmm(g: Graph, x: Any, a: Any, b: Any, beta: float = 1, alpha: float = 1) -> Ref:
    product = g.emit("MatMul", a, b)
    if alpha != 1:
        product = g.emit("Mul", product, float(alpha))
    return g.emit("Add", x if beta == 1 else g.emit("Mul", x, float(beta)), product)


def _einsum(g: Graph, equation: str, tensors: Sequence[Any]) -> Ref:
    return g.emit("Einsum", *tensors, equation=equation)


def _bilinear(g: Graph, a: Any, b: Any, weight: Any, bias: Any = None) -> Ref:
    rows = "nmlk"[: _rank(g, a) - 1]
    product = g.emit("Einsum", a, weight, b, equation=f"{rows}i,oij,{rows}j->{rows}o")
    return product if bias is None else g.emit("Add", product, bias)


def _turned(g: Graph, x: Any) -> Ref:
    rank = _rank(g, x)
    return g.emit("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


def _attention(g: Graph, q: Any, k: Any, v: Any, attn_mask: Any = None, dropout_p: float = 0, is_causal: bool = False,
               scale: float | None = None, enable_gqa: bool = False) -> Ref:  # fmt: skip
    if enable_gqa:
        raise refuse("attention with fewer key heads than query heads")
    width, rows, columns = g.shape(q)[-1], g.shape(q)[-2], g.shape(k)[-2]
    factor = 1 / math.sqrt(width) if scale is None else float(scale)
    scores = g.emit("MatMul", q if factor == 1 else g.emit("Mul", q, factor), _turned(g, k))
    if is_causal:
        scores = g.emit("Add", scores, torch.full((rows, columns), -math.inf).triu(1))
    elif attn_mask is not None and g.dtype_of(attn_mask) is torch.bool:
        mask = attn_mask.tensor if isinstance(attn_mask, Named) else attn_mask
        if isinstance(mask, torch.Tensor):
            scores = g.emit("Add", scores, torch.zeros(mask.shape).masked_fill(~mask, -math.inf))
        else:
            scores = g.emit("Where", mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = g.emit("Add", scores, attn_mask)
    weights = g.emit("Softmax", scores, axis=-1)
    return g.emit("MatMul", _dropout(g, weights, dropout_p, True), v)


# ---- convolutions, pools, images of another size


def _pads(padding: Any, weight: Sequence[Any], dilation: Sequence[int]) -> list[int]:
    axes = len(weight) - 2
    if padding == "valid":
        return [0] * (2 * axes)
    if padding == "same":
        all_ = [d * (k - 1) for d, k in zip(dilation, weight[2:])]
        return [one // 2 for one in all_] + [one - one // 2 for one in all_]
    return _pair(padding, axes) * 2


def _conv(g: Graph, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Ref:
    sizes = g.shape(weight)
    axes = len(sizes) - 2
    if axes > 2:
        raise refuse(f"a convolution of {axes} axes")
    dilation = _pair(dilation, axes)
    return g.emit("Conv", x, weight, bias, strides=_pair(stride, axes), pads=_pads(padding, sizes, dilation), dilations=dilation, group=groups)


def _conv_transpose(g: Graph, x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
                    groups: int = 1, dilation: Any = 1) -> Ref:  # fmt: skip
    axes = len(g.shape(weight)) - 2
    return g.emit("ConvTranspose", x, weight, bias, strides=_pair(stride, axes), pads=_pair(padding, axes) * 2, dilations=_pair(dilation, axes),
                  output_padding=_pair(output_padding, axes), group=groups)  # fmt: skip


def _convolution(g: Graph, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
                 groups: int) -> Ref:  # fmt: skip
    if transposed:
        return _conv_transpose(g, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(g, x, weight, bias, stride, padding, dilation, groups)


def _max_pool(g: Graph, x: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False) -> Ref:
    kernel = _pair(kernel_size)
    return g.emit("MaxPool", x, kernel_shape=kernel, strides=_pair(stride or kernel), pads=_pair(padding) * 2, dilations=_pair(dilation),
                  ceil_mode=int(ceil_mode))  # fmt: skip


def _max_pool_with_indices(g: Graph, x: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
                           ceil_mode: bool = False) -> list[Ref]:  # fmt: skip
    return [_max_pool(g, x, kernel_size, stride, padding, dilation, ceil_mode)]


def _avg_pool(g: Graph, x: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True,
              divisor_override: int | None = None) -> Ref:  # fmt: skip
    if divisor_override is not None:
        raise refuse("an average pool with divisor_override")
    kernel = _pair(kernel_size)
    return g.emit("AveragePool", x, kernel_shape=kernel, strides=_pair(stride or kernel), pads=_pair(padding) * 2, ceil_mode=int(ceil_mode),
                  count_include_pad=int(count_include_pad))  # fmt: skip


def _adaptive(pool: str) -> Op:
    def op(g: Graph, x: Any, output_size: Any) -> Any:
        shape = g.shape(x)
        axes = len(shape) - (2 if len(shape) > 2 else 1)
        sizes, wanted = shape[-axes:], (g.sizes if pool == "AveragePool" else g.sizes[0])[-axes:]  # a max pool has indices, too
        if sizes == wanted:
            return x
        if all(one == 1 for one in wanted) and pool == "AveragePool":
            return g.emit("ReduceMean", x, g.ints(range(-axes, 0)), keepdims=1)
        if axes == 2 and all(size % one == 0 for size, one in zip(sizes, wanted)):
            kernel = [size // one for size, one in zip(sizes, wanted)]
            return g.emit(pool, x, kernel_shape=kernel, strides=kernel)
        # Windows of unequal sizes, along each axis.
        if pool != "AveragePool":
            for axis, size, count in zip(range(len(shape) - axes, len(shape)), sizes, wanted):
                x = _largest_of_windows(g, x, axis, size, count)
            return x
        y = g.emit("MatMul", x, _windows(sizes[-1], wanted[-1]).T.contiguous())
        return y if axes == 1 else g.emit("MatMul", _windows(sizes[-2], wanted[-2]), y)

    return op


def _bounds(size: int, count: int) -> list[tuple[int, int]]:
    """The beginning and end of each window of an axis in adaptive pools."""
    return [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]


def _windows(size: int, count: int) -> torch.Tensor:
    """A matrix [count, size]. Row i averages window i of an axis."""
    rows = torch.zeros(count, size)
    for i, (begin, end) in enumerate(_bounds(size, count)):
        rows[i, begin:end] = 1 / (end - begin)
    return rows


def _largest_of_windows(g: Graph, x: Any, axis: int, size: int, count: int) -> Ref:
    along = g.ints([axis])
    parts = [g.emit("ReduceMax", g.emit("Slice", x, g.ints([begin]), g.ints([end]), along), along, keepdims=1)
             for begin, end in _bounds(size, count)]  # fmt: skip
    return parts[0] if count == 1 else g.emit("Concat", *parts, axis=axis)


def _resize(g: Graph, x: Any, mode: str, places: str, factors: Sequence[float | None] | None) -> Ref:
    for size, made, factor in zip(g.shape(x)[2:], g.sizes[2:], factors or ()):
        if factor is not None and size * factor != made:
            raise refuse(f"a scale_factor of {factor:.6g} makes {made} of {size}, and places pixels by the factor instead of the sizes; give "
                         "recompute_scale_factor=True or size=")  # fmt: skip
    return g.emit("Resize", x, None, None, g.ints(g.sizes[2:]), mode=mode, coordinate_transformation_mode=places, nearest_mode="floor",
                  axes=[2, 3])  # fmt: skip


def _nearest(g: Graph, x: Any, output_size: Any, scale_factors: Any = None, scales_h: Any = None, scales_w: Any = None) -> Ref:
    return _resize(g, x, "nearest", "asymmetric", scale_factors or (scales_h, scales_w))


def _bilinear_resize(g: Graph, x: Any, output_size: Any, align_corners: bool, scale_factors: Any = None, scales_h: Any = None,
                     scales_w: Any = None) -> Ref:  # fmt: skip
    if align_corners:  # PyTorch ignores the factors
        return _resize(g, x, "linear", "align_corners", None)
    return _resize(g, x, "linear", "half_pixel", scale_factors or (scales_h, scales_w))


def _pixel_shuffle(g: Graph, x: Any, factor: int) -> Ref:
    return g.emit("DepthToSpace", x, blocksize=factor, mode="CRD")


def _pixel_unshuffle(g: Graph, x: Any, factor: int) -> Ref:
    return g.emit("SpaceToDepth", x, blocksize=factor, mode="CRD")


def _pad(g: Graph, x: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Ref:
    rank = _rank(g, x)
    before, behind = [0] * rank, [0] * rank
    for i in range(len(pad) // 2):  # the last axis first
        before[rank - 1 - i], behind[rank - 1 - i] = pad[2 * i], pad[2 * i + 1]
    modes = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return g.emit("Pad", x, g.ints(before + behind), float(value or 0), mode=modes[mode])


# ---- norms, softmax, reductions


def _ones(size: Any, value: float = 1.0) -> torch.Tensor:
    return torch.full((size,), value)


def _affine(channels: int, weight: Any, bias: Any) -> tuple[Any, Any]:
    return _ones(channels) if weight is None else weight, _ones(channels, 0.0) if bias is None else bias


def _batch_norm(g: Graph, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float,
                cudnn_enabled: bool) -> Ref:  # fmt: skip
    channels, rank = g.shape(x)[1], _rank(g, x)
    if mean is None:
        # Norms by the batch's statistics that keep none, such as those of a convolution's weights.
        y = _standardized(g, x, [axis for axis in range(rank) if axis != 1], eps)
        sizes = [channels] + [1] * (rank - 2)
        y = y if weight is None else g.emit("Mul", y, g.reshape(weight, sizes))
        return y if bias is None else g.emit("Add", y, g.reshape(bias, sizes))
    weight, bias = _affine(channels, weight, bias)
    # ONNX's momentum is the weight of the previous statistics.
    return g.emit("BatchNormalization", x, weight, bias, mean, var, epsilon=float(eps), momentum=1.0 - momentum, training_mode=int(training))


def _spread(g: Graph, x: Any, axes: Sequence[int], keepdim: bool = True) -> tuple[Ref, Ref, Ref]:
    """The mean (with all axes), the differences from it, and the variance."""
    mean = g.emit("ReduceMean", x, g.ints(axes), keepdims=1)
    distance = g.emit("Sub", x, mean)
    return mean, distance, g.emit("ReduceMean", g.emit("Mul", distance, distance), g.ints(axes), keepdims=int(keepdim))


def _standardized(g: Graph, x: Any, axes: Sequence[int], eps: float) -> Ref:
    _, distance, variance = _spread(g, x, axes)
    return g.emit("Div", distance, g.emit("Sqrt", g.emit("Add", variance, float(eps))))


def _layer_norm(g: Graph, x: Any, shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Ref:
    weight = torch.ones(list(shape)) if weight is None else weight
    return g.emit("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=float(eps))


def _rms_norm(g: Graph, x: Any, shape: Sequence[int], weight: Any = None, eps: float | None = None) -> Ref:
    weight = torch.ones(list(shape)) if weight is None else weight
    eps = torch.finfo(torch.float32).eps if eps is None else eps
    return g.emit("RMSNormalization", x, weight, axis=-len(shape), epsilon=float(eps))


def _group_norm(g: Graph, x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Ref:
    channels = g.shape(x)[1]
    weight, bias = _affine(channels, weight, bias)
    return g.emit("GroupNormalization", x, weight, bias, num_groups=groups, epsilon=float(eps))


def _instance_norm(g: Graph, x: Any, weight: Any, bias: Any, mean: Any, var: Any, use_input_stats: bool, momentum: float, eps: float,
                   cudnn_enabled: bool) -> Ref:  # fmt: skip
    if not use_input_stats or mean is not None:
        raise refuse("an instance norm with running statistics")
    channels = g.shape(x)[1]
    weight, bias = _affine(channels, weight, bias)
    return g.emit("InstanceNormalization", x, weight, bias, epsilon=float(eps))


def _softmax(name: str) -> Op:
    return lambda g, x, dim: g.emit(name, x, axis=dim)


def _weight_norm(g: Graph, v: Any, gain: Any, dim: int = 0) -> Ref:
    """Salimans, Kingma, "Weight normalization", 2016; dim -1: by the norm of the whole."""
    norm = _vector_norm(g, v, dim=None if dim == -1 else [axis for axis in range(_rank(g, v)) if axis != dim], keepdim=dim != -1)
    return g.emit("Mul", v, g.emit("Div", gain, norm))


def _extreme(name: str, of_two: str) -> Op:
    """max and min: of all elements, of an axis (the indices can't be read), or of two tensors."""

    def op(g: Graph, x: Any, other_or_dim: Any = None, keepdim: bool = False) -> Any:
        if other_or_dim is not None and not isinstance(other_or_dim, int):
            return g.emit(of_two, x, other_or_dim)
        y = _reduce(name)(g, x, other_or_dim, keepdim)
        return y if other_or_dim is None else [y]

    return op


def _reduce(name: str) -> Op:
    def op(g: Graph, x: Any, dim: Any = None, keepdim: bool = False) -> Ref:
        return g.emit(name, x, g.ints(_axes(g, x, dim)), keepdims=int(keepdim))

    return op


def _variance(g: Graph, x: Any, dim: Any, correction: float, keepdim: bool) -> tuple[Ref, Ref]:
    axes = _axes(g, x, dim)
    sizes = [g.shape(x)[axis] for axis in axes]
    mean, _, variance = _spread(g, x, axes, keepdim)
    if correction:
        if any(isinstance(size, Batch) for size in sizes):
            raise refuse("a variance over the batch; give unbiased=False")
        count = math.prod(sizes)
        if count <= correction:
            raise refuse(f"a variance of {count} numbers with a correction of {correction:g}, which is NaN or infinite; give unbiased=False")
        variance = g.emit("Mul", variance, count / (count - correction))
    return variance, mean if keepdim else g.emit("Squeeze", mean, g.ints(axes))


def _correction(unbiased: Any, correction: Any) -> float:
    return float(correction if correction is not None else 1 if unbiased is None or unbiased else 0)


def _var(g: Graph, x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None) -> Ref:
    return _variance(g, x, dim, _correction(unbiased, correction), keepdim)[0]


def _std(g: Graph, x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None) -> Ref:
    return _root(g, _var(g, x, dim, unbiased, keepdim, correction))


def _var_mean(g: Graph, x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None) -> list[Ref]:
    return list(_variance(g, x, dim, _correction(unbiased, correction), keepdim))


def _std_mean(g: Graph, x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None) -> list[Ref]:
    variance, mean = _variance(g, x, dim, _correction(unbiased, correction), keepdim)
    return [_root(g, variance), mean]


def _vector_norm(g: Graph, x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Ref:
    if ord not in (1, 2):
        raise refuse(f"a norm of order {ord}")
    axes = g.ints(_axes(g, x, dim))
    if ord == 1:
        return g.emit("ReduceL1", x, axes, keepdims=int(keepdim))
    return _root(g, g.emit("ReduceSum", g.emit("Mul", x, x), axes, keepdims=int(keepdim)))


def _norm(g: Graph, x: Any, p: float | None = 2, dim: Any = None, keepdim: bool = False) -> Ref:
    return _vector_norm(g, x, 2 if p is None else p, dim, keepdim)


# ---- chance


def _dropout(g: Graph, x: Any, p: float, train: bool) -> Any:
    if not train or p == 0:
        return x
    return g.emit("Dropout", x, float(p), torch.tensor(True))


def _channel_dropout(g: Graph, x: Any, p: float, train: bool) -> Any:
    if not train or p == 0:
        return x
    return _dropped(g, x, Drawn((Batch(1), g.shape(x)[1], *[1] * (_rank(g, x) - 2)), 1 - p, True))


def _bernoulli_in_place(g: Graph, x: Any, p: Any = 0.5) -> Drawn:
    if not isinstance(p, float) or isinstance(x, Ref):
        raise refuse("random numbers whose probability is a tensor")
    return Drawn(tuple(g.shape(x)), p, False)


def _bernoulli(g: Graph, x: Any, p: Any = None) -> Drawn:
    """A draw with probabilities, which must all be the same number."""
    first = x.first if isinstance(x, Pair) else x
    if p is not None or not isinstance(first, torch.Tensor) or not bool((first == first.flatten()[0]).all()):
        raise refuse("random numbers with different probabilities")
    return Drawn(tuple(g.shape(x)), float(first.flatten()[0]), False)


# ---- tensors of one number, by the output's sizes


def _full(g: Graph, value: float) -> Any:
    made = [torch.full([size.times * batch if isinstance(size, Batch) else size for size in g.sizes], value, dtype=g.dtype) for batch in _BATCHES]
    return Pair(*made) if any(isinstance(size, Batch) for size in g.sizes) else made[0]


def _filled(value: float) -> Op:
    return lambda g, *_: _full(g, value)  # of a size, of a tensor, or of both


def _full_of(g: Graph, *args: Any) -> Any:
    """full, new_full, full_like; the number is the last."""
    return _fill(g, None, args[-1])


def _fill(g: Graph, x: Any, value: Any = 0) -> Any:
    number = _number(value)
    if not isinstance(number, float):
        raise refuse("a fill with a tensor")
    return _full(g, number)


def _copy(g: Graph, x: Any, source: Any) -> Any:
    return source if g.shape(source) == g.sizes else g.emit("Expand", source, g.ints(g.sizes))


# ---- shapes


def _view(g: Graph, x: Any, *args: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """view, reshape, flatten, squeeze and others: by the output's shape."""
    if args and isinstance(args[0], torch.dtype):
        raise refuse("a view of its bits as another dtype")
    return x if g.shape(x) == g.sizes else g.reshape(x, g.sizes)


def _permute(g: Graph, x: Any, dims: Sequence[int]) -> Ref:
    return g.emit("Transpose", x, perm=_axes(g, x, dims))


def _transpose(g: Graph, x: Any, first: int, second: int) -> Ref:
    order = list(range(_rank(g, x)))
    a, b = _axis(g, x, first), _axis(g, x, second)
    order[a], order[b] = order[b], order[a]
    return g.emit("Transpose", x, perm=order)


def _t(g: Graph, x: Any) -> Any:
    return x if _rank(g, x) < 2 else g.emit("Transpose", x, perm=[1, 0])


def _movedim(g: Graph, x: Any, source: Any, destination: Any) -> Ref:
    rank = _rank(g, x)
    sources, targets = _axes(g, x, source), _axes(g, x, destination)
    rest = iter([axis for axis in range(rank) if axis not in sources])
    placed = dict(zip(targets, sources))
    return g.emit("Transpose", x, perm=[placed[axis] if axis in placed else next(rest) for axis in range(rank)])


def _expand(g: Graph, x: Any, *_: Any) -> Any:
    return x if g.shape(x) == g.sizes else g.emit("Expand", x, g.ints(g.sizes))


def _repeat(g: Graph, x: Any, repeats: Sequence[Any]) -> Any:
    shape = g.shape(x)
    more = len(repeats) - len(shape)
    wide = x if more == 0 else g.reshape(x, [1] * more + shape)
    if all(size == 1 or times == 1 for size, times in zip([1] * more + shape, repeats)):
        return _expand(g, wide)
    return g.emit("Tile", wide, g.ints(repeats))


def _repeat_interleave(g: Graph, x: Any, repeats: Any, dim: int | None = None) -> Ref:
    if not isinstance(repeats, int) or dim is None:
        raise refuse("repeat_interleave with a tensor of repeats, or without dim")
    shape, axis = g.shape(x), _axis(g, x, dim)
    wide = g.reshape(x, shape[: axis + 1] + [1] + shape[axis + 1 :])
    wide = g.emit("Expand", wide, g.ints(shape[: axis + 1] + [repeats] + shape[axis + 1 :]))
    return g.reshape(wide, g.sizes)


def _cat(g: Graph, tensors: Sequence[Any], dim: int = 0) -> Any:
    tensors = [one for one in tensors if g.shape(one) != [0]]
    return tensors[0] if len(tensors) == 1 else g.emit("Concat", *tensors, axis=dim % len(g.sizes))


def _stack(g: Graph, tensors: Sequence[Any], dim: int = 0) -> Ref:
    axis = dim % len(g.sizes)
    return g.emit("Concat", *[g.emit("Unsqueeze", one, g.ints([axis])) for one in tensors], axis=axis)


def _split(g: Graph, x: Any, sizes_or_count: Any, dim: int = 0) -> list[Ref]:
    """split, split_with_sizes, chunk, tensor_split: by the sizes of the outputs."""
    first, shape = g.sizes[0], g.shape(x)
    differs = [axis for axis in range(len(shape)) if first[axis] != shape[axis]]
    if not differs:
        return [x]
    if any(isinstance(sizes[differs[0]], Batch) for sizes in g.sizes):
        raise refuse("a split of the batch")
    parts = g.emit("Split", x, g.ints([sizes[differs[0]] for sizes in g.sizes]), outputs=len(g.sizes), axis=differs[0])
    return parts if isinstance(parts, list) else [parts]


def _unbind(g: Graph, x: Any, dim: int = 0) -> list[Ref]:
    axis = _axis(g, x, dim)
    if isinstance(g.shape(x)[axis], Batch):
        raise refuse("it splits the batch into samples")
    return [_select(g, x, axis, i) for i in range(len(g.sizes))]


def _select(g: Graph, x: Any, dim: int, index: Any) -> Ref:
    axis = _axis(g, x, dim)
    if isinstance(g.shape(x)[axis], Batch):
        raise refuse("it takes one sample of the batch")
    return g.emit("Gather", x, torch.tensor(int(index)), axis=axis)


def _slice(g: Graph, x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    if isinstance(x, Drawn):
        return x._replace(sizes=tuple(g.sizes))
    if g.shape(x) == g.sizes and step == 1:
        return x
    if isinstance(start, Batch) or isinstance(end, Batch):
        raise refuse("it takes a part of the batch")
    axis = _axis(g, x, dim)
    part = g.emit("Slice", x, g.ints([start or 0]), g.ints([_END if end is None else end]), g.ints([axis]), g.ints([step]))
    size = g.shape(x)[axis]
    if step == 1 and isinstance(size, int):
        g.parts[part] = (axis, *slice(start, end).indices(size)[:2])
    return part


def _narrow(g: Graph, x: Any, dim: int, start: Any, length: int) -> Any:
    return _slice(g, x, dim, start, start + length)


def _flip(g: Graph, x: Any, dims: Sequence[int]) -> Ref:
    axes = _axes(g, x, dims)
    count = len(axes)
    return g.emit("Slice", x, g.ints([-1] * count), g.ints([-_END] * count), g.ints(axes), g.ints([-1] * count))


def _roll(g: Graph, x: Any, shifts: Any, dims: Any = ()) -> Any:
    shifts, axes = _pair(shifts, 1), ([dims] if isinstance(dims, int) else list(dims))
    if not axes:
        raise refuse("a roll without dims")
    for shift, axis in zip(shifts, _axes(g, x, axes)):
        size = g.sizes[axis]
        if isinstance(size, Batch):
            raise refuse("a roll along the batch")
        cut = -shift % size
        if cut == 0:
            continue
        behind = g.emit("Slice", x, g.ints([cut]), g.ints([size]), g.ints([axis]))
        before = g.emit("Slice", x, g.ints([0]), g.ints([cut]), g.ints([axis]))
        x = g.emit("Concat", behind, before, axis=axis)
    return x


def _known_index(index: Any) -> torch.Tensor:
    if isinstance(index, Named) and not index.is_parameter:
        index = index.tensor
    if not isinstance(index, torch.Tensor):
        raise refuse("its indices depend on the input")
    return index


def _index(g: Graph, x: Any, indices: Sequence[Any]) -> Ref:
    """x[:, index] and x[:, rows, columns], for indices that are known now."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    known = [_known_index(indices[axis]) for axis in axes]
    if len(known) == 1 and known[0].dtype is torch.bool:
        known = list(known[0].nonzero(as_tuple=True))
        axes = list(range(axes[0], axes[0] + len(known)))
    if axes != list(range(axes[0], axes[0] + len(axes))):
        raise refuse("it indexes axes that aren't adjacent")
    shape, first = g.shape(x), axes[0]
    sizes = [shape[axis] for axis in axes]
    if any(isinstance(size, Batch) for size in sizes):
        raise refuse("it indexes the batch")
    known = list(torch.broadcast_tensors(*known))
    place = torch.zeros_like(known[0])
    for index, size in zip(known, sizes):
        place = place * size + torch.where(index < 0, index + size, index)
    if len(axes) > 1:
        x = g.reshape(x, shape[:first] + [math.prod(sizes)] + shape[first + len(axes) :])
    flat = g.emit("Gather", x, place.reshape(-1), axis=first)
    return g.reshape(flat, g.sizes) if place.dim() != 1 else flat


def _index_select(g: Graph, x: Any, dim: int, index: Any) -> Ref:
    return g.emit("Gather", x, _known_index(index), axis=_axis(g, x, dim))


def _embedding(g: Graph, weight: Any, ids: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False) -> Ref:
    if scale_grad_by_freq:
        raise refuse("an embedding with scale_grad_by_freq=True")
    if padding_idx >= 0 and bool((_known_index(ids) == padding_idx).any()):
        raise refuse(f"an embedding that reads the row padding_idx={padding_idx}, which PyTorch doesn't train")
    return g.emit("Gather", weight, ids, axis=0)


def _unfold(g: Graph, x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Ref:
    """im2col: [N,C,H,W] to [N, C*kh*kw, places]."""
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(_pair, (kernel_size, dilation, padding, stride))
    n, channels, height, width = g.shape(x)
    if ph or pw:
        x = g.emit("Pad", x, g.ints([0, 0, ph, pw, 0, 0, ph, pw]))
        height, width = height + 2 * ph, width + 2 * pw
    rows, columns = (height - dh * (kh - 1) - 1) // sh + 1, (width - dw * (kw - 1) - 1) // sw + 1
    parts = []
    for i, j in itertools.product(range(kh), range(kw)):
        part = g.emit("Slice", x, g.ints([i * dh, j * dw]), g.ints([i * dh + (rows - 1) * sh + 1, j * dw + (columns - 1) * sw + 1]),
                      g.ints([2, 3]), g.ints([sh, sw]))  # fmt: skip
        parts.append(g.reshape(part, [n, channels, 1, rows * columns]))
    return g.reshape(g.emit("Concat", *parts, axis=2), [n, channels * kh * kw, rows * columns])


#: Arguments that change no numbers. A dtype does, if it is no float's: `torch_capture.py` looks at the dtype of the result.
WITHOUT_EFFECT = frozenset({"copy", "cudnn_enable", "cudnn_enabled", "device", "dtype", "generator", "implicit", "layout", "memory_format",
                            "non_blocking", "output_size", "path", "pin_memory", "sparse"})  # fmt: skip
#: Calls that may return booleans or integers for floats. The others would round or compare, which dlpipe's counterparts don't.
OF_ANY_DTYPE = frozenset({"empty_like", "eq", "full_like", "ge", "gt", "le", "lt", "new_empty", "new_full", "new_ones", "new_zeros", "ones_like",
                          "zeros_like"})  # fmt: skip
#: Calls that do not change the results.
IGNORED = frozenset({"_assert_tensor_metadata", "_assert_scalar", "_assert_async", "sym_constrain_range_for_size"})
#: Calls with random results.
RANDOM = frozenset({"bernoulli", "bernoulli_", "dropout", "dropout_", "rand", "randn", "rand_like", "randn_like", "randint", "randperm", "normal_",
                    "uniform_", "feature_dropout", "feature_dropout_", "multinomial"})  # fmt: skip
#: Calls whose arguments' names matter, or whose values are never read.
NEVER_COMPUTED = frozenset({"batch_norm", "empty", "new_empty", "empty_like"})
#: Calls that return a view: an in-place change of it also changes its base.
VIEWS = frozenset({"view", "reshape", "permute", "transpose", "t", "slice", "select", "narrow", "expand", "expand_as", "unsqueeze", "squeeze", "split",
                   "split_with_sizes", "chunk", "tensor_split", "unbind", "flatten", "unflatten", "movedim", "view_as", "unfold", "swapaxes", "swapdims"})  # fmt: skip

OPS: dict[str, Op] = {
    # elementwise
    "abs": _plain("Abs"),
    "add": _binary("Add"),
    "clamp": _clamp,
    "clamp_max": lambda g, x, most: _clamp(g, x, None, most),
    "clamp_min": lambda g, x, least: _clamp(g, x, least),
    "clip": _clamp,
    "cos": _plain("Cos"),
    "div": _binary("Div"),
    "elu": _elu,
    "eq": _binary("Equal"),
    "erf": _plain("Erf"),
    "exp": _plain("Exp"),
    "ge": _binary("GreaterOrEqual"),
    "gelu": _gelu,
    "gt": _binary("Greater"),
    "hardsigmoid": _plain("HardSigmoid", alpha=1 / 6, beta=0.5),
    "hardswish": _plain("HardSwish"),
    "hardtanh": lambda g, x, min_val=-1.0, max_val=1.0: _clamp(g, x, min_val, max_val),
    "le": _binary("LessOrEqual"),
    "leaky_relu": _leaky_relu,
    "lerp": _lerp,
    "log": _plain("Log"),
    "lt": _binary("Less"),
    "masked_fill": _masked_fill,
    "maximum": _binary("Max"),
    "minimum": _binary("Min"),
    "mish": _plain("Mish"),
    "mul": _binary("Mul"),
    "multiply": _binary("Mul"),
    "neg": _plain("Neg"),
    "pow": _pow,
    "prelu": _prelu,
    "reciprocal": _plain("Reciprocal"),
    "relu": _plain("Relu"),
    "relu6": lambda g, x: _clamp(g, x, 0, 6),
    "rsqrt": _rsqrt,
    "rsub": _rsub,
    "selu": _plain("Selu"),
    "sigmoid": _plain("Sigmoid"),
    "silu": _plain("Swish"),
    "sin": _plain("Sin"),
    "softplus": _softplus,
    "softsign": _plain("Softsign"),
    "sqrt": _plain("Sqrt"),
    "square": lambda g, x: g.emit("Mul", x, x),
    "sub": _binary("Sub"),
    "tanh": _plain("Tanh"),
    "true_divide": _binary("Div"),
    "where": _where,
    # products
    "addcmul": _addcmul,
    "addmm": _addmm,
    "baddbmm": _baddbmm,
    "bilinear": _bilinear,
    "bmm": lambda g, a, b: g.emit("MatMul", a, b),
    "einsum": _einsum,
    "linear": _linear,
    "matmul": lambda g, a, b: g.emit("MatMul", a, b),
    "mm": lambda g, a, b: g.emit("MatMul", a, b),
    "scaled_dot_product_attention": _attention,
    # convolutions, pools, images of another size
    "adaptive_avg_pool1d": _adaptive("AveragePool"),
    "adaptive_avg_pool2d": _adaptive("AveragePool"),
    "adaptive_max_pool1d": lambda g, x, size: [_adaptive("MaxPool")(g, x, size)],
    "adaptive_max_pool2d": lambda g, x, size: [_adaptive("MaxPool")(g, x, size)],
    "avg_pool2d": _avg_pool,
    "conv1d": _conv,
    "conv2d": _conv,
    "conv_transpose2d": _conv_transpose,
    "convolution": _convolution,
    "constant_pad_nd": lambda g, x, pad, value=0: _pad(g, x, pad, value=value),
    "im2col": _unfold,
    "max_pool2d": _max_pool,
    "max_pool2d_with_indices": _max_pool_with_indices,
    "pad": _pad,
    "pixel_shuffle": _pixel_shuffle,
    "pixel_unshuffle": _pixel_unshuffle,
    "upsample_bilinear2d": _bilinear_resize,
    "upsample_nearest2d": _nearest,
    # norms, softmax, reductions
    "amax": _reduce("ReduceMax"),
    "amin": _reduce("ReduceMin"),
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "linalg_vector_norm": _vector_norm,
    "log_softmax": _softmax("LogSoftmax"),
    "logsumexp": _reduce("ReduceLogSumExp"),
    "max": _extreme("ReduceMax", "Max"),
    "mean": _reduce("ReduceMean"),
    "min": _extreme("ReduceMin", "Min"),
    "norm": _norm,
    "rms_norm": _rms_norm,
    "softmax": _softmax("Softmax"),
    "std": _std,
    "std_mean": _std_mean,
    "sum": _reduce("ReduceSum"),
    "_weight_norm": _weight_norm,
    "var": _var,
    "var_mean": _var_mean,
    # chance
    "bernoulli": _bernoulli,
    "bernoulli_": _bernoulli_in_place,
    "dropout": _dropout,
    "feature_dropout": _channel_dropout,
    # tensors of one number
    "empty": _filled(0),
    "empty_like": _filled(0),
    "copy": _copy,
    "fill": _fill,
    "zero": _filled(0),
    "full": _full_of,
    "full_like": _full_of,
    "new_empty": _filled(0),
    "new_full": _full_of,
    "new_ones": _filled(1),
    "new_zeros": _filled(0),
    "ones": _filled(1),
    "ones_like": _filled(1),
    "zeros": _filled(0),
    "zeros_like": _filled(0),
    # shapes
    "_to_copy": _same,
    "_unsafe_view": _view,
    "alias": _same,
    "cat": _cat,
    "chunk": _split,
    "clone": lambda g, x: g.emit("Identity", x) if isinstance(x, (Ref, Named)) else x,
    "concat": _cat,
    "contiguous": _same,
    "detach": _same,
    "detach_": _same,
    "embedding": _embedding,
    "expand": _expand,
    "expand_as": _expand,
    "flatten": _view,
    "flip": _flip,
    "index": _index,
    "index_select": _index_select,
    "lift_fresh_copy": _same,
    "movedim": _movedim,
    "narrow": _narrow,
    "permute": _permute,
    "repeat": _repeat,
    "repeat_interleave": _repeat_interleave,
    "reshape": _view,
    "reshape_as": _view,
    "roll": _roll,
    "select": _select,
    "slice": _slice,
    "split": _split,
    "split_with_sizes": _split,
    "squeeze": _view,
    "stack": _stack,
    "t": _t,
    "tensor_split": _split,
    "to": _same,
    "swapaxes": _transpose,
    "swapdims": _transpose,
    "transpose": _transpose,
    "type_as": _same,
    "unbind": _unbind,
    "unflatten": _view,
    "unsqueeze": _view,
    "view": _view,
    "view_as": _view,
}
