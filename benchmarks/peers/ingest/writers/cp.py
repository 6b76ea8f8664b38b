# /// script
# dependencies = []
# ///
"""`cp -r`: what the disk and the file system allow."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import writing  # noqa: E402


def write(args):
    subprocess.run(["cp", "-r", str(args.folder), str(args.out)], check=True)


if __name__ == "__main__":
    writing.main(write, about="copies the files; checks nothing", versions={})
