"""One PyTorch training on the CPU, MobileNetV3-small, fed by torch's DataLoader or by dlpipe.Loader. Prints one JSON line.

    python loop.py --loader dataloader --workers 2 --folder FOLDER --train head --seconds 20
    python loop.py --loader dlpipe --data DATASET --train all --seconds 20
    python loop.py --check --data DATASET      # the same pixels through both: the losses must be the same

FOLDER has one folder of images per class; DATASET is what `dlpipe ingest` made of it. Needs torch, torchvision, dlpipe.
"""

import argparse
import pathlib
import sys

import torch
import torchvision
from torchvision.transforms import v2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loader", choices=("dataloader", "dlpipe"), default="dlpipe")
    parser.add_argument("--workers", type=int, default=0, help="of the DataLoader")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--train", choices=("head", "all"), default="all", help="head: the rest is frozen and in eval mode")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2, help="of torch, and of dlpipe.Loader")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def dataloader_batches(args):
    steps = [
        v2.PILToTensor(), v2.RandomResizedCrop(args.size, antialias=True), v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD),
    ]  # fmt: skip
    dataset = torchvision.datasets.ImageFolder(str(args.folder), v2.Compose(steps))
    loader = torch.utils.data.DataLoader(
        dataset, args.batch, shuffle=True, num_workers=args.workers, drop_last=True, persistent_workers=args.workers > 0
    )
    while True:
        for images, labels in loader:
            yield images.contiguous(memory_format=torch.channels_last), labels


def dlpipe_batches(args, epochs=-1):
    import dlpipe

    augment = f"rrc({args.size}) hflip normalize(mean={':'.join(map(str, MEAN))},std={':'.join(map(str, STD))})"
    loader = dlpipe.Loader(
        args.data, augment=augment, batch=args.batch, threads=args.threads, seed=1, epochs=epochs, dtype="f32",
        layout="NCHW", drop_last=True, as_="torch",
    )  # fmt: skip
    for batch in loader:
        yield batch.image, batch.label


class Training:
    def __init__(self, train):
        torch.manual_seed(1)
        self.model = torchvision.models.mobilenet_v3_small(num_classes=1000).to(memory_format=torch.channels_last)
        trained = self.model.parameters()
        if train == "head":
            self.model.eval()
            self.model.features.requires_grad_(False)
            trained = self.model.classifier.parameters()
        self.optimizer = torch.optim.SGD(trained, lr=0.01, momentum=0.9)

    def step(self, images, labels):
        loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def check(args, steps=12):
    """dlpipe's batches go through a DataLoader (copied, in order) and directly; [(loss, loss)] of each step."""
    kept = [(images.clone(), labels.clone()) for _, (images, labels) in zip(range(steps), dlpipe_batches(args))]
    through_dataloader = Training(args.train)
    loader = torch.utils.data.DataLoader(kept, batch_size=None, generator=torch.Generator())  # dropout draws from the other
    first = [through_dataloader.step(*pair) for pair in loader]
    directly = Training(args.train)
    second = [directly.step(*pair) for _, pair in zip(range(steps), dlpipe_batches(args))]
    return list(zip(first, second))


def main():
    args = arguments()
    torch.set_num_threads(args.threads)
    if args.check:
        losses = check(args)
        for step, (first, second) in enumerate(losses):
            print(f"step {step}: {first:.9g} through a DataLoader, {second:.9g} directly")
        return 0 if all(abs(first - second) <= 1e-6 * abs(first) for first, second in losses) else 1
    training = Training(args.train)
    batches = dataloader_batches(args) if args.loader == "dataloader" else dlpipe_batches(args)
    result = measure.timed(lambda: training.step(*next(batches)), args.batch, args.seconds, warm_up_steps=3, min_steps=4)
    measure.report(**result, versions={"torch": torch.__version__, "torchvision": torchvision.__version__})
    return 0


if __name__ == "__main__":
    sys.exit(main())
