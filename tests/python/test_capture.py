"""PyTorch models as captured models: PyTorch judges logits, gradients and steps; what training does with them."""

import os
import shutil
import subprocess
import sys
import warnings

import dlpipe
import numpy as np
import pytest
from dlpipe import _dlpipe
from dlpipe.capture import main

torch = pytest.importorskip("torch")
nn = torch.nn
SIZE = 24


class Block(nn.Module):
    """A residual block; stochastic depth as torchvision and timm write it."""

    def __init__(self, channels, drop=0.0):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(channels)
        self.drop = drop

    def forward(self, x):
        y = torch.relu(self.bn(self.conv(x)))
        if self.drop and self.training:
            y = y * y.new_empty((y.shape[0], 1, 1, 1)).bernoulli_(1 - self.drop).div_(1 - self.drop)
        return x + y


class ConvNet(nn.Module):
    def __init__(self, drop=0.0, dropout=0.0, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.blocks = nn.Sequential(Block(8, drop), Block(8, drop))
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(8, classes)

    def forward(self, x):
        x = self.blocks(self.stem(x))
        return self.fc(self.dropout(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)))


class Transformer(nn.Module):
    """Patches, a class token, positions, attention, a table of relative positions that is a buffer."""

    def __init__(self, width=16, heads=2, classes=5):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(0.1 * torch.randn(1, 1, width))
        self.position = nn.Parameter(0.1 * torch.randn(1, 10, width))
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.table = nn.Parameter(0.1 * torch.randn(19, heads))
        places = torch.arange(10)
        self.register_buffer("index", (places[:, None] - places[None, :] + 9))
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.head = nn.Linear(width, classes)
        self.heads = heads

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.table[self.index.view(-1)].view(length, length, -1).permute(2, 0, 1).contiguous()
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0))
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return self.head((x + self.mlp(x))[:, 0])


class Shifted(nn.Module):
    """Windows that are rolled, with a mask that is made in place; scales of one element; a tied weight."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8, bias=False)
        self.second.weight = self.first.weight
        self.gain = nn.Parameter(torch.ones(1) * 0.7)
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        x = self.stem(x).permute(0, 2, 3, 1)
        batch, height, width, channels = x.shape
        x = torch.roll(x, shifts=(-1, -1), dims=(1, 2))
        mask = x.new_zeros((height, width))
        mask[0:2, 1:3] = 1
        x = x.view(batch, height // 3, 3, width // 3, 3, channels).permute(0, 1, 3, 2, 4, 5).reshape(-1, 9, channels)
        x = self.gain * self.second(nn.functional.silu(self.first(x)))
        x = x.view(batch, height // 3, width // 3, 3, 3, channels).permute(0, 1, 3, 2, 4, 5).reshape(batch, height, width, channels)
        return self.head((x * mask.unsqueeze(-1)).mean((1, 2)))


class Repeated(nn.Module):
    """A weight that is repeated for each image, in more axes than it has."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.shift = nn.Parameter(torch.linspace(-1, 1, 8).view(8, 1, 1))
        self.head = nn.Linear(8, classes)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(x + self.shift.repeat(x.shape[0], 1, 1, 1))
        return self.head(x.mean((2, 3)))


class Numbers(nn.Module):
    """Parameters without dimensions: of ReZero, which starts at 0, a temperature, and one that a mask chooses."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.block = nn.Conv2d(8, 8, 3, padding=1)
        self.residual = nn.Parameter(torch.tensor(0.0))
        self.chosen = nn.Parameter(torch.tensor(0.0))
        self.classes = nn.Parameter(torch.randn(classes, 8))
        self.log_scale = nn.Parameter(torch.tensor(1.1))

    def forward(self, x):
        x = self.stem(x)
        x = x + self.residual * torch.tanh(self.block(x))
        x = torch.where(x > 0, x, self.chosen * x).mean((2, 3)) + torch.where(x > 0.1, self.chosen, 0.0).mean((2, 3))
        x = nn.functional.normalize(x, dim=1) @ nn.functional.normalize(self.classes, dim=1).t()
        return self.log_scale.exp() * x


class Normed(nn.Module):
    """Weights as a direction and a length, in both of PyTorch's forms; largest values of windows, of an axis and of two tensors."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3, 2))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is deprecated
            self.middle = nn.utils.weight_norm(nn.Conv2d(8, 8, 1), dim=None)
        self.fc = nn.utils.parametrizations.weight_norm(nn.Linear(8 * (1 + 16 + 9), classes), dim=1)

    def forward(self, x):
        x = torch.tanh(self.stem(x))
        x = torch.max(x, self.middle(x))
        pooled = [nn.functional.adaptive_max_pool2d(x, size).flatten(1) for size in (1, 4, (3, 3))]  # of 11 x 11
        spread = torch.max(x, 1, keepdim=True)[0].mean((1, 2, 3)) - torch.min(x, dim=1)[0].mean((1, 2))
        return self.fc(torch.cat(pooled, 1)) + spread[:, None] * x.amax((1, 2, 3))[:, None]


class Frozen(nn.Module):
    """Runs its stem without gradients, and mixes two values."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.BatchNorm2d(8)).requires_grad_(False)
        self.mixed = nn.Bilinear(8, 8, 6)
        self.fc = nn.Linear(6, classes)

    def forward(self, x):
        with torch.no_grad():
            x = self.stem(x).mean((2, 3))
        x = torch.lerp(x, torch.tanh(x), 0.3)
        return self.fc(self.mixed(x, torch.lerp(x, x * x, torch.sigmoid(x))))


MODELS = {"conv": ConvNet, "transformer": Transformer, "shifted": Shifted, "repeated": Repeated, "numbers": Numbers, "normed": Normed, "frozen": Frozen}


def made(name, **options):
    torch.manual_seed(7)
    model = MODELS[name](**options)
    with torch.no_grad():
        for key, tensor in model.state_dict().items():
            if key.endswith("running_var"):
                tensor.copy_(0.5 + torch.rand(tensor.shape))
            elif key.endswith("running_mean") or "bn" in key and tensor.is_floating_point():
                tensor.add_(0.2 * torch.randn(tensor.shape))
    return model


def captured(model, path):
    dlpipe.capture(model, (3, SIZE, SIZE), path)
    return _dlpipe.CapturedModel(os.fsencode(path))


def images(count=6):
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("name", MODELS)
def test_equal_to_pytorch(name, tmp_path):
    model = made(name)
    ours = captured(model, tmp_path / "m.dlm")
    x, labels = images(), torch.arange(6) % 5
    with torch.no_grad():
        np.testing.assert_allclose(ours.forward(x.numpy(), False), model.eval()(x).numpy(), rtol=1e-4, atol=1e-5)
    model.train()
    for step in range(10):
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        assert ours.step(x.numpy(), labels.numpy(), 0.05) == pytest.approx(loss.item(), rel=1e-4), step
        if step == 0:
            gradients = ours.gradients()
            assert set(gradients) == {key for key, one in model.named_parameters() if one.grad is not None}
            for key, gradient in gradients.items():
                np.testing.assert_allclose(gradient, model.get_parameter(key).grad.numpy(), rtol=1e-3, atol=2e-5, err_msg=key)
        with torch.no_grad():
            for one in model.parameters():
                if one.requires_grad:
                    one -= 0.05 * one.grad
    state = ours.state()
    for key, tensor in model.named_buffers():
        np.testing.assert_allclose(state[key], tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=key)


def test_batches_of_any_size(tmp_path):
    model = made("transformer").eval()
    ours = captured(model, tmp_path / "m.dlm")
    assert not model.training
    for count in (1, 2, 5):
        with torch.no_grad():
            expected = model(images(count)).numpy()
        np.testing.assert_allclose(ours.forward(images(count).numpy(), False), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", ({"dropout": 0.5}, {"drop": 0.5}), ids=str)
def test_chance(options, tmp_path):
    """Each step draws its own numbers; the same step of another run draws the same."""
    model = made("conv", **options)
    with torch.no_grad():
        model.fc.weight.fill_(1)
        model.fc.bias.zero_()
    x, labels = images(64), torch.zeros(64, dtype=torch.int64)
    runs = [[captured(model, tmp_path / f"{i}.dlm").step(x.numpy(), labels.numpy(), 0.0)] for i in range(2)]
    assert runs[0] == runs[1]
    ours = captured(model, tmp_path / "m.dlm")
    with torch.no_grad():
        expected = model.eval()(x).numpy()
    np.testing.assert_allclose(ours.forward(x.numpy(), False), expected, rtol=1e-4, atol=1e-5)
    first, second = (np.array(ours.forward(x.numpy(), True)) for _ in range(2))
    assert not np.array_equal(first, second)


def test_what_is_dropped(tmp_path):
    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3 * SIZE * SIZE, 400, bias=False)

        def forward(self, x):
            return nn.functional.dropout(torch.ones_like(x[:, :1, :, :]).flatten(1)[:, :400] + 0 * self.fc(x.flatten(1)), 0.25, self.training)

    ours = captured(Dropped(), tmp_path / "m.dlm")
    y = np.array(ours.forward(images(20).numpy(), True))
    assert set(np.unique(y.round(5))) == {0, np.float32(1.33333)}
    assert (y == 0).mean() == pytest.approx(0.25, abs=0.02)


def test_refusals(tmp_path):
    class Unknown(nn.Module):
        def forward(self, x):
            return torch.fft.rfft(x.flatten(1)).abs()

    class Chooses(nn.Module):
        def forward(self, x):
            return x.flatten(1) if x.sum() > 0 else -x.flatten(1)

    with pytest.raises(dlpipe.UnsupportedError, match="fft_rfft"):
        dlpipe.capture(Unknown(), (3, SIZE, SIZE), tmp_path / "m.dlm")
    with pytest.raises(dlpipe.UnsupportedError, match="torch.export can't trace"):
        dlpipe.capture(Chooses(), (3, SIZE, SIZE), tmp_path / "m.dlm")
    with pytest.raises(dlpipe.MisuseError, match="expected images"):
        dlpipe.capture(made("conv"), torch.zeros(3, SIZE, SIZE), tmp_path / "m.dlm")
    (tmp_path / "there.dlm").write_text("")
    with pytest.raises(dlpipe.MisuseError, match="exists already"):
        dlpipe.capture(made("conv"), (3, SIZE, SIZE), tmp_path / "there.dlm")
    assert not (tmp_path / "m.dlm").exists()


class Decides(nn.Module):
    def forward(self, x):
        x = x.flatten(1)
        if x.sum() > 0:
            x = 2 * x
        return x


class ReturnsText(nn.Module):
    def forward(self, x):
        return "logits"


class TwoInputs(nn.Module):
    def forward(self, x, y):
        return (x + y).flatten(1)


class Probe(nn.Module):
    """A network with something in its forward pass or parameters."""

    def __init__(self, of, momentum=0.1):
        super().__init__()
        self.of = of
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=momentum), nn.Linear(8, 5)

    def forward(self, x):
        return self.of(self, x, self.norm(self.conv(x)).mean((2, 3)))


def without_gradients(x):
    with torch.no_grad():
        return 2 * x


@pytest.mark.parametrize("of, momentum, words", [
    (lambda self, x, y: self.linear(y.detach()), 0.1, r"it stops gradients.*requires_grad_\(False\)"),
    (lambda self, x, y: self.linear(y * torch.softmax(y, 1).detach()), 0.1, "it stops gradients"),
    (lambda self, x, y: self.linear(without_gradients(y)), 0.1, r"no_grad stops gradients.*requires_grad_\(False\)"),
    (lambda self, x, y: self.linear(y / x.shape[0]), 0.1, "the number of images in the batch"),
    (lambda self, x, y: self.linear(y), None, "the batch norm 'norm' has momentum=None"),
])  # fmt: skip
def test_what_would_be_trained_otherwise_is_refused(tmp_path, of, momentum, words):
    with pytest.raises(dlpipe.UnsupportedError, match=words):
        dlpipe.capture(Probe(of, momentum), (3, SIZE, SIZE), tmp_path / "m.dlm")
    assert not (tmp_path / "m.dlm").exists()


class Refused(nn.Module):
    def __init__(self, of):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3), of)

    def forward(self, x):
        return self.stem(x).mean((2, 3))


class Of(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, 1, 1, 1, 1, 2, 4))

    def forward(self, x):
        return x * self.weight.reshape(1, 8, 1, 1)


@pytest.mark.parametrize("of, words", [
    (nn.MaxPool2d(3, dilation=2), r"\[capture\] max_pool2d of 'stem.1': dlpipe's pools have no dilation"),
    (Of(lambda x: torch.topk(x, 2, dim=3)[0]), "dlpipe can't capture topk.default of 'stem.1': dlpipe has no such op"),
    (Of(lambda x: torch.sort(x, dim=3)[0]), "dlpipe can't capture sort.* of 'stem.1': dlpipe has no such op"),
    (Of(lambda x: torch.max(x, 3, keepdim=True)[1] * x), "of 'stem.1': it reads the indices of a max, a min or a max pool"),
    (Of(lambda x: nn.functional.max_pool2d(x, 2, return_indices=True)[1] * 0.1), "of 'stem.1': it reads the indices of a max, a min or a max pool"),
    (Wide(), r"'stem.1.weight' has 7 axes"),
    (Of(lambda x: x.view(-1, 2, 2, 2, 2, 11, 2, 11).transpose(1, 2).reshape(-1, 8, 22, 22)), r"\[capture\] view of 'stem.1': more than 6 axes"),
])  # fmt: skip
def test_refused_calls_are_named_with_their_module(of, words, tmp_path):
    with pytest.raises(dlpipe.UnsupportedError, match=words) as error:
        dlpipe.capture(Refused(of), (3, SIZE, SIZE), tmp_path / "m.dlm")
    assert "onnx" not in str(error.value).lower() and not (tmp_path / "m.dlm").exists()


def test_detaching_what_is_not_trained_is_no_matter(tmp_path):
    model = Probe(lambda self, x, y: self.linear(y * x.detach().mean((1, 2, 3), keepdim=True)[:, :, 0, 0] + self.norm.running_mean.detach()))
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    frozen = Probe(lambda self, x, y: self.linear(y.detach()))
    frozen.conv.requires_grad_(False)
    frozen.norm.requires_grad_(False)
    dlpipe.capture(frozen, (3, SIZE, SIZE), tmp_path / "frozen.dlm")


@pytest.mark.parametrize("model, example, words", [
    (ConvNet, (3, SIZE, SIZE), r"model is the class ConvNet; give an instance, such as ConvNet\(\)"),
    (made, (3, SIZE, SIZE), "model is function; give a torch.nn.Module"),
    (ConvNet(), (1, 3, SIZE, SIZE), r"give the sizes C,H,W of one image, \(3, 24, 24\)"),
    (ConvNet(), (3, 0, SIZE), "give the sizes C,H,W of one image"),
    (ConvNet(), (torch.zeros(2, 3, SIZE, SIZE), torch.zeros(2)), "example is tuple; give the sizes of an image"),
    (ConvNet(), 224, "example is int; give the sizes of an image"),
    (ConvNet(), torch.zeros(3, SIZE, SIZE), r"got \[3, 24, 24\] of torch.float32; give example\[None\]"),
    (ConvNet(), torch.zeros(2, 3, SIZE, SIZE, dtype=torch.uint8), "of torch.uint8; give example / 255"),
    (ConvNet(), (1, SIZE, SIZE), r"the model raised an error for images \[1, 1, 24, 24\]: RuntimeError: .*channels"),
    (TwoInputs(), (3, SIZE, SIZE), "TypeError: .*missing.*'y'; .*only input is images"),
])  # fmt: skip
def test_what_capture_does_not_take_is_told_with_what_it_takes(tmp_path, model, example, words):
    with pytest.raises(dlpipe.MisuseError, match=words):
        dlpipe.capture(model, example, tmp_path / "m.dlm")
    assert not (tmp_path / "m.dlm").exists()


def test_what_cannot_be_traced_is_told_with_its_line(tmp_path, capfd):
    with pytest.raises(dlpipe.UnsupportedError, match="values of a tensor, at .*test_capture.py:[0-9]+: `if x.sum.. > 0:`; use torch.where"):
        dlpipe.capture(Decides(), (3, SIZE, SIZE), tmp_path / "m.dlm")
    with pytest.raises(dlpipe.UnsupportedError, match="returns no tensor"):
        dlpipe.capture(ReturnsText(), (3, SIZE, SIZE), tmp_path / "m.dlm")
    assert capfd.readouterr().err == ""  # nothing of torch's


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("captured")
    rng = np.random.default_rng(5)
    with dlpipe.Writer(folder / "train", fields={"image": "image", "label": "label"}) as writer:
        for i in range(40):
            image = rng.integers(0, 200, (SIZE, SIZE, 3), dtype=np.uint8)
            image[..., i % 3] |= 128
            writer.write({"image": image, "label": "abcde"[i % 5]})
    return folder / "train"


def program(*words):
    done = subprocess.run([sys.executable, "-m", "dlpipe", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun")
@pytest.mark.parametrize("name", MODELS)
def test_processes_train_the_bits_of_one(name, data, tmp_path):
    dlpipe.capture(made(name), (3, SIZE, SIZE), tmp_path / "m.dlm")
    words = ["train", "--data", data, "--model", tmp_path / "m.dlm", "--augment", "hflip", "--batch", 16, "--lr", 0.05, "--grains", 4,
             "--threads", 1, "--max-steps", 4, "--schedule", "constant"]  # fmt: skip
    program(*words, "--out", tmp_path / "one")
    weights = (tmp_path / "one/checkpoints/last/model.safetensors").read_bytes()
    for processes in (2, 4):
        try:
            program("launch", "--np", processes, "--", *words, "--out", tmp_path / str(processes))
        except AssertionError as error:
            if "without MPI" in str(error):
                pytest.skip("built without MPI")
            raise
        assert (tmp_path / f"{processes}/checkpoints/last/model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("name", MODELS)
def test_train_and_back(name, data, tmp_path):
    """From a model to a run, and from its weights to the model."""
    torch.manual_seed(7)
    model = made(name)
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    options = dict(model=tmp_path / "m.dlm", augment="hflip", val_augment=f"resize({SIZE}x{SIZE})", epochs=3, batch=8, lr=0.05, threads=1, schedule="constant")
    report = dlpipe.train(data, out=tmp_path / "a", **options)
    assert report["steps"] == 15
    program("export-weights", tmp_path / "a", "-o", tmp_path / "w.safetensors")
    weights = read(tmp_path / "w.safetensors")
    assert set(weights) == set(model.state_dict())
    with pytest.raises(dlpipe.MisuseError, match="give the run or the checkpoint"):
        dlpipe.Predictor(tmp_path / "w.safetensors")
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    model.load_state_dict(weights)
    assert any(not torch.equal(before[key], tensor) for key, tensor in model.state_dict().items())
    # The run's answers are the model's.
    image = np.full((SIZE, SIZE, 3), 90, np.uint8)
    predictor = dlpipe.Predictor(tmp_path / "a")
    mean, std = numbers_of(predictor.val_augment)
    x = ((torch.from_numpy(image).float() / 255 - mean) / std).permute(2, 0, 1)[None]
    with torch.no_grad():
        expected = model.eval()(x).softmax(1)[0].numpy()
    np.testing.assert_allclose(predictor(image), expected, rtol=1e-3, atol=1e-4)
    # A resumed run has the same bits.
    dlpipe.train(data, out=tmp_path / "b", **{**options, "epochs": 3, "max_steps": 7})
    dlpipe.train(resume=tmp_path / "b", max_steps=-1)
    program("export-weights", tmp_path / "b", "-o", tmp_path / "b.safetensors")
    for key, tensor in read(tmp_path / "b.safetensors").items():
        assert torch.equal(tensor, weights[key]), key


def numbers_of(chain):
    values = chain.split("normalize(")[1].split(")")[0]
    mean, std = (torch.tensor([float(one) for one in part.split("=")[1].split(":")]) for part in values.split(",std"))
    return mean, std


def read(path):
    """A safetensors file without the package of that name."""
    import json

    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    kinds = {"F32": torch.float32, "I64": torch.int64}
    tensors = {}
    for key, entry in json.loads(data[8 : 8 + length]).items():
        if key == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[key] = torch.frombuffer(bytearray(data[8 + length + begin : 8 + length + end]) or bytearray(8), dtype=kinds[entry["dtype"]])
        tensors[key] = tensors[key].reshape(entry["shape"])
    return tensors


def test_command(tmp_path):
    (tmp_path / "models_of_mine.py").write_text(
        "import torch\n\ndef net(classes=3):\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, classes))\n")
    command = [sys.executable, "-m", "dlpipe", "capture", "models_of_mine:net", "-o", "m.dlm", "--image", "3,8,8", "--arg", "classes=4"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "dlpipe train --model m.dlm" in done.stdout
    assert "[N,4]" in program("info", tmp_path / "m.dlm")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "exists already" in done.stderr
    (tmp_path / "m.dlm").unlink()
    done = subprocess.run([*command, "--arg", "labels=4"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "'labels'; give its arguments as --arg NAME=VALUE" in done.stderr


RAISING = """
import torch

class Odd(Exception):
    def __str__(self):
        return ""

def net(kind="value"):
    raise {"value": ValueError("a bad\\nvalue"), "key": KeyError("k"), "odd": Odd(), "no": NotImplementedError("none")}[kind]

def whole():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 3))
"""


@pytest.mark.parametrize("arguments, said", [
    (["raising:net"], "raising:net raises ValueError: a bad"), (["raising:net", "--arg", "kind=key"], "raising:net with kind='key' raises KeyError: 'k'"),
    (["raising:net", "--arg", "kind=odd"], "raises Odd: "), (["raising:net", "--arg", "kind=no"], "raises NotImplementedError: none"),
    (["broken:net"], "importing broken raises ZeroDivisionError: division by zero"), (["none:net"], "none:net: No module named 'none'"),
    (["raising:whole", "--image", "3,1000000,1000000"], "example is (3, 1000000, 1000000), which as C,H,W has more than 178,956,970 pixels"),
    (["raising:whole", "--image", "1000000000000,100,100"], "example is (1000000000000, 100, 100): "),
    (["raising:whole", "--image", "99999999999999999999,1,1"], "example is (99999999999999999999, 1, 1): "),
    (["raising:whole", "--image", "3,8,9"], "the model raised an error for images [1, 3, 8, 9]"),
    # Before anything is imported:
    (["slow:net", "-o", "there.dlm"], "there.dlm exists already"), (["slow:net", "--image", "3,8"], "--image 3,8: give C,H,W"),
    (["slow:net", "--image", "3,0,8"], "--image 3,0,8: give C,H,W"), (["slow:net", "--arg", "x"], "--arg x: give NAME=VALUE"),
    (["slow"], "'slow' does not name a function")])  # fmt: skip
def test_misuse_of_the_command(tmp_path, monkeypatch, capsys, arguments, said):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "raising.py").write_text(RAISING)
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "slow.py").write_text("raise SystemExit('it was imported')")
    (tmp_path / "there.dlm").write_text("")
    monkeypatch.delitem(sys.modules, "raising", raising=False)
    assert main(["-o", "m.dlm", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("dlpipe: [capture] ") and said in error and len(error.splitlines()) == 1
    assert not (tmp_path / "m.dlm").exists()
    assert main(["slow:net", "-o", "none/m.dlm"]) == 1 and "there is no folder none; create it first" in capsys.readouterr().err


def test_other_ways_to_train(data, tmp_path):
    """What built-in models can: freeze, averages, parts of a batch, activations computed twice, other weights, bf16; then eval and ONNX."""
    model = made("conv", drop=0.2, dropout=0.1)
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    options = dict(augment="hflip", val_augment=f"resize({SIZE}x{SIZE})", epochs=1, batch=8, lr=0.05, threads=1)
    dlpipe.train(data, model=tmp_path / "m.dlm", out=tmp_path / "a", freeze="stem.*", ema=0.9, grains=2, **options)
    program("export-weights", tmp_path / "a", "-o", tmp_path / "a.safetensors")
    after, before = read(tmp_path / "a.safetensors"), model.state_dict()
    for key, tensor in before.items():  # frozen norms keep their statistics, as built-in models' do
        is_same = torch.allclose(after[key].double(), tensor.double(), rtol=1e-5, atol=1e-7)  # an average of equals is rounded
        assert is_same == key.startswith("stem."), key
    losses = {}
    for name, more in {"plain": {}, "again": {"checkpoint_activations": "blocks.*"}, "bf16": {"dtype": "bf16"}}.items():
        report = dlpipe.train(data, model=tmp_path / "m.dlm", init=tmp_path / "a.safetensors", out=tmp_path / name, **options, **more)
        losses[name] = report["loss"]
    assert losses["again"] == pytest.approx(losses["plain"], rel=1e-4)
    assert losses["bf16"] == pytest.approx(losses["plain"], rel=0.1)
    assert dlpipe.evaluate(tmp_path / "plain", data, threads=1)["samples"] == 40
    program("compile", tmp_path / "plain", "-o", tmp_path / "plain.onnx")
    first = dlpipe.Predictor(tmp_path / "plain")(np.full((SIZE, SIZE, 3), 90, np.uint8))
    second = dlpipe.Predictor(tmp_path / "plain.onnx")(np.full((SIZE, SIZE, 3), 90, np.uint8))
    np.testing.assert_allclose(first, second, rtol=1e-3, atol=1e-5)
    # The head of other classes is drawn.
    dlpipe.capture(made("conv", classes=9), (3, SIZE, SIZE), tmp_path / "nine.dlm")
    with pytest.raises(dlpipe.MisuseError, match="reset.head"):
        dlpipe.train(data, model=tmp_path / "nine.dlm", out=tmp_path / "n", **options)
    dlpipe.train(data, model=tmp_path / "nine.dlm", out=tmp_path / "nine", reset_head=True, **options)
    # The inference form alone is compiled.
    program("compile", tmp_path / "m.dlm", "-o", tmp_path / "m.dlg")
    assert "dropout" not in program("info", "--graph", tmp_path / "m.dlg")
    assert "dropout" in program("info", "--graph", tmp_path / "m.dlm")


def test_live_batch_norms(data, tmp_path):
    """An ONNX file whose exporter kept them."""
    from dlpipe import onnx_bytes as ob

    drawn = np.random.default_rng(1)
    weights = {"w": drawn.normal(size=(4, 3, 3, 3)), "g": np.ones(4), "b": np.zeros(4), "m": np.zeros(4), "v": np.ones(4),
               "f": drawn.normal(size=(5, 4)), "c": np.zeros(5)}  # fmt: skip
    nodes = [ob.node("Conv", ["x", "w"], ["1"], {"pads": [1, 1, 1, 1]}), ob.node("BatchNormalization", list("1gbmv"), ["2"], {}),
             ob.node("GlobalAveragePool", ["2"], ["3"], {}), ob.node("Flatten", ["3"], ["4"], {}),
             ob.node("Gemm", ["4", "f", "c"], ["y"], {"transB": 1})]  # fmt: skip
    whole = ob.model("net", nodes, [ob.tensor(key, ob.FLOAT, one.shape, one.astype("f4").tobytes()) for key, one in weights.items()],
                     [ob.value_info("x", ob.FLOAT, ["N", 3, SIZE, SIZE])], [ob.value_info("y", ob.FLOAT, ["N", 5])], {"": 17}, "test")  # fmt: skip
    (tmp_path / "net.onnx").write_bytes(whole)
    options = dict(augment="hflip", val_augment=f"resize({SIZE}x{SIZE})", epochs=1, batch=8, lr=0.01, threads=1)
    moved = {}
    for live in (False, True):
        dlpipe.train(data, model=tmp_path / "net.onnx", out=tmp_path / str(live), live_batch_norm=live, **options)
        program("export-weights", tmp_path / str(live), "-o", tmp_path / f"{live}.safetensors")
        moved[live] = bool(read(tmp_path / f"{live}.safetensors")["m"].abs().max() > 0)
    assert moved == {False: False, True: True}


class Pixels(nn.Module):
    """A class for each pixel, in a dict, as torchvision's segmentation networks answer."""

    def __init__(self, classes=11):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.classifier = nn.Conv2d(8, classes, 1)

    def forward(self, x):
        y = self.classifier(self.backbone(x))
        return {"out": nn.functional.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False), "aux": y}


def test_pixels(tmp_path):
    torch.manual_seed(7)
    model = Pixels()
    ours = captured(model, tmp_path / "m.dlm")
    x = images()
    with torch.no_grad():
        expected = model.eval()(x)["out"].permute(0, 2, 3, 1).numpy()
    np.testing.assert_allclose(ours.forward(x.numpy(), False), expected, rtol=1e-4, atol=1e-5)
    program("synth", tmp_path / "drawn", "--task", "segment", "--per-class", 2, "--size", SIZE)
    program("ingest", tmp_path / "drawn", tmp_path / "data", "--split", "0.8,0.2")
    program("train", "--data", tmp_path / "data", "--model", tmp_path / "m.dlm", "--task", "segment", "--augment", "hflip",
            "--batch", 4, "--max-steps", 2, "--threads", 1, "--out", tmp_path / "a")  # fmt: skip
    assert 0 < dlpipe.evaluate(tmp_path / "a", tmp_path / "data")["metrics"]["miou"] < 1
    program("export-weights", tmp_path / "a", "-o", tmp_path / "w.safetensors")
    model.load_state_dict(read(tmp_path / "w.safetensors"))


class Auxiliary(nn.Module):
    """Returns a second output in training."""

    def __init__(self, classes=5):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.BatchNorm2d(8))
        self.fc = nn.Linear(8, classes)
        self.aux = nn.Sequential(nn.Conv2d(8, 4, 1, bias=False), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, classes))

    def forward(self, x):
        x = self.f(x)
        y = self.fc(x.mean((2, 3)))
        return (y, self.aux(x)) if self.training else y


def test_parameters_of_an_output_that_is_left_out_stay(data, tmp_path):
    model = Auxiliary()
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    options = dict(augment="hflip", val_augment=f"resize({SIZE}x{SIZE})", epochs=1, batch=8, lr=0.05, threads=1)
    dlpipe.train(data, model=tmp_path / "m.dlm", out=tmp_path / "a", **options)
    program("export-weights", tmp_path / "a", "-o", tmp_path / "a.safetensors")
    after, before = read(tmp_path / "a.safetensors"), {key: tensor.clone() for key, tensor in model.state_dict().items()}
    model.load_state_dict(after)
    for key, tensor in before.items():
        assert torch.equal(after[key], tensor) == key.startswith("aux."), key


@pytest.mark.parametrize("broken", ("CapturedModel", "_compare"))
def test_a_capture_that_fails_leaves_no_file(broken, monkeypatch, tmp_path):
    from dlpipe import torch_capture

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_dlpipe if broken == "CapturedModel" else torch_capture, broken, fail)
    with pytest.raises(KeyboardInterrupt):
        dlpipe.capture(made("conv"), (3, SIZE, SIZE), tmp_path / "m.dlm")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    dlpipe.capture(made("conv"), (3, SIZE, SIZE), tmp_path / "m.dlm")
    assert [one.name for one in tmp_path.iterdir()] == ["m.dlm"]


class Heads(nn.Module):
    """A network whose logits aren't simply those of one linear."""

    def __init__(self, of, **layers):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.Tanh())
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.of = of

    def forward(self, x):
        return self.of(self, self.stem(x).mean((2, 3)))


HEADS = {
    "joined": (lambda m, x: torch.cat([m.a(x), m.b(x)], 1), lambda: {"a": nn.Linear(8, 4), "b": nn.Linear(8, 6)}, ""),
    "gate": (lambda m, x: m.a(x) * torch.sigmoid(m.t(x)), lambda: {"a": nn.Linear(8, 10), "t": nn.Linear(8, 1)}, "a."),
    "temperature": (lambda m, x: m.a(x) / nn.functional.softplus(m.t(x)), lambda: {"a": nn.Linear(8, 10), "t": nn.Linear(8, 1)}, "a."),
    "dueling": (lambda m, x: m.t(x) + m.a(x) - m.a(x).mean(1, keepdim=True), lambda: {"a": nn.Linear(8, 10), "t": nn.Linear(8, 1)}, "a."),
    "maxout": (lambda m, x: m.a(x).view(-1, 10, 2).amax(2), lambda: {"a": nn.Linear(8, 20)}, ""),
    "ensemble": (lambda m, x: m.a(x).view(-1, 3, 10).mean(1), lambda: {"a": nn.Linear(8, 30)}, ""),
    "sum": (lambda m, x: m.a(x) + m.b(x), lambda: {"a": nn.Linear(8, 10), "b": nn.Linear(8, 10)}, ""),
    "sum of one": (lambda m, x: m.a(x) + m.b(x), lambda: {"a": nn.Linear(8, 1), "b": nn.Linear(8, 1)}, ""),
    "gates": (lambda m, x: m.a(x) * torch.sigmoid(m.b(x)), lambda: {"a": nn.Linear(8, 10), "b": nn.Linear(8, 10)}, ""),
    "scales": (lambda m, x: m.a(x) * m.s.weight[0], lambda: {"a": nn.Linear(8, 10), "s": nn.Linear(10, 1, bias=False)}, ""),
    "norm": (lambda m, x: m.n(m.a(x)), lambda: {"a": nn.Linear(8, 10), "n": nn.BatchNorm1d(10)}, ""),
    "hidden": (lambda m, x: m.b(torch.relu(m.a(x))), lambda: {"a": nn.Linear(8, 10), "b": nn.Linear(10, 10)}, "b."),
}


@pytest.mark.parametrize("name", HEADS)
def test_logits_of_any_layers(name, tmp_path):
    of, layers, _ = HEADS[name]
    torch.manual_seed(7)
    model = Heads(of, **layers())
    ours = captured(model, tmp_path / "m.dlm")
    x = images()
    with torch.no_grad():
        expected = model.eval()(x)
    np.testing.assert_allclose(ours.forward(x.numpy(), False), expected.numpy(), rtol=1e-4, atol=1e-5)
    labels, optimizer = torch.arange(6) % expected.shape[1], torch.optim.SGD(model.train().parameters(), 0.05)
    for step in range(10):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        assert ours.step(x.numpy(), labels.numpy(), 0.05) == pytest.approx(loss.item(), rel=1e-4, abs=1e-6), step
        optimizer.step()


@pytest.mark.parametrize("name", HEADS)
def test_only_a_head_that_decides_the_classes_is_replaced(name, data, tmp_path):
    of, layers, head = HEADS[name]
    torch.manual_seed(7)
    model = Heads(of, **layers())
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    options = dict(model=tmp_path / "m.dlm", augment="hflip", val_augment=f"resize({SIZE}x{SIZE})", max_steps=1, batch=8, lr=0.0, weight_decay=0.0, threads=1)
    if not head:
        for reset in (False, True):
            with pytest.raises(dlpipe.MisuseError, match="has no classifier that can be replaced; build the model with these classes"):
                dlpipe.train(data, out=tmp_path / "a", reset_head=reset, **options)
        return
    dlpipe.train(data, out=tmp_path / "a", reset_head=True, **options)
    program("export-weights", tmp_path / "a", "-o", tmp_path / "a.safetensors")
    after = read(tmp_path / "a.safetensors")
    for key, tensor in model.state_dict().items():
        assert torch.equal(after[key], tensor) != key.startswith(head), key
        assert not key.startswith(head) or after[key].shape[0] == 5


def test_a_classifier_that_cannot_be_replaced_is_trained_but_not_reset(data, tmp_path):
    dlpipe.capture(Heads(HEADS["joined"][0], a=nn.Linear(8, 2), b=nn.Linear(8, 3)), (3, SIZE, SIZE), tmp_path / "m.dlm")
    options = dict(model=tmp_path / "m.dlm", augment="hflip", val_augment=f"resize({SIZE}x{SIZE})", epochs=1, batch=8, lr=0.05, threads=1)
    assert dlpipe.train(data, out=tmp_path / "a", **options)["steps"] == 5
    with pytest.raises(dlpipe.MisuseError, match="has no classifier that can be replaced; leave it out"):
        dlpipe.train(data, out=tmp_path / "b", reset_head=True, **options)
