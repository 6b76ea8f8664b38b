"""Parts of networks as exporters write them: dlpipe and ONNX Runtime answer the same, and so does what dlpipe exports of them.

    onnx_blocks.py DLPIPE

The ONNX project's tests of each op are onnx_nodes.py's; here several ops stand together, and what passes make of them.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper

# Sums of up to a few hundred products in another order, through up to 80 convolutions: a share of the largest answer.
TOLERANCE = 1e-4
BATCH = 2


class Block:
    """A model of one input x, put together node by node; weights are seeded."""

    def __init__(self, shape, dtype=numpy.float32):
        self.shape, self.dtype, self.nodes, self.weights = shape, dtype, [], []
        self.random = numpy.random.default_rng(20261127)

    def add(self, op, *inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def constant(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.asarray(array, numpy.float32), name))
        return name

    def integers(self, values):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(numpy.asarray(values, numpy.int64), name))
        return name

    def drawn(self, *shape):
        return self.constant(self.random.standard_normal(shape) / numpy.sqrt(max(1, numpy.prod(shape[1:]))))

    def normalized(self, x, channels):
        statistics = [self.constant(self.random.uniform(0.5, 1.5, channels)) for _ in range(4)]
        return self.add("Relu", self.add("BatchNormalization", x, *statistics))

    def model(self, opset=17):
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes, "block",
            [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(numpy.dtype(self.dtype)), ["N", *self.shape])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def dense_block(layers, growth=2):
    """Huang et al., 2017: each layer reads what all before it made. DenseNet-201 has blocks of up to 48."""
    block = Block([4, 6, 5])
    parts, channels = ["x"], 4
    for _ in range(layers):
        x = block.add("Concat", *parts, axis=1)
        x = block.add("Conv", block.normalized(x, channels), block.drawn(4 * growth, channels, 1, 1))
        x = block.add("Conv", block.normalized(x, 4 * growth), block.drawn(growth, 4 * growth, 3, 3),
                      pads=[1, 1, 1, 1])
        parts.append(x)
        channels += growth
    block.add("GlobalAveragePool", block.normalized(block.add("Concat", *parts, axis=1), channels))
    return block.model()


def gelu_written_out(rank):
    """Its numbers as constants of `rank` axes, of which x has two."""
    block = Block([4])

    def number(value):
        return block.constant(numpy.full([1] * rank, value))

    erf = block.add("Erf", block.add("Div", "x", number(2**0.5)))
    product = block.add("Mul", "x", block.add("Add", erf, number(1)))
    block.add("Mul", product, number(0.5))
    return block.model()


def masked_attention():
    """As models of sentences have it: what is looked at depends on the input, and no word looks ahead."""
    length, width = 5, 8
    block = Block([length, width])
    query, key, value = (block.add("MatMul", "x", block.drawn(width, width)) for _ in range(3))
    scores = block.add("MatMul", query, block.add("Transpose", key, perm=[0, 2, 1]))
    ahead = block.add("Trilu", block.constant(numpy.full([length, length], -numpy.inf)),
                      block.integers([1]), upper=1)
    scores = block.add("Add", scores, ahead)
    largest = block.add("ReduceMax", "x", axes=[2], keepdims=0)
    keep = block.add("Unsqueeze", block.add("GreaterOrEqual", largest, block.constant(1.0)), block.integers([1]))
    scores = block.add("Where", keep, scores, block.constant(-numpy.inf))
    weights = block.add("Softmax", scores, axis=-1)  # of no word: NaN
    weights = block.add("Where", block.add("IsNaN", weights), block.constant(0.0), weights)
    block.add("Max", block.add("MatMul", weights, value), block.constant(-0.25))
    return block.model()


def rotary_attention():
    """Su et al., 2021 (RoFormer), written with Einsum: queries and keys are turned by angles of their places."""
    length, heads, width = 6, 2, 4
    block = Block([length, heads * width])
    angles = block.constant(numpy.arange(length)[:, None] * (10000.0 ** -numpy.arange(0, 1, 2 / width))[None, :])
    cosine, sine = (block.add("Unsqueeze", block.add(op, angles), block.integers([1])) for op in ("Cos", "Sin"))

    def head(turn):
        weight = block.drawn(heads * width, heads, width)
        x = block.add("Einsum", "x", weight, equation="bte,ehd->bthd")
        if not turn:
            return x
        half = width // 2
        first, second = (block.add("Slice", x, block.integers([i]), block.integers([i + half]), block.integers([3]))
                         for i in (0, half))
        left = block.add("Sub", block.add("Mul", first, cosine), block.add("Mul", second, sine))
        right = block.add("Add", block.add("Mul", first, sine), block.add("Mul", second, cosine))
        return block.add("Concat", left, right, axis=3)

    scores = block.add("Einsum", head(True), head(True), equation="bihd,bjhd->bhij")
    weights = block.add("Softmax", block.add("Mul", scores, block.constant(width ** -0.5)), axis=-1)
    joined = block.add("Einsum", weights, head(False), equation="bhij,bjhd->bihd")
    block.add("Einsum", joined, block.drawn(heads, width, 5), equation="bihd,hde->bie")
    return block.model()


def relative_places():
    """T5's encoder (Raffel et al., 2019): a bias by how far apart two words are, exactly up to 8 and then by its logarithm."""
    length, heads = 12, 2
    block = Block([heads, length, length])
    numbers = [block.integers(value) for value in (0, length, 1)]
    places = block.add("Range", *numbers)
    apart = block.add("Sub", block.add("Unsqueeze", places, block.integers([0])),
                      block.add("Unsqueeze", places, block.integers([1])))
    ahead = block.add("Mul", block.add("Cast", block.add("Greater", apart, numbers[0]), to=onnx.TensorProto.INT64),
                      block.integers(16))
    distance = block.add("Abs", apart)
    far = block.add("Log", block.add("Div", block.add("Cast", distance, to=onnx.TensorProto.FLOAT), block.constant(8)))
    far = block.add("Mul", block.add("Div", far, block.constant(numpy.log(16))), block.constant(8))
    far = block.add("Add", block.add("Cast", far, to=onnx.TensorProto.INT64), block.integers(8))
    far = block.add("Min", far, block.integers(15))
    bucket = block.add("Where", block.add("Less", distance, block.integers(8)), distance, far)
    bias = block.add("Gather", block.drawn(32, heads), block.add("Add", ahead, bucket), axis=0)
    block.add("Add", "x", block.add("Transpose", bias, perm=[2, 0, 1]))
    return block.model()


def anchors():
    """Where the pixels of an image are, counted as floats, and twice as many of them by sizes that were floats (ultralytics)."""
    block = Block([3, 4, 6])
    sizes = block.add("Shape", "x")
    lengths = []
    for axis in (3, 2):
        size = block.add("Cast", block.add("Gather", sizes, block.integers(axis), axis=0), to=onnx.TensorProto.FLOAT)
        places = block.add("Range", block.constant(0), size, block.constant(1))
        lengths.append(block.add("Add", places, block.constant(0.5)))
    columns, rows = lengths
    placed = block.add("Add", block.add("Add", "x", columns), block.add("Unsqueeze", rows, block.integers([1])))
    squares = block.add("Pow", placed, block.add("Cast", block.integers(2), to=onnx.TensorProto.FLOAT))
    least = block.add("Clip", squares, block.add("Identity", block.constant(1.5)))
    side = block.add("Cast", block.add("Slice", sizes, block.integers([2]), block.integers([4])), to=onnx.TensorProto.FLOAT)
    side = block.add("Cast", block.add("Mul", side, block.constant(2)), to=onnx.TensorProto.INT64)
    wanted = block.add("Concat", block.add("Slice", sizes, block.integers([0]), block.integers([2])), side, axis=0)
    block.add("Resize", least, "", "", wanted, mode="nearest", coordinate_transformation_mode="asymmetric",
              nearest_mode="floor")
    return block.model()


def words():
    """BERT's first layer (Devlin et al., 2018) as it is exported without types of words: those are zeros, of a batch's shape."""
    length, width = 5, 6
    block = Block([length], numpy.int64)
    sizes = block.add("Shape", "x")
    types = block.add("Expand", block.integers(numpy.zeros([1, length])), sizes)
    places = block.add("Expand", block.integers(numpy.arange(length)[None]), sizes)
    rows = [block.add("Gather", block.drawn(300, width), "x", axis=0),
            block.add("Gather", block.drawn(2, width), types, axis=0),
            block.add("Gather", block.drawn(8, width), places, axis=0)]
    block.add("Tanh", block.add("Add", block.add("Add", rows[0], rows[1]), rows[2]))
    return block.model()


def waves():
    """As diffusion models tell the time (Ho et al., 2020): sines and cosines of what comes in."""
    block = Block([1])
    angles = block.add("Mul", "x", block.constant(1000.0 * 10000.0 ** -numpy.linspace(0, 1, 8)))
    joined = block.add("Concat", block.add("Sin", angles), block.add("Cos", angles), axis=1)
    block.add("MatMul", joined, block.drawn(16, 4))
    return block.model()


def local_response(**attributes):
    block = Block([7, 3, 4])
    block.add("LRN", block.add("Conv", "x", block.drawn(9, 7, 1, 1)), **attributes)
    return block.model()


def squeezed_head():
    """Iandola et al., 2016 (SqueezeNet): a softmax of images of one pixel, of an opset in which it joins axes."""
    block = Block([6, 4, 5])
    x = block.add("Relu", block.add("Conv", "x", block.drawn(10, 6, 1, 1), block.drawn(10)))
    block.add("Softmax", block.add("GlobalAveragePool", x))
    return block.model(11)


def unet():
    """Ronneberger et al., 2015, of one step down: what goes up again joins what stayed."""
    block = Block([3, 8, 12])
    stays = block.normalized(block.add("Conv", "x", block.drawn(8, 3, 3, 3), pads=[1, 1, 1, 1]), 8)
    down = block.add("MaxPool", stays, kernel_shape=[2, 2], strides=[2, 2])
    down = block.normalized(block.add("Conv", down, block.drawn(16, 8, 3, 3), pads=[1, 1, 1, 1]), 16)
    up = block.add("ConvTranspose", down, block.drawn(16, 8, 2, 2), block.drawn(8), strides=[2, 2])
    block.add("Conv", block.add("Concat", stays, up, axis=1), block.drawn(2, 16, 3, 3), block.drawn(2), pads=[1, 1, 1, 1])
    return block.model()


def generator():
    """Radford et al., 2015 (DCGAN): an image from numbers."""
    block = Block([20])
    x = block.add("Reshape", "x", block.integers([-1, 20, 1, 1]))
    x = block.normalized(block.add("ConvTranspose", x, block.drawn(20, 32, 4, 4)), 32)
    x = block.normalized(block.add("ConvTranspose", x, block.drawn(32, 16, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]), 16)
    block.add("Tanh", block.add("ConvTranspose", x, block.drawn(16, 3, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1]))
    return block.model()


def transposed(shape, weight, **attributes):
    """With a bias, and what follows it."""
    block = Block(shape)
    groups = attributes.get("group", 1)
    y = block.add("ConvTranspose", "x", block.drawn(*weight), block.drawn(weight[1] * groups), **attributes)
    block.add("Relu", y)
    return block.model()


def pixels(size):
    """Images as cameras give them: integers, channels last."""
    block = Block([*size, 3], numpy.int32)
    x = block.add("Cast", block.add("Transpose", "x", perm=[0, 3, 1, 2]), to=onnx.TensorProto.FLOAT)
    x = block.add("Sub", x, block.constant(numpy.array([120.0, 110, 100]).reshape(3, 1, 1)))
    x = block.add("Div", x, block.constant(numpy.array([50.0, 55, 60]).reshape(3, 1, 1)))
    block.add("Conv", x, block.drawn(4, 3, 3, 3), pads=[1, 1, 1, 1])
    return block.model()


def truths_of_integers():
    """Integers that depend on the input, chosen and negated: what is exported of them is double."""
    block = Block([7])
    ids = block.add("Cast", block.add("Mul", "x", block.constant(3.0)), to=onnx.TensorProto.INT64)
    is_three = block.add("Equal", ids, block.integers(3))
    chosen = block.add("Where", is_three, block.integers(1), block.add("Neg", ids))
    some = block.add("Cast", block.add("Cast", ids, to=onnx.TensorProto.BOOL), to=onnx.TensorProto.FLOAT)
    block.add("Add", block.add("Cast", chosen, to=onnx.TensorProto.FLOAT), some)
    return block.model()


def shifted_window(size=6, window=3, shift=1, width=4):
    """The mask of Swin's shifted windows (Liu et al., 2021), written into zeros as PyTorch exports it."""
    block = Block([size * size // window**2, window * window, width])
    mask = block.constant(numpy.zeros([size, size]))
    parts = [slice(0, -window), slice(-window, -shift), slice(-shift, None)]
    for number, (rows, columns) in enumerate((rows, columns) for rows in parts for columns in parts):
        places = numpy.stack(numpy.meshgrid(numpy.arange(size)[rows], numpy.arange(size)[columns], indexing="ij"), -1)
        mask = block.add("ScatterND", mask, block.integers(places), block.constant(numpy.full(places.shape[:2], number)))
    split = block.add("Reshape", mask, block.integers([size // window, window, size // window, window]))
    rows = block.add("Reshape", block.add("Transpose", split, perm=[0, 2, 1, 3]), block.integers([-1, window**2]))
    apart = block.add("Sub", block.add("Unsqueeze", rows, block.integers([1])),
                      block.add("Unsqueeze", rows, block.integers([2])))
    hidden = block.add("Where", block.add("Equal", apart, block.constant(0.0)), block.constant(0.0),
                       block.constant(-100.0))
    table = block.drawn((2 * window - 1)**2, 1)
    relative = numpy.random.default_rng(5).integers(0, (2 * window - 1)**2, [window**2, window**2])
    bias = block.add("Squeeze", block.add("Gather", table, block.integers(relative), axis=0), block.integers([2]))
    scores = block.add("MatMul", "x", block.add("Transpose", "x", perm=[0, 1, 3, 2]))
    weights = block.add("Softmax", block.add("Add", block.add("Add", scores, bias), hidden), axis=-1)
    block.add("MatMul", weights, "x")
    return block.model()


def sizes_of_the_batch():
    """What exporters compute of it: a view, and what is stretched along it."""
    block = Block([6, 4])
    batch = block.add("Shape", "x", end=1)
    twice = block.add("Mul", batch, block.integers([2]))
    view = block.add("Concat", twice, block.integers([-1]), axis=0)
    rows = block.add("MatMul", block.add("Reshape", "x", view), block.drawn(12, 4))
    ones = block.constant(numpy.ones(3))
    wanted = block.add("Concat", block.add("Div", block.add("Mul", batch, block.integers([4])), block.integers([2])),
                       block.integers([1]), block.integers([-1]), axis=0)
    stretched = block.add("Where", block.add("Equal", wanted, block.integers([-1])), block.integers([1, 1, 1]), wanted)
    both = block.add("Mul", block.add("Unsqueeze", rows, block.integers([2])), block.add("Expand", ones, stretched))
    largest = block.add("ReduceMax", both, axes=[1])
    block.add("Slice", largest, block.integers([0]), twice, block.integers([0]))  # all of them
    return block.model()


BLOCKS = {
    "pixels, square": lambda: pixels([3, 3]),
    "pixels": lambda: pixels([4, 5]),
    "sizes of the batch": sizes_of_the_batch,
    "truths of integers": truths_of_integers,
    "shifted windows": shifted_window,
    "rotary attention": rotary_attention,
    "sines and cosines": waves,
    "T5's places": relative_places,
    "places of pixels": anchors,
    "BERT's first layer": words,
    "LRN of AlexNet": lambda: local_response(size=5, alpha=1e-4, beta=0.75, bias=2.0),
    "LRN of many channels": lambda: local_response(size=7, alpha=0.5),
    "U-Net of one step": unet,
    "SqueezeNet's head": squeezed_head,
    "DCGAN's generator": generator,
    "ConvTranspose, a row more": lambda: transposed(
        [8, 5, 4], [8, 6, 3, 3], strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    "ConvTranspose, uneven pads": lambda: transposed([4, 5, 4], [4, 3, 4, 3], strides=[3, 2], pads=[0, 2, 2, 0]),
    "ConvTranspose, pads of more than the kernel": lambda: transposed([4, 6, 6], [4, 3, 2, 2], pads=[2, 2, 1, 2]),
    "ConvTranspose, dilated groups": lambda: transposed(
        [6, 5, 4], [6, 2, 3, 2], strides=[2, 1], dilations=[2, 3], group=2, pads=[1, 0, 1, 0]),
    "ConvTranspose, a kernel for each channel": lambda: transposed(
        [8, 5, 4], [8, 1, 4, 4], strides=[2, 2], group=8, pads=[1, 1, 1, 1]),
    "ConvTranspose, SAME_UPPER": lambda: transposed([4, 5, 4], [4, 3, 5, 4], strides=[2, 3], auto_pad="SAME_UPPER"),
    "ConvTranspose, SAME_LOWER": lambda: transposed([4, 5, 4], [4, 3, 5, 4], strides=[2, 3], auto_pad="SAME_LOWER"),
    "ConvTranspose, of a line": lambda: transposed([4, 9], [4, 3, 4], strides=[2], pads=[1, 2], output_padding=[1]),
    "masked attention": masked_attention,
    "dense block of 33 layers": lambda: dense_block(33),
    "dense block of 48 layers": lambda: dense_block(48),
    "gelu of scalars": lambda: gelu_written_out(0),
    "gelu of constants of three axes": lambda: gelu_written_out(3),
}


def runtime_answer(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    if session.get_inputs()[0].type == "tensor(int64)":  # dlpipe's integers
        x = x.astype(numpy.int64)
    return session.run(["y"], {"x": x})[0]  # dlpipe keeps the names by which it is asked


def problem_of(answer, wanted):
    if answer.shape != wanted.shape:
        return f"shape {answer.shape}, expected {wanted.shape}"
    difference = numpy.abs(answer - wanted).max() / numpy.abs(wanted).max()
    return None if difference < TOLERANCE else f"differs by {difference:.1e} of the largest answer"


def problems_of(program, model, folder):
    onnx.save(model, folder / "block.onnx")
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim][1:]
    dtype = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    x = numpy.random.default_rng(7).standard_normal([BATCH, *shape])
    x = (x if dtype.kind == "f" else 128 + 40 * x).astype(dtype)
    numpy.save(folder / "x.npy", x)
    wanted = runtime_answer(folder / "block.onnx", x)
    for passes in ("all", "none"):
        for suffix in ("dlg", "onnx"):
            made = folder / f"{passes}.{suffix}"
            done = subprocess.run([program, "compile", folder / "block.onnx", "-o", made, "--passes", passes, "--quiet"],
                                  capture_output=True, text=True)
            if done.returncode == 0 and suffix == "dlg":
                done = subprocess.run([program, "run", made, "--input", folder / "x.npy", "--output", folder / "y.npy",
                                       "--quiet"], capture_output=True, text=True)
            where = f"passes {passes}, {suffix}"
            if done.returncode != 0:
                yield f"{where}: exit code {done.returncode}: {done.stderr.strip()}"
                continue
            answer = numpy.load(folder / "y.npy") if suffix == "dlg" else runtime_answer(made, x)
            if problem := problem_of(answer, wanted):
                yield f"{where}: {problem}"


def main():
    failures = []
    for name, make in BLOCKS.items():
        with tempfile.TemporaryDirectory() as folder:
            failures += [f"{name}: {problem}" for problem in problems_of(sys.argv[1], make(), pathlib.Path(folder))]
    return "\n".join(failures)


if __name__ == "__main__":
    sys.exit(main() or 0)
