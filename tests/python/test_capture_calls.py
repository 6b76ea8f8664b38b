"""Single calls of captured models: PyTorch judges values and gradients; arguments that dlpipe's ops lack are refused by name."""

import copy
import inspect
import os

import dlpipe
import numpy as np
import pytest
from dlpipe import _dlpipe

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional
SIZE = 12


class Calls(nn.Module):
    """A function of a convolution's output, with whatever parameters and buffers it needs."""

    def __init__(self, of, **state):
        super().__init__()
        torch.manual_seed(7)
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False)
        self.function = of
        self.head = nn.LazyLinear(5)
        for name, tensor in state.items():
            if isinstance(tensor, nn.Parameter):
                setattr(self, name, tensor)
            else:
                self.register_buffer(name, tensor)
        self.eval()(images())

    def forward(self, x):
        x = self.conv(x)
        return self.head((self.function(x) if isinstance(self.function, nn.Module) else self.function(self, x)).flatten(1))


def images():
    """The last is black, so that its features are 0 without a bias."""
    x = torch.randn(4, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(3))
    x[-1] = 0
    return x


CALLS = {
    "std": lambda m, x: x.std((2, 3)),
    "biased std": lambda m, x: x.std((2, 3), unbiased=False),
    "std by correction": lambda m, x: x.std(1, correction=0, keepdim=True),
    "std_mean": lambda m, x: torch.cat(torch.std_mean(x, (2, 3)), 1),
    "norm": lambda m, x: x.flatten(2).norm(dim=2),
    "squared norms": lambda m, x: torch.linalg.vector_norm(x, dim=(1, 2, 3), keepdim=True) ** 2 + F.normalize(x.flatten(1), dim=1).sum(1)[:, None, None, None],
    "softplus with a threshold": nn.Softplus(threshold=0.1),
    "softplus with beta": nn.Softplus(beta=2.5, threshold=1),
    "softplus below 0": nn.Softplus(beta=-3, threshold=-0.2),
    "clamp by a tensor": lambda m, x: x.clamp(min=x.mean((1, 2, 3), keepdim=True)),
    "clamp to a range": lambda m, x: x.clamp(m.low, x.amax((1, 2, 3), keepdim=True) * 0.5),
    "clamp by a number that is a tensor": lambda m, x: torch.clamp(x, max=torch.tensor(0.2)),
    "clamp_min": lambda m, x: torch.clamp_min(x, m.low),
    "clamp at equal numbers": lambda m, x: torch.clamp_min(torch.relu(x), torch.zeros(4, 1, 1)),
    "add with alpha": lambda m, x: torch.sub(x, torch.add(x, x * x, alpha=2), alpha=0.5),
    "attention with a mask in a buffer": lambda m, x: F.scaled_dot_product_attention(*[x.flatten(2)] * 3, attn_mask=m.mask),
    "attention with a mask of the input": lambda m, x: F.scaled_dot_product_attention(*[x.flatten(2)] * 3, attn_mask=x.flatten(2)[..., :4] >= x.flatten(2)[..., :1]),
    "attention with a mask as numbers": lambda m, x: F.scaled_dot_product_attention(*[x.flatten(2)] * 3, attn_mask=(x.flatten(2)[..., :4] > 0).float()),
    "upsample": lambda m, x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "upsample to a size": lambda m, x: F.interpolate(x, scale_factor=1.7, mode="nearest", recompute_scale_factor=True),
    "upsample with corners": lambda m, x: F.interpolate(x, scale_factor=1.7, mode="bilinear", align_corners=True),
    "embedding with a row that isn't read": lambda m, x: x + F.embedding(torch.tensor([1, 2, 0, 1]), m.table, padding_idx=3)[..., None],
}  # fmt: skip
STATE = {
    "low": lambda: nn.Parameter(torch.full((4, 1, 1), 0.05)), "table": lambda: nn.Parameter(torch.linspace(-1, 1, 4)[:, None]),
    "mask": lambda: torch.ones(4, 4, dtype=torch.bool).tril(),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_calls_have_pytorchs_values_and_gradients(name, tmp_path):
    of = CALLS[name]
    read = () if isinstance(of, nn.Module) else inspect.getsource(of).split('"', 2)[2]
    model = Calls(of, **{key: make() for key, make in STATE.items() if f"m.{key}" in read})
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    ours = _dlpipe.CapturedModel(os.fsencode(tmp_path / "m.dlm"))
    x, labels = images(), torch.arange(4)
    model.train()
    y = model(x)
    np.testing.assert_allclose(ours.forward(x.numpy(), True), y.detach().numpy(), rtol=1e-4, atol=1e-5)
    F.cross_entropy(y, labels).backward()
    ours.step(x.numpy(), labels.numpy(), 0.0)
    gradients = ours.gradients()
    for key, one in model.named_parameters():
        assert one.grad is None or one.grad.isfinite().all(), key
        if one.grad is not None:
            np.testing.assert_allclose(gradients[key], one.grad.numpy(), rtol=1e-3, atol=1e-5, err_msg=key)


#: Where the gradients of the functions below jump. PyTorch chooses one of several subgradients there.
TIES = (-3.0, -2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0)
BOUNDS = (-3.0, -1.0, 0.0, -0.0, 0.0, 1.0, 1.0, 1.0, 3.0, 7.0)
FUNCTIONS_WITH_TIES = {
    **{name: getattr(nn, name)() for name in ("ELU", "GELU", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "Mish", "PReLU", "ReLU", "ReLU6", "SELU",
                                              "SiLU", "Softplus", "Softsign", "Tanhshrink")},
    "ELU of another alpha": nn.ELU(2.0),
    "LeakyReLU with a negative slope": nn.LeakyReLU(-0.2),
    "LeakyReLU with a slope of 0": nn.LeakyReLU(0.0),
    "PReLU by channel": nn.PReLU(len(TIES), init=0.3),
    "Softplus with a threshold": nn.Softplus(beta=2, threshold=1),
    "abs": lambda m, x: x.abs(),
    "clamp": lambda m, x: x.clamp(0, 1),
    "clamp_min": lambda m, x: x.clamp_min(-1),
    "clamp to one number": lambda m, x: x.clamp(1, 1),
    "clip": lambda m, x: torch.clip(x, max=3),
    "clamp by numbers that are tensors": lambda m, x: x.clamp(torch.tensor(0.0), torch.tensor(1.0)),
    "clamp_min by tensors": lambda m, x: x.clamp(min=m.bounds),
    "clamp_max by tensors": lambda m, x: torch.clamp_max(x, m.bounds),
    "clamp to ranges": lambda m, x: x.clamp(m.bounds, m.others),
    "clamp to ranges that are empty": lambda m, x: x.clamp(m.bounds, m.bounds * 0.5 - 0.25),
    "maximum": lambda m, x: torch.maximum(x, m.bounds),
    "minimum": lambda m, x: torch.minimum(x, m.bounds),
}  # fmt: skip


class Ties(nn.Module):
    """A function of TIES, which are the biases of channels. The images are black."""

    def __init__(self, of):
        super().__init__()
        torch.manual_seed(7)
        self.conv = nn.Conv2d(3, len(TIES), 3, stride=2, padding=1)
        self.conv.bias.data = torch.tensor(TIES)
        self.bounds, self.others = (nn.Parameter(torch.tensor(values)[:, None, None]) for values in (BOUNDS, (0, -1, 0, 0, 2, 1, 1, 3, 3, 7.0)))
        self.function = of
        self.head = nn.Linear(len(TIES) * (SIZE // 2) ** 2, 5)

    forward = Calls.forward


@pytest.mark.parametrize("name", FUNCTIONS_WITH_TIES)
def test_gradients_at_ties_are_pytorchs(name, tmp_path):
    model = Ties(copy.deepcopy(FUNCTIONS_WITH_TIES[name]))
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    ours = _dlpipe.CapturedModel(os.fsencode(tmp_path / "m.dlm"))
    x, labels = torch.zeros(3, 3, SIZE, SIZE), torch.arange(3)
    y = model(x)
    F.cross_entropy(y, labels).backward()
    np.testing.assert_allclose(ours.forward(x.numpy(), True), y.detach().numpy(), rtol=1e-4, atol=1e-5)
    ours.step(x.numpy(), labels.numpy(), 0.0)
    gradients = ours.gradients()
    for key, one in model.named_parameters():
        if one.grad is not None:
            np.testing.assert_allclose(gradients[key], one.grad.numpy(), rtol=1e-3, atol=1e-6, err_msg=key)


REFUSED = {
    "scale factor": (nn.Upsample(scale_factor=1.7, mode="nearest"), "upsample_nearest2d.* of 'function': a scale_factor of 1.7 makes 10 of 6"),
    "another factor": (nn.Upsample(scale_factor=(1.5, 1.7), mode="bilinear"), "upsample_bilinear2d.*a scale_factor of 1.7.*recompute_scale_factor=True"),
    "padding": (lambda m, x: x + F.embedding(torch.tensor([1, 2, 0, 3]), m.conv.weight[:, 0, 0, :1], padding_idx=3)[..., None],
                "embedding.*the row padding_idx=3"),
    "frequencies": (lambda m, x: x + F.embedding(torch.tensor([1, 2, 0, 3]), m.conv.weight[:, 0, 0, :1], scale_grad_by_freq=True)[..., None],
                    "embedding.*scale_grad_by_freq"),
    "beta": (nn.Softplus(beta=0), "softplus.* of 'function': a softplus with beta=0"),
    "integers": (lambda m, x: x * x.to(torch.int32), "it converts torch.float32 to torch.int32"),
    "booleans": (lambda m, x: x * x.bool(), "it converts torch.float32 to torch.bool"),
    "bits": (lambda m, x: x * x.view(torch.int32), "view.*it converts torch.float32 to torch.int32"),
    "sum of booleans": (lambda m, x: x * ((x > 0) + (x < 1)), "add.*a sum of booleans"),
    "variance over the batch": (lambda m, x: x / x.std(0), "std.*a variance over the batch"),
    "variance of one": (lambda m, x: x[:, :1] * torch.var(x[:, :1], 1, keepdim=True), "var.*a variance of 1 numbers"),
    "power": (lambda m, x: x ** x.mean(), "pow.*a power whose exponent is a tensor"),
    "start": (lambda m, x: x + torch.narrow_copy(x, 1, 0, 4), "narrow_copy"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_the_ops_lack_are_refused_by_name(name, tmp_path):
    of, words = REFUSED[name]
    with pytest.raises(dlpipe.UnsupportedError, match=words):
        dlpipe.capture(Calls(of), (3, SIZE, SIZE), tmp_path / "m.dlm")
    assert not (tmp_path / "m.dlm").exists()


def test_no_translation_ignores_arguments():
    """Optional arguments come by name, and `**kwargs` would hide that nothing reads them."""
    from dlpipe import torch_capture_ops as ops

    for name, translate in ops.OPS.items():
        parameters = list(inspect.signature(translate).parameters.values())
        assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in parameters), name
        packet = getattr(torch.ops.aten, name, None)
        known = {one.name for one in parameters} | ops.WITHOUT_EFFECT
        for overload in packet.overloads() if packet is not None else ():
            schema = getattr(packet, overload)._schema
            if overload in ("out", "t", "str") or schema.arguments[0].type.kind() != "TensorType":
                continue
            lacking = [one.name for one in schema.arguments if one.has_default_value() and one.name not in known]
            assert not lacking or name in ("view", "squeeze"), (name, overload, lacking)


class Drops(nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.5)


class Norms(nn.Module):
    def __init__(self, training):
        super().__init__()
        self.training_ = training
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x):
        return F.batch_norm(x, self.mean, self.var, training=self.training_ or self.training)


def test_state_of_other_dtypes_is_named(caplog, tmp_path):
    state = {"low": torch.zeros(4, 1, 1, dtype=torch.float64), "flag": torch.tensor(True), "count": torch.tensor(3)}
    model = Calls(lambda m, x: x + m.low.float(), **state)
    dlpipe.capture(model, (3, SIZE, SIZE), tmp_path / "m.dlm")
    said = caplog.records[-1].getMessage()
    assert "'low' (float64), 'flag' (bool) as float32 or int64" in said and "count" not in said


@pytest.mark.parametrize("of, words", [
    (Norms(True), r"batch_norm uses the batch's statistics in eval mode, too, at .*test_capture_calls.py:\d+: `return F.batch_norm.*training=self.training"),
    (Drops(), "dropout drops in eval mode, too, at .*test_capture_calls.py"),
])  # fmt: skip
def test_what_trains_in_eval_mode_is_refused_for_that_reason(of, words, tmp_path):
    for check in (True, False):
        with pytest.raises(dlpipe.UnsupportedError, match=words):
            dlpipe.capture(Calls(of), (3, SIZE, SIZE), tmp_path / "m.dlm", check=check)
    dlpipe.capture(Calls(Norms(False)), (3, SIZE, SIZE), tmp_path / "m.dlm")


@pytest.mark.parametrize("size", [1, 3, 4, 5])
def test_images_as_narrow_as_channels_are_few_have_their_channels_first(size, tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 1), nn.LeakyReLU(), nn.Flatten(), nn.Linear(8 * size * size, 4)).eval()
    x = torch.randn(2, 3, size, size)
    dlpipe.capture(model, (3, size, size), tmp_path / "m.dlm")
    got = _dlpipe.CapturedModel(os.fsencode(tmp_path / "m.dlm")).forward(x.numpy(), False)
    with torch.no_grad():
        np.testing.assert_allclose(got, model(x).numpy(), atol=1e-5)
