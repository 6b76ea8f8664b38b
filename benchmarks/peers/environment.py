"""Virtual environments for the peers, each built from the metadata at the top of the peer's own file.

A peer is one Python file that opens with inline script metadata (PEP 723): the pinned `dependencies`, and in
[tool.dlpipe] the name of the environment (`venv`; peers that pin the same big package share one), packages to install
without what they depend on (`no-deps`), distribution packages that a build needs (`apt`), and environment variables
for that build (`build-env`; {here} is the peer's folder), and the tasks it can do where it can't do all (`tasks`). A peer that cannot be installed gets a reason, and the others
go on without it. Standard library only.
"""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

try:
    import tomllib
except ImportError:
    raise SystemExit("[peers] needs Python 3.11 or newer; call this script with one (python3.11 .../run ...)") from None

METADATA = re.compile(r"^# /// script\n(.*?)^# ///$", re.MULTILINE | re.DOTALL)


class Unavailable(Exception):
    """This peer cannot run here; the text says why."""


@dataclasses.dataclass
class Peer:
    name: str
    path: pathlib.Path
    venv: str
    dependencies: list[str]
    no_deps: list[str]
    apt: list[str]
    build_env: dict[str, str]
    tasks: list[str] | None = None  # None: all


def read_peer(path):
    """The peer that `path` describes; an error names the file if its metadata is missing."""
    found = METADATA.search(path.read_text())
    if not found:
        raise SystemExit(f"[peers] {path} has no '# /// script' block; copy one from its neighbour")
    metadata = tomllib.loads("".join(line[2:] or "\n" for line in found.group(1).splitlines(keepends=True)))
    own = metadata.get("tool", {}).get("dlpipe", {})
    return Peer(
        name=path.stem,
        path=path,
        venv=own.get("venv", path.stem),
        dependencies=metadata.get("dependencies", []),
        no_deps=own.get("no-deps", []),
        apt=own.get("apt", []),
        build_env={key: value.format(here=path.parent) for key, value in own.get("build-env", {}).items()},
        tasks=own.get("tasks"),
    )


def find_peers(folder, wanted):
    """All peers of `folder` in name order, or only those named in `wanted`."""
    peers = {path.stem: read_peer(path) for path in sorted(folder.glob("*.py"))}
    for name in wanted or []:
        if name not in peers:
            raise SystemExit(f"[peers] no peer is called '{name}'; there are {', '.join(peers)}")
    return [peers[name] for name in (wanted or peers)]


def default_root():
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(cache) / "dlpipe" / "peers"


def prepare(peer, root):
    """The interpreter of an environment in which `peer` can run, made if it is not there; raises Unavailable."""
    version = f"py{sys.version_info.major}.{sys.version_info.minor}"
    venv = root / f"{peer.venv}-{version}"
    python = venv / "bin" / "python"
    done = venv / f"{peer.name}.installed"
    pins = json.dumps([peer.dependencies, peer.no_deps])
    digest = hashlib.sha256(pins.encode()).hexdigest()
    if done.exists() and done.read_text() == digest:
        return python
    missing = missing_packages(peer.apt)
    if missing:
        raise Unavailable(f"needs distribution packages: apt-get install {' '.join(missing)}")
    log = venv / f"{peer.name}.log"
    venv.mkdir(parents=True, exist_ok=True)
    with log.open("w") as sink:
        if not python.exists():
            say(f"{peer.name}: making {venv}")
            install_step([sys.executable, "-m", "venv", str(venv)], sink, log, {})
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
        say(f"{peer.name}: installing {' '.join(peer.dependencies + peer.no_deps)}")
        if peer.dependencies:
            install_step(pip + peer.dependencies, sink, log, peer.build_env)
        if peer.no_deps:
            install_step(pip + ["--no-deps"] + peer.no_deps, sink, log, peer.build_env)
    done.write_text(digest)
    return python


def install_step(command, sink, log, build_env):
    outcome = subprocess.run(command, stdout=sink, stderr=subprocess.STDOUT, env={**os.environ, **build_env})
    if outcome.returncode != 0:
        lines = [line.strip() for line in log.read_text().splitlines()]
        cause = [line for line in lines if re.search(r"fatal error|No matching distribution|Error: ", line)]
        last = [line for line in lines if re.search(r"error", line, re.IGNORECASE)] or lines or ["no output"]
        say(f"the whole log: {log}")
        raise Unavailable(f"cannot be installed: {(cause or last)[-1][:160]}")


def missing_packages(names):
    if not names:
        return []
    try:
        query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\\n", *names]
        known = subprocess.run(query, capture_output=True, text=True).stdout
    except FileNotFoundError:
        return []  # not a Debian: the build itself will say what it lacks
    installed = {line.split()[0] for line in known.splitlines() if line.endswith(" installed")}
    return [name for name in names if name not in installed]


def freeze(python):
    """Every package of the environment with its version: "name==version"."""
    # `pip freeze` would say from which file a wheel was installed instead of its version
    listing = subprocess.run([str(python), "-m", "pip", "list", "--format=freeze"], capture_output=True, text=True)
    return listing.stdout.split()


def say(text):
    print(f"[peers] {text}", file=sys.stderr, flush=True)
