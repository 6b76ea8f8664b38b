"""`dlpipe ingest` as a writer of the contest: the whole process is timed, its start included."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import writing  # noqa: E402

PROGRAM, OPTIONS = sys.argv[1:3]
del sys.argv[1:3]


CHECKS = "decodes every image" if "--trust" in OPTIONS else "decodes and checks every image"


def write(args):
    command = [PROGRAM, "ingest", str(args.folder), str(args.out), *OPTIONS.split(), "--threads", str(args.threads)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    writing.main(write, about=f"{OPTIONS}; {CHECKS}; threads", versions={})
