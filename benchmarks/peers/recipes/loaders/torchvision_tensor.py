# /// script
# dependencies = ["torch==2.15.0", "torchvision==0.29.2", "pillow==13.0.0", "numpy==2.4.6"]
# [tool.dlpipe]
# venv = "torch"
# ///
"""torchvision's transforms v2 on tensors that torchvision.io decoded, in a DataLoader with one worker process per thread."""

import pathlib
import random
import sys

import torch
import torchvision
from torchvision import tv_tensors
from torchvision.io import ImageReadMode, decode_image, decode_jpeg, read_file
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms.v2 import functional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import torch_batches  # noqa: E402
import work  # noqa: E402


def decode(path):
    return decode_jpeg(read_file(path), ImageReadMode.RGB)


def pixels(image):
    """[3,H,W] as [H,W,3]."""
    return image.permute(1, 2, 0).contiguous()


def blur(sigma_range, size=None):
    """A drawn sigma's blur; without `size`, as many pixels as three sigma to each side need."""
    if size:
        return v2.GaussianBlur(size, sigma_range)

    def blurred(image):
        sigma = random.uniform(*sigma_range)
        width = 2 * int(3 * sigma + 0.999) + 1
        return functional.gaussian_blur(image, [width, width], [sigma, sigma])

    return blurred


class Classification:
    def __init__(self, name, decode, pixels, blur):
        bicubic = v2.RandomResizedCrop(224, interpolation=InterpolationMode.BICUBIC, antialias=True)
        steps = {
            "a2": [bicubic, v2.RandomHorizontalFlip(), v2.RandAugment(2, work.MAGNITUDE, work.BINS)],
            "deit3": [
                bicubic,
                v2.RandomHorizontalFlip(),
                v2.RandomChoice([v2.Grayscale(3), v2.RandomSolarize(128, p=1), blur((0.1, 2.0))]),
                v2.ColorJitter(0.3, 0.3, 0.3),
            ],
            "simclr": [
                v2.RandomResizedCrop(224, antialias=True),
                v2.RandomHorizontalFlip(),
                v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], 0.8),
                v2.RandomGrayscale(0.2),
                v2.RandomApply([blur((0.1, 2.0), 23)], 0.5),
            ],
        }[name]
        self.transform = v2.Compose(steps)
        self.decode, self.pixels, self.views = decode, pixels, 2 if name == "simclr" else 1

    def __call__(self, sample, others):
        image = self.decode(sample.path)
        views = [self.pixels(self.transform(image)) for _ in range(self.views)]
        return {"image": torch.stack(views) if self.views > 1 else views[0]}


class Mosaic:
    """torchvision has none: four resized images on one canvas, by hand; the rest is its own."""

    def __init__(self, side):
        self.side = side
        self.transform = v2.Compose(
            [
                v2.RandomAffine(0, (work.SHIFT, work.SHIFT), work.SCALE, interpolation=InterpolationMode.BILINEAR, fill=work.FILL),
                v2.CenterCrop(side),
                v2.ColorJitter(0.4, 0, 0.7, 0.015),
                v2.RandomHorizontalFlip(),
                v2.SanitizeBoundingBoxes(min_size=work.SMALLEST),
            ]
        )

    def __call__(self, sample, others):
        whole = 2 * self.side
        plan = work.draw_mosaic([sample, *others], self.side)
        canvas = torch.full((3, whole, whole), work.FILL, dtype=torch.uint8)
        for part in plan.parts:
            small = functional.resize(decode(part.image.path), [part.height, part.width], antialias=True)
            (x, y), (to_x, to_y), (width, height) = part.source, part.target, part.shape
            canvas[:, to_y : to_y + height, to_x : to_x + width] = small[:, y : y + height, x : x + width]
        boxes, kinds = plan.on_canvas()
        places = torch.tensor(boxes, dtype=torch.float32).view(-1, 4)
        objects = {
            "boxes": tv_tensors.BoundingBoxes(places, format="XYXY", canvas_size=(whole, whole)),
            "labels": torch.tensor(kinds, dtype=torch.int64),
        }
        image, found = self.transform(tv_tensors.Image(canvas), objects)
        return {"image": pixels(image), "boxes": found["boxes"].as_subclass(torch.Tensor), "kinds": found["labels"]}


class Segmentation:
    def __init__(self, side):
        self.side = side
        self.scale = v2.RandomChoice([v2.Resize(size, antialias=True) for size in work.SIZES])
        self.rest = v2.Compose(
            [
                v2.RandomCrop(side),
                v2.RandomHorizontalFlip(),
                v2.RandomApply([v2.ColorJitter(0.5, 0.5, 0.5, 0.05)], 0.5),
            ]
        )

    def __call__(self, sample, others):
        mask = tv_tensors.Mask(decode_image(read_file(sample.mask), ImageReadMode.GRAY))
        image, mask = self.scale(decode(sample.path), mask)
        lacking = [max(0, self.side - have) for have in mask.shape[-2:]]
        if any(lacking):
            down, across = lacking
            frame = [across // 2, down // 2, across - across // 2, down - down // 2]
            image, mask = functional.pad(image, frame, fill=0), functional.pad(mask, frame, fill=work.UNKNOWN)
        image, mask = self.rest(image, mask)
        return {"image": pixels(image), "mask": mask[0].as_subclass(torch.Tensor)}


def make_batches(args, decode=decode, pixels=pixels, blur=blur):
    if args.name == "mosaic":
        made = Mosaic(args.recipe.side)
    elif args.name == "segmentation":
        made = Segmentation(args.recipe.side)
    else:
        made = Classification(args.name, decode, pixels, blur)
    return torch_batches.batches_of(args, made)


if __name__ == "__main__":
    work.main(
        make_batches,
        about="full decode, transforms v2 on uint8 tensors; worker processes",
        versions={"torch": torch.__version__, "torchvision": torchvision.__version__},
    )
