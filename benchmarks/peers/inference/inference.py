"""What the runners share: their command line, and one JSON line at the end."""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402


def main(make_step, versions):
    """`make_step(args)` answers a function that runs one batch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--dtype", choices=["f32", "bf16"], required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    step = make_step(args)
    result = measure.timed(step, args.batch, args.seconds, warm_up_steps=2, min_steps=3)
    print(json.dumps({**result, "versions": versions}))
