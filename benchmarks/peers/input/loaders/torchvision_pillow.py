# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""torchvision's RandomResizedCrop on Pillow images, in a DataLoader with one worker process per thread."""

import pathlib
import sys

import numpy
import PIL
import torch
import torchvision
from PIL import Image
from torchvision.transforms import v2

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import loading  # noqa: E402


def transform_of(task, size):
    """As torchvision's references write it; antialiased on Pillow images and tensors alike."""
    if task == "rrc":
        steps = [v2.RandomResizedCrop(size, loading.SCALE, loading.RATIO, antialias=True), v2.RandomHorizontalFlip()]
    elif task == "val":
        steps = [v2.Resize(loading.resized_side(size), antialias=True), v2.CenterCrop(size)]
    else:
        steps = [v2.RandomCrop(size, padding=loading.PADDING), v2.RandomHorizontalFlip()]
    return v2.Compose(steps)


class Images(torch.utils.data.Dataset):
    def __init__(self, files, task, size):
        self.files = files
        self.transform = transform_of(task, size)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        with Image.open(self.files[index]) as image:
            return torch.from_numpy(numpy.array(self.transform(image.convert("RGB"))))


class Forever(torch.utils.data.Sampler):
    """One shuffled epoch after another, so that the workers never drain."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        while True:
            yield from torch.randperm(self.count).tolist()


def batches_of(images, args):
    return iter(
        torch.utils.data.DataLoader(
            images,
            batch_size=args.batch,
            sampler=Forever(len(args.files)),
            num_workers=args.threads,
            collate_fn=torch.stack,
        )
    )


def make_batches(args):
    torch.set_num_threads(1)
    return batches_of(Images(args.files, args.task, args.size), args)


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about="full decode, Pillow bilinear; worker processes",
        versions={
            "torch": torch.__version__,
            "torchvision": torchvision.__version__,
            "Pillow": PIL.__version__,
        },
    )
