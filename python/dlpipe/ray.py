"""An ingest in parts over a Ray cluster: each part is a task on any node, then one task joins them to the bytes of one ingest.

    python -m dlpipe.ray ingest PICTURES DATA --parts 16 --jpeg coefficients      # options as `dlpipe ingest` has them

Sources, DATA and the files that options name lie where all nodes see them. A task whose node is lost is started on another, and
goes on where the first was.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable

import ray

from dlpipe.errors import Error
from dlpipe.paths import Path


def _run(*arguments: str) -> None:
    """`dlpipe ARGUMENTS` in this task; dlpipe.Error with its last line where it fails."""
    done = subprocess.run([sys.executable, "-m", "dlpipe", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Error(lines[-1].removeprefix("dlpipe: ") if lines else f"dlpipe {arguments[0]} ended with {done.returncode}")


def _everywhere(path: Path) -> str:
    """As other nodes, whose tasks run in other folders, find it. Addresses as they are, and what is empty, for ingest to refuse."""
    text = os.fsdecode(path)
    return text if "://" in text or not text else os.path.abspath(text)


# Of `dlpipe ingest`, those whose value is a path.
_PATHS = ("--list", "--manifest", "--labels", "--images", "--classes-from")


def _options_everywhere(options: Iterable[str]) -> list[str]:
    """The options with the paths among them as other nodes find them."""
    words: list[str] = []
    for word in options:
        name, equals, value = word.partition("=")
        if words and words[-1] in _PATHS:
            word = _everywhere(word)
        elif equals and name in _PATHS:
            word = f"{name}={_everywhere(value)}"
        words.append(word)
    return words


def ingest(
    src: Path | Iterable[Path],
    dst: Path,
    *,
    parts: int,
    options: Iterable[str] = (),
    num_cpus: float = 1,
) -> None:
    """Makes the dataset `dst` of the sources, in `parts` Ray tasks, and removes what they made on the way. Ray is started, or the
    cluster of RAY_ADDRESS joined, where that was not done before.

    Args:
        src: what to read, a path or several, as in dlpipe.ingest.
        dst: the dataset to make.
        parts: into how many it is cut; more than there are nodes is fine.
        options: of the program, as ["--jpeg", "coefficients"]. Paths among them lie where all nodes see them, too.
        num_cpus: that a task asks of Ray, and the threads that it has.

    Raises:
        dlpipe.Error: the message of the first part that failed; the parts stay, and the same call goes on.
    """
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    sources = [_everywhere(one) for one in ([src] if isinstance(src, (str, bytes, os.PathLike)) else src)]
    target = os.path.abspath(os.fsdecode(dst))
    folders = [f"{target}.part-{number}" for number in range(1, parts + 1)]
    run = ray.remote(num_cpus=num_cpus, max_retries=3)(_run)
    more = ["--threads", str(max(1, int(num_cpus))), *_options_everywhere(options)]
    tasks = [
        run.remote("ingest", *sources, folder, "--part", f"{number}/{parts}", "--quiet", *more)
        for number, folder in enumerate(folders, 1)
        if not os.path.exists(folder)
    ]
    try:
        ray.get(tasks)
        ray.get(run.remote("join", target, *folders, "--quiet"))
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None
    remove = ray.remote(num_cpus=0)(_remove)
    ray.get(remove.remote(folders))


def _remove(folders: list[str]) -> None:
    import shutil

    for folder in folders:
        shutil.rmtree(folder)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m dlpipe.ray", allow_abbrev=False, description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("command", choices=["ingest"])
    parser.add_argument("paths", nargs="+", metavar="PATH", help="sources, and the dataset to make")
    parser.add_argument("--parts", type=int, required=True)
    parser.add_argument("--num-cpus", type=float, default=1, help="that each part asks of Ray (default 1)")
    given, options = parser.parse_known_args()
    if len(given.paths) < 2:
        parser.error("give the sources and the dataset to make")
    try:
        ingest(given.paths[:-1], given.paths[-1], parts=given.parts, options=options, num_cpus=given.num_cpus)
    except Error as error:
        print(f"dlpipe: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
