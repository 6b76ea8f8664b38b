"""The command line and the step that every trainer in trainers/ shares: PyTorch on the CPU, or on a GPU.

    python trainers/NAME.py --model resnet18 --dtype f32 --batch 32 --size 224 --threads T --seconds S
    python trainers/NAME.py ... --device cuda [--compile-mode reduce-overhead]

One cached batch in channels_last; a step is forward, cross-entropy, backward and SGD with momentum. Prints one JSON
line. Runs in the trainer's environment.

A GPU works while Python goes on, so there a few steps are timed together, from an idle device to an idle device; their
number is such that waiting at the end is nothing beside them. cuDNN measures its kernels first (cudnn.benchmark), the
optimizer is the fused one, and f32 stays f32 (no TF32), as dlpipe's does.
"""

import argparse
import math
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402
import attention_models  # noqa: E402

try:
    import torchvision
    from torchvision.models import resnet18, resnet34, resnet50
except ImportError:  # a GPU machine's own PyTorch may come without it
    torchvision = None
    from residual_models import resnet18, resnet34, resnet50

BLOCK_S = 0.25  # steps that are timed together on a GPU


def resnet18_cifar():
    """ResNet-18 for small images: 3x3 stem of stride 1, no max-pool, ten classes."""
    model = resnet18(num_classes=10)
    model.conv1 = torch.nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=1, bias=False)
    model.maxpool = torch.nn.Identity()
    return model


def airbench_group(channels, out):
    def convolution(channels):
        return torch.nn.Conv2d(channels, out, 3, padding=1, bias=False)

    def norm():
        return torch.nn.BatchNorm2d(out, eps=1e-12, momentum=0.4)

    gelu = torch.nn.GELU
    pool = torch.nn.MaxPool2d(2)
    return [convolution(channels), pool, norm(), gelu(), convolution(out), norm(), gelu()]


def airbench():
    """dlpipe's airbench: whitening stem (its weights fixed), three groups, a 3x3 maximum, a head without a bias."""
    stem = torch.nn.Conv2d(3, 24, 2)
    stem.weight.requires_grad = False
    groups = [layer for sizes in [(24, 64), (64, 256), (256, 256)] for layer in airbench_group(*sizes)]
    head = [torch.nn.MaxPool2d(3), torch.nn.Flatten()]
    model = torch.nn.Sequential(stem, torch.nn.GELU(), *groups, *head)
    model.add_module("fc", torch.nn.Linear(256, 10, bias=False))
    return model


MODELS = {
    "airbench": airbench,
    "resnet18": resnet18,
    "resnet34": resnet34,
    "resnet50": resnet50,
    "resnet18_cifar": resnet18_cifar,
    "gpt_char": attention_models.gpt_char,
    "gpt2_small": attention_models.gpt2_small,
    "vit_small_cifar": attention_models.VitSmallCifar,
}


OPTIMIZERS = {
    "sgd": lambda weights, fastest: torch.optim.SGD(weights, lr=0.01, momentum=0.9, **fastest),
    "adamw": lambda weights, fastest: torch.optim.AdamW(weights, lr=1e-4, **fastest),
    "adafactor": lambda weights, _: torch.optim.Adafactor(weights, lr=1e-4),
}


def image_batch(model, count, size):
    """Images in channels_last and labels."""
    classes = model.fc.out_features if hasattr(model, "fc") else model.head.out_features
    images = torch.randn(count, 3, size, size).contiguous(memory_format=torch.channels_last)
    return images, torch.randint(classes, (count,))


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16", "f16"], required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
    parser.add_argument("--accumulate", type=int, default=1, help="batches whose gradients make one step")
    parser.add_argument("--device", default="cpu", help="cpu (default), cuda, cuda:1")
    parser.add_argument("--compile-mode", default="default", help="torch.compile's mode, where it compiles")
    return parser.parse_args()


def set_up(args):
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False


def make_step(args, device, prepare):
    """A function that does one step and returns its loss, without waiting for a GPU."""
    model = MODELS[args.model]().to(memory_format=torch.channels_last).train()
    make_batch = getattr(model, "batch", None) or (lambda count, size: image_batch(model, count, size))
    inputs, labels = (values.to(device) for values in make_batch(args.batch, args.size))
    model.to(device)
    fastest = {"fused": True} if device.type == "cuda" else {}
    optimizer = OPTIMIZERS[args.optimizer](model.parameters(), fastest)
    forward = prepare(model, args)
    low = {"bf16": torch.bfloat16, "f16": torch.float16}.get(args.dtype)
    scaler = torch.amp.GradScaler(device.type, enabled=args.dtype == "f16")  # else does nothing

    def step():
        optimizer.zero_grad(set_to_none=True)
        for _ in range(args.accumulate):
            with torch.autocast(device.type, dtype=low or torch.bfloat16, enabled=low is not None):
                loss = torch.nn.functional.cross_entropy(forward(inputs), labels)
            scaler.scale(loss / args.accumulate).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss

    return step


def timed_in_blocks(step, wait, batch, seconds):
    """measure.timed over blocks of steps, each from an idle device to an idle device."""
    for _ in range(3):  # cuDNN's measurements, and what a compiler does at its first runs
        step()
    wait()
    started = time.monotonic()
    step()
    wait()
    count = max(1, math.ceil(BLOCK_S / (time.monotonic() - started)))

    def block():
        for _ in range(count):
            step()
        wait()

    result = measure.timed(block, batch * count, seconds, warm_up_steps=1, min_steps=2)
    return result | {"step_ms": result["step_ms"] / count, "steps_a_block": count}


def keep_model(model, args):
    return model


def main(about, prepare=keep_model):
    """`prepare(model, args)` makes of the model what is called for a forward pass."""
    args = arguments()
    set_up(args)
    device = torch.device(args.device)
    step = make_step(args, device, prepare)
    if not torch.isfinite(step()):  # the first step also compiles, where there is a compiler
        raise SystemExit("[peers] the first loss is not finite")
    versions = {"torch": torch.__version__} | ({"torchvision": torchvision.__version__} if torchvision else {})
    if device.type == "cuda":
        result = timed_in_blocks(step, lambda: torch.cuda.synchronize(device), args.batch * args.accumulate, args.seconds)
        result["device"] = torch.cuda.get_device_name(device)
        result["peak_memory_bytes"] = torch.cuda.max_memory_reserved(device)
        versions["cudnn"] = str(torch.backends.cudnn.version())
    else:
        result = measure.timed(step, args.batch * args.accumulate, args.seconds, warm_up_steps=1, min_steps=1)
    measure.report(**result, about=about, versions=versions, isa=torch.backends.cpu.get_cpu_capability())
