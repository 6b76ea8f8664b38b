"""Ingest in parts on a Ray cluster. Each part is a task on any node; a last task joins them. The result is that of one ingest.

    python -m dlpipe.ray ingest IMAGES DATA --parts 16 --jpeg coefficients      # options of `dlpipe ingest`

All nodes must see the sources, DATA and the files that options name. If a node is lost, its task starts on another node and
resumes where it stopped.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterable

import ray

from dlpipe.errors import Error
from dlpipe.arguments import Path


def _run(*arguments: str) -> None:
    """Runs `dlpipe ARGUMENTS` in this task. If it fails, raises dlpipe.Error with its last line."""
    done = subprocess.run([sys.executable, "-m", "dlpipe", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise Error(lines[-1].removeprefix("dlpipe: ") if lines else f"dlpipe {arguments[0]} exited with {done.returncode}")


def _everywhere(path: Path) -> str:
    """An absolute path, since tasks run in other folders. Addresses are unchanged; so is "", which ingest refuses."""
    text = os.fsdecode(path)
    return text if "://" in text or not text else os.path.abspath(text)


# Options of `dlpipe ingest` that take a path.
_PATHS = ("--list", "--manifest", "--labels", "--images", "--classes-from")


def _options_everywhere(options: Iterable[str]) -> list[str]:
    """The options, with absolute paths."""
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
    """Creates the dataset `dst` from the sources in `parts` Ray tasks, then removes the parts. Starts Ray, or joins the cluster
    of RAY_ADDRESS, unless Ray is initialized.

    Args:
        src: what to read, a path or several, as in dlpipe.ingest.
        dst: the dataset to create.
        parts: number of parts; may exceed the number of nodes.
        options: of the program, such as ["--jpeg", "coefficients"]. All nodes must see the paths in them.
        num_cpus: the CPUs that each task requests from Ray; also its number of threads.

    Raises:
        dlpipe.Error: the message of the first part that failed. The parts stay; call again to resume.
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
    parser.add_argument("paths", nargs="+", metavar="PATH", help="the sources, then the dataset to create")
    parser.add_argument("--parts", type=int, required=True, help="number of parts")
    parser.add_argument("--num-cpus", type=float, default=1, help="CPUs that each part requests from Ray (default 1)")
    given, options = parser.parse_known_args()
    if len(given.paths) < 2:
        parser.error("give the sources and the dataset to create")
    try:
        ingest(given.paths[:-1], given.paths[-1], parts=given.parts, options=options, num_cpus=given.num_cpus)
    except Error as error:
        print(f"dlpipe: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
