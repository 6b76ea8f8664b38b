# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""CIFAR-10 from a tree of JPEGs to an accuracy, in PyTorch on the CPU: what `dlpipe train --config recipes/...` does.

    python cifar10.py --recipe airbench --data CIFAR --dtype f32 --threads T --seed 1

CIFAR holds train/CLASS/*.jpg and test/CLASS/*.jpg. The numbers come from dlpipe's own recipe (recipe.py). All images
are decoded beforehand into one tensor; augmentation works on a batch at once. Progress goes to stderr, one JSON line to
stdout. Runs in the trainers' environment.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import random
import sys
import time

import numpy
import torch
import torchvision
from PIL import Image
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402
import recipe as recipes  # noqa: E402
import training  # noqa: E402

SIZE = 32
WHITENING_IMAGES = 512
VALIDATION_BATCH = 2000
# (pixels down and right, weight) of the views that test-time augmentation averages; each also mirrored.
VIEWS = {"none": [(0, 1.0)], "flip_translate": [(0, 0.5), (1, 0.25), (-1, 0.25)]}


def say(text):
    print(text, file=sys.stderr, flush=True)


# Data.


class Images:
    """Pixels u8 [N,32,32,3] and labels [N] of a folder of classes, in memory; `limit` takes a random part of them."""

    def __init__(self, folder, limit, threads):
        classes = sorted(path.name for path in folder.iterdir() if path.is_dir())
        files = [(file, label) for label, name in enumerate(classes) for file in sorted((folder / name).glob("*.jpg"))]
        if not files:
            raise SystemExit(f"[cifar10] no {folder}/CLASS/*.jpg")
        if limit and limit < len(files):
            files = random.Random(0).sample(files, limit)
        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            pixels = list(pool.map(self.decode, [file for file, _ in files], chunksize=256))
        self.pixels = torch.from_numpy(numpy.stack(pixels))
        self.labels = torch.tensor([label for _, label in files])

    @staticmethod
    def decode(file):
        with Image.open(file) as image:
            return numpy.asarray(image.convert("RGB"))

    def __len__(self):
        return len(self.labels)

    def statistics(self):
        """Mean and standard deviation [3] of all pixels."""
        deviation, mean = torch.std_mean(self.pixels.view(-1, 3).float(), dim=0, correction=0)
        return mean, deviation

    def batch(self, chosen, top, left, mirrored):
        """The images `chosen` u8 [B,32,32,3], each seen through a window at (top, left), edges reflected, then
        mirrored where so said. All [B]; one gather."""
        steps = torch.arange(SIZE)
        rows = reflected(top[:, None] + steps)
        columns = reflected(left[:, None] + torch.where(mirrored[:, None], SIZE - 1 - steps, steps))
        return self.pixels[chosen[:, None, None], rows[:, :, None], columns[:, None, :]]


def reflected(index):
    """The pixel that a coordinate outside of the image shows: -1 is 1, 32 is 30."""
    last = SIZE - 1
    return last - (last - index.abs()).abs()


class Normalize(nn.Module):
    """u8 [B,32,32,3] to f32 [B,3,32,32] in channels_last, without a copy for the layout."""

    def __init__(self, mean, deviation):
        super().__init__()
        self.mean, self.deviation = mean, deviation

    def forward(self, pixels):
        return pixels.float().sub_(self.mean).div_(self.deviation).permute(0, 3, 1, 2)


def training_batches(images, settings, epoch, coins):
    """Every image once in random order, but for a last batch that isn't full."""
    padding, batch = settings.padding, settings.batch
    order = torch.randperm(len(images))[: len(images) // batch * batch]
    for chosen in order.split(batch):
        top, left = torch.randint(-padding, padding + 1, (2, batch))
        # alternating_flip: a coin an image for the first epoch, from then on the other side every time.
        mirrored = (coins[chosen] + epoch) % 2 == 1 if settings.flip == "alternating_flip" else torch.rand(batch) < 0.5
        yield images.batch(chosen, top, left, mirrored), images.labels[chosen]


# Networks, with dlpipe's names for their parameters.


class Head(nn.Module):
    """A linear layer without a bias, its outputs divided by the number of inputs; weights of standard deviation 1."""

    def __init__(self, channels, classes):
        super().__init__()
        self.fc = nn.Linear(channels, classes, bias=False)
        nn.init.uniform_(self.fc.weight, -(3**0.5), 3**0.5)

    def forward(self, x):
        return self.fc(x) / self.fc.in_features


def airbench(images):
    """dlpipe's airbench; `images` f32 [N,3,32,32] whiten its stem."""
    names = ["conv1", "pool", "norm1", "gelu1", "conv2", "norm2", "gelu2"]

    def group(channels, out):
        layers = collections.OrderedDict(zip(names, training.airbench_group(channels, out)))
        for convolution in (layers["conv1"], layers["conv2"]):
            nn.init.dirac_(convolution.weight[: convolution.in_channels])  # passes on what it gets
        return nn.Sequential(layers)

    with torch.no_grad():
        stem = nn.Conv2d(3, 24, 2)
        whiten(stem, images)
        return nn.Sequential(
            collections.OrderedDict(
                stem=stem,
                gelu=nn.GELU(),
                group1=group(24, 64),
                group2=group(64, 256),
                group3=group(256, 256),
                pool=nn.MaxPool2d(3),
                flatten=nn.Flatten(),
                head=Head(256, 10),
            )
        )


def whiten(stem, images, epsilon=5e-4):
    """Filters e / sqrt(l + epsilon), each followed by its negative, for the eigenvectors e and eigenvalues l of the
    patches' second moment, the largest first (engine/layers/init.h)."""
    patches = functional.unfold(images, stem.kernel_size).transpose(1, 2).flatten(0, 1).double()
    values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
    filters = (vectors / (values.clamp(min=0) + epsilon).sqrt()).T.flip(0)
    stem.weight.copy_(torch.stack([filters, -filters], dim=1).view_as(stem.weight))
    stem.bias.zero_()


def resnet18(_images):
    """torchvision's with a 3x3 stem and no max pool, which is initialised as the other convolutions are."""
    model = training.resnet18_cifar()
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    return model


MODELS = {"airbench": airbench, "resnet18_cifar": resnet18}


# Optimizers.


class Muon(torch.optim.Optimizer):
    """Nesterov's momentum, orthogonalised, for filters that keep a norm of sqrt(outputs)
    (engine/optim/sgd.cpp)."""

    def __init__(self, parts, momentum, iterations):
        super().__init__(parts, {"momentum": momentum, "iterations": iterations})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            momentum = group["momentum"]
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["velocity"] = torch.zeros_like(weight)
                velocity = state["velocity"].mul_(momentum).add_(weight.grad)
                direction = weight.grad.add(velocity, alpha=momentum).flatten(1)
                update = orthogonal(direction, group["iterations"]).view_as(weight)
                weight.mul_(len(weight) ** 0.5 / weight.norm()).sub_(update, alpha=group["lr"])


def orthogonal(matrix, iterations):
    """Roughly the nearest matrix with orthonormal rows or columns, by the quintic iteration of Newton and Schulz."""
    x = matrix.T if len(matrix) > matrix.shape[1] else matrix
    x = x / (x.norm() + 1e-7)
    for _ in range(iterations):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x.T if len(matrix) > matrix.shape[1] else x


def make_optimizers(model, settings):
    """SGD, and Muon where the recipe names filters for it; each parameter with the recipe's rate and decay."""
    filters, others = collections.defaultdict(list), collections.defaultdict(list)
    for name, parameter in model.named_parameters():
        lr = settings.lr * recipes.factor(name, settings.lr_scale)
        decays = settings.decay_vectors or parameter.ndim > 1
        decay = settings.weight_decay * recipes.factor(name, settings.wd_scale) if decays else 0.0
        if lr == 0 or recipes.matches(name, settings.freeze):
            parameter.requires_grad_(False)
        elif recipes.matches(name, settings.muon):
            filters[lr].append(parameter)
        else:
            others[lr, decay].append(parameter)
    parts = [{"params": part, "lr": lr, "weight_decay": decay} for (lr, decay), part in others.items()]
    optimizers = [torch.optim.SGD(parts, momentum=settings.momentum, nesterov=settings.nesterov, fused=True)]
    if filters:
        parts = [{"params": part, "lr": lr} for lr, part in filters.items()]
        optimizers.append(Muon(parts, settings.muon_momentum, settings.muon_iterations))
    return optimizers


# Training and judging.


def train(images, settings, normalize, autocast, state):
    """The trained model, the mean loss of each epoch, the seconds and CPU seconds they took. A file `state`, where one
    is named, holds the run after its last whole epoch; where it exists the run goes on from there."""
    start, cpu_start = time.monotonic(), measure.cpu_seconds()
    first = torch.randperm(len(images))[:WHITENING_IMAGES]
    model = MODELS[settings.model](normalize(images.pixels[first]))
    model = model.to(memory_format=torch.channels_last).train()
    optimizers = make_optimizers(model, settings)
    steps = len(images) // settings.batch
    total, warmup = settings.epochs * steps, round(settings.warmup * steps)
    schedules = [
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: recipes.rate(step, total, warmup))
        for optimizer in optimizers
    ]
    coins = torch.randint(2, (len(images),))
    losses = []
    parts = [model, *optimizers, *schedules]
    if state and state.exists():
        settings_then, states, coins, losses, spent, random_state = torch.load(state, weights_only=False)
        if settings_then != vars(settings):
            raise SystemExit(f"[cifar10] {state} is of a run with other settings; name another --state")
        for part, saved in zip(parts, states):
            part.load_state_dict(saved)
        torch.set_rng_state(random_state)
        start, cpu_start = start - spent[0], cpu_start - spent[1]
    for epoch in range(len(losses), settings.epochs):
        epoch_start, epoch_loss = time.monotonic(), 0.0
        for pixels, labels in training_batches(images, settings, epoch, coins):
            with autocast():
                logits = model(normalize(pixels))
            loss = functional.cross_entropy(logits.float(), labels, label_smoothing=settings.label_smoothing)
            loss.backward()
            for optimizer, schedule in zip(optimizers, schedules):
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                schedule.step()
            epoch_loss += loss.item() / steps
        if not numpy.isfinite(epoch_loss):
            raise SystemExit(f"[cifar10] the loss of epoch {epoch + 1} is not finite; try a lower --lr")
        losses.append(epoch_loss)
        rate = steps * settings.batch / (time.monotonic() - epoch_start)
        spent = (time.monotonic() - start, measure.cpu_seconds() - cpu_start)
        say(f"epoch {epoch + 1}/{settings.epochs}  loss {epoch_loss:.4f}  {rate:.1f} img/s")
        if state:
            states = [part.state_dict() for part in parts]
            save(state, (vars(settings), states, coins, losses, spent, torch.get_rng_state()))
    return model, losses, *spent


def save(path, what):
    """Whole or not at all."""
    aside = path.with_suffix(".new")
    torch.save(what, aside)
    aside.replace(path)


@torch.inference_mode()
def accuracy(model, images, settings, normalize, autocast):
    """The share of images whose greatest logit, averaged over the recipe's views, is that of their label."""
    model.eval()
    right = 0
    for chosen in torch.arange(len(images)).split(VALIDATION_BATCH):
        logits = torch.zeros(len(chosen), 10)
        for moved, weight in VIEWS[settings.tta]:
            at = torch.full((len(chosen),), -moved)
            mirrors = [False] if settings.tta == "none" else [False, True]
            for mirrored in mirrors:
                pixels = images.batch(chosen, at, at, torch.full((len(chosen),), mirrored))
                with autocast():
                    logits += model(normalize(pixels)).float() * (weight / len(mirrors))
        right += (logits.argmax(1) == images.labels[chosen]).sum().item()
    return right / len(images)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", choices=recipes.FILES, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="holds train/CLASS/*.jpg and test/CLASS/*.jpg")
    parser.add_argument("--dtype", choices=["f32", "bf16"], default="f32", help="default f32; bf16 by autocast")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seed", type=int, help="default: the recipe's")
    parser.add_argument("--epochs", type=int, help="default: the recipe's; a warm-up keeps its share of them")
    parser.add_argument("--batch", type=int, help="default: the recipe's")
    parser.add_argument("--lr", type=float, help="at its peak; scaled rates follow it; default: the recipe's")
    parser.add_argument("--state", type=pathlib.Path, help="file to go on from if a run ends early")
    parser.add_argument("--limit", type=int, help="only N random images of train and of test, for a quick look")
    return parser.parse_args()


def chosen_settings(args):
    settings = recipes.read(recipes.FILES[args.recipe])
    if args.epochs is not None:
        settings.warmup *= args.epochs / settings.epochs
    for name in ("seed", "epochs", "batch", "lr"):
        if getattr(args, name) is not None:
            setattr(settings, name, getattr(args, name))
    return settings


def main():
    args = arguments()
    settings = chosen_settings(args)
    torch.manual_seed(settings.seed)
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)

    def autocast():
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16")

    def timed(function, *arguments):
        start = time.monotonic()
        return function(*arguments), time.monotonic() - start

    images, decode_s = timed(Images, args.data / "train", args.limit, args.threads)
    test, test_decode_s = timed(Images, args.data / "test", args.limit, args.threads)
    decode_s += test_decode_s
    say(f"decoded {len(images):,} training and {len(test):,} test images in {decode_s:.1f} s")
    if len(images) < settings.batch:
        raise SystemExit(f"[cifar10] {len(images)} training images fill no batch of {settings.batch}; give --batch")
    normalize, normalize_s = timed(lambda: Normalize(*images.statistics()))
    model, losses, train_s, train_cpu_s = train(images, settings, normalize, autocast, args.state)
    train_s += normalize_s
    top1, eval_s = timed(accuracy, model, test, settings, normalize, autocast)

    samples = settings.epochs * (len(images) // settings.batch) * settings.batch
    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    isa = torch.backends.cpu.get_cpu_capability()
    say(
        f"accuracy {top1:.4f} on {len(test):,} images: {args.recipe}, {args.dtype}, {settings.epochs} epochs, seed "
        f"{settings.seed}, {args.threads} threads; decoding {decode_s:.1f} s, training {train_s:.1f} s, evaluation "
        f"{eval_s:.1f} s; torch {versions['torch']}, torchvision {versions['torchvision']}, {isa}"
    )
    measure.report(
        recipe=args.recipe, dtype=args.dtype, threads=args.threads, seed=settings.seed, epochs=settings.epochs,
        batch=settings.batch, lr=settings.lr, limit=args.limit, accuracy=top1, losses=losses, decode_s=decode_s,
        train_s=train_s, eval_s=eval_s, samples=samples, samples_per_s=samples / train_s,
        cpu_ms_per_sample=1e3 * train_cpu_s / samples, about="eager, channels_last; bf16 by autocast",
        versions=versions, isa=isa,
    )  # fmt: skip


if __name__ == "__main__":
    main()
