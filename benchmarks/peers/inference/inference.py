"""What the runners share: their command line, where batches come from, and one JSON line at the end."""

import argparse
import itertools
import json
import pathlib
import sys

import numpy

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]
import measure  # noqa: E402
import images  # noqa: E402


def main(make_step, versions):
    """`make_step(args)` answers a function that runs one batch, f32 [batch, 3, 224, 224]."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--files", type=pathlib.Path, help="folder of JPEGs, in place of one cached batch")
    parser.add_argument("--decoder", choices=sorted(images.DECODERS), default="pillow")
    args = parser.parse_args()
    run = make_step(args)
    if args.files:
        batches = images.batches(args.files, args.batch, args.threads, args.decoder)
    else:
        batches = itertools.repeat(numpy.zeros((args.batch, 3, images.SIZE, images.SIZE), dtype="f4"))
    result = measure.timed(lambda: run(next(batches)), args.batch, args.seconds, warm_up_steps=2, min_steps=3)
    print(json.dumps({**result, "versions": versions}))
