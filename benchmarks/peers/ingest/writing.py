"""The command line and the clock that every writer in writers/ shares.

    python writers/NAME.py FOLDER OUT --threads T [--classes]

FOLDER holds one folder of images per class. A writer hands `main` a function that writes all of them to OUT, which does
not exist; `main` times it and prints one JSON line. Imports and start-up are not timed.
"""

import argparse
import os
import pathlib
import shutil
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import measure  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    endings = {".jpg", ".jpeg"}
    args.files = sorted(path for path in args.folder.rglob("*") if path.suffix.lower() in endings)
    names = sorted({path.parent.name for path in args.files})
    args.labels = [names.index(path.parent.name) for path in args.files]
    if not args.files:
        raise SystemExit(f"[peers] no .jpg or .jpeg below {args.folder}")
    return args


def size_of(path):
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def main(write, about, versions):
    args = arguments()
    source_bytes = sum(path.stat().st_size for path in args.files)
    remove(args.out)
    started = time.monotonic()
    write(args)
    os.sync()
    seconds = time.monotonic() - started
    measure.report(
        samples_per_s=len(args.files) / seconds,
        samples=len(args.files),
        seconds=seconds,
        source_bytes=source_bytes,
        written_bytes=size_of(args.out),
        about=about,
        versions=versions,
        threads=args.threads,
    )
    remove(args.out)


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
