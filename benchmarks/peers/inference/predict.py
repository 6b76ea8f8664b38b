"""dlpipe from files to classes: `dlpipe predict` on a long list of JPEGs, timed by the lines it answers with as the runners
time their batches. Standard library only."""

import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(here), str(here.parent)]
import measure  # noqa: E402
from jpegs import jpegs  # noqa: E402

MOST_PER_S = 4000  # the list must not end while it is timed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dlpipe", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--files", type=pathlib.Path, required=True)
    for name in ("--batch", "--threads"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--dtype", required=True)
    args = parser.parse_args()
    paths = [str(path) for path in jpegs(args.files)]
    command = [args.dlpipe, "predict", "--ckpt", args.model, "--top", "1", "--quiet", "--batch", str(args.batch),
               "--threads", str(args.threads), "--dtype", args.dtype, "-"]  # fmt: skip
    with tempfile.TemporaryFile("w+") as listing:
        count = int((args.seconds + 30) * MOST_PER_S)
        listing.write("\n".join(itertools.islice(itertools.cycle(paths), count)))
        listing.seek(0)
        with subprocess.Popen(command, stdin=listing, stdout=subprocess.PIPE) as process:

            def step():
                for _ in range(args.batch):
                    if not process.stdout.readline():
                        raise SystemExit("[peers] dlpipe predict ended early")

            try:
                result = measure.timed(step, args.batch, args.seconds, warm_up_steps=2, min_steps=3)
            finally:
                process.kill()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
