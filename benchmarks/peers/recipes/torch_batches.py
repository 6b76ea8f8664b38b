"""A DataLoader with one worker process per thread, and batches as a careful user collates them: uint8 images stacked,
normalised and mixed at once in the worker. Shared by torchvision's and Albumentations' loaders."""

import pathlib
import random
import sys

import torch
from torchvision.transforms import v2

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent / "input" / "loaders")]
import work  # noqa: E402
from torchvision_pillow import Forever  # noqa: E402


class Samples(torch.utils.data.Dataset):
    """`make(image, others)` answers a dict of one sample's tensors: image uint8 [H,W,3], or [2,H,W,3] for two views."""

    def __init__(self, args, make):
        self.images = args.images
        self.joined = 3 if args.name == "mosaic" else 0
        self.make = make

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        return self.make(image, random.choices(self.images, k=self.joined)) | {"label": image.label}


class Collate:
    def __init__(self, recipe):
        self.recipe = recipe
        self.mixup = v2.MixUp(alpha=recipe.mixup, num_classes=1000) if recipe.mixup else None

    def __call__(self, samples):
        image = torch.stack([sample["image"] for sample in samples])
        if self.recipe.dtype == "float32":
            image = normalised(image)
        batch = {"image": image, "label": torch.tensor([sample["label"] for sample in samples])}
        if "second" in self.recipe.fields:
            batch["image"], batch["second"] = (view.contiguous() for view in image.unbind(1))
        if self.mixup:
            batch["image"], batch["label"] = self.mixup(batch["image"], batch["label"])
        if "boxes" in self.recipe.fields:
            for name in ("boxes", "kinds"):
                batch[name] = torch.cat([sample[name] for sample in samples])
            batch["rows"] = torch.tensor([len(sample["boxes"]) for sample in samples])
        if "mask" in self.recipe.fields:
            batch["mask"] = torch.stack([sample["mask"] for sample in samples])
        return batch


def normalised(pixels):
    """(value / 255 - mean) / std of the last axis. A row at a time: a loop over three channels alone would be slower."""
    rows = pixels.flatten(0, -3).flatten(1)
    times = rows.shape[1] // 3
    mean, scale = (torch.tensor(values).repeat(times) for values in (work.MEAN, [1 / std for std in work.STD]))
    return rows.float().sub_(mean * 255).mul_(scale / 255).view(pixels.shape)


def start_worker(worker):
    """PyTorch seeds its own generator and Python's; each process computes on one thread."""
    torch.set_num_threads(1)


def batches_of(args, make):
    torch.set_num_threads(1)
    return iter(
        torch.utils.data.DataLoader(
            Samples(args, make),
            batch_size=args.recipe.batch,
            sampler=Forever(len(args.images)),
            num_workers=args.threads,
            collate_fn=Collate(args.recipe),
            worker_init_fn=start_worker,
        )
    )
