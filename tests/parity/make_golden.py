#!/usr/bin/env python3
"""Writes the golden files of tests/parity and tests/engine/models with PyTorch and torchvision.

Not run by the tests: they read the committed files. Run it (any recent torch and torchvision, CPU, and scikit-learn)
after changing what is compared:  python3 tests/parity/make_golden.py

Weights, images, labels and gradients come from noise(), which formula.h repeats bit for bit, so that the files hold
only results. Every number is given twice, from a run in f32 and from one in f64: how far the two are apart says how
much rounding alone does, and the tests' tolerances are multiples of that.

Format: one entry per line, `key value value ...`; `#` begins a comment.
"""
import math
import pathlib

import numpy as np
import PIL
from PIL import Image
import torch
import torchvision
from torch import nn

HERE = pathlib.Path(__file__).resolve().parent
MASK = np.uint64(0xFFFFFFFF)


def salt(name):
    value = 0x811C9DC5  # FNV-1a, 32 bits
    for byte in name.encode():
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def words(name, count):
    """32-bit words: two rounds of multiply and xor-shift of (index, salt of the name)."""
    x = (np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B1) + np.uint64(salt(name))) & MASK
    for multiplier in (0x9E3779B1, 0x85EBCA77):
        x ^= x >> np.uint64(15)
        x = (x * np.uint64(multiplier)) & MASK
    return x ^ (x >> np.uint64(16))


def noise(name, shape):
    """Multiples of 2^-23 in [-1, 1): exact in f32."""
    count = int(np.prod(shape))
    return ((words(name, count) >> np.uint64(8)).astype(np.float64) * 2.0**-23 - 1.0).reshape(shape)


def labels(name, count, classes):
    return (words(name, count) % np.uint64(classes)).astype(np.int64)


def images(name, n, h, w, c, dtype):
    """Drawn in N,H,W,C order, as dlpipe holds them."""
    return torch.tensor(noise(name, (n, h, w, c)), dtype=dtype).permute(0, 3, 1, 2).contiguous()


def set_weights(model):
    """Convolutions: the spread of kaiming normal, fan out. Linear: 1/sqrt(fan in). Norms: about 1 and 0."""
    for name, p in model.named_parameters():
        z = noise(name, tuple(p.shape))
        if p.dim() == 4:
            z = z * math.sqrt(6.0 / (p.shape[0] * p.shape[2] * p.shape[3]))
        elif p.dim() == 2:
            z = z * math.sqrt(1.0 / p.shape[1])
        elif name.endswith("weight"):
            z = 1.0 + 0.1 * z
        else:
            z = 0.1 * z
        p.data = torch.tensor(z.astype(np.float32)).to(p.dtype)


def samples(name, count):
    """Four elements of a tensor of `count`."""
    return [int(w % np.uint64(count)) for w in words("sample." + name, 4)]


def describe(name, tensor):
    flat = tensor.detach().double().reshape(-1)
    return [float(flat.norm())] + [float(flat[i]) for i in samples(name, flat.numel())]


def lenet(h, w, classes):
    """Images of any size; the same layers as dlpipe's lenet."""
    features = 16 * ((h // 2 - 4) // 2) * ((w // 2 - 4) // 2)
    layers = [("conv1", nn.Conv2d(1, 6, 5, padding=2)), ("relu1", nn.ReLU()), ("pool1", nn.MaxPool2d(2)),
              ("conv2", nn.Conv2d(6, 16, 5)), ("relu2", nn.ReLU()), ("pool2", nn.MaxPool2d(2)),
              ("flatten", nn.Flatten()), ("fc1", nn.Linear(features, 120)), ("relu3", nn.ReLU()),
              ("fc2", nn.Linear(120, 84)), ("relu4", nn.ReLU()), ("fc3", nn.Linear(84, classes))]
    model = nn.Sequential()
    for name, layer in layers:
        model.add_module(name, layer)
    return model


def train(model, dtype, batch, h, w, c, classes, steps, lr, decay, smoothing):
    """SGD over four batches in turn, so that the loss falls, with decay enough to be seen in 20 steps.

    The rate is small for resnet18: a ReLU whose input is within rounding of 0 falls on either side, and what that does
    to the gradient grows from step to step (at lr 5e-4 the f32 and f64 losses are 5e-3 apart after 20 steps).
    """
    model = model.to(dtype)
    set_weights(model)
    model.train()
    opt = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=decay)
    losses, gradients = [], {}
    for step in range(steps):
        x = images(f"images.{step % 4}", batch, h, w, c, dtype)
        y = torch.tensor(labels(f"labels.{step % 4}", batch, classes))
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y, label_smoothing=smoothing)
        loss.backward()
        if step == 0:
            gradients = {name: describe(name, p.grad) for name, p in model.named_parameters()}
        opt.step()
        losses.append(loss.item())
    model.eval()
    with torch.no_grad():
        logits = model(images("images.eval", batch, h, w, c, dtype)).double().reshape(-1).tolist()
    state = {name: describe(name, t) for name, t in model.state_dict().items() if t.is_floating_point()}
    return losses, gradients, state, logits


def write(path, head, lines):
    versions = f"# Made by tests/parity/make_golden.py with torch {torch.__version__.split('+')[0]}, "
    versions += f"torchvision {torchvision.__version__.split('+')[0]}.\n"
    path.write_text(versions + "".join(f"# {line}\n" for line in head) + "".join(line + "\n" for line in lines))
    print(path.relative_to(HERE.parent.parent), path.stat().st_size)


def numbers(values):
    return " ".join(f"{v:.9g}" for v in values)


def training_file(path, make, head, **arguments):
    runs = [train(make(), dtype, **arguments) for dtype in (torch.float32, torch.float64)]
    head = head + ["KEY.f32 and KEY.f64; grad: after step 0, state: after the last: L2 norm, four sampled elements"]
    lines = []
    for kind, (losses, gradients, state, logits) in zip(("f32", "f64"), runs):
        lines.append(f"loss.{kind} {numbers(losses)}")
        lines.append(f"logits.{kind} {numbers(logits)}")
        lines += [f"grad.{name}.{kind} {numbers(v)}" for name, v in gradients.items()]
        lines += [f"state.{name}.{kind} {numbers(v)}" for name, v in state.items()]
    write(path, head, lines)


def optimizer_runs():
    """(name, options of dlpipe, how to make it)."""
    decay = 0.05
    return [
        ("sgd.plain", lambda p: torch.optim.SGD(p, lr=1.0)),
        ("sgd.momentum", lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9)),
        ("sgd.nesterov", lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9, nesterov=True)),
        ("sgd.decay", lambda p: torch.optim.SGD(p, lr=1.0, momentum=0.9, nesterov=True, weight_decay=decay)),
        ("sgd.decoupled", lambda p: DecoupledSgd(p, decay)),
        ("adam.plain", lambda p: torch.optim.Adam(p, lr=1.0, betas=(0.9, 0.99), eps=1e-6)),
        ("adam.decay", lambda p: torch.optim.Adam(p, lr=1.0, betas=(0.9, 0.99), eps=1e-6, weight_decay=decay)),
        ("adafactor.decay", lambda p: torch.optim.Adafactor(p, lr=1.0, weight_decay=decay)),
        ("adamw.decay", lambda p: torch.optim.AdamW(p, lr=1.0, betas=(0.9, 0.99), eps=1e-6, weight_decay=decay)),
    ]


class DecoupledSgd(torch.optim.SGD):
    """torch has no SGDW: its SGD after the multiplication that its AdamW does."""

    def __init__(self, parameters, decay):
        super().__init__(parameters, lr=1.0, momentum=0.9, nesterov=True)
        self.decay = decay

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.mul_(1 - group["lr"] * self.decay)
        super().step()


def optimizers_file():
    shapes = {"a": (3, 5), "b": (7,)}
    lines = []
    for name, make in optimizer_runs():
        for kind, dtype in (("f32", torch.float32), ("f64", torch.float64)):
            parameters = {k: nn.Parameter(torch.tensor(noise("weight." + k, s), dtype=dtype)) for k, s in shapes.items()}
            opt = make(list(parameters.values()))
            for step in range(6):
                for group in opt.param_groups:
                    group["lr"] = 0.1 / (1 + step)
                for k, p in parameters.items():
                    p.grad = torch.tensor(noise(f"grad.{step}.{k}", shapes[k]), dtype=dtype)
                opt.step()
            for k, p in parameters.items():
                lines.append(f"{name}.{k}.{kind} {numbers(p.detach().double().reshape(-1).tolist())}")
    for max_norm in (0.5, 100.0):
        parameters = {k: nn.Parameter(torch.zeros(s)) for k, s in shapes.items()}
        for k, p in parameters.items():
            p.grad = torch.tensor(noise(f"grad.0.{k}", shapes[k]), dtype=torch.float32)
        norm = float(nn.utils.clip_grad_norm_(parameters.values(), max_norm))
        lines.append(f"clip.{max_norm:g}.norm {norm:.9g}")
        lines += [f"clip.{max_norm:g}.{k} {numbers(p.grad.double().reshape(-1).tolist())}" for k, p in parameters.items()]
    weight = nn.Linear(5, 3, bias=False)
    weight.weight.data = torch.tensor(noise("weight.a", (3, 5)), dtype=torch.float32)
    mean = torch.optim.swa_utils.AveragedModel(weight, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    mean.update_parameters(weight)  # the first call copies
    for step in range(6):
        weight.weight.data = torch.tensor(noise(f"grad.{step}.a", (3, 5)), dtype=torch.float32)
        mean.update_parameters(weight)
    lines.append(f"ema {numbers(mean.module.weight.detach().double().reshape(-1).tolist())}")
    write(HERE / "golden/optimizers.txt", ["weights after six steps, lr 0.1 / (1 + step)"], lines)


def schedules_file():
    from torch.optim import lr_scheduler as s

    def rates(make, steps=24):
        opt = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.4)
        schedule = make(opt)
        out = []
        for _ in range(steps):
            out.append(opt.param_groups[0]["lr"])
            opt.step()
            schedule.step()
        return out

    def warm(opt, after):
        return s.SequentialLR(opt, [s.LinearLR(opt, 0.1, 1.0, 5), after], [5])

    runs = {
        "constant": lambda o: s.ConstantLR(o, 1.0, 0),
        "step": lambda o: s.MultiStepLR(o, [6, 15], 0.2),
        "cosine": lambda o: s.CosineAnnealingLR(o, 24, 0.4 * 0.01),
        "warmup_cosine": lambda o: warm(o, s.CosineAnnealingLR(o, 19, 0.0)),
        "one_cycle": lambda o: s.OneCycleLR(o, 0.4, 24, pct_start=0.25, div_factor=10, final_div_factor=10),
    }
    lines = [f"{name} {' '.join(f'{v:.15g}' for v in rates(make))}" for name, make in runs.items()]
    write(HERE / "golden/schedules.txt", ["learning rates of steps 0 .. 23 of 24, peak 0.4"], lines)


def init_file():
    torch.manual_seed(1)
    layers = {"conv": nn.Conv2d(16, 32, 3), "conv_groups": nn.Conv2d(16, 32, (3, 5), groups=4),
              "linear": nn.Linear(100, 200), "embedding": nn.Embedding(300, 64), "batch_norm": nn.BatchNorm2d(8),
              "layer_norm": nn.LayerNorm(8), "resnet18": torchvision.models.resnet18(num_classes=10)}
    lines = []
    for kind, layer in layers.items():
        for name, p in layer.named_parameters():
            x = p.detach().double()
            spread = float(x.std(unbiased=False)) if p.numel() > 1 else 0.0
            lines.append(f"{kind}.{name} {p.numel()} {numbers([float(x.mean()), spread, float(x.abs().max())])}")
    write(HERE / "golden/init.txt", ["initial weights: elements, mean, standard deviation, largest magnitude"], lines)


def names_files():
    for name in ("resnet18", "resnet34", "resnet50", "vgg16"):
        model = getattr(torchvision.models, name)(num_classes=1000)
        lines = [" ".join([key] + [str(size) for size in t.shape]) for key, t in model.state_dict().items()]
        write(HERE.parent / f"engine/models/{name}_state_dict.txt", ["state_dict in order: name, shape"], lines)


IMAGES = [(300, 260), (224, 400), (97, 131), (640, 480)]  # width, height


def make_image(name, width, height):
    """Squares of 16 pixels in drawn colours."""
    rows, columns = -(-height // 16), -(-width // 16)
    squares = (words(name, rows * columns * 3) >> np.uint64(24)).astype(np.uint8).reshape(rows, columns, 3)
    return Image.fromarray(squares.repeat(16, 0).repeat(16, 1)[:height, :width])


def predict_file():
    """What torchvision's evaluation makes of images: Resize(256), CenterCrop(224), ToTensor, Normalize."""
    t = torchvision.transforms
    prepare = t.Compose([t.Resize(256), t.CenterCrop(224), t.ToTensor()])
    mean, std = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in
                 ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    lines = []
    for kind, dtype in (("f32", torch.float32), ("f64", torch.float64)):
        model = torchvision.models.resnet18(num_classes=10).to(dtype)
        set_weights(model)
        model.eval()
        for i, (width, height) in enumerate(IMAGES):
            pixels = prepare(make_image(f"picture.{i}", width, height)).double()
            with torch.no_grad():
                logits = model(((pixels - mean) / std).to(dtype)[None])[0].double()
            lines.append(f"log_probabilities.{i}.{kind} {numbers(torch.log_softmax(logits, 0).tolist())}")
    write(HERE / "golden/predict_resnet18.txt",
          [f"resnet18 of 10 classes; images of {IMAGES}; Pillow {PIL.__version__}"], lines)


def report_file():
    """Confusions of 200 samples of 7 classes, of which 5 has no samples and nothing is taken for 3."""
    from sklearn import __version__, metrics

    labels = np.array([0, 1, 2, 3, 4, 6])[words("report.label", 200) % np.uint64(6)]
    drawn = np.array([0, 1, 2, 4, 5, 6])[words("report.predicted", 200) % np.uint64(6)]
    right = (words("report.right", 200) % np.uint64(3) != 0) & (labels != 3)
    predicted = np.where(right, labels, drawn)
    lines = [f"labels {' '.join(map(str, labels))}", f"predicted {' '.join(map(str, predicted))}"]
    lines += [f"confusion.{i} {' '.join(map(str, row))}"
              for i, row in enumerate(metrics.confusion_matrix(labels, predicted, labels=range(7)))]

    def scores(**more):
        return metrics.precision_recall_fscore_support(labels, predicted, zero_division=0, **more)

    for name, values in zip(("precision", "recall", "f1", "support"), scores(labels=range(7))):
        lines.append(f"{name} {numbers(values)}")
    for average in ("macro", "weighted"):
        lines.append(f"{average} {numbers(scores(labels=sorted(set(labels)), average=average)[:3])}")
    write(HERE / "golden/report.txt", [f"scikit-learn {__version__}; macro and weighted: precision, recall, F1 over "
                                       "classes that have samples"], lines)


def main():
    torch.set_num_threads(1)
    training_file(HERE / "golden/lenet.txt", lambda: lenet(20, 28, 10),
                  ["lenet, 8 images of 20x28x1, 10 classes, SGD lr 0.05 momentum 0.9 decay 0.01, 20 steps"],
                  batch=8, h=20, w=28, c=1, classes=10, steps=20, lr=0.05, decay=0.01, smoothing=0.0)
    training_file(HERE / "golden/resnet18.txt", lambda: torchvision.models.resnet18(num_classes=10),
                  ["resnet18, 4 images of 64x64x3, 10 classes, label smoothing 0.1, SGD lr 2e-5 momentum 0.9",
                   "decay 5, 20 steps"],
                  batch=4, h=64, w=64, c=3, classes=10, steps=20, lr=2e-5, decay=5.0, smoothing=0.1)
    optimizers_file()
    schedules_file()
    init_file()
    names_files()
    predict_file()
    report_file()


if __name__ == "__main__":
    main()
