"""dlpipe.Loader: each recipe as an expression. Run by an interpreter that has dlpipe installed (--python of `run`).

simclr's two views are two loaders of the same seed, whose chains differ by an op that does nothing: order and labels are the
same, the draws are not. With one thread for both, the process stays on one core.
"""

import os
import pathlib
import sys

import dlpipe

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import work  # noqa: E402

SIMCLR = "rrc(224) hflip color_jitter(0.8,0.8,0.8,0.2,p=0.8) grayscale(0.2) gaussian_blur(23,p=0.5)"
EXPRESSIONS = {
    "a2": f"rrc(224,interpolation=bicubic) hflip randaugment(2,{work.MAGNITUDE},{work.BINS})",
    "deit3": "rrc(224,interpolation=bicubic) hflip three_augment",
    "simclr": SIMCLR,
    "mosaic": f"resize(640,side=longer) mosaic(640) affine(0,{work.SHIFT},{work.SHIFT},0.5..1.5,fill={work.FILL}) "
    f"center_crop(640) drop_boxes(side={work.SMALLEST}) color_jitter(0.4,0,0.7,0.015) hflip",
    "segmentation": f"one_of({' | '.join(f'resize({size})' for size in work.SIZES)}) pad_to(480) random_crop(480) hflip "
    "color_jitter(0.5,0.5,0.5,0.05,p=0.5)",
}
FIELDS = {"mosaic": ["image", "boxes", "kinds"], "segmentation": ["image", "mask"]}


def open_loader(args, expression, threads):
    recipe = args.recipe
    normal = {"dtype": "f32", "mean": work.MEAN, "std": work.STD} if recipe.dtype == "float32" else {}
    return dlpipe.Loader(
        args.data, augment=expression, batch=recipe.batch, threads=threads, epochs=-1, seed=1, as_="numpy",
        fields=FIELDS.get(args.name, ["image", "label"]), mixup=recipe.mixup, mask_fill=work.UNKNOWN, **normal,
    )  # fmt: skip


def of_batch(batch):
    """The fields of work.py. Labels, and with mixup partners and weights, are there as well."""
    found = {"image": batch.image}
    if "boxes" in batch._fields:
        rows = batch.boxes.offsets[1:] - batch.boxes.offsets[:-1]
        found |= {"boxes": batch.boxes.values, "kinds": batch.kinds.values, "rows": rows}
    if "mask" in batch._fields:
        found["mask"] = batch.mask
    return found


def make_batches(args):
    if args.name != "simclr":
        return map(of_batch, open_loader(args, EXPRESSIONS[args.name], args.threads))
    if args.threads == 1:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    views = [open_loader(args, text, max(1, args.threads // 2)) for text in (SIMCLR, f"hflip(0) {SIMCLR}")]
    return map(of_views, *views)


def of_views(first, second):
    if (first.label != second.label).any():
        raise SystemExit("[peers] the two views are of different images")
    return {"image": first.image, "second": second.image}


if __name__ == "__main__":
    decodes = "decodes what the batch shows; threads"
    work.main(
        make_batches,
        about={name: decodes for name in EXPRESSIONS} | {"simclr": "decodes for each view what it shows; threads"},
        versions={"dlpipe": dlpipe.__version__},
    )
