"""dlpipe.Loader: the same loop over dlpipe's batches. Run by an interpreter that has dlpipe installed (--python of `run`)."""

import dlpipe
import loading


def make_batches(args):
    """The loop's batches as NumPy arrays, [N,H,W,3] uint8, in the slots in which they were made."""
    augment = {
        "rrc": f"rrc({args.size}) hflip",
        "val": f"resize({loading.resized_side(args.size)}) center_crop({args.size})",
        "small": f"pad_crop({args.size},{loading.PADDING}) hflip",
    }[args.task]
    loader = dlpipe.Loader(
        args.data, augment=augment, batch=args.batch, threads=args.threads, epochs=-1, seed=1, as_="numpy"
    )
    return (batch.image for batch in loader)


if __name__ == "__main__":
    loading.main(
        make_batches,
        antialiased=True,
        about={
            "rrc": "decodes the crop only, antialiased bilinear; threads",
            "val": "decodes the middle only, antialiased bilinear; threads",
            "small": "threads",
        },
        versions={"dlpipe": dlpipe.__version__},
    )
