"""torch.compile(model, backend="dlpipe"): the losses, gradients and buffers of eager, whatever PyTorch has to do itself."""

import contextlib
import copy
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
torch_compile = pytest.importorskip("dlpipe.torch_compile")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from dlpipe import torch_kernels, torch_plan  # noqa: E402
from dlpipe._dlpipe import KernelTensor, kernel_threads  # noqa: E402

# Sums in another order, over some thousand terms; batch norm divides by a small deviation.
TOLERANCE = dict(rtol=2e-3, atol=2e-4)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """dlpipe's kernels wherever there is one: measurements would choose by chance."""
    monkeypatch.setenv("DLPIPE_KERNELS", "rules")
    torch._dynamo.reset()
    torch.manual_seed(3)


class Residual(nn.Module):
    """ResNet's parts: a stem with pooling, a block with and one without a convolution beside it."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.same = nn.Sequential(
            nn.Conv2d(16, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, 1, 1, bias=False),
            nn.BatchNorm2d(16),
        )  # fmt: skip
        self.wide = nn.Sequential(
            nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1, bias=False),
            nn.BatchNorm2d(32),
        )  # fmt: skip
        self.beside = nn.Sequential(nn.Conv2d(16, 32, 1, 2, bias=False), nn.BatchNorm2d(32))
        self.pool, self.head = nn.AdaptiveAvgPool2d(1), nn.Linear(32, 10)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(self.same(x) + x)
        x = torch.relu(self.wide(x) + self.beside(x))
        return self.head(torch.flatten(self.pool(x), 1))


def plain_convolutions():
    """VGG's parts."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 24, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d((8, 8)), nn.Flatten(), nn.Linear(24 * 64, 32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip


def depthwise():
    """MobileNet's parts."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU6(inplace=True),
        nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU6(inplace=True),
        nn.Conv2d(16, 24, 1, bias=False), nn.BatchNorm2d(24), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10),
    )  # fmt: skip


class Transformer(nn.Module):
    """ViT's parts."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 8, 8)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layer(x))[:, 0])


class Doubled(nn.Module):
    """A batch norm that is its own residual."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.head = nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.Linear(16, 10)

    def forward(self, x):
        x = self.norm(self.first(x))
        return self.head(torch.relu(x + x).mean((2, 3)))


class LeftToPyTorch(nn.Module):
    """Ops that dlpipe has no kernel for, between ops for which it has."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, 1, 1), nn.BatchNorm2d(16)
        self.turned, self.head = nn.ConvTranspose2d(16, 8, 2, 2), nn.Linear(8, 10)

    def forward(self, x):
        x = nn.functional.leaky_relu(self.norm(self.first(x)))
        x = self.turned(nn.functional.pad(x, (1, 1, 0, 0)) * torch.sigmoid(x.mean((2, 3), keepdim=True)))
        return self.head(x.amax((2, 3)))


MODELS = {
    "residual": Residual, "plain": plain_convolutions, "depthwise": depthwise, "transformer": Transformer,
    "doubled": Doubled, "left to PyTorch": LeftToPyTorch,
}  # fmt: skip


def batch(count=8, dtype=torch.float32):
    return torch.randn(count, 3, 32, 32, dtype=dtype), torch.randint(0, 10, (count,))


def step(call, optimizer, images, labels):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(call(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
@pytest.mark.parametrize("name", MODELS)
def test_trains_as_eager(name, layout):
    eager = MODELS[name]()
    images, labels = batch()
    if layout == "channels_last":
        eager, images = eager.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    ours = copy.deepcopy(eager)
    compiled = torch.compile(ours, backend=torch_compile.backend)
    for model, call in ((eager, eager), (ours, compiled)):
        nn.functional.cross_entropy(call(images), labels).backward()
    for (parameter_name, a), b in zip(eager.named_parameters(), ours.parameters()):
        torch.testing.assert_close(b.grad, a.grad, **TOLERANCE, msg=lambda text: f"{parameter_name}: {text}")
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9) for model in (eager, ours)]
    expected = [step(eager, optimizers[0], images, labels) for _ in range(10)]
    losses = [step(compiled, optimizers[1], images, labels) for _ in range(10)]
    torch.testing.assert_close(losses, expected, rtol=5e-3, atol=5e-3)
    assert losses[-1] < losses[0]
    for (buffer_name, a), b in zip(eager.named_buffers(), ours.buffers()):
        torch.testing.assert_close(b, a, rtol=1e-2, atol=1e-2, msg=lambda text: f"{buffer_name}: {text}")


def test_kernels_are_dlpipes(monkeypatch):
    """Every convolution and batch norm of the net, forward and backward."""
    calls = []
    for name in ("convolution", "batch_norm_then", "convolution_backward", "_batch_norm_backward", "relu"):
        kernel = getattr(torch_kernels, name)
        counted = lambda *args, _kernel=kernel, _name=name: (calls.append(_name), _kernel(*args))[1]  # noqa: E731
        monkeypatch.setattr(torch_kernels, name, counted)
        for op, registered in list(torch_kernels.KERNELS.items()):
            if registered is kernel:
                monkeypatch.setitem(torch_kernels.KERNELS, op, counted)
    model = Residual()
    images, labels = batch()
    step(torch.compile(model, backend=torch_compile.backend), torch.optim.SGD(model.parameters(), lr=0.1), images, labels)
    assert {name: calls.count(name) for name in set(calls)} == {
        "convolution": 6, "convolution_backward": 6, "batch_norm_then": 6, "_batch_norm_backward": 6,
    }  # fmt: skip  # each relu is part of a batch norm


def test_memory_is_handed_over_without_a_copy():
    images = torch.randn(2, 16, 4, 4).to(memory_format=torch.channels_last)
    assert torch_kernels.as_torch(torch_kernels.image(images)).data_ptr() == images.data_ptr()
    weight = torch.randn(16, 16, 3, 3)
    answer = torch_kernels.convolution(images, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    assert isinstance(answer, KernelTensor)
    saved = torch_kernels.save(answer)
    restored = torch_kernels.restore(saved, images)
    if answer.block > 1:
        assert saved.shape == (2, 16 // answer.block, 4, 4, answer.block)
        assert restored.torch().data_ptr() == saved.data_ptr()
    del answer
    expected = nn.functional.conv2d(images, weight, padding=1)
    torch.testing.assert_close(torch_kernels.as_torch(restored), expected, **TOLERANCE)


def test_batches_of_other_sizes():
    eager = Residual()
    ours = copy.deepcopy(eager)
    compiled = torch.compile(ours, backend=torch_compile.backend)
    for count in (8, 5, 3, 8):
        images, _ = batch(count)
        expected, answer = eager(images), compiled(images)
        torch.testing.assert_close(answer, expected, **TOLERANCE)
        answer.sum().backward()
        expected.sum().backward()
    torch.testing.assert_close(ours.head.weight.grad, eager.head.weight.grad, **TOLERANCE)


@pytest.mark.parametrize("training", [True, False])
def test_without_gradients(training):
    model = Residual().train(training)
    expected_model = copy.deepcopy(model)
    images, _ = batch()
    with torch.no_grad():
        answer = torch.compile(model, backend=torch_compile.backend)(images)
        torch.testing.assert_close(answer, expected_model(images), **TOLERANCE)


def test_gradients_of_the_images():
    model = Residual()
    images, labels = batch()
    grads = []
    for call in (model, torch.compile(copy.deepcopy(model), backend=torch_compile.backend)):
        leaf = images.clone().requires_grad_()
        nn.functional.cross_entropy(call(leaf), labels).backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[1], grads[0], **TOLERANCE)


def test_frozen_parts():
    model = Residual()
    for parameter in model.stem.parameters():
        parameter.requires_grad_(False)
    model.stem.eval()
    ours = copy.deepcopy(model)
    images, labels = batch()
    for each, call in ((model, model), (ours, torch.compile(ours, backend=torch_compile.backend))):
        nn.functional.cross_entropy(call(images), labels).backward()
    for a, b in zip(model.parameters(), ours.parameters()):
        torch.testing.assert_close(b.grad, a.grad, **TOLERANCE) if a.requires_grad else None
        assert (b.grad is None) == (a.grad is None)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("activation", [nn.ReLU, nn.Sigmoid, nn.SiLU, nn.LeakyReLU])
def test_features_lie_as_eagers_do(activation, layout):
    """An image that leaves the model has the strides that its user expects, whoever computes it."""
    model = nn.Sequential(nn.Conv2d(3, 16, 3, 1, 1), activation()).to(memory_format=layout)
    compiled = torch.compile(model, backend=torch_compile.backend)
    for count in (8, 5, 3):
        images = batch(count)[0].to(memory_format=layout)
        expected, answer = model(images), compiled(images)
        assert answer.stride() == expected.stride()
        torch.testing.assert_close(answer, expected, **TOLERANCE)


def test_views_of_features_lie_as_eagers_do():
    convolution = nn.Conv2d(3, 16, 3, 1, 1)

    def call(images):
        features = torch.sigmoid(convolution(images))
        return features, features[:, :2], features.flatten(1), convolution(images).permute(0, 2, 3, 1)

    images, _ = batch()
    answers = torch.compile(call, backend=torch_compile.backend)(images)
    for answer, expected in zip(answers, call(images)):
        assert answer.stride() == expected.stride()
        torch.testing.assert_close(answer, expected, **TOLERANCE)


def test_attention_over_an_image():
    """PyTorch's kernel reads the last axis as if it were contiguous."""
    convolution = nn.Conv2d(3, 16, 3, 2, 1)

    def call(images):
        features = convolution(images)
        return nn.functional.scaled_dot_product_attention(features, features, torch.sigmoid(features)).sum((2, 3))

    images, _ = batch()
    expected = call(images)
    answer = torch.compile(call, backend=torch_compile.backend)(images)
    torch.testing.assert_close(answer, expected, **TOLERANCE)
    gradients = [torch.autograd.grad(each.square().sum(), convolution.weight)[0] for each in (answer, expected)]
    torch.testing.assert_close(*gradients, **TOLERANCE)


def test_indices_of_a_pool_are_pytorchs_where_the_user_sees_them():
    pool = nn.MaxPool2d(2, return_indices=True)
    convolution = nn.Conv2d(3, 16, 3, 1, 1)
    images, _ = batch()
    values, indices = torch.compile(lambda x: pool(convolution(x)), backend=torch_compile.backend)(images)
    expected_values, expected_indices = pool(convolution(images))
    torch.testing.assert_close(values, expected_values, **TOLERANCE)
    assert indices.dtype == torch.int64
    assert (indices == expected_indices).float().mean() > 0.999  # near-equal neighbours may change places


def test_other_dtypes_are_pytorchs():
    model = Residual().double()
    images, _ = batch(dtype=torch.float64)
    expected = copy.deepcopy(model)(images)
    torch.testing.assert_close(torch.compile(model, backend=torch_compile.backend)(images), expected)


def test_threads_are_torchs():
    model = plain_convolutions()
    images, _ = batch()
    former = torch.get_num_threads()
    compiled = torch.compile(model, backend=torch_compile.backend)
    try:
        answers = []
        for threads in (1, 3):
            torch.set_num_threads(threads)
            answers.append(compiled(images))
            assert kernel_threads() == threads
            assert torch.get_num_threads() == threads
        assert torch.equal(*answers)
    finally:
        torch.set_num_threads(former)


@pytest.mark.parametrize("faster", ["dlpipe", "PyTorch"])
def test_the_faster_of_both_is_taken(monkeypatch, faster):
    monkeypatch.delenv("DLPIPE_KERNELS")
    monkeypatch.setattr(torch_plan, "_choices", {})
    calls, measured = [], []
    for op in torch_kernels.MEASURED:
        counted = lambda *args, _kernel=torch_kernels.KERNELS[op], _op=op: (calls.append(_op), _kernel(*args))[1]  # noqa: E731
        monkeypatch.setitem(torch_kernels.KERNELS, op, counted)

    def seconds(run, args, kwargs):  # of dlpipe's kernel, then of PyTorch's
        measured.append(run)
        return 1.5 if len(measured) % 2 == 0 else 1 if faster == "dlpipe" else 2

    monkeypatch.setattr(torch_plan, "_seconds", seconds)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 1024, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 10))
    images, _ = batch()
    expected = model(images)
    compiled = torch.compile(model, backend=torch_compile.backend, options={"fallback": False})
    torch.testing.assert_close(compiled(images), expected, **TOLERANCE)
    assert len(measured) == 2 * 4
    calls.clear()
    torch.testing.assert_close(compiled(images), expected, **TOLERANCE)
    assert len(measured) == 2 * 4, "each shape once"
    assert len(calls) == (4 if faster == "dlpipe" else 0)


@pytest.mark.parametrize("imports", ["", "import dlpipe; "])
def test_the_name_is_known_to_a_program_with_dlpipe_on_its_path(imports):
    """PyTorch finds the entry point, of an installed dlpipe and of one on PYTHONPATH."""
    program = (
        f"import torch; {imports}model, x = torch.nn.Linear(4, 2), torch.ones(3, 4); "
        "assert torch.allclose(torch.compile(model, backend='dlpipe')(x), model(x))"
    )
    path = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_name_is_known():
    model = nn.Linear(4, 2)
    x = torch.randn(3, 4)
    torch.testing.assert_close(torch.compile(model, backend="dlpipe")(x), model(x))


def test_gradients_of_two_leaves_that_are_added_accumulate_apart():
    weight = torch.randn(4, 1, 3, 3)
    a, b = (torch.randn(2, 1, 8, 8, requires_grad=True) for _ in range(2))
    call = torch.compile(lambda a, b: nn.functional.conv2d(a + b, weight), backend=torch_compile.backend)
    call(a, b).sum().backward()
    once = b.grad.clone()
    call(a, b).sum().backward()
    torch.testing.assert_close(a.grad, 2 * once)
    torch.testing.assert_close(b.grad, 2 * once)


def test_an_answer_may_be_changed_in_place():
    model = nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)
    images = batch()[0].to(memory_format=torch.channels_last)
    grads = []
    for call in (model, torch.compile(copy.deepcopy(model), backend=torch_compile.backend)):
        leaf = images.clone().requires_grad_()
        answer = call(leaf)
        answer *= 2
        answer.sum().backward()
        grads.append(leaf.grad)
    torch.testing.assert_close(grads[1], grads[0], **TOLERANCE)


def test_a_change_of_what_the_gradient_reads_is_an_error():
    """As in eager: relu's gradient reads its answer."""
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU()).to(memory_format=torch.channels_last)
    answer = torch.compile(model, backend=torch_compile.backend)(batch()[0].to(memory_format=torch.channels_last))
    answer.mul_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        answer.sum().backward()


@pytest.mark.parametrize("inside", [True, False], ids=["in the graph", "around it"])
def test_checkpointed_batch_norm(inside):
    """The backward graph reads the statistics that the forward graph has changed."""
    eager = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
    ours = copy.deepcopy(eager)
    images, _ = batch()
    gradients = []
    # PyTorch's own backend: within a graph the statistics of a step are noted once, and in eager twice.
    for model, backend in ((eager, "aot_eager"), (ours, torch_compile.backend)):
        if inside:
            call = torch.compile(lambda x: checkpoint(model, x, use_reentrant=False), backend=backend)  # noqa: B023
        else:
            compiled = torch.compile(model, backend=backend)
            call = lambda x: checkpoint(compiled, x, use_reentrant=False)  # noqa: B023, E731
        leaf = images.clone().requires_grad_()
        for _ in range(2):
            call(leaf).square().mean().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(gradients[1], gradients[0], **TOLERANCE)
    for (name, a), b in zip([*eager.named_buffers(), *eager.named_parameters()], [*ours.buffers(), *ours.parameters()]):
        torch.testing.assert_close(b, a, **TOLERANCE, msg=lambda text: f"{name}: {text}")
        if a.requires_grad:
            torch.testing.assert_close(b.grad, a.grad, **TOLERANCE, msg=lambda text: f"{name}: {text}")


def by_clock(monkeypatch, faster):
    """Says which way each call takes longer; the ways that were tried."""
    monkeypatch.delenv("DLPIPE_KERNELS")
    tried = []

    def seconds(way, inputs):
        tried.append(way)
        real_seconds(way, inputs)
        is_eager = isinstance(getattr(way, "__self__", None), torch.fx.GraphModule)
        return 1.0 if is_eager == (faster == "eager") else 2.0

    real_seconds = torch_compile.seconds
    monkeypatch.setattr(torch_compile, "seconds", seconds)
    return tried


@pytest.mark.parametrize("faster", ["dlpipe", "eager"])
def test_a_graph_runs_the_faster_way_and_trying_leaves_no_trace(monkeypatch, caplog, faster):
    tried = by_clock(monkeypatch, faster)
    caplog.set_level("INFO", "dlpipe")
    eager = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(),
                          nn.Linear(16 * 1024, 10))  # fmt: skip
    ours = copy.deepcopy(eager)
    compiled = torch.compile(ours, backend=torch_compile.backend)
    images, labels = batch()
    planned = []
    monkeypatch.setattr(torch_plan.Plan, "__call__",
                        lambda self, inputs, _call=torch_plan.Plan.__call__: (planned.append(self), _call(self, inputs))[1])  # fmt: skip
    for model, call in ((eager, eager), (ours, compiled)):
        torch.manual_seed(7)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        for _ in range(3):
            planned.clear()
            step(call, optimizer, images, labels)
    assert bool(planned) == (faster == "dlpipe")
    times = len(tried)
    for (name, a), b in zip([*eager.named_buffers(), *eager.named_parameters()], [*ours.buffers(), *ours.parameters()]):
        torch.testing.assert_close(b, a, **TOLERANCE, msg=lambda text: f"{name}: {text}")
    said = [record.getMessage() for record in caplog.records if record.levelname == "INFO" and "torch_compile" in record.getMessage()]
    assert len(said) == 1 and ("on dlpipe's kernels and" in said[0]) and said[0].endswith("in eager") == (faster == "eager")
    compiled(images)
    assert len(tried) == times, "once per graph"


def test_a_choice_that_takes_long_is_said_once(monkeypatch, caplog):
    by_clock(monkeypatch, "eager")
    monkeypatch.setattr(torch_compile, "_LONG_SECONDS", 0)
    monkeypatch.setattr(torch_compile, "_is_said", False)
    images, _ = batch()
    for channels in (5, 6):
        torch.compile(nn.Conv2d(3, channels, 3), backend=torch_compile.backend)(images)
    assert caplog.text.count("timing dlpipe's kernels against eager") == 1


def test_a_graph_stays_on_dlpipes_kernels_where_that_is_wanted(monkeypatch):
    tried = by_clock(monkeypatch, "eager")
    model = nn.Conv2d(3, 5, 3)
    images, _ = batch()
    compiled = torch.compile(model, backend=torch_compile.backend, options={"fallback": False})
    torch.testing.assert_close(compiled(images), model(images), **TOLERANCE)
    assert tried == []
    for options in ({"fall_back": False}, {"fallback": "no"}):
        with pytest.raises(Exception, match="fallback"):
            torch.compile(nn.Conv2d(3, 7, 3), backend=torch_compile.backend, options=options)(images)


def test_a_mode_of_inductors_is_refused_by_name():
    model = nn.Conv2d(3, 5, 3)
    images, _ = batch()
    refused = pytest.raises(Exception, match="mode=.max-autotune. is inductor.s")
    for mode, outcome in (("default", contextlib.nullcontext()), ("max-autotune", refused)):
        with outcome:
            torch.compile(model, backend=torch_compile.backend, mode=mode)(images)


def test_trying_sees_inputs_that_are_changed_in_place_as_they_were(monkeypatch):
    by_clock(monkeypatch, "eager")
    leaf = torch.randn(2, 3, 8, 8, requires_grad=True)
    weight = torch.randn(5, 3, 3, 3)
    expected = leaf.detach().clone()
    inner = leaf * 2
    call = torch.compile(lambda x: nn.functional.conv2d(x.relu_(), weight), backend=torch_compile.backend)
    answer = call(inner)
    torch.testing.assert_close(inner, (expected * 2).relu())
    torch.testing.assert_close(answer, nn.functional.conv2d((expected * 2).relu(), weight), **TOLERANCE)
    answer.sum().backward()
    assert leaf.grad.shape == leaf.shape
    base = torch.ones(4)
    with torch.no_grad():  # two views of one memory: copies would not be
        both = torch.compile(lambda a, b: a.add_(1) + b, backend=torch_compile.backend)(base[:3], base[1:])
    assert both.tolist() == [4, 4, 3] and base.tolist() == [2, 2, 2, 1]


def test_trying_is_nothing_that_a_checkpoint_counts(monkeypatch):
    by_clock(monkeypatch, "eager")
    eager = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Dropout(0.5))
    ours = copy.deepcopy(eager)
    compiled = torch.compile(ours, backend=torch_compile.backend)
    images, _ = batch()
    for model, call in ((eager, eager), (ours, compiled)):
        torch.manual_seed(5)
        checkpoint(call, images, use_reentrant=False).sum().backward()
    torch.testing.assert_close(ours[0].weight.grad, eager[0].weight.grad, **TOLERANCE)
