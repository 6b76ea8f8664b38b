"""The command line and the step that every trainer in trainers/ shares: PyTorch on the CPU.

    python trainers/NAME.py --model resnet18 --dtype f32 --batch 32 --size 224 --threads T --seconds S

One cached batch in channels_last; a step is forward, cross-entropy, backward and SGD with momentum. Prints one JSON
line. Runs in the trainer's environment.
"""

import argparse
import pathlib
import sys

import torch
import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402
import attention_models  # noqa: E402


def resnet18_cifar():
    """ResNet-18 for small pictures: 3x3 stem of stride 1, no max-pool, ten classes."""
    model = torchvision.models.resnet18(num_classes=10)
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
    "resnet18": torchvision.models.resnet18,
    "resnet34": torchvision.models.resnet34,
    "resnet50": torchvision.models.resnet50,
    "resnet18_cifar": resnet18_cifar,
    "gpt_char": attention_models.GptChar,
    "vit_small_cifar": attention_models.VitSmallCifar,
}


def image_batch(model, count, size):
    """Images in channels_last and labels."""
    classes = model.fc.out_features if hasattr(model, "fc") else model.head.out_features
    images = torch.randn(count, 3, size, size).contiguous(memory_format=torch.channels_last)
    return images, torch.randint(classes, (count,))


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--size", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    return parser.parse_args()


def main(about, prepare=lambda model: model):
    args = arguments()
    torch.manual_seed(1)
    torch.set_num_threads(args.threads)
    torch.set_num_interop_threads(1)
    model = MODELS[args.model]().to(memory_format=torch.channels_last).train()
    make_batch = getattr(model, "batch", None) or (lambda count, size: image_batch(model, count, size))
    inputs, labels = make_batch(args.batch, args.size)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    forward = prepare(model)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=args.dtype == "bf16"):
            loss = torch.nn.functional.cross_entropy(forward(inputs), labels)
        loss.backward()
        optimizer.step()
        return loss

    if not torch.isfinite(step()):  # the first step also compiles, where there is a compiler
        raise SystemExit("[peers] the first loss is not finite")
    result = measure.timed(step, args.batch, args.seconds, warm_up_steps=1, min_steps=1)
    versions = {"torch": torch.__version__, "torchvision": torchvision.__version__}
    measure.report(**result, about=about, versions=versions, isa=torch.backends.cpu.get_cpu_capability())
